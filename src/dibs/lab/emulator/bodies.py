"""Does a request's body have the right shape? Asked before anything is looked up, as the API does."""

from __future__ import annotations

from datetime import date, datetime
from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.errors import fix_one, should, should_line
from dibs.lab.emulator.ids import whole_id

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TEXT_LIMIT = 2000
ARRAY_LIMIT = 100
ADDRESS_LIMIT = 200


def known_keys(body: Mapping[str, Any], allowed: frozenset[str], path: str = "body") -> None:
    for key, value in body.items():
        if key not in allowed:
            raise should(f"{path}.{key}", "not present", value)


def property_values(properties: object) -> dict[str, tuple[str, Any]]:
    """name → the type it is written as, and the value, checked."""
    if not isinstance(properties, dict):
        raise should("body.properties", "an object", properties)
    return {name: _property_value(f"body.properties.{name}", raw) for name, raw in properties.items()}


def _property_value(path: str, raw: object) -> tuple[str, Any]:
    if not isinstance(raw, dict):
        raise should(path, "an object", raw)
    kinds = [kind for kind in CHECKS if kind in raw]
    if not kinds:
        raise fix_one([should_line(f"{path}.{kind}", "defined") for kind in CHECKS])
    kind = kinds[0]
    CHECKS[kind](f"{path}.{kind}", raw[kind])
    return kind, raw[kind]


def rich_text(path: str, value: object) -> None:
    for number, item in enumerate(_array(path, value)):
        here = f"{path}[{number}]"
        if not isinstance(item, dict):
            raise should(here, "an object", item)
        if "text" not in item:
            raise should(f"{here}.text", "defined", ...)
        text = item["text"]
        content = text.get("content", ...) if isinstance(text, dict) else ...
        if not isinstance(content, str):
            raise should(f"{here}.text.content", "a string", content)
        _at_most(f"{here}.text.content.length", _units(content), TEXT_LIMIT)


def _number(path: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise should(path, "a number or `null`", value)


def _checkbox(path: str, value: object) -> None:
    if not isinstance(value, bool):
        raise should(path, "a boolean", value)


def _text(limit: int) -> Callable[[str, object], None]:
    def check(path: str, value: object) -> None:
        if value is None:
            return
        if not isinstance(value, str):
            raise should(path, "a string or `null`", value)
        _at_most(f"{path}.length", _units(value), limit)

    return check


def _option(path: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise should(path, "an object or `null`", value)
    named = [value[key] for key in ("id", "name") if key in value]
    if not named:
        raise fix_one([should_line(f"{path}.{key}", "defined") for key in ("id", "name")])
    if not all(isinstance(name, str) for name in named):
        raise should(f"{path}.name", "a string", named[0])
    if value.get("name") == "":
        raise should(f"{path}.name.length", "≥ `1`", 0)


def _options(path: str, value: object) -> None:
    for number, item in enumerate(_array(path, value)):
        if not isinstance(item, dict):
            raise should(f"{path}[{number}]", "an object", item)
        _option(f"{path}[{number}]", item)


def _references(path: str, value: object) -> None:
    for number, item in enumerate(_array(path, value)):
        if not isinstance(item, dict) or "id" not in item:
            raise should(f"{path}[{number}].id", "defined", ...)
        if whole_id(item["id"]) is None:
            raise should(f"{path}[{number}].id", "a valid uuid", item["id"])


def _date(path: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise should(path, "an object or `null`", value)
    if not is_iso(value.get("start")):
        raise should(f"{path}.start", "a valid ISO 8601 date string", value.get("start", ...))
    if value.get("end") is not None and not is_iso(value["end"]):
        raise should(f"{path}.end", "a valid ISO 8601 date string, `null`, or `undefined`", value["end"])


def is_iso(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        moment_of(text)
    except ValueError:
        return False
    return True


def moment_of(text: str) -> date | datetime:
    """A day, or a point in time: with its zone, or without one if it has none."""
    only_day = len(text) == len("2026-01-31")
    return date.fromisoformat(text) if only_day else datetime.fromisoformat(text)


def _array(path: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise should(path, "an array", value)
    _at_most(f"{path}.length", len(value), ARRAY_LIMIT)
    return value


def _at_most(path: str, size: int, limit: int) -> None:
    if size > limit:
        raise should(path, f"≤ `{limit}`", size)


def _units(text: str) -> int:
    """The API counts as JavaScript does: an emoji is two."""
    return len(text.encode("utf-16-le")) // 2


CHECKS: dict[str, Callable[[str, object], None]] = {
    "title": rich_text,
    "rich_text": rich_text,
    "number": _number,
    "url": _text(TEXT_LIMIT),
    "select": _option,
    "multi_select": _options,
    "people": _references,
    "email": _text(ADDRESS_LIMIT),
    "phone_number": _text(ADDRESS_LIMIT),
    "date": _date,
    "checkbox": _checkbox,
    "relation": _references,
    "status": _option,
}
