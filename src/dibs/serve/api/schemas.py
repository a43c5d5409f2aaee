"""JSON schemas: drafts and edits in requests, tasks in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.checks import BIRTH
from dibs.core.fields import BY_NAME, EVERY, FILTERS, LISTS, STATED, Filter, Kind
from dibs.core.task import Draft, Edit, Link, LinkKind, ServiceClass, Status
from dibs.serve.requests import (
    EXTRA,
    FLAG,
    NUMBER,
    TEXT,
    TIME,
    WHOLE,
    Field,
    list_of,
    map_of,
    object_of,
    one_of,
    or_null,
)
from dibs.serve.requests import JSON as ANY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.fields import Field as TaskField
    from dibs.core.task import Json
    from dibs.serve.requests import Fields

_OF_KIND = {
    **dict.fromkeys((Kind.TITLE, Kind.TEXT, Kind.NAME, Kind.ID), TEXT),
    **dict.fromkeys(LISTS, list_of(TEXT)),
    Kind.NUMBER: NUMBER,
    Kind.COUNT: WHOLE,
    Kind.FLAG: FLAG,
    Kind.TIME: TIME,
    Kind.STATUS: one_of(Status),
    Kind.CLASS: one_of(ServiceClass),
    Kind.OBJECT: EXTRA,
}


def _field(field: TaskField) -> Field:
    kind = _OF_KIND[field.kind]
    return Field(field.name, or_null(kind) if field.optional else kind, field.about)


_TITLE, *_STATED = (_field(field) for field in STATED)
DRAFT: Fields = (
    _TITLE._replace(required=True),
    _field(BY_NAME["id"]),
    Field("status", one_of(status for status in Status if status in BIRTH), BY_NAME["status"].about),
    _field(BY_NAME["reason"]),
    *_STATED,
)
EDIT: Fields = (
    _TITLE,
    *_STATED,
    _field(BY_NAME["queued_at"]),
    Field("keep", map_of(ANY), "extra fields to set one by one; null removes one"),
    Field("was", map_of(ANY), "values that these fields must still have, or nothing is changed"),
    Field("why", TEXT, "the reason that the event records"),
)
LINK: Fields = (
    Field("task", TEXT, "the dependent task", required=True),
    Field("on", TEXT, "the prerequisite", required=True),
    Field("kind", one_of(LinkKind), "blocks by default"),
)
LINKS = list_of(object_of(LINK))
# Filters of listings and claims.
NARROW: Fields = tuple(
    Field(field.name, list_of(TEXT) if field.kind in LISTS else TEXT, f"only tasks with this {field.called}")
    for field in FILTERS
)


def filter_of(said: Mapping[str, Any]) -> Filter:
    given: dict[str, Any] = {field.name: said[field.name] for field in FILTERS if field.name in said}
    return Filter(**given) if given else EVERY


def draft_of(said: Mapping[str, Any]) -> Draft:
    return Draft(**said)


def edit_of(said: Mapping[str, Any]) -> Edit:
    """An edit. `was` is compared with a task's values, so it is read as the same types."""
    kinds = {field.name: field.kind for field in EDIT}
    if "was" in said:
        was = {name: kinds[name].read(value) if name in kinds else value for name, value in said["was"].items()}
        said = {**said, "was": was}
    return Edit(**said)


def links_of(said: Any) -> list[Link]:
    return [Link(**link) for link in said]


_OBJECT: dict[str, Json] = {"type": "object"}
TASK: dict[str, Json] = {"$ref": "#/components/schemas/Task"}
CLAIMED: dict[str, Json] = {"$ref": "#/components/schemas/Claimed"}
EVENT: dict[str, Json] = {"$ref": "#/components/schemas/Event"}
LINKED: dict[str, Json] = {"$ref": "#/components/schemas/Link"}
PIECE: dict[str, Json] = {"$ref": "#/components/schemas/OutputPiece"}
_TEXT: dict[str, Json] = {"type": "string"}
_NUMBER: dict[str, Json] = {"type": "integer"}
_TEXTS: dict[str, Json] = {"type": "array", "items": _TEXT}
_MOMENT: dict[str, Json] = {"type": "string", "format": "date-time"}


def many(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {"type": "array", "items": schema}


def answer(**properties: Mapping[str, Json]) -> dict[str, Json]:
    """The schema of an object with all of these properties."""
    return {"type": "object", "properties": properties, "required": list(properties)}


COMPONENTS: dict[str, Json] = {
    "Task": {
        "type": "object",
        "description": "A task. Empty fields and defaults are left out.",
        "required": ["scope", "id", "title", "status", "service_class", "priority", "attempt"],
        "properties": {
            **dict.fromkeys(("scope", "id", "title", "reason", "finished_by", "origin"), _TEXT),
            **{field.name: field.kind.schema for field in _STATED},
            "status": {"type": "string", "enum": [str(status) for status in Status]},
            "attempt": {"type": "integer"},
            "blockers": {"type": "integer", "description": "the number of unfinished tasks it waits for"},
            "lease": {"$ref": "#/components/schemas/Lease"},
            "artifacts": _TEXTS,
            "result": {},
            "git": {"$ref": "#/components/schemas/GitRecord"},
            **dict.fromkeys(("created_at", "updated_at", "queued_at", "started_at", "finished_at"), _MOMENT),
        },
    },
    "GitRecord": {
        "type": "object",
        "description": "The branch of the task's worktree, and how the head differs from the base",
        "required": ["branch"],
        "properties": {
            **dict.fromkeys(("branch", "base", "head", "target"), _TEXT),
            **dict.fromkeys(("files", "insertions", "deletions"), _NUMBER),
        },
    },
    "OutputPiece": {
        "type": "object",
        "required": ["start", "text"],
        "properties": {"start": {"type": "integer", "description": "its first byte"}, "text": _TEXT},
    },
    "Lease": {
        "type": "object",
        "required": ["agent", "attempt", "holder", "claimed_at"],
        "properties": {
            "agent": _TEXT,
            "run": _TEXT,
            "attempt": {"type": "integer"},
            "holder": {"type": "string", "enum": ["agent", "human"]},
            "claimed_at": _MOMENT,
            "expires_at": _MOMENT,
        },
    },
    "Claimed": {
        "type": "object",
        "required": ["task", "token"],
        "properties": {
            "task": TASK,
            "token": {"type": "string", "description": "proves the attempt until the lease ends"},
            "inputs": many(_OBJECT),
        },
    },
    "Link": {
        "type": "object",
        "required": ["task", "on", "kind"],
        "properties": {
            "task": _TEXT,
            "on": _TEXT,
            "kind": {"type": "string", "enum": [str(kind) for kind in LinkKind]},
        },
    },
    "Event": {
        "type": "object",
        "required": ["at", "scope", "task", "verb"],
        "properties": {
            "at": _MOMENT,
            "scope": _TEXT,
            "task": _TEXT,
            "verb": _TEXT,
            "seq": {"type": "integer"},
            "run": _TEXT,
            "token_id": _TEXT,
        },
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "stable; see the reference of errors"},
            "detail": {"type": "string", "description": "the error, and what to do next"},
            "holder": _TEXT,
            "retry_after_ms": {"type": "integer"},
            "candidates": {**_TEXTS, "description": "the tasks that an ambiguous id matches"},
            "path": {**_TEXTS, "description": "the tasks of a cycle"},
            "room": {"type": "integer", "description": "the rest of a quota"},
            "line": {"type": "integer", "description": "of a plan"},
        },
    },
}
