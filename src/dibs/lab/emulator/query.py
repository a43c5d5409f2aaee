"""Queries: filters, sorts, and results in pages of up to a hundred."""

from __future__ import annotations

import base64
import threading
from collections import OrderedDict
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from dibs.lab.emulator.formulas import Rolled
from dibs.lab.emulator.model import floored, invalid, should, whole_id
from dibs.lab.emulator.values import is_iso, moment_of, option_named

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from dibs.lab.emulator.model import DataSource, Property
    from dibs.lab.emulator.rendering import Reader, Row


Judge: TypeAlias = "Callable[[Row], bool]"
Test: TypeAlias = "Callable[[Any], bool]"

_DEEPEST = 2
_TEXT = ("title", "rich_text", "url", "email", "phone_number")
_CHOICE = ("select", "status")
_TIMES = ("created_time", "last_edited_time")
_PEOPLE = ("people", "created_by", "last_edited_by")
_RESULTS = {
    "formula": ("string", "checkbox", "number", "date"),
    "rollup": ("any", "every", "none", "number", "date"),
}
# Relative dates, in days from today; a month has 30, as in `past_month`.
_DAYS = {
    "today": 0,
    "tomorrow": 1,
    "yesterday": -1,
    "one_week_ago": -7,
    "one_week_from_now": 7,
    "one_month_ago": -30,
    "one_month_from_now": 30,
}
_SPANS = {"week": 7, "month": 30, "year": 365}


class Filters:
    """The filter of one query as predicates, at one moment, for one data source."""

    def __init__(self, source: DataSource, reader: Reader, now: datetime, bot_id: str) -> None:
        self._source = source
        self._reader = reader
        self._now = now
        self._bot_id = bot_id

    def judge(self, said: object, path: str = "body.filter", depth: int = 0) -> Judge:
        if not isinstance(said, dict):
            raise should(path, "an object", said)
        for word, how in (("and", all), ("or", any)):
            if word in said:
                return self._group(said[word], f"{path}.{word}", depth, how)
        if "timestamp" in said:
            return self._timestamp(said, path)
        return self._property(said, path)

    def _group(self, said: object, path: str, depth: int, how: Callable[[Any], bool]) -> Judge:
        if depth >= _DEEPEST:
            raise should(path, "not present", said)
        if not isinstance(said, list):
            raise should(path, "an array", said)
        judges = [self.judge(one, f"{path}[{number}]", depth + 1) for number, one in enumerate(said)]
        return lambda row: how(judge(row) for judge in judges)

    def _timestamp(self, said: Mapping[str, Any], path: str) -> Judge:
        which = said["timestamp"]
        if which not in _TIMES:
            raise should(f"{path}.timestamp", '`"created_time"` or `"last_edited_time"`', which)
        test = self._date(said.get(which, ...), f"{path}.{which}")
        if which == "created_time":
            return lambda row: test(row.page.created_at.replace(second=0, microsecond=0))
        return lambda row: test(row.seen.edited_at.replace(second=0, microsecond=0))

    def _property(self, said: Mapping[str, Any], path: str) -> Judge:
        name = said.get("property", ...)
        if not isinstance(name, str):
            raise should(f"{path}.property", "a string", name)
        kinds = [kind for kind in said if kind not in {"property", "type"}]
        if len(kinds) != 1:
            raise should(f"{path}.{kinds[1] if kinds else 'title'}", "not present" if kinds else "defined", ...)
        prop = self._source.find(name)
        if prop is None:
            raise invalid(f"Could not find property with name or id: {name}")
        _same_type(prop, kinds[0])
        test = self._test(prop, prop.type, said[kinds[0]], f"{path}.{kinds[0]}")
        return lambda row: test(self._reader.plain(prop, row))

    def _test(self, prop: Property, kind: str, said: object, path: str) -> Test:
        if kind in _TEXT:
            return _one_of(said, path, _text)
        if kind in {"number", "unique_id"}:
            return _one_of(said, path, _number)
        if kind == "checkbox":
            return _one_of(said, path, _checkbox)
        if kind in _CHOICE:
            return _one_of(said, path, lambda word, value: _choice(prop, word, value))
        if kind == "multi_select":
            return _one_of(said, path, lambda word, value: _member(word, _option(prop, word, value)))
        if kind in _PEOPLE:
            return _one_of(said, path, lambda word, value: _member(word, self._bot_id if value == "me" else value))
        if kind == "relation":
            return _one_of(said, path, lambda word, value: _member(word, whole_id(value) or value))
        if kind in {"date", *_TIMES}:
            return self._date(said, path)
        if kind == "files":
            return _one_of(said, path, lambda _word, _value: None)
        return self._computed(prop, said, path)

    def _computed(self, prop: Property, said: object, path: str) -> Test:
        """A filter of a formula or rollup names its result's type."""
        if not isinstance(said, dict) or len(said) != 1:
            raise should(path, "an object", said)
        ((kind, inner),) = said.items()
        if kind not in _RESULTS[prop.type]:
            raise should(f"{path}.{kind}", "not present", inner)
        if kind in {"any", "every", "none"}:
            return self._over_all(prop, kind, inner, f"{path}.{kind}")
        test = self._test(prop, "rich_text" if kind == "string" else kind, inner, f"{path}.{kind}")
        return lambda value: test(value.value if isinstance(value, Rolled) else value)

    def _over_all(self, prop: Property, how: str, said: object, path: str) -> Test:
        if not isinstance(said, dict) or len(said) != 1:
            raise should(path, "an object", said)
        ((kind, inner),) = said.items()
        _, looked = self._reader.rolled_over(prop, self._source.id)
        if looked is None or kind in _RESULTS:
            raise should(f"{path}.{kind}", "not present", inner)
        _same_type(looked, kind)
        test = self._test(looked, looked.type, inner, f"{path}.{kind}")

        def over(value: Rolled) -> bool:
            found = [test(one) for one in (value.value or [])]
            return all(found) if how == "every" else any(found) if how == "any" else not any(found)

        return over

    def _date(self, said: object, path: str) -> Test:
        return _one_of(said, path, lambda word, value: _date(word, value, path, self._now))


