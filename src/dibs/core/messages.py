"""What a message may contain: suggested commands, quoted for a shell, and URLs without their secrets."""

from __future__ import annotations

_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+,")


def command(*words: str) -> str:
    """A command line to suggest. Every id, name and path in a suggested command passes through here.

    Special characters get a backslash each, not a pair of quotes: a message that puts the command between quotes of
    its own would cancel those out.
    """
    return " ".join(map(quoted, words))


def without_password(url: str) -> str:
    """A URL as a message may show it. A password with an unescaped '@' or '/' in it goes too."""
    import re

    return re.sub(r"(://[^:/?\s]*):\S*@", r"\1@", url)


def quoted(word: str) -> str:
    """One word for bash, zsh and fish."""
    if not word:
        return "''"
    if _PLAIN.issuperset(word):
        return word
    if " " in word and word.isprintable() and not {"'", "\\"} & {*word}:
        return f"'{word}'"
    return "".join(char if char in _PLAIN or _foreign(char) else f"\\{char}" for char in word)


def _foreign(char: str) -> bool:
    """No shell gives a meaning to a visible character outside ASCII."""
    return not char.isascii() and char.isprintable()
