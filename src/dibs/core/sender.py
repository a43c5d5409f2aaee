"""Sender ids: a keyed digest of the phone number or address, which is never stored itself.

A digest without a secret would hide nothing: all phone numbers can be tried.
"""

from __future__ import annotations

import re

from dibs.core.errors import InvalidInput, Misconfigured

_PHONE = re.compile(r"\+?[\d\s().\-/]{3,}")
_HASH = re.compile(r"[0-9a-f]{64}")
_SHORTEST_SECRET = 16


def hash_sender(sender: str, secret: str) -> str:
    """HMAC-SHA256 in hex. Spaces and punctuation in a phone number are ignored."""
    import hmac

    known = sender.strip()
    if not known:
        raise InvalidInput("The sender is empty. Give a phone number or a name.")
    if _PHONE.fullmatch(known):
        known = re.sub(r"[^\d+]", "", known)
    return hmac.new(_checked(secret).encode(), known.encode(errors="surrogatepass"), "sha256").hexdigest()


def _checked(secret: str) -> str:
    if not secret:
        raise Misconfigured(
            "Senders are hashed with a secret, which is not set. Set DIBS_SENDER_SECRET to the output of "
            "'openssl rand -hex 32', the same on every host of this fleet."
        )
    if len(secret) < _SHORTEST_SECRET:
        raise Misconfigured(f"DIBS_SENDER_SECRET is too short: it needs {_SHORTEST_SECRET} characters or more.")
    return secret


def is_sender_hash(name: str) -> bool:
    return _HASH.fullmatch(name) is not None


def sender_hash_of(given: str) -> str:
    """The hash, normalized. The error does not repeat the value, which may be a phone number."""
    known = given.strip().casefold()
    if not _HASH.fullmatch(known):
        raise InvalidInput(
            "A sender hash is 64 hexadecimal digits; 'dibs kurultai sender' makes one of a phone number."
        )
    return known
