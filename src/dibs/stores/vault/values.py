"""Which key of the front matter says which thing about a task.

The keys `task_id`, `priority`, `created_at`, `source` and `action` are those of the claim-by-move contract; the rest is
named for what a person would call it. A key that is none of ours is the task's own: it turns up among its extra fields.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dibs.core import fields
from dibs.core.errors import InvalidInput
from dibs.core.fields import LISTS, Kind
from dibs.core.task import Holder, LinkKind, ServiceClass, Status
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from dibs.core.task import Json

    Field = tuple[str, str, Callable[[Any], object], Callable[[Any], Json]]

_PRIORITIES: Mapping[str, int] = {"urgent": 0, "high": 1, "medium": 2, "low": 3}
_PRIORITY_WORDS = {number: word for word, number in _PRIORITIES.items()}


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return str(value)  # an unquoted 42 is a fine category


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(_text(item) for item in value) if isinstance(value, list) else (_text(value),)


def _whole(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _flag(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _time(value: Json) -> datetime:
    try:
        return time_from(_text(value))
    except InvalidInput:
        raise ValueError from None


def _priority(value: Json) -> float:
    if isinstance(value, str):
        return _PRIORITIES[value.strip().lower()]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _as_it_is(value: Json) -> Json:
    return value


def _word(value: Any) -> Json:
    return str(value)


def _list(value: Any) -> Json:
    return list(value)


_OF_KIND: Mapping[str, tuple[Callable[[Any], object], Callable[[Any], Json]]] = {
    **dict.fromkeys((Kind.TITLE, Kind.TEXT, Kind.NAME, Kind.ID), (_text, _as_it_is)),
    **dict.fromkeys(LISTS, (_texts, _list)),
    Kind.NUMBER: (_priority, lambda value: _PRIORITY_WORDS.get(value, value)),
    Kind.COUNT: (_whole, _as_it_is),
    Kind.FLAG: (_flag, _as_it_is),
    Kind.TIME: (_time, time_text),
    Kind.STATUS: (Status, _word),
    Kind.CLASS: (ServiceClass, _word),
    Kind.JSON: (_as_it_is, _as_it_is),
}
# Fields whose key is not their own name.
_KEYS = {
    "service_class": "class",
    "origin": "source",
    "spec_ref": "spec",
    "ended": "ended_by",
    "spent_token": "spent_proof",
}
# Where a task lies, what the page below the front matter says, and what follows from the links.
_ELSEWHERE = frozenset({"scope", "id", "description", "extra", "lease", "blockers"})

# A task's field, the key it stands under, how it is read and how it is written.
FIELDS: tuple[Field, ...] = tuple(
    (field.name, _KEYS.get(field.name, field.name), *_OF_KIND[field.kind])
    for field in fields.FIELDS
    if field.name not in _ELSEWHERE
)

LEASE_FIELDS: tuple[Field, ...] = (
    ("agent", "claimed_by", _text, _as_it_is),
    ("run", "claimed_run", _text, _as_it_is),
    ("holder", "claimed_as", Holder, _word),
    ("claimed_at", "claimed_at", _time, time_text),
    ("expires_at", "lease_until", _time, time_text),
    ("token", "claim_proof", _text, _as_it_is),
)

LINK_KEYS: Mapping[LinkKind, str] = {
    LinkKind.BLOCKS: "depends_on",
    LinkKind.FEEDS_INTO: "feeds_from",
    LinkKind.PARALLEL_OK: "parallel_ok",
}
LINKS = "links"  # those of which more is to be said than where they lead
EXTRA = "extra"  # extra fields whose names cannot be keys
TASK_ID = "task_id"
PAGE_PROOF = "claim_page"  # what the task said when it was claimed, as a digest

OURS = frozenset(
    {TASK_ID, LINKS, EXTRA, PAGE_PROOF, *LINK_KEYS.values()}
    | {key for _, key, _, _ in FIELDS}
    | {key for _, key, _, _ in LEASE_FIELDS}
)

_ORDINARY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


def can_be_key(name: str) -> bool:
    return name not in OURS and _ORDINARY.fullmatch(name) is not None
