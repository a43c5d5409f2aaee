"""The one table of what can be asked, and how a request finds its entry."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from dibs.core.errors import NotFound
from dibs.serve.api import chat, desk, events, graphs, plans, tasks, work
from dibs.serve.refusals import MethodNotAllowed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.serve.calls import Route

BASE = "/api/v1"
ROUTES: tuple[Route, ...] = (
    *tasks.ROUTES,
    *work.ROUTES,
    *graphs.ROUTES,
    *plans.ROUTES,
    *events.ROUTES,
    *chat.ROUTES,
    *desk.ROUTES,
)


class _Place:
    """A part of a path: what may come next, by name or as somebody's id, and what can be asked here."""

    def __init__(self) -> None:
        self.named: dict[str, _Place] = {}
        self.any: _Place | None = None
        self.routes: dict[str, tuple[Route, tuple[str, ...]]] = {}


class Table:
    """Paths are taken apart before they are decoded, so an id may have a slash in it."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self._top = _Place()
        for route in routes:
            self._enter(route)

    def _enter(self, route: Route) -> None:
        place, names = self._top, []
        for part in route.path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part.strip("{}"))
                place.any = place = place.any or _Place()
            else:
                place = place.named.setdefault(part, _Place())
        place.routes[route.method] = route, tuple(names)

    def find(self, method: str, raw_path: str) -> tuple[Route, dict[str, str]]:
        place: _Place | None = self._top
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
