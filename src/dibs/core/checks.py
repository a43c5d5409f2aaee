"""Validation: every value from outside is checked here once, before it reaches a store."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from dibs.core.errors import InvalidInput, NotFound
from dibs.core.events import OTHER_VERBS, Event
from dibs.core.fields import BY_NAME, DRAFTED, EDITED, EVERY, LISTS, Filter, Kind
from dibs.core.lifecycle import Move, Verb
from dibs.core.task import Draft, Edit, Link, LinkKind, Status, is_internal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from dibs.core.fields import Field
    from dibs.core.fleet import Profile
    from dibs.core.search import Vector
    from dibs.core.task import Json

TITLE_MAX = 500
NAME_MAX = 128
TEXT_MAX = 1_000_000
LIST_MAX = 1_000
LEASE_MIN = timedelta(seconds=1)
LEASE_MAX = timedelta(days=30)
PRIORITY_MAX = 1_000_000_000
JSON_DEPTH_MAX = 50

_CONTROL = r"[\x00-\x1f\x7f-\x9f\u2028\u2029]"
_UNSTORABLE = r"[\x00\ud800-\udfff]"

# The statuses of a new task. Only transitions lead to the others.
BIRTH = frozenset({Status.READY, Status.BACKLOG, Status.REVIEW})


def draft(given: Draft) -> Draft:
    """The draft in its stored form, or InvalidInput naming the field."""
    if given.status not in BIRTH:
        raise InvalidInput(f"A new task starts as ready, backlog or review, not {given.status}.")
    if given.id:
        identifier(given.id)
    return _checked(given, _BLANK_DRAFT)


def edit(given: Edit) -> Edit:
    """The edit in its stored form; unset fields stay unset."""
    return _checked(given, _BLANK_EDIT)


Stated = TypeVar("Stated", Draft, Edit)


def _checked(given: Stated, blank: Stated) -> Stated:
    """Check only the fields that were set; in a large plan, most are not."""
    changes = {}
    for name, value, untouched in zip(given._fields, given, blank, strict=True):
        if value is not untouched and name in _CHECKS:
            stored = _CHECKS[name](value)
            if stored is not value:
                changes[name] = stored
    return given._replace(**changes) if changes else given  # type: ignore[arg-type]  # each check returns its field's type


_BRINGS = Move._fields.index("reason")  # the optional fields of a move start here; most moves set none


def move(given: Move) -> Move:
    """The optional fields of a transition, such as a reason or a result."""
    if given.lease is not None:
        lease(given.lease)
    if isinstance(given.assigned_to, str):
        given = given._replace(assigned_to=name_of("assignee", given.assigned_to))
    if given.verb is Verb.RENEW and given.restates:
        raise InvalidInput("Renewing a lease changes nothing but the lease.")
    if not any(given[_BRINGS:]):
        return given
    json_value("result", given.result)
    return given._replace(
        reason=optional_text("reason", given.reason),
        artifacts=texts("artifacts", given.artifacts),
        unblock_action=optional_text("unblock action", given.unblock_action),
        next_check_at=time("next check", given.next_check_at),
        not_before=time("not before", given.not_before),
        extra=extra(dict(given.extra)),
        merged_into=None if given.merged_into is None else identifier(given.merged_into),
    )


def link(given: Link) -> Link:
    if given.task == given.on:
        raise InvalidInput(f"{given.task} cannot depend on itself.")
    for name, value in (("weight", given.weight), ("confidence", given.confidence)):
        if not (math.isfinite(value) and 0 <= value <= 1):
            raise InvalidInput(f"A link's {name} must be between 0 and 1, not {value}.")
    if given.kind not in set(LinkKind):
        raise InvalidInput(f"A link must be one of {', '.join(LinkKind)}, not {_shown(given.kind)}.")
    if given.kind is LinkKind.PARALLEL_OK and given.task > given.on:
        given = given._replace(task=given.on, on=given.task)  # it has no direction; store it in one
    return given._replace(kind=LinkKind(given.kind), detected_by=name_of("detected_by", given.detected_by))


def told(given: Event) -> Event:
    """An event that a protocol records. It cannot use the verbs of the lifecycle, which stores record."""
    if given.verb in OTHER_VERBS or given.verb in set(Verb):
        raise InvalidInput(f"'{given.verb}' is a built-in event and cannot be recorded by hand.")
    detail = extra(dict(given.detail))
    return given._replace(verb=name_of("verb", given.verb), reason=optional_text("reason", given.reason), detail=detail)


def identifier(value: str) -> str:
    if not 0 < len(value) <= NAME_MAX or not value.isprintable() or " " in value or value.startswith("-"):
        raise InvalidInput(
            f"{_shown(value)} cannot be an id: up to {NAME_MAX} visible characters, no spaces, no leading '-'."
        )
    return value


def new_identifier(value: str, marks: str = "") -> str:
    """An id for a new task, without shell characters. `marks` are extra characters that the policy allows."""
    if not value.isalnum() and not all(char in marks or _in_an_id(char) for char in value):
        raise InvalidInput(f"{_shown(value)} cannot be a new task's id: use letters and digits, '.', '_' and '-'.")
    return identifier(value)


def derived_identifier(kind: str, task: str, number: str) -> str:
    """The id of a task that belongs to another one, whatever that one is called."""
    fits = all(map(_in_an_id, task)) and len(kind) + len(task) + len(number) + 2 <= NAME_MAX
    if not fits:
        from hashlib import sha256

        task = sha256(task.encode()).hexdigest()[:16]
    return f"{kind}-{task}-{number}"


def _in_an_id(char: str) -> bool:
    """Letters and digits of any script; many scripts write their vowels as marks."""
    if char in "._-" or char.isalnum():
        return True
    from unicodedata import category

    return category(char) in {"Mn", "Mc"}


def possible(ref: str) -> None:
    """Refuse what no id can begin with, before a store has to make sense of it."""
    if len(ref) > NAME_MAX:
        raise NotFound(f"No task has an id of {len(ref)} characters; {NAME_MAX} is the most.")
    identifier(ref)


def different(ids: Sequence[str]) -> tuple[str, ...]:
    if len(set(ids)) < len(ids):
        raise InvalidInput("The same task is named twice.")
    return tuple(identifier(one) for one in ids)


def tokens(given: Sequence[str], number: int) -> tuple[str, ...]:
    """The tokens of a claim, one for each task. The error shows none: they are secrets."""
    fit = all(0 < len(token) <= NAME_MAX and token.isprintable() for token in given)
    if not fit or not len(given) == len(set(given)) == number:
        raise InvalidInput(f"Give {number} different tokens of 1 to {NAME_MAX} visible characters, one for each task.")
    return tuple(given)


def title(value: str) -> str:
    value = value.strip()
    if not value:
        raise InvalidInput("A task needs a title.")
    if len(value) > TITLE_MAX:
        raise InvalidInput(
            f"A title has at most {TITLE_MAX} characters, this one has {len(value)}; put the rest into the description."
        )
    if _has(_CONTROL, value):
        raise InvalidInput("A title is one line without control characters; put the rest into the description.")
    return text("title", value)


def headline(said: str, longest: int = 80) -> str:
    """Any text as a title: one line, nothing in it that a terminal would obey, and not too long."""
    line = " ".join("".join(char if char.isprintable() else " " for char in said).split()) or "a message"
    return line if len(line) <= longest else line[: longest - 1] + "…"


def text(field: str, value: str) -> str:
    if len(value) > TEXT_MAX:
        raise InvalidInput(
            f"The {field} has {len(value)} characters; the limit is {TEXT_MAX}. Store it elsewhere and refer to it."
        )
    if _has(_UNSTORABLE, value):
        raise InvalidInput(f"The {field} holds a NUL byte or is not valid UTF-8.")
    return value


def optional_text(field: str, value: str | None) -> str | None:
    return None if value is None else text(field, value)


def name_of(field: str, value: str) -> str:
    value = value.strip()
    if not value or len(value) > NAME_MAX or _has(_CONTROL, value) or _has(_UNSTORABLE, value):
        article = "an" if field[0] in "aeiou" else "a"
        raise InvalidInput(f"{_shown(value)} cannot be {article} {field}: one line of 1 to {NAME_MAX} characters.")
    return value


def scope(value: str) -> str:
    """The name of a user's scope."""
    if is_internal(value := name_of("scope", value)):
        raise InvalidInput(
            f"{_shown(value)} cannot be a scope: names that start with '.' are internal. Choose another."
        )
    return value


