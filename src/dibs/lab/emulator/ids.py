"""Ids: uuids for things, four odd characters for properties."""

from __future__ import annotations

import re
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from random import Random

_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_PROPERTY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:;<=>?@[]^_`{|}~"
_LENGTH = 4


def new_id(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def new_property_id(rng: Random) -> str:
    return "".join(rng.choice(_PROPERTY) for _ in range(_LENGTH))


def new_secret(rng: Random) -> str:
    return f"ntn_{rng.getrandbits(184):046x}"


def whole_id(text: object) -> str | None:
    """The id with its dashes, from either form; None where it is none."""
    if not isinstance(text, str) or not _ID.fullmatch(text):
        return None
    digits = text.replace("-", "").lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@lru_cache(maxsize=4096)
def shown_property_id(property_id: str) -> str:
    """As the API writes it, fit for an address: `:UPp` is `%3AUPp`."""
    return quote(property_id, safe="")


def plain_property_id(text: str) -> str:
    return unquote(text)
