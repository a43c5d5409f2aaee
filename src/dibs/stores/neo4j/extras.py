"""What people add to a task in their own words, as properties of its node as far as Neo4j can hold them.

The rest is JSON in one property. What others put on a node shows as extra in turn, as text where JSON has no such type.
"""

from __future__ import annotations

import json
import math
from datetime import datetime
from typing import TYPE_CHECKING, Any

from dibs.core.errors import InvalidInput
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dibs.core.task import Json

_WIDEST = 2**63
_LONGEST_NAME = 200
_SHORTEST_TIME, _LONGEST_TIME = len("2026-01-31T12:00:00Z"), len("2026-01-31T12:00:00.000000Z")

# An index holds no long text, so these are times or not properties.
_INDEXED = frozenset({"window_expires_at", "triggered_at"})


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def text_of(value: Json) -> str:
    return _encode(value)


def spread(given: Mapping[str, Json], taken: Collection[str], rest: str) -> dict[str, object]:
    """Each as a property, save for names that are `taken`; what cannot be one is JSON in the property `rest`."""
    values = {name: _as_time(value) for name, value in given.items()}
    own = {name: value for name, value in values.items() if name not in taken and _stands(name, value)}
    return {**own, rest: text_of({name: value for name, value in given.items() if name not in own})}


def gathered(row: Mapping[str, Any], taken: Collection[str], rest: str) -> dict[str, Json]:
    """What `spread` made of it, put together again."""
    found: dict[str, Json] = {} if row[rest] == "{}" else json.loads(row[rest])
    if own := row.keys() - taken:
        found.update({name: _as_json(row[name]) for name in sorted(own)})
    return found


def _stands(name: str, value: object) -> bool:
    if not 0 < len(name) <= _LONGEST_NAME or "\0" in name:
        return False
    if name in _INDEXED:
        return isinstance(value, datetime)
    if isinstance(value, list):
        return len({type(each) for each in value}) <= 1 and all(_is_plain(each) for each in value)
    return isinstance(value, datetime) or _is_plain(value)


def _is_plain(value: object) -> bool:
    if type(value) is int:
        return -_WIDEST <= value < _WIDEST
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in {bool, str}


def _as_time(value: Json) -> Json | datetime:
    """A text that is a time, written as dibs writes times, is kept as one."""
    if not isinstance(value, str) or not _SHORTEST_TIME <= len(value) <= _LONGEST_TIME or value[-1] != "Z":
        return value
    try:
        moment = time_from(value)
    except InvalidInput:
        return value
    return moment if time_text(moment) == value else value


def _as_json(value: Any) -> Json:
    if isinstance(value, list):
        return [_as_json(each) for each in value]
    if _is_plain(value):
        return value  # type: ignore[no-any-return]  # text, a number or a truth
    if getattr(value, "tzinfo", None) is not None:
        try:
            return time_text(value.to_native())
        except ValueError:  # a year that only the server knows
            pass
    return str(value)