def optional_name(field: str, value: str | None) -> str | None:
    return None if value is None else name_of(field, value)


def names(field: str, values: Iterable[str]) -> tuple[str, ...]:
    """A set of names, in one canonical order."""
    return tuple(sorted({name_of(field, value) for value in values}))


def texts(field: str, values: Iterable[str]) -> tuple[str, ...]:
    kept = tuple(text(field, value) for value in values)
    if len(kept) > LIST_MAX:
        raise InvalidInput(f"There are {len(kept)} {field}; the limit is {LIST_MAX}.")
    return kept


def priority(value: float) -> float:
    # Compared before anything else: a whole number may be too large even to become a float or to be printed.
    if isinstance(value, bool) or not -PRIORITY_MAX <= value <= PRIORITY_MAX:
        raise InvalidInput(f"A priority must be a number from -{PRIORITY_MAX} to {PRIORITY_MAX}; lower comes first.")
    return int(value) if float(value).is_integer() else float(value)


def count(field: str, value: int | None) -> int | None:
    if value is not None and not 0 <= value <= PRIORITY_MAX:
        shown = value if abs(value) < 1 << 64 else "that large"  # Python refuses to print numbers of any length
        raise InvalidInput(f"The {field} cannot be {shown}; give a number from 0 to {PRIORITY_MAX}.")
    return value


def time(field: str, value: datetime | None) -> datetime | None:
    if value is not None and value.tzinfo is None:
        raise InvalidInput(f"The time '{field}' needs a time zone.")
    return value


