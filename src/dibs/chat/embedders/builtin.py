"""The embedder that dibs ships: a table of word pieces whose sum points where all-MiniLM-L6-v2 would put the text.

It was fitted by tools/distill_embedder.py and needs the standard library only. Its 128 directions are the main ones
of that model; the other 256 numbers are zero, so that a store's index fits this embedder and the larger ones alike.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from functools import cache, lru_cache
from operator import mul
from typing import TYPE_CHECKING

from dibs.chat.embedders.wordpiece import pieces
from dibs.core.errors import Misconfigured

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.embedders import Vector

FILE = os.path.join(os.path.dirname(__file__), "builtin.bin")
WIDTH = 128
_REST = (0.0,) * (384 - WIDTH)


class Builtin:
    """The file is read once in a process: a few milliseconds."""

    name = "builtin-1"

    def embed(self, texts: Sequence[str]) -> list[Vector]:
        return [self._vector(text) + _REST for text in texts]

    def _vector(self, text: str) -> Vector:
        """A text without a single known piece still has to point somewhere: at the unit vector nobody else uses."""
        rows = [row for piece in pieces(text, _table().numbers) if (row := _row(piece)) is not None]
        total = list(map(sum, zip(*rows, strict=True)))
        length = math.sqrt(sum(map(mul, total, total)))
        if length < _NOTHING:
            return (*(0.0,) * (WIDTH - 1), 1.0)
        return tuple([value / length for value in total])


_NOTHING = 1e-9
_OFTEN = 2000  # pieces whose rows are kept as numbers: some megabytes


class _Table:
    """All that the file holds: the pieces, a scale for each, and their rows of signed bytes."""

    def __init__(self, file: str) -> None:
        try:
            with open(file, "rb") as opened:
                header = json.loads(opened.readline())
                words = opened.read(header["words"]).decode()
                self._scales = array("f", opened.read(4 * header["pieces"]))
                self._rows = memoryview(opened.read()).cast("b")
        except (OSError, ValueError, KeyError) as error:
            raise Misconfigured(
                f"The table of the built-in embedder cannot be read ({error}). Install dibs anew."
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
