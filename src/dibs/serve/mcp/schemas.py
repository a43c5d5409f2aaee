"""JSON Schemas as short as they can be said: every client carries them in its context."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

_NOTHING = {"type": "null"}


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    return _slim(model.model_json_schema())


def answer_schema(model: type[BaseModel]) -> dict[str, Any]:
    """What a client can rely on: the parts of the answer, and of each object in it what is always there."""
    slim = _slim(model.model_json_schema(mode="serialization"))
    inner = {name: _outline(each) for name, each in slim.pop("$defs", {}).items()}
    slim.pop("description", None)
    return {**slim, "properties": {name: _inlined(each, inner) for name, each in slim["properties"].items()}}


def _outline(part: dict[str, Any]) -> dict[str, Any]:
    return {name: part[name] for name in ("type", "required") if name in part}


def _inlined(part: dict[str, Any], inner: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if "$ref" in part:
        return inner[part["$ref"].rpartition("/")[2]]
    return {**part, "items": _inlined(part["items"], inner)} if "items" in part else part


def _slim(schema: dict[str, Any]) -> dict[str, Any]:
    """Without titles, nulls and empty defaults: what is not required may be left out, and that says it."""
    kept = _without_null(schema)
    if isinstance(kept.get("title"), str):
        del kept["title"]
    if kept.get("default", ...) in (None, [], False, ""):
        del kept["default"]
    for name in ("properties", "$defs"):
        if name in kept:
            kept[name] = {field: _slim(each) for field, each in kept[name].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(kept.get(name), dict):
            kept[name] = _slim(kept[name])
    if kept.get("additionalProperties") is False:
        del kept["additionalProperties"]  # who gives more is told so
    return kept


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """One that may be missing is what it is where it is there."""
    choices = [each for each in part.get("anyOf", ()) if each != _NOTHING]
    if len(choices) != 1:
        return dict(part)
    rest = {name: each for name, each in part.items() if name != "anyOf"}
    return {**choices[0], **rest}