def _same_type(prop: Property, kind: str) -> None:
    same = {"title": "rich_text", "phone_number": "rich_text", "url": "rich_text", "email": "rich_text"}
    alike = {prop.type, same.get(prop.type, prop.type)} | ({"text"} if prop.type in _TEXT else set())
    alike |= {"date"} if prop.type in _TIMES else {"people"} if prop.type in _PEOPLE else set()
    if kind not in alike:
        raise invalid(
            "The property type in the database does not match the property type of the filter provided: "
            f"database property {prop.type} does not match filter {kind}"
        )


def _one_of(said: object, path: str, test: Callable[[str, Any], Test | None]) -> Test:
    """Match if all the given conditions do; usually there is one."""
    if not isinstance(said, dict) or not said:
        raise should(path, "an object", said)
    tests: list[Test] = []
    for word, value in said.items():
        found = _presence(word) if word in {"is_empty", "is_not_empty"} else test(word, value)
        if found is None:
            raise should(f"{path}.{word}", "not present", value)
        tests.append(found)
    return lambda value: all(one(value) for one in tests)


def _presence(word: str) -> Test:
    return (lambda value: value in (None, "", [])) if word == "is_empty" else lambda value: value not in (None, "", [])


def _text(word: str, wanted: Any) -> Test | None:
    if not isinstance(wanted, str):
        raise should(f"body.filter.rich_text.{word}", "a string", wanted)
    tests: dict[str, Test] = {
        "equals": lambda text: (text or "") == wanted,
        "does_not_equal": lambda text: (text or "") != wanted,
        "contains": lambda text: wanted.lower() in (text or "").lower(),
        "does_not_contain": lambda text: wanted.lower() not in (text or "").lower(),
        "starts_with": lambda text: (text or "").lower().startswith(wanted.lower()),
        "ends_with": lambda text: (text or "").lower().endswith(wanted.lower()),
    }
    return tests.get(word)


