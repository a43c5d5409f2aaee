"""The HTTP store: the port's verbs, each one request to a dibs server."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from dibs.core.errors import (
    AlreadyExists,
    Changed,
    DibsError,
    IllegalMove,
    LostLock,
    StoreUnavailable,
    Unsupported,
)
from dibs.stores.http.connection import Connection, address_of, token_for
from dibs.stores.http.wire import HELLO, LONG, PATH, READS, WAIT, ServedStore, codec, error_from, operation
from dibs.stores.port import NO_TERMS, Closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.fleet import Agent, Assignment, Member, Profile
    from dibs.core.graph import Graph
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.output import OutputPage
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker
    from dibs.core.search import Vector
    from dibs.core.task import Actor, Claimed, Draft, Edit, Json, Link, Task
    from dibs.stores.port import Batch, Capabilities, EventQuery, Fleet, Moved, Output, Query, Settings, Terms, Vectors
    from dibs.stores.reports import Counts, Finding, HealthCheck, Neighbours, Record


def quiet(_done: int) -> None:
    """Ignore progress."""


class OperationClient:
    """Asks a server to carry out operations of the port."""

    def __init__(self, url: str) -> None:
        self.address = address_of(url)
        self._token = token_for(self.address)
        self._connection = self.connection()

    def connection(self) -> Connection:
        """One more connection to the same server."""
        return Connection(self.address, self._token)

    def ask(self, name: str, progress: Callable[[int], None] = quiet, **arguments: Any) -> Any:
        """The answer to an operation. Every write has its own key, so that it is done once."""
        asked = operation(name)
        if asked is None:
            raise AssertionError(f"the port has no operation '{name}'")
        body, key = asked.write_arguments(arguments), None if name in READS else _key()
        if asked.yields:
            return self._items(f"{PATH}{name}", body, codec("Record").read)
        if name in LONG:
            return asked.answer.read(self._long(f"{PATH}{name}", body, key, progress))
        try:
            return asked.answer.read(self._connection.post(f"{PATH}{name}", body, key)["value"])
        except (LostLock, IllegalMove, Changed, AlreadyExists) as error:
            if key is None or name == "claim" or not self._connection.again:
                raise
            # The first try may have been carried out, which can be why the second is refused.
            raise StoreUnavailable(
                f"The first answer of the server was lost. The repeated request was refused: {error.message} "
                "The first may have been carried out; look at the task."
            ) from None

    def hello(self) -> ServedStore:
        """The server's description of its store."""
        told: ServedStore = codec(ServedStore).read(self._connection.post(f"{PATH}{HELLO}", {}, None)["value"])
        return told

    def _long(self, path: str, body: object, key: str | None, progress: Callable[[int], None]) -> Any:
        """The last line of a long answer; the lines before report progress."""
        for line in self._connection.lines(path, body, key):
            if "progress" in line:
                progress(line["progress"])
            else:
                return _value(line)
        raise self._broken_off()

    def _items(self, path: str, body: object, read: Callable[[Any], Any]) -> Iterator[Any]:
        """The values of a streamed answer, over a second connection."""
        connection = self.connection()
        for line in connection.lines(path, body, None):
            if "item" in line:
                yield read(line["item"])
            elif "progress" not in line:
                _value(line)
                return
        raise self._broken_off()

    def _broken_off(self) -> StoreUnavailable:
        return StoreUnavailable(f"The server at {self.address.url} closed the connection during its answer. Try again.")

    def close(self) -> None:
        self._connection.close()


def _value(line: Any) -> Any:
    if "error" in line:
        raise error_from(line["error"])
    return line["value"]


def _key() -> str:
    import os

    return os.urandom(16).hex()


