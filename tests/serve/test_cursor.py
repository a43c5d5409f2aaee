"""The cursor: the numbers seen, and those missing below."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import InvalidInput
from dibs.serve.live import Cursor, cursor_from


@given(st.permutations(range(1, 13)), st.integers(0, 12))
def test_cursor_covers_exactly_the_seen_numbers(order: list[int], seen: int) -> None:
    place = Cursor()
    for number in order[:seen]:
        place = place.past(number)
    assert {number for number in range(1, 13) if place.covers(number)} == set(order[:seen])
    assert cursor_from(str(place)) == place


def test_cursor_at_a_lower_number_keeps_missing_ranges() -> None:
    place = cursor_from("20~3,7-9,15")
    assert str(place.up_to(8)) == "8~3,7-8"
    assert str(place.past(8)) == "20~3,7,9,15"


@pytest.mark.parametrize("text", ["", "x", "-1", "5~9", "5~3,2", "5~", "1" * 40, "5~3-2", "5;drop", "٣"])
def test_invalid_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        cursor_from(text)
