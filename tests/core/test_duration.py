"""Spans of time, read and said."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import InvalidInput
from dibs.core.times import in_words, parse_duration

UNITS = {"w": timedelta(weeks=1), "d": timedelta(days=1), "h": timedelta(hours=1), "m": timedelta(minutes=1)}


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("45s", timedelta(seconds=45)),
        ("20m", timedelta(minutes=20)),
        ("1h30m", timedelta(minutes=90)),
        ("2d", timedelta(days=2)),
        ("1w2d3h4m5s", timedelta(weeks=1, days=2, hours=3, minutes=4, seconds=5)),
        ("90", timedelta(seconds=90)),
        ("1.5h", timedelta(minutes=90)),
        ("0.25", timedelta(milliseconds=250)),
        ("0", timedelta(0)),
        ("36500d", timedelta(days=36_500)),
    ],
)
def test_a_span_is_read_as_people_write_it(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "m",
        "20 m",
        " 20m",
        "20m\n",
        "-5m",
        "+5m",
        "5x",
        "5M",
        "5ms",
        "1h30",
        "1e3",
        "inf",
        "nan",
        ".5h",
        "5.",
        "1,5h",
        "0x10",
    ],
)
def test_anything_else_is_refused_with_how_to_write_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="write it like"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["9" * 20 + "w", "9" * 400, "9" * 400 + "d", "36501d"])
def test_an_absurd_span_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is too long"):
        parse_duration(text)


@given(st.text())
def test_no_text_raises_anything_else(text: str) -> None:
    with suppress(InvalidInput):
        assert parse_duration(text) >= timedelta(0)


@given(st.lists(st.tuples(st.integers(0, 999), st.sampled_from("wdhm")), min_size=1, max_size=4))
def test_the_parts_of_a_span_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    assert parse_duration(text) == sum((count * UNITS[unit] for count, unit in parts), timedelta(0))


@pytest.mark.parametrize(
    ("span", "said"),
    [
        (timedelta(0), "0ms"),
        (timedelta(microseconds=999), "0ms"),
        (timedelta(milliseconds=250), "250ms"),
        (timedelta(milliseconds=999), "999ms"),
        (timedelta(seconds=1), "1s"),
        (timedelta(seconds=59, milliseconds=999), "59s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(hours=1, minutes=5), "1h 5m"),
        (timedelta(hours=1, minutes=5, seconds=9), "1h 5m"),
        (timedelta(days=2, hours=3, minutes=4), "2d 3h"),
        (timedelta(days=400), "400d"),
        (timedelta(seconds=-5), "0ms"),
    ],
)
def test_span_is_shown_in_its_largest_two_units(span: timedelta, said: str) -> None:
    assert in_words(span) == said


@given(st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(days=10_000)))
def test_printed_span_parses_to_at_most_itself(span: timedelta) -> None:
    said = in_words(span)
    read = parse_duration(said.replace(" ", ""))
    assert read <= span
    assert in_words(read) == said


@given(st.integers(1, 23), st.sampled_from("dhms"))
def test_a_single_unit_round_trips(count: int, unit: str) -> None:
    assert in_words(parse_duration(f"{count}{unit}")) == f"{count}{unit}"
