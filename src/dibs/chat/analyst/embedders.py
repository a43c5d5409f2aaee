"""Embedders: texts to vectors of 384 numbers and unit length. The built-in one is always available.

    builtin                              shipped with dibs; needs nothing, takes a fraction of a millisecond
    minilm:FOLDER                        all-MiniLM-L6-v2 itself, from its published files; needs numpy
    sentence-transformers[:MODEL]        any model of that library, if it is installed
    openai:MODEL or openai:MODEL@URL     an OpenAI-compatible endpoint; the key is in DIBS_EMBEDDING_KEY

The built-in embedder is a table of word pieces, fitted by tools/distill_embedder.py. The sum of a text's pieces points
where all-MiniLM-L6-v2 would put the text. Its 128 directions are the main ones of that model; the other 256 numbers are
zero, so that a store's index fits every embedder. The others are in external_embedders.py, imported when chosen.

Vectors of different embedders cannot be compared. If you change the setting, the open tasks are embedded again.
"""

from __future__ import annotations

import json
import math
import os
import unicodedata
from array import array
from functools import cache, lru_cache
from operator import mul
from typing import TYPE_CHECKING, Protocol, TypeAlias

from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence


Vector: TypeAlias = "tuple[float, ...]"

DIMENSIONS = 384
DEFAULT = "builtin"


class Embedder(Protocol):
    """Vectors can be compared only if their embedders have the same `name`."""

    @property
    def name(self) -> str: ...

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        """One vector for each text, of unit length."""
        ...


def open_embedder(setting: str, environment: Mapping[str, str]) -> Embedder:
    """The embedder that the setting names. Raise Misconfigured if it is not available."""
    kind, _, rest = setting.partition(":")
    if kind == DEFAULT and not rest:
        return Builtin()
    if kind == "minilm" and rest:
        return _minilm(rest)
    if kind == "sentence-transformers":
        from dibs.chat.analyst.external_embedders import Transformers

        return Transformers(rest or "all-MiniLM-L6-v2")
    if kind == "openai" and rest:
        from dibs.chat.analyst.external_embedders import Endpoint

        return Endpoint.from_setting(rest, environment.get("DIBS_EMBEDDING_KEY", ""))
    raise Misconfigured(
        f"There is no embedder '{setting[:60]}'. Set builtin, minilm:FOLDER, sentence-transformers or openai:MODEL@URL."
    )


def _minilm(folder: str) -> Embedder:
    from importlib.util import find_spec

    from dibs.chat.analyst.external_embedders import MiniLM

    if find_spec("numpy") is None:
        raise Misconfigured("The embedder minilm needs numpy: pip install 'dibs[semantic]'.")
    try:
        return MiniLM(folder)
    except OSError as error:
        raise Misconfigured(
            f"Cannot read all-MiniLM-L6-v2 in {folder}: {error.strerror}. The folder needs model.safetensors "
            "and vocab.txt."
        ) from None


def cosine(one: Vector, other: Vector) -> float:
    """Cosine of two vectors of unit length."""
    product: float = sum(map(mul, one, other))
    return product


UNKNOWN = "[UNK]"
_INVISIBLE = frozenset({"Mn", "Cf", "Cc"})  # accents, joiners, control characters
_LONGEST_WORD = 100  # letters; a longer word counts as unknown


def pieces(text: str, vocabulary: Container[str]) -> list[str]:
    """Split words into the longest known pieces. Pieces that continue a word begin with '##'."""
    return [piece for word in piece_words(text) for piece in _word_pieces(word, vocabulary)]


def piece_words(text: str) -> Iterator[str]:
    """Words in lower case without accents; each punctuation mark is a word."""
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
    """Whether the character is a word: punctuation, ASCII symbols and Chinese characters."""
    if char.isascii():
        return not char.isalnum()
    if "\u3400" <= char <= "\u9fff" or "\U00020000" <= char <= "\U0002fa1f":
        return True
    return unicodedata.category(char).startswith("P")


def _word_pieces(word: str, vocabulary: Container[str]) -> list[str]:
    if word in vocabulary:
        return [word]
    found: list[str] = []
    start = 0
    while start < len(word) <= _LONGEST_WORD:
        piece = _longest_piece(word, start, vocabulary)
        if piece is None:
            return [UNKNOWN]
        found.append(piece)
        start += len(piece) - (2 if start else 0)
    return found or [UNKNOWN]


def _longest_piece(word: str, start: int, vocabulary: Container[str]) -> str | None:
    mark = "##" if start else ""
    for end in range(len(word), start, -1):
        piece = mark + word[start:end]
        if piece in vocabulary:
            return piece
    return None


FILE = os.path.join(os.path.dirname(__file__), "builtin.bin")
WIDTH = 128
_REST = (0.0,) * (384 - WIDTH)


class Builtin:
    """The built-in embedder. Each process reads the file once, in a few milliseconds."""

    name = "builtin-1"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._vector(text) + _REST for text in texts]

    def _vector(self, text: str) -> Vector:
        """The vector of the text. Texts without a known piece get a unit vector that no piece uses."""
        rows = [row for piece in pieces(text, _table().numbers) if (row := _row(piece)) is not None]
        total = list(map(sum, zip(*rows, strict=True)))
        length = math.sqrt(sum(map(mul, total, total)))
        if length < _NO_LENGTH:
            return (*(0.0,) * (WIDTH - 1), 1.0)
        return tuple([value / length for value in total])


_NO_LENGTH = 1e-9
_OFTEN = 2000  # pieces whose rows are cached as numbers: some megabytes


class _Table:
    """Content of the file: the pieces, a scale for each, and their rows of signed bytes."""

    def __init__(self, file: str) -> None:
        try:
            with open(file, "rb") as opened:
                header = json.loads(opened.readline())
                words = opened.read(header["words"]).decode()
                self._scales = array("f", opened.read(4 * header["pieces"]))
                self._rows = memoryview(opened.read()).cast("b")
        except (OSError, ValueError, KeyError) as error:
            raise Misconfigured(
                f"The table of the built-in embedder cannot be read ({error}). Reinstall dibs."
            ) from None
        self.numbers = {piece: number for number, piece in enumerate(words.split("\n"))}

    def row(self, number: int) -> list[float]:
        scale = self._scales[number]
        return [scale * value for value in self._rows[number * WIDTH : (number + 1) * WIDTH]]


@cache
def _table() -> _Table:
    return _Table(FILE)


@lru_cache(_OFTEN)
def _row(piece: str) -> list[float] | None:
    number = _table().numbers.get(piece)
    return None if number is None else _table().row(number)
