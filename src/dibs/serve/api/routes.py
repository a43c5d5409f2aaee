"""The table of routes, how a request finds its route, and the OpenAPI description made from the same table."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from dibs import __version__
from dibs.core.errors import NotFound
from dibs.serve.api import chat, desk, plans, tasks
from dibs.serve.api.schemas import COMPONENTS
from dibs.serve.problems import MethodNotAllowed
from dibs.serve.requests import SCOPE, object_schema

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.core.task import Json
    from dibs.serve.requests import Field, Route

BASE = "/api/v1"
ROUTES: tuple[Route, ...] = (
    *tasks.ROUTES,
    *plans.ROUTES,
    *chat.ROUTES,
    *desk.ROUTES,
)


class _Node:
    """A part of a path: the parts that may follow it, and the routes that end here."""

    def __init__(self) -> None:
        self.named: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.routes: dict[str, tuple[Route, tuple[str, ...]]] = {}


class Router:
    """Finds the route of a request. It splits paths before it decodes them, so an id may contain a slash."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._top = _Node()
        for route in routes:
            self._enter(route)

    def _enter(self, route: Route) -> None:
        place, names = self._top, []
        for part in route.path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part.strip("{}"))
                place.any = place = place.any or _Node()
            else:
                place = place.named.setdefault(part, _Node())
        place.routes[route.method] = route, tuple(names)

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        place: _Node | None = self._top
        values = []
        for part in raw_path.split("/")[1:]:
            if place is None:
                break
            if part not in place.named and place.any is not None and part:
                values.append(unquote(part, errors="surrogateescape"))
                place = place.any
            else:
                place = place.named.get(part)
        if place is None or not place.routes:
            raise NotFound("There is nothing at this address; /openapi.json tells what there is.")
        if method not in place.routes:
            raise MethodNotAllowed.but(place.routes)
        route, names = place.routes[method]
        return route, dict(zip(names, values, strict=True))


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
def openapi() -> dict[str, Json]:
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
        "description": f"Needs the right `{route.right}`" + (f" or `{route.suffices}`." if route.suffices else "."),
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
