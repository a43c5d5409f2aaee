"""Vectors: accepted values, and equal results with and without numpy."""

from __future__ import annotations

import math
import random
import struct
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dibs.core import search
from dibs.core.errors import InvalidInput
from dibs.core.search import nearest, packed, refuse_other_length, score, unit, unpacked

if TYPE_CHECKING:
    from collections.abc import Iterable

FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.lists(FINITE, min_size=1, max_size=50))
def test_finite_vector_is_normalized(numbers: list[float]) -> None:
    assume(any(numbers))
    made = unit(numbers)
    assert len(made) == len(numbers)
    assert math.hypot(*made) == pytest.approx(1, abs=1e-5)
    assert unpacked(packed(made)) == made
    assert all(struct.unpack("<f", struct.pack("<f", number)) == (number,) for number in made)
    largest = max(numbers, key=abs)
    assert made[numbers.index(largest)] * largest > 0


@pytest.mark.parametrize("numbers", [[1e308] * 384, [5e-324, 0.0], [-1e-200, 1e-200], [1e308, -1e308]])
def test_extreme_floats_are_normalized(numbers: list[float]) -> None:
    assert math.hypot(*unit(numbers)) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize(
    "numbers",
    [[], [0.0], [0.0, -0.0], [math.nan, 1.0], [1.0, math.nan], [math.inf, 1.0], [1.0, -math.inf], [1.0] * 4097,
     ["a"], [None], [[1.0]], [10**400], "ab", [1j]],
)  # fmt: skip
def test_zero_vector_is_refused(numbers: Iterable[float]) -> None:
    with pytest.raises(InvalidInput) as refused:
        unit(numbers)
    assert refused.value.message.startswith("A vector")


def test_vectors_of_another_length_are_refused_with_a_way_out() -> None:
    refuse_other_length((1.0, 0.0), 2)
    refuse_other_length((1.0, 0.0), None)
    with pytest.raises(InvalidInput, match="delete all vectors"):
        refuse_other_length((1.0, 0.0), 3)


@pytest.mark.parametrize(("cosine", "told"), [(1.0000002, 1.0), (-1.5, -1.0), (0.12345649, 0.123456), (-0.0, 0.0)])
def test_score_is_bounded_and_rounded(cosine: float, told: float) -> None:
    assert score(cosine) == told


@pytest.mark.parametrize("number", [1, 3, 300])
def test_neighbours_are_equal_with_and_without_numpy(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    dice = random.Random(number)
    some = [[dice.gauss(0, 1) for _ in range(384)] for _ in range(number)]
    kept = [(f"t{place}", packed(unit(some[place % max(1, number // 2)]))) for place in range(number)]  # some are twins
    asked = unit([dice.gauss(0, 1) for _ in range(384)])
    plain = nearest(asked, kept, 50, -1.0)
    monkeypatch.setattr(search, "_MANY", 1)
    monkeypatch.setattr(search, "mul", None)  # what the plain way multiplies with
    assert nearest(asked, kept, 50, -1.0) == plain
    assert len(plain) == min(50, number)
    assert plain == sorted(plain, key=lambda one: (-one[1], one[0]))


def test_without_numpy_many_are_compared_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(*_given: object) -> list[float]:
        raise ImportError

    monkeypatch.setattr(search, "_MANY", 1)
    monkeypatch.setattr(search, "_by_numpy", absent)
    assert nearest((1.0, 0.0), [("a", packed((0.0, 1.0))), ("b", packed((1.0, 0.0)))], 9, 0.5) == [("b", 1.0)]
