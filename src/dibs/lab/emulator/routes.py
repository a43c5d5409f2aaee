"""Which request goes where: method, path, the versions that know it, what the bot must be allowed to do."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from dibs.lab.emulator import comments, databases, lookup, pages
from dibs.lab.emulator.calls import Call
from dibs.lab.emulator.model import INSERT, INSERT_COMMENTS, READ, READ_COMMENTS, UPDATE
from dibs.lab.emulator.rendering import NEW

Handler: TypeAlias = Callable[[Call], dict[str, Any]]
_ALWAYS, _BEFORE, _SINCE = "always", "before", "since"  # before or since the version with data sources


class Route(NamedTuple):
    method: str
    template: str
    handler: Handler
    capability: str | None
    writes: bool = False
    age: str = _ALWAYS

    def knows(self, version: str) -> bool:
        return self.age == _ALWAYS or (version >= NEW) == (self.age == _SINCE)


ROUTES = (
    Route("GET", "/v1/pages/{page_id}", pages.retrieve, READ),
    Route("PATCH", "/v1/pages/{page_id}", pages.update, UPDATE, writes=True),
    Route("POST", "/v1/pages", pages.create, INSERT, writes=True),
    Route("GET", "/v1/pages/{page_id}/properties/{property_id}", pages.retrieve_property, READ),
    Route("POST", "/v1/data_sources/{data_source_id}/query", databases.query_source, READ, age=_SINCE),
    Route("GET", "/v1/data_sources/{data_source_id}", databases.retrieve_source, READ, age=_SINCE),
    Route("PATCH", "/v1/data_sources/{data_source_id}", databases.update_source, UPDATE, writes=True, age=_SINCE),
    Route("POST", "/v1/databases/{database_id}/query", databases.query, READ, age=_BEFORE),
    Route("GET", "/v1/databases/{database_id}", databases.retrieve, READ),
    Route("PATCH", "/v1/databases/{database_id}", databases.update, UPDATE, writes=True),
    Route("POST", "/v1/databases", databases.create, INSERT, writes=True),
    Route("GET", "/v1/comments", comments.listed, READ_COMMENTS),
    Route("POST", "/v1/comments", comments.create, INSERT_COMMENTS, writes=True),
    Route("GET", "/v1/comments/{comment_id}", comments.retrieve, READ_COMMENTS),
    Route("PATCH", "/v1/comments/{comment_id}", comments.update, INSERT_COMMENTS, writes=True),
    Route("DELETE", "/v1/comments/{comment_id}", comments.delete, INSERT_COMMENTS, writes=True),
    Route("GET", "/v1/users/me", lookup.me, None),
    Route("GET", "/v1/users", lookup.users, None),
    Route("GET", "/v1/users/{user_id}", lookup.user, None),
    Route("POST", "/v1/search", lookup.search, READ),
)

_BY_METHOD = {
    (method, length): [
        (route, route.template.split("/"))
        for route in ROUTES
        if route.method == method and route.template.count("/") == length
    ]
    for method, length in {(route.method, route.template.count("/")) for route in ROUTES}
}


def find(method: str, path: str) -> tuple[Route | None, dict[str, str]]:
    """The route of a request, and what its path names; the first that fits, so that `users/me` is no user's id."""
    words = path.split("/")
    for route, template in _BY_METHOD.get((method, len(words) - 1), ()):
        pairs = list(zip(template, words, strict=True))
        if all((wanted[:1] == "{" and word) or wanted == word for wanted, word in pairs):
            return route, {wanted[1:-1]: word for wanted, word in pairs if wanted[:1] == "{"}
    return None, {}
