"""One request to the API: what it says, who says it, and the desk it is said at. And the entries of the API's table."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.task import Actor, Json
from dibs.serve.callers import Caller, Right
from dibs.serve.idempotency import Name
from dibs.serve.refusals import Forbidden
from dibs.serve.requests import TEXT, Field, Fields

if TYPE_CHECKING:
    from starlette.responses import Response

    from dibs.desk import Desk
    from dibs.serve.site import Site

SCOPE = Field("scope", TEXT, "which set of tasks; else the one that is served")


class Call(NamedTuple):
    """A request, read and checked. `name` is what it goes by, should it have to be sent again."""

    desk: "Desk"
    caller: Caller
    path: Mapping[str, str] = {}
    query: Mapping[str, Any] = {}
    body: Mapping[str, Any] = {}
    name: Name | None = None

    def insist(self, right: Right, what: str) -> None:
        """For rights that depend on what the request says."""
        if not self.caller.may(right):
            raise Forbidden(f"{what} needs the right '{right}', which this token does not have.")


class Route(NamedTuple):
    """One entry of the table that requests are answered by, and the description is made from.

    `act` answers at a desk; `serve` where more than one desk is needed, or none; `live` with a stream of events, for
    those who accept one. `body` None means that there is none. `answer` is the schema of the answer.
    """

    method: str
    path: str
    act: Callable[[Call], Json] | None
    about: str
    right: Right = Right.READ
    query: Fields = ()
    body: Fields | None = None
    answer: Mapping[str, Json] = {}
    status: int = 200
    serve: "Callable[[Site, Asked], Awaitable[Json]] | None" = None
    live: "Callable[[Site, Asked], Awaitable[Response]] | None" = None

    @property
    def name(self) -> str:
        words = [part.strip("{}") for part in self.path.split("/") if part]
        return "_".join([self.method.lower(), *words])


class Asked(NamedTuple):
    """A request before it comes to a desk."""

    route: Route
    caller: Caller
    scope: str
    by: Actor
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    name: Name | None = None

    def at(self, desk: "Desk") -> Call:
        return Call(desk, self.caller, self.path, self.query, self.body, self.name)
