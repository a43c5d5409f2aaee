"""Where points of a drawing stand, and how words are made to fit."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.draw.layout import _crossings, _spaced, arrange
from dibs.draw.picture import cells, in_lines, isolated, shortened, showable


def test_lines_that_can_be_untangled_are() -> None:
    tangled = [(0, 5), (1, 4), (2, 3)]
    laid = arrange([0, 0, 0, 1, 1, 1], tangled)
    assert sorted(range(3), key=lambda at: laid.heights[at]) == sorted(
        range(3), key=lambda at: laid.heights[tangled[at][1]]
    )


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12))
def test_crossings_are_counted_as_one_would_by_hand(edges: list[tuple[int, int]]) -> None:
    right: list[list[int]] = [[] for _ in range(10)]
    for first, then in edges:
        right[first].append(then + 5)
    by_hand = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(edges, 2))
    assert _crossings([[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]], right) == by_hand


@given(st.lists(st.tuples(st.floats(-1000, 1000), st.sampled_from([11.0, 46.0])), max_size=12))
def test_points_keep_their_distance_and_move_no_more_than_needed(points: list[tuple[float, float]]) -> None:
    wanted, halves = [point[0] for point in points], [point[1] for point in points]
    settled = _spaced(wanted, halves)
    room = [one + other for one, other in pairwise(halves)]
    assert all(below - above >= gap - 1e-6 for (above, below), gap in zip(pairwise(settled), room, strict=True))
    if all(below - above >= gap for (above, below), gap in zip(pairwise(wanted), room, strict=True)):
        assert settled == pytest.approx(wanted)


# Words

WIDE = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(WIDE, st.integers(4, 30))
def test_a_shortened_text_fits_and_loses_no_more_than_it_must(words: str, room: int) -> None:
    cut = shortened(words, room)
    assert sum(map(cells, cut)) <= room
    if sum(map(cells, showable(words))) <= room:
        assert cut == showable(words)
    else:
        assert cut.endswith("…")
        assert showable(words).startswith(cut[:-1])


@given(WIDE, st.integers(4, 30), st.integers(1, 4))
def test_lines_fit_and_there_are_not_too_many(words: str, room: int, count: int) -> None:
    broken = in_lines(words, room, count)
    assert len(broken) <= count
    assert all(sum(map(cells, line)) <= room for line in broken)
    if not broken or not broken[-1].endswith("…"):
        assert "".join("".join(broken).split()) == "".join(showable(words).split())


def test_lines_break_between_words() -> None:
    assert in_lines("Write the schema and the migrations", 16, 3) == ["Write the schema", "and the", "migrations"]


def test_a_family_is_not_torn_apart() -> None:
    family = "👩\u200d👩\u200d👧"
    assert shortened(f"ab{family}cd", 6) == "ab…"
    assert shortened(f"e\u0301{'x' * 20}", 2) == "e\u0301…"


def test_only_text_from_right_to_left_is_set_apart() -> None:
    assert isolated("plain ä 日本") == "plain ä 日本"
    assert isolated("a שלום") == "\u2068a שלום\u2069"
