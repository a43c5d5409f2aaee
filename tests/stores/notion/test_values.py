"""Property values, decoded and encoded."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dibs.core.errors import InvalidInput
from dibs.stores.notion.values import PIECE_MAX, Unreadable, ceil_minute, decode, encode, pieces_of, text_of

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2026-01-31T12:00:00Z", NOON),
        ("2026-01-31T12:00:00.000+00:00", NOON),
        ("2026-01-31T13:00:00.000+01:00", NOON),
        ("2026-01-31T12:00", NOON),
        ("2026-01-31T12:00:00.250Z", NOON.replace(microsecond=250_000)),
        ("2026-01-31", NOON.replace(hour=0)),
    ],
)
def test_dates_are_read_with_fractions_offsets_or_as_bare_dates(said: str, meant: datetime) -> None:
    assert decode({"type": "date", "date": {"start": said, "end": None}}) == meant


@pytest.mark.parametrize("said", ["soon", "2026-13-01", "", "12:00", 7])
def test_invalid_date_differs_from_an_empty_one(said: object) -> None:
    assert decode({"type": "date", "date": None}) is None
    if said:
        with pytest.raises(Unreadable):
            decode({"type": "date", "date": {"start": said}})


@pytest.mark.parametrize("length", [0, 1, 1999, 2000, 2001, 4000, 4001, 200_000])
def test_long_text_is_split_and_joined(length: int) -> None:
    text = ("abcdefghi\n" * (length // 10 + 1))[:length]
    pieces = pieces_of(text)
    assert all(0 < len(piece["text"]["content"]) <= PIECE_MAX for piece in pieces)
    assert len(pieces) == -(-length // PIECE_MAX)
    assert text_of(pieces) == text


def test_characters_that_count_twice_in_notion_are_counted_twice() -> None:
    text = "x" + "😀" * 1500
    pieces = [piece["text"]["content"] for piece in pieces_of(text)]
    assert all(len(piece.encode("utf-16-le")) // 2 <= PIECE_MAX for piece in pieces)
    assert "".join(pieces) == text


def test_a_text_longer_than_any_property_is_refused() -> None:
    with pytest.raises(InvalidInput, match="too long"):
        pieces_of("x" * 200_001)


@pytest.mark.parametrize(
    ("kind", "value", "sent"),
    [
        ("select", "AGENT", {"select": {"name": "AGENT"}}),
        ("select", None, {"select": None}),
        ("select", "", {"select": None}),
        ("select", "a, b", {"select": {"name": "a  b"}}),
        ("status", "READY", {"status": {"name": "READY"}}),
        ("rich_text", "", {"rich_text": []}),
        ("rich_text", None, {"rich_text": []}),
        ("date", None, {"date": None}),
        ("date", NOON, {"date": {"start": "2026-01-31T12:00:00Z"}}),
        ("number", None, {"number": None}),
        ("number", 5, {"number": 5}),
        ("relation", ("p",), {"relation": [{"id": "p"}]}),
        ("relation", (), {"relation": []}),
    ],
)
def test_values_are_encoded_by_type_and_empty_ones_clear(kind: str, value: object, sent: object) -> None:
    assert encode(kind, value) == sent  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ({"type": "unique_id", "unique_id": {"prefix": "TASK", "number": 42}}, "TASK-42"),
        ({"type": "unique_id", "unique_id": {"prefix": None, "number": 42}}, "42"),
        ({"type": "rollup", "rollup": {"type": "number", "number": 2, "function": "checked"}}, 2),
        ({"type": "formula", "formula": {"type": "boolean", "boolean": True}}, True),
        ({"type": "select", "select": None}, None),
        ({"type": "relation", "relation": [{"id": "a"}, {"id": "b"}], "has_more": False}, ("a", "b")),
        ({"type": "people", "people": []}, ()),
        ({"type": "something new", "something new": 1}, None),
    ],
)
def test_a_value_is_read_by_its_type(value: dict[str, object], meant: object) -> None:
    assert decode(value) == meant


def test_times_are_rounded_up_to_the_minute() -> None:
    assert ceil_minute(NOON) == NOON
    assert ceil_minute(NOON.replace(microsecond=1)) == NOON.replace(minute=1)
    assert ceil_minute(NOON.replace(second=59)) == NOON.replace(minute=1)
