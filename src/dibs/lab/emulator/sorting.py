"""Sorts. What the API leaves open is left to chance here: ties, where empty cells go, and order without sorts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.bodies import moment_of
from dibs.lab.emulator.clock import floored
from dibs.lab.emulator.errors import invalid, should
from dibs.lab.emulator.rollup import Rolled

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from dibs.lab.emulator.model import DataSource, Property
    from dibs.lab.emulator.rows import Reader, Row

_DIRECTIONS = {"ascending": False, "descending": True}


def arranged(rows: list[Row], sorts: object, source: DataSource, reader: Reader, rng: Random) -> list[Row]:
    """The first sort counts most."""
    wanted = _read(sorts, source, reader)
    rng.shuffle(rows)
    for key, descending in reversed(wanted):
        _sort(rows, key, descending=descending, empty_first=rng.random() < 1 / 2)
    return rows


def _sort(rows: list[Row], key: Callable[[Row], Any], *, descending: bool, empty_first: bool) -> None:
    keyed = [(key(row), row) for row in rows]
    empty = [row for value, row in keyed if value is None]
    filled = [(value, row) for value, row in keyed if value is not None]
    filled.sort(key=lambda pair: pair[0], reverse=descending)
    ordered = [row for _, row in filled]
    rows[:] = [*empty, *ordered] if empty_first else [*ordered, *empty]


def _read(sorts: object, source: DataSource, reader: Reader) -> list[tuple[Callable[[Row], Any], bool]]:
    if sorts is None:
        return []
    if not isinstance(sorts, list):
        raise should("body.sorts", "an array", sorts)
    return [_one(one, f"body.sorts[{number}]", source, reader) for number, one in enumerate(sorts)]


def _one(said: object, path: str, source: DataSource, reader: Reader) -> tuple[Callable[[Row], Any], bool]:
    if not isinstance(said, dict):
        raise should(path, "an object", said)
    direction = said.get("direction", ...)
    if not isinstance(direction, str) or direction not in _DIRECTIONS:
        raise should(f"{path}.direction", '`"ascending"` or `"descending"`', direction)
    return _key(said, path, source, reader), _DIRECTIONS[direction]


def _key(said: Mapping[str, Any], path: str, source: DataSource, reader: Reader) -> Callable[[Row], Any]:
    match said.get("timestamp"):
        case "created_time":
            return lambda row: floored(row.page.created_at)
        case "last_edited_time":
            return lambda row: floored(row.seen.edited_at)
    name = said.get("property", ...)
    if not isinstance(name, str):
        raise should(f"{path}.property", "a string", name)
    prop = source.find(name)
    if prop is None:
        raise invalid(f"Could not find sort property with name or id: {name}")
    return lambda row: _comparable(prop, reader.plain(prop, row))


def _comparable(prop: Property, value: Any) -> Any:
    """Options in the order of the schema, the rest by value. None where the cell is empty."""
    if isinstance(value, Rolled):
        value = value.value if value.type == "number" else None
    if value in (None, "", []):
        return None
    if prop.type in {"select", "status"}:
        return [one["name"] for one in prop.config["options"]].index(value)
    if isinstance(value, dict):
        return _moment(value["start"])
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value


def _moment(text: str) -> datetime:
    moment = moment_of(text)
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