class HttpStore(Closing):
    """A store behind a dibs server. Implements `dibs.stores.port.Store`."""

    def __init__(self, url: str, *, create: bool = False) -> None:
        self._client = OperationClient(url)
        self._news: News | None = None
        if create:  # nothing is created, but the caller learns whether it exists
            _ = self._hello

    @cached_property
    def _hello(self) -> ServedStore:
        return self._client.hello()

    @property
    def capabilities(self) -> Capabilities:
        return self._hello.capabilities

    @property
    def fleet(self) -> Fleet | None:
        return HttpFleet(self._client) if "fleet" in self._hello.parts else None

    @property
    def vectors(self) -> Vectors | None:
        return HttpVectors(self._client) if "vectors" in self._hello.parts else None

    @property
    def settings(self) -> Settings | None:
        return HttpSettings(self._client) if "settings" in self._hello.parts else None

    @property
    def output(self) -> Output | None:
        return HttpOutput(self._client) if "output" in self._hello.parts else None

    def now(self) -> datetime:
        return self._client.ask("now")  # type: ignore[no-any-return]

    def add(
        self, scope: str, drafts: Sequence[Draft], links: Sequence[Link], by: Actor, terms: Terms = NO_TERMS
    ) -> list[Task]:
        return self._client.ask("add", scope=scope, drafts=drafts, links=links, by=by, terms=terms)  # type: ignore[no-any-return]

    def get(self, scope: str, task: str) -> Task:
        return self._client.ask("get", scope=scope, task=task)  # type: ignore[no-any-return]

    def match(self, scope: str, prefix: str, limit: int) -> list[str]:
        return self._client.ask("match", scope=scope, prefix=prefix, limit=limit)  # type: ignore[no-any-return]

    def find(self, query: Query) -> list[Task]:
        return self._client.ask("find", query=query)  # type: ignore[no-any-return]

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        return self._client.ask("peek", request=request, limit=limit, held=held, unable=unable)  # type: ignore[no-any-return]

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return self._client.ask("claim", request=request)  # type: ignore[no-any-return]

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        return self._client.ask("move", move=move, on_cancel=on_cancel, then=then)  # type: ignore[no-any-return]

    def move_all(self, moves: Sequence[Move], on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        return self._client.ask("move_all", moves=moves, on_cancel=on_cancel, then=then)  # type: ignore[no-any-return]

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        return self._client.ask("amend", scope=scope, task=task, edit=edit, by=by)  # type: ignore[no-any-return]

    def link(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        return self._client.ask("link", scope=scope, links=links, by=by)  # type: ignore[no-any-return]

    def unlink(self, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
        return self._client.ask("unlink", scope=scope, links=links, by=by)  # type: ignore[no-any-return]

    def links(self, scope: str, *tasks: str) -> list[Link]:
        return self._client.ask("links", scope=scope, tasks=tasks)  # type: ignore[no-any-return]

    def graph(self, scope: str, *, finished: bool) -> Graph:
        return self._client.ask("graph", scope=scope, finished=finished)  # type: ignore[no-any-return]

    def apply_plan(
        self,
        scope: str,
        plan: Plan,
        on_cancel: CanceledBlocker,
        by: Actor,
        *,
        dry_run: bool,
        progress: Callable[[int], None],
    ) -> PlanChanges:
        return self._client.ask(  # type: ignore[no-any-return]
            "apply_plan", progress, scope=scope, plan=plan, on_cancel=on_cancel, by=by, dry_run=dry_run
        )

    def record(self, event: Event) -> None:
        self._client.ask("record", event=event)

    def events(self, query: EventQuery) -> list[Event]:
        return self._client.ask("events", query=query)  # type: ignore[no-any-return]

    def counts(self, scope: str | None) -> Counts:
        return self._client.ask("counts", scope=scope)  # type: ignore[no-any-return]

    def scopes(self, *, claimable: bool = False) -> list[str]:
        return self._client.ask("scopes", claimable=claimable)  # type: ignore[no-any-return]

    def wait(self, seconds: float) -> bool:
        """Listen on a stream of the server, which stays open between waits so that no hint is missed."""
        if self._news is None or not self._news.alive:
            self._news = News(self._client)
        return self._news.wait(seconds)

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None]
    ) -> tuple[int, int]:
        return self._client.ask("prune", progress, events_before=events_before, tasks_before=tasks_before)  # type: ignore[no-any-return]

    def dump(self) -> Iterator[Record]:
        return self._client.ask("dump")  # type: ignore[no-any-return]

    def restore(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        return self._client.ask("restore", progress, records=records, by=by)  # type: ignore[no-any-return]

    def replace(self, records: Iterable[Record], by: Actor, progress: Callable[[int], None]) -> int:
        return self._client.ask("replace", progress, records=records, by=by)  # type: ignore[no-any-return]

    def check(self, *, fix: bool) -> list[Finding]:
        return self._client.ask("check", fix=fix)  # type: ignore[no-any-return]

    def describe(self) -> Mapping[str, str]:
        return {**self._client.ask("describe"), "server": self._client.address.url}

    def examine(self) -> list[HealthCheck]:
        """The server's address and the agent; then the description of its store."""
        from dibs.stores.reports import HealthCheck

        try:
            hello = self._client.hello()
        except DibsError as error:
            return [HealthCheck("server", ok=False, message=error.message)]
        who = f", as {hello.agent}" if hello.agent else ""
        rights = f" with the rights {', '.join(hello.rights)}" if hello.rights else ""
        first = HealthCheck(
            "server", ok=True, message=f"dibs {hello.version} at {self._client.address.url}{who}{rights}"
        )
        try:
            return [first, *self._client.ask("examine")]
        except Unsupported:
            return [first]

    def close(self) -> None:
        self._client.close()
        if self._news is not None:
            self._news.close()


class HttpFleet:
    def __init__(self, client: OperationClient) -> None:
        self._ask = client.ask

    def register(self, agent: str, *, host: str | None, pid: int | None) -> Agent:
        return self._ask("fleet.register", agent=agent, host=host, pid=pid)  # type: ignore[no-any-return]

    def deregister(self, agent: str) -> Agent:
        return self._ask("fleet.deregister", agent=agent)  # type: ignore[no-any-return]

    def agents(self) -> list[Agent]:
        return self._ask("fleet.agents")  # type: ignore[no-any-return]

    def enrol(self, profile: Profile) -> Member:
        return self._ask("fleet.enrol", profile=profile)  # type: ignore[no-any-return]

    def dismiss(self, agent: str) -> Member:
        return self._ask("fleet.dismiss", agent=agent)  # type: ignore[no-any-return]

    def members(self) -> list[Member]:
        return self._ask("fleet.members")  # type: ignore[no-any-return]

    def assign(self, asked: Assignment, by: Actor) -> list[Task | DibsError]:
        return self._ask("fleet.assign", asked=asked, by=by)  # type: ignore[no-any-return]


class HttpVectors:
    def __init__(self, client: OperationClient) -> None:
        self._ask = client.ask

    def keep(self, scope: str, vectors: Mapping[str, Vector | None]) -> None:
        self._ask("vectors.keep", scope=scope, vectors=vectors)

    def kept(self, scope: str, *, finished: bool) -> Mapping[str, Vector]:
        return self._ask("vectors.kept", scope=scope, finished=finished)  # type: ignore[no-any-return]

    def similar(self, scope: str, vector: Vector, text: str, limit: int, least: float, *, finished: bool) -> Neighbours:
        return self._ask(  # type: ignore[no-any-return]
            "vectors.similar", scope=scope, vector=vector, text=text, limit=limit, least=least, finished=finished
        )


class HttpSettings:
    def __init__(self, client: OperationClient) -> None:
        self._ask = client.ask

    def read(self, scope: str) -> Mapping[str, Json]:
        return self._ask("settings.read", scope=scope)  # type: ignore[no-any-return]

    def change(self, scope: str, changes: Mapping[str, Json], by: Actor) -> Mapping[str, Json]:
        return self._ask("settings.change", scope=scope, changes=changes, by=by)  # type: ignore[no-any-return]


class HttpOutput:
    def __init__(self, client: OperationClient) -> None:
        self._ask = client.ask

    def append(self, scope: str, task: str, token: str, start: int, text: str) -> int:
        return self._ask("output.append", scope=scope, task=task, token=token, start=start, text=text)  # type: ignore[no-any-return]

    def read(self, scope: str, task: str, attempt: int | None, after: int) -> OutputPage:
        return self._ask("output.read", scope=scope, task=task, attempt=attempt, after=after)  # type: ignore[no-any-return]


class News:
    """The server's stream of hints that something may have become claimable, read by a thread.

    The stream stays open between waits. Opening it counts as a hint, since some may have been missed.
    """

    def __init__(self, client: OperationClient) -> None:
        self._connection = client.connection()
        self._heard = threading.Event()
        self._error: DibsError | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="news", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> bool:
        heard = self._heard.wait(seconds)
        self._heard.clear()
        if self._error is not None and not self._thread.is_alive():
            raise self._error
        return heard

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        self._closed = True
        self._connection.interrupt()

    def _run(self) -> None:
        try:
            while not self._closed:
                self._listen()
        except DibsError as error:
            self._error = error
        finally:
            self._heard.set()
            self._connection.close()

    def _listen(self) -> None:
        stream = self._connection.stream(f"{PATH}{WAIT}")
        with suppress(OSError, HTTPException, ValueError):
            while not self._closed and (line := stream.readline()):
                if line.startswith(b"data:"):
                    self._heard.set()
        self._connection.close()
        self._heard.set()
