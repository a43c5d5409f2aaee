"""Text to the word pieces of BERT's uncased vocabulary, as all-MiniLM-L6-v2 was trained on them."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

UNKNOWN = "[UNK]"
_INVISIBLE = frozenset({"Mn", "Cf", "Cc"})  # accents, joiners, control characters
_LONGEST = 100  # letters; a longer word is unknown as a whole


def pieces(text: str, vocabulary: Container[str]) -> list[str]:
    """The longest known beginnings, one after the other; what continues a word is marked by '##'."""
    return [piece for word in words(text) for piece in _split(word, vocabulary)]


def words(text: str) -> Iterator[str]:
    """Lower case, without accents; every mark of punctuation is a word of its own."""
    plain = unicodedata.normalize("NFD", text.lower()) if not text.isascii() else text.lower()
    word: list[str] = []
    for char in plain:
        if not char.isspace() and unicodedata.category(char) in _INVISIBLE:
            continue
        if not char.isspace() and not _stands_alone(char):
            word.append(char)
            continue
        if word:
            yield "".join(word)
            word.clear()
        if not char.isspace():
            yield char
    if word:
        yield "".join(word)


def _stands_alone(char: str) -> bool:
    """Punctuation, to which ASCII's symbols count and no others; and Chinese characters."""
    if char.isascii():
        return not char.isalnum()
    if "\u3400" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0002fa1f":
        return True
    return unicodedata.category(char).startswith("P")


def _split(word: str, vocabulary: Container[str]) -> list[str]:
    if word in vocabulary:
        return [word]
    found: list[str] = []
    start = 0
    while start < len(word) <= _LONGEST:
        piece = _longest(word, start, vocabulary)
        if piece is None:
            return [UNKNOWN]
        found.append(piece)
        start += len(piece) - (2 if start else 0)
    return found or [UNKNOWN]


def _longest(word: str, start: int, vocabulary: Container[str]) -> str | None:
    mark = "##" if start else ""
    for end in range(len(word), start, -1):
        piece = mark + word[start:end]
        if piece in vocabulary:
            return piece
    return None
