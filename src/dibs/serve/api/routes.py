"""The description of the API, made from the table that requests are answered by."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from dibs import __version__
from dibs.serve.api.schemas import COMPONENTS
from dibs.serve.calls import SCOPE
from dibs.serve.requests import object_schema
from dibs.serve.table import BASE, ROUTES

if TYPE_CHECKING:
    from dibs.core.task import Json
    from dibs.serve.calls import Route
    from dibs.serve.requests import Field

_PROBLEM: dict[str, Json] = {
    "description": "What went wrong, and what to do next",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
_KEY: dict[str, Json] = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "a name of yours for this request: sent again under it, it is done once",
    "schema": {"type": "string", "minLength": 1, "maxLength": 200, "pattern": "^[!-~]+$"},
}


@cache
def description() -> dict[str, Json]:
    paths: dict[str, dict[str, Json]] = {}
    for route in ROUTES:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "dibs",
            "version": __version__,
            "description": "The desk where fleets of agents pick up work.",
        },
        "servers": [{"url": BASE}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"}},
        },
        "security": [{"token": []}, {}],
    }


def _operation(route: Route) -> dict[str, Json]:
    parameters = [_parameter(field) for field in (SCOPE, *route.query)]
    parts = [part.strip("{}") for part in route.path.split("/") if part.startswith("{")]
    parameters += [{"name": part, "in": "path", "required": True, "schema": {"type": "string"}} for part in parts]
    told: dict[str, Json] = {
        "operationId": route.name,
        "summary": route.about,
        "description": f"Needs the right `{route.right}`.",
        "parameters": parameters if route.method == "GET" else [*parameters, _KEY],
        "responses": {str(route.status): _answer(route), "default": _PROBLEM},
    }
    if route.body is not None:
        needed = any(field.required for field in route.body)
        told["requestBody"] = {
            "required": needed,
            "content": {"application/json": {"schema": object_schema(route.body)}},
        }
    return told


def _answer(route: Route) -> dict[str, Json]:
    content: dict[str, Json] = {"application/json": {"schema": route.answer}}
    if route.live is not None:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    return {"description": "As asked", "content": content}


def _parameter(field: Field) -> dict[str, Json]:
    schema = field.kind.schema
    told: dict[str, Json] = {"name": field.name, "in": "query", "description": field.about, "schema": schema}
    return told | {"style": "form", "explode": False} if schema.get("type") == "array" else told