def _number(word: str, wanted: Any) -> Test | None:
    if isinstance(wanted, bool) or not isinstance(wanted, int | float):
        raise should(f"body.filter.number.{word}", "a number", wanted)
    tests: dict[str, Test] = {
        "equals": lambda figure: figure == wanted,
        "does_not_equal": lambda figure: figure != wanted,
        "greater_than": lambda figure: figure is not None and figure > wanted,
        "less_than": lambda figure: figure is not None and figure < wanted,
        "greater_than_or_equal_to": lambda figure: figure is not None and figure >= wanted,
        "less_than_or_equal_to": lambda figure: figure is not None and figure <= wanted,
    }
    return tests.get(word)


def _checkbox(word: str, wanted: Any) -> Test | None:
    if not isinstance(wanted, bool):
        raise should(f"body.filter.checkbox.{word}", "a boolean", wanted)
    return {
        "equals": lambda ticked: bool(ticked) is wanted,
        "does_not_equal": lambda ticked: bool(ticked) != wanted,
    }.get(word)


def _choice(prop: Property, word: str, wanted: Any) -> Test | None:
    names = {_option(prop, word, name) for name in (wanted if isinstance(wanted, list) else [wanted])}
    return {"equals": lambda name: name in names, "does_not_equal": lambda name: name not in names}.get(word)


def _option(prop: Property, word: str, wanted: Any) -> str:
    """Reject an option that the column lacks, as Notion does."""
    if not isinstance(wanted, str):
        raise should(f"body.filter.{prop.type}.{word}", "a string", wanted)
    if "options" in prop.config and option_named(prop, wanted) is None:
        known = ", ".join(f'"{one["name"]}"' for one in prop.config["options"])
        asked = f'{prop.type} option "{wanted}" not found for property "{prop.name}"'
        raise invalid(f"{asked}. Available options: {known}.")
    return wanted


def _member(word: str, wanted: Any) -> Test | None:
    def has(value: Any) -> bool:
        return wanted in value if isinstance(value, list) else wanted == value

    return {"contains": has, "does_not_contain": lambda value: not has(value)}.get(word)


def _date(word: str, wanted: Any, path: str, now: datetime) -> Test | None:
    if word in {"this_week", "past_week", "past_month", "past_year", "next_week", "next_month", "next_year"}:
        return _within(word, now)
    if isinstance(wanted, str) and wanted in _DAYS:
        wanted = (now.date() + timedelta(days=_DAYS[wanted])).isoformat()
    if not is_iso(wanted):
        raise should(f"{path}.{word}", "a valid ISO 8601 date string", wanted)
    mark = moment_of(wanted)
    edge: date = _utc(mark) if isinstance(mark, datetime) else mark
    tests: dict[str, Callable[[Any], bool]] = {
        "equals": lambda at: bool(at == edge),
        "before": lambda at: bool(at < edge),
        "after": lambda at: bool(at > edge),
        "on_or_before": lambda at: bool(at <= edge),
        "on_or_after": lambda at: bool(at >= edge),
    }
    test = tests.get(word)
    return test and (lambda value: (at := _comparable(value, edge)) is not None and test(at))


def _within(word: str, now: datetime) -> Test:
    which, _, span = word.partition("_")
    reach = timedelta(days=_SPANS[span])

    def inside(value: Any) -> bool:
        at = _comparable(value, now)
        if at is None:
            return False
        if which == "this":
            return bool(at.isocalendar()[:2] == now.isocalendar()[:2])
        return bool(now - reach <= at <= now) if which == "past" else bool(now <= at <= now + reach)

    return inside


def _comparable(value: Any, edge: date) -> Any:
    """Return a date's start: as a day if it is compared with a day, else as a time."""
    if isinstance(value, dict):
        value = moment_of(value["start"])
    if value is None:
        return None
    moment = _utc(value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC))
    return moment if isinstance(edge, datetime) else moment.date()


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


_DIRECTIONS = {"ascending": False, "descending": True}


def arranged(rows: list[Row], sorts: object, source: DataSource, reader: Reader, rng: Random) -> list[Row]:
    """Sort by all criteria; the first one has precedence."""
    wanted = _read_sorts(sorts, source, reader)
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


