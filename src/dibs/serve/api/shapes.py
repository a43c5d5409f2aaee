"""The shapes of what goes over the wire: drafts and edits as they come in, tasks as they go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.checks import BIRTH
from dibs.core.task import Draft, Edit, Link, LinkKind, ServiceClass, Status
from dibs.serve.fields import EXTRA, FLAG, NUMBER, TEXT, TIME, WHOLE, Field, list_of, map_of, object_of, one_of, or_null
from dibs.serve.fields import JSON as ANY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.task import Json
    from dibs.serve.fields import Fields

_SAID: Fields = (
    Field("description", TEXT, "what is to be done"),
    Field("service_class", one_of(ServiceClass), "how urgent this kind of work is"),
    Field("override", FLAG, "ahead of all of its class"),
    Field("priority", NUMBER, "lower comes first; 2 unless said"),
    Field("steps", list_of(TEXT)),
    Field("requires", list_of(TEXT), "capabilities that it asks for"),
    Field("extra", EXTRA, "any fields of your own"),
)
_CLEARABLE: Fields = (
    Field("category", or_null(TEXT), "what kind of work it is"),
    Field("deliverable", or_null(TEXT), "what comes out"),
    Field("spec_ref", or_null(TEXT), "the specification it belongs to"),
    Field("ref", or_null(TEXT), "where it comes from or points to"),
    Field("parent", or_null(TEXT), "the task it is a part of"),
    Field("assigned_to", or_null(TEXT), "only for this agent"),
    Field("not_before", or_null(TIME), "not to be claimed before this time"),
    Field("max_retries", or_null(WHOLE), "after so many failed retries a person is asked"),
)
DRAFT: Fields = (
    Field("title", TEXT, "one line that says what it is", required=True),
    Field("id", TEXT, "an id of your own; else a short one is made up"),
    Field("status", one_of(status for status in Status if status in BIRTH), "ready unless said"),
    Field("reason", or_null(TEXT)),
    *_SAID,
    *_CLEARABLE,
)
EDIT: Fields = (
    Field("title", TEXT),
    *_SAID,
    *_CLEARABLE,
    Field("queued_at", TIME, "its place among those of the same class and priority"),
    Field("keep", map_of(ANY), "single extra fields to set among the others; null takes one out"),
    Field("was", map_of(ANY), "what these fields still have to be, or nothing is changed"),
    Field("why", TEXT, "for the record"),
)
LINK: Fields = (
    Field("task", TEXT, "the one that waits", required=True),
    Field("on", TEXT, "what it waits for", required=True),
    Field("kind", one_of(LinkKind), "blocks unless said"),
)
LINKS = list_of(object_of(LINK))


def draft_of(said: Mapping[str, Any]) -> Draft:
    return Draft(**said)


def edit_of(said: Mapping[str, Any]) -> Edit:
    """`was` is compared with a task's values, so it is read as they are."""
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
_TEXT: dict[str, Json] = {"type": "string"}
_TEXTS: dict[str, Json] = {"type": "array", "items": _TEXT}
_MOMENT: dict[str, Json] = {"type": "string", "format": "date-time"}


def many(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {"type": "array", "items": schema}


def answer(**properties: Mapping[str, Json]) -> dict[str, Json]:
    """An object that has all of these."""
    return {"type": "object", "properties": properties, "required": list(properties)}


COMPONENTS: dict[str, Json] = {
    "Task": {
        "type": "object",
        "description": "A task. Fields that are empty, or as they are unless said, are left out.",
        "required": ["scope", "id", "title", "status", "service_class", "priority", "attempt"],
        "properties": {
            **dict.fromkeys(("scope", "id", "title", "description", "reason", "finished_by", "origin"), _TEXT),
            **{field.name: field.kind.schema for field in (*_SAID, *_CLEARABLE)},
            "status": {"type": "string", "enum": [str(status) for status in Status]},
            "attempt": {"type": "integer"},
            "blockers": {"type": "integer", "description": "how many unfinished tasks it waits for"},
            "lease": {"$ref": "#/components/schemas/Lease"},
            "artifacts": _TEXTS,
            "result": {},
            **dict.fromkeys(("created_at", "updated_at", "queued_at", "started_at", "finished_at"), _MOMENT),
        },
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
            "token": {"type": "string", "description": "the proof, for as long as the lease lasts"},
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
        "properties": {"at": _MOMENT, "scope": _TEXT, "task": _TEXT, "verb": _TEXT, "seq": {"type": "integer"}},
    },
    "Problem": {
        "type": "object",
        "required": ["type", "title", "status", "code", "detail"],
        "properties": {
            "type": _TEXT,
            "title": _TEXT,
            "status": {"type": "integer"},
            "code": {"type": "string", "description": "stable; see the reference of errors"},
            "detail": {"type": "string", "description": "what happened, and what to do next"},
            "holder": _TEXT,
            "retry_after_ms": {"type": "integer"},
        },
    },
}