def lease(value: timedelta) -> timedelta:
    if not LEASE_MIN <= value <= LEASE_MAX:
        raise InvalidInput(
            f"A lease must last from 1 second to {LEASE_MAX.days} days, not {value.total_seconds():g} seconds."
        )
    return value


def extra(value: Json) -> dict[str, Json]:
    if not isinstance(value, dict):
        raise InvalidInput("Extra fields are a JSON object.")
    json_value("extra", value)
    return value


def only(given: Filter) -> Filter:
    """A filter in the form in which its fields are stored."""
    if not isinstance(given, Filter):
        raise InvalidInput("'only' is a Filter, such as Filter(category=\"docs\").")
    if not any(given):
        return EVERY
    for name, value in given.given().items():
        if isinstance(value, str) == (BY_NAME[name].kind in LISTS):
            raise InvalidInput(f"A filter's '{name}' is {'a list' if isinstance(value, str) else 'one text'}.")
    return given._replace(**{name: _CHECKS[name](value) for name, value in given.given().items()})  # type: ignore[arg-type]  # each check returns its field's type


def settings(changes: Mapping[str, Json]) -> dict[str, Json]:
    """Settings by name; None is for those that are to go. No error shows a value: it may be a secret."""
    checked = {name_of("setting", name): value for name, value in changes.items()}
    for name, value in checked.items():
        try:
            json_value("setting", value)
        except InvalidInput:
            raise InvalidInput(f"The setting '{name}' is not a JSON value.") from None
    return checked


def vector(numbers: Iterable[float]) -> Vector:
    from dibs.core.search import unit

    return unit(numbers)


def vectors(given: Mapping[str, Iterable[float] | None]) -> dict[str, Vector | None]:
    """Vectors by task; None is for those that are to go."""
    return {identifier(task): None if numbers is None else vector(numbers) for task, numbers in given.items()}


def profile(given: Profile) -> Profile:
    """Who a member of the fleet is, and how much it may have at a time."""
    if not 1 <= given.limit <= LIST_MAX:
        raise InvalidInput(f"An agent's limit must be from 1 to {LIST_MAX} tasks at a time, not {given.limit}.")
    can = names("capability", given.can)
    return given._replace(agent=name_of("agent", given.agent), role=name_of("role", given.role), can=can)


def limit(value: int) -> int:
    if not 1 <= value <= LIST_MAX:
        raise InvalidInput(f"Ask for 1 to {LIST_MAX} tasks, not {value}.")
    return value


def cosine(value: float) -> float:
    if not -1 <= value <= 1:
        raise InvalidInput(f"The least similarity must be between -1 and 1, not {value}.")
    return value


def json_value(field: str, value: Json, depth: int = 0) -> None:
    """Refuse what JSON cannot say (NaN, endless nesting) or a store cannot keep."""
    if depth > JSON_DEPTH_MAX:
        raise InvalidInput(f"The {field} is nested more than {JSON_DEPTH_MAX} deep.")
    if value is None or isinstance(value, bool | int):
        return
    if isinstance(value, str):
        text(field, value)
    elif isinstance(value, float) and math.isfinite(value):
        return
    elif isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise InvalidInput(f"The {field} has a key that is not text.")
            text(field, key)
            json_value(field, inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            json_value(field, inner, depth + 1)
    else:
        raise InvalidInput(f"The {field} holds {_shown(str(value))}, which JSON cannot express.")


def _has(pattern: str, value: str) -> bool:
    """Nearly all text is printable and needs no search, nor a pattern compiled for it at start."""
    return not value.isprintable() and re.search(pattern, value) is not None


def _shown(value: str) -> str:
    return repr(value if len(value) <= 40 else value[:40] + "…")  # noqa: PLR2004 - enough to recognise it


def _check_of(field: Field) -> Callable[[Any], object] | None:
    """The check of a field that users set; it returns the value to store."""
    check: Callable[[Any], object] | None = None
    if field.kind == Kind.TEXT and not field.optional:
        check = partial(text, field.called)
    elif field.kind in _OF_KIND:
        check = partial(_OF_KIND[field.kind], field.called)
    elif field.kind == Kind.TITLE:
        check = title
    elif field.kind == Kind.NUMBER:
        check = priority
    elif field.kind == Kind.OBJECT:
        check = extra
    return check


_OF_KIND: dict[str, Callable[[str, Any], object]] = {
    Kind.TEXT: optional_text,
    Kind.NAME: optional_name,
    Kind.ID: lambda _, value: None if value is None else identifier(value),
    Kind.TEXTS: texts,
    Kind.NAMES: names,
    Kind.COUNT: count,
    Kind.TIME: time,
}
_CHECKS: dict[str, Callable[[Any], object]] = {
    **{field.name: check for field in (*DRAFTED, *EDITED) if field.name != "id" and (check := _check_of(field))},
    "keep": extra,
    "why": partial(text, "reason"),
}

_BLANK_DRAFT = Draft(cast("str", None))  # there is no blank title: it is always checked
_BLANK_EDIT = Edit()