def _read_sorts(sorts: object, source: DataSource, reader: Reader) -> list[tuple[Callable[[Row], Any], bool]]:
    if sorts is None:
        return []
    if not isinstance(sorts, list):
        raise should("body.sorts", "an array", sorts)
    return [_read_sort(one, f"body.sorts[{number}]", source, reader) for number, one in enumerate(sorts)]


def _read_sort(said: object, path: str, source: DataSource, reader: Reader) -> tuple[Callable[[Row], Any], bool]:
    if not isinstance(said, dict):
        raise should(path, "an object", said)
    direction = said.get("direction", ...)
    if not isinstance(direction, str) or direction not in _DIRECTIONS:
        raise should(f"{path}.direction", '`"ascending"` or `"descending"`', direction)
    return _sort_key(said, path, source, reader), _DIRECTIONS[direction]


def _sort_key(said: Mapping[str, Any], path: str, source: DataSource, reader: Reader) -> Callable[[Row], Any]:
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
    return lambda row: _sortable(prop, reader.plain(prop, row))


def _sortable(prop: Property, value: Any) -> Any:
    """Return the sort key: options in schema order, others by value; None for an empty cell."""
    if isinstance(value, Rolled):
        value = value.value if value.type == "number" else None
    if value in (None, "", []):
        return None
    if prop.type in {"select", "status"}:
        return [one["name"] for one in prop.config["options"]].index(value)
    if isinstance(value, dict):
        return _utc_moment(value["start"])
    if isinstance(value, list):
        return ",".join(map(str, value))
    return value


def _utc_moment(text: str) -> datetime:
    moment = moment_of(text)
    if not isinstance(moment, datetime):
        return datetime(moment.year, moment.month, moment.day, tzinfo=UTC)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


PIECE = 100
_REMEMBERED = 512


class Found(NamedTuple):
    """All results of a request; `cut` if the query limit cut them off."""

    place: str
    items: list[Any]
    cut: bool = False


class Piece(NamedTuple):
    """One page of results; `cut` is reported with the last."""

    items: list[Any]
    next_cursor: str | None
    cut: bool = False


class Cursors:
    """Results stored under a secret name; a cursor is that name and the position."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lock = threading.Lock()
        self._found: OrderedDict[str, Found] = OrderedDict()

    def first(self, found: Found, size: int) -> Piece:
        if len(found.items) <= size:
            return Piece(found.items, None, found.cut)
        with self._lock:
            name = f"{self._rng.getrandbits(96):024x}"
            self._found[name] = found
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        return Piece(found.items[:size], _write_cursor(name, size))

    def resume(self, place: str, cursor: str, size: int) -> Piece:
        name, start = _read_cursor(cursor)
        with self._lock:
            found = self._found.get(name)
        if found is None or found.place != place:
            raise invalid(f"The start_cursor provided is invalid: {cursor}")
        end = start + size
        more = end < len(found.items)
        return Piece(found.items[start:end], _write_cursor(name, end) if more else None, found.cut and not more)


def page_size(said: Mapping[str, Any], part: str) -> int:
    size = said.get("page_size", PIECE)
    if isinstance(size, str) and size.isdecimal():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int):
        raise should(f"{part}.page_size", "a number", size)
    if size < 1:
        raise should(f"{part}.page_size", "≥ `1`", size)
    if size > PIECE:
        raise should(f"{part}.page_size", f"≤ `{PIECE}`", size)
    return size


def start_cursor(said: Mapping[str, Any], part: str) -> str | None:
    cursor = said.get("start_cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise should(f"{part}.start_cursor", "a string or `undefined`", cursor)
    return cursor


def _write_cursor(name: str, start: int) -> str:
    return base64.urlsafe_b64encode(f"{name}.{start}".encode()).decode().rstrip("=")


def _read_cursor(cursor: str) -> tuple[str, int]:
    try:
        name, _, start = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().partition(".")
        return name, int(start)
    except ValueError:
        raise invalid(f"The start_cursor provided is invalid: {cursor}") from None
