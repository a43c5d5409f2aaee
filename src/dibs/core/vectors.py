"""What a task is about, as a vector of unit length: the product of two is the cosine of the angle between them."""

from __future__ import annotations

import math
import struct
from functools import cache
from heapq import nsmallest
from operator import mul
from typing import TYPE_CHECKING, TypeAlias

from dibs.core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Checked, of unit length, and of numbers that 4 bytes hold.
Vector: TypeAlias = "tuple[float, ...]"

_LONGEST = 4096
_PLACES = 6  # what 4 bytes a number can vouch for, and so what tasks are compared by
_MANY = 5000  # from here on numpy saves more than its import takes


def unit(numbers: Iterable[float]) -> Vector:
    """The vector in its stored form, or InvalidInput."""
    try:
        given = list(map(float, numbers))
    except (TypeError, ValueError, OverflowError):
        raise InvalidInput("A vector is made of numbers.") from None
    if not 0 < len(given) <= _LONGEST:
        raise InvalidInput(f"A vector has from 1 to {_LONGEST} numbers, not {len(given)}.")
    largest = max(map(abs, given))
    if not all(map(math.isfinite, given)) or largest == 0:
        raise InvalidInput("A vector is made of finite numbers, and not of zeros alone: it has to point somewhere.")
    scaled = [number / largest for number in given]  # so that no square is too large or too small for a float
    length = math.hypot(*scaled)
    return unpacked(_form(len(given)).pack(*[number / length for number in scaled]))


def packed(vector: Vector) -> bytes:
    return _form(len(vector)).pack(*vector)


def unpacked(kept: bytes) -> Vector:
    return _form(len(kept) // 4).unpack(kept)


@cache
def _form(length: int) -> struct.Struct:
    return struct.Struct(f"<{length}f")


def refuse_other_length(vector: Vector, kept: int | None) -> None:
    """Vectors of one store are compared with each other; `kept` is the length of those that are there."""
    if kept is not None and len(vector) != kept:
        raise InvalidInput(
            f"This vector has {len(vector)} numbers, those of the store have {kept}. Use what made them, or drop them "
            "all before keeping others."
        )


def score(cosine: float) -> float:
    """A cosine as it is compared and told."""
    return round(max(-1.0, min(1.0, cosine)), _PLACES)


def nearest(vector: Vector, kept: Sequence[tuple[str, bytes]], limit: int, least: float) -> list[tuple[str, float]]:
    """The ids of those most like the vector, with their scores; `kept` are ids and packed vectors of its length."""
    cosines = _cosines(vector, b"".join([each for _, each in kept]), len(kept))
    scored = ((task, score(cosine)) for (task, _), cosine in zip(kept, cosines, strict=True))
    return nsmallest(limit, (one for one in scored if one[1] >= least), key=lambda one: (-one[1], one[0]))


def _cosines(vector: Vector, kept: bytes, number: int) -> Iterable[float]:
    if number >= _MANY:
        try:
            return _by_numpy(vector, kept, number)
        except ImportError:
            pass  # it takes longer without, and comes to the same
    return [sum(map(mul, vector, each)) for each in _form(len(vector)).iter_unpack(kept)]


def _by_numpy(vector: Vector, kept: bytes, number: int) -> list[float]:
    import numpy as np

    matrix = np.frombuffer(kept, "<f4").reshape(number, len(vector)).astype("f8")
    cosines: list[float] = (matrix @ np.array(vector)).tolist()
    return cosines
