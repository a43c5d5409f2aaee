"""Short forms for the tests of the Notion store."""

from __future__ import annotations

import threading
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any, Self

from dibs.core.errors import DibsError
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.lab.emulator import Emulator, mesh_schema, ntask_schema
from dibs.stores.notion.layout import DIBS
from dibs.stores.opening import open_store
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock
from support.notion import PATIENCE, date, number, plain, select, skip_waiting, text, title
from support.notion_secrets import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

    from dibs.core.task import Claimed, Task
    from dibs.stores.notion.store import NotionStore
    from dibs.stores.port import Moved

SCOPE = "default"
LEASE = timedelta(minutes=20)
SCHEMAS: dict[str, Callable[[], dict[str, Any]]] = {
    "ntask": ntask_schema,
    "mesh": mesh_schema,
    "dibs": lambda: schema_of(DIBS),
}

_numbers = count(1)


def new_token() -> str:
    """Return a token that is easy to find in texts."""
    return f"lock-token-{next(_numbers):06}"


class Place:
    """An emulated Notion with a clock that only tests move, and the stores opened on it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        skip_waiting(monkeypatch)
        self.folder = folder
        self.clock = Clock()
        self.notion = Emulator(self.clock)
        self._patch = monkeypatch
        self._opened: list[NotionStore] = []
        self.database = ""

    def __enter__(self) -> Self:
        self.notion.start()
        self._patch.setenv("NOTION_TOKEN", self.notion.token)
        self._patch.setenv("NOTION_API_BASE_URL", self.notion.url)
        self._patch.setenv("XDG_CACHE_HOME", str(self.folder / "cache"))
        return self

    def __exit__(self, *_: object) -> None:
        for store in self._opened:
            store.close()
        self.notion.close()

    def make(self, layout: str = "ntask", schema: dict[str, Any] | None = None) -> str:
        """Create a database as a person."""
        self.database = self.notion.database(schema or SCHEMAS[layout]()).id
        return self.database

    def open(self, layout: str = "ntask", schema: dict[str, Any] | None = None, **options: str) -> NotionStore:
        """A store on a new database."""
        self.make(layout, schema)
        return self.join(layout=layout, **options)

    def join(self, **options: str) -> NotionStore:
        """Open another store on the latest database."""
        said = "&".join(f"{name}={value}" for name, value in options.items())
        store: Any = open_store(f"notion://{self.database}?{said}")
        self._opened.append(store)
        return store  # type: ignore[no-any-return]

    @property
    def arbiter(self) -> str:
        return f"sqlite:///{self.folder}/arbiter.db"

    def aside(self, act: Callable[[Any], Any]) -> Callable[[], Any]:
        """Run in a thread with a separate store: an arbiter belongs to the thread that opened it."""

        def run() -> Any:
            with open_store(f"notion://{self.database}?arbiter={self.arbiter}") as store:
                return act(store)

        return in_background(run)

    def follow_clock(self) -> None:
        """Let SQLite arbiters opened from now on use Notion's clock."""
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        self._patch.setitem(defaults, "clock", self.clock)

    def forget(self) -> None:
        """Start with an empty cache."""
        self._patch.setenv("XDG_CACHE_HOME", str(self.folder / f"cache {next(_numbers)}"))

    def page(self, name: str = "Sweep", /, **properties: Any) -> str:
        """Create a page as a person, in the ntask layout, READY by default."""
        said = {"Task name": title(name), "Status": select("READY")} | properties
        return self.notion.page(self.database, said)

    def shows(self, page: str) -> dict[str, Any]:
        """Return the page's values as a person sees them."""
        from notion_client import Client

        client: Any = Client(auth=self.notion.token, base_url=self.notion.url, retry=False)
        try:
            found = client.pages.retrieve(page_id=page)["properties"]
        finally:
            client.close()
        return {name: plain(value) for name, value in found.items()}

    def comments(self, page: str) -> list[str]:
        return self._opened[-1]._db.gateway.comments(page)

    def served(self) -> list[str]:
        """The requests since the last call, as `GET 200`."""
        found = [f"{request.method} {request.status}" for request in self.notion.requests]
        self.notion.requests.clear()
        return found


def in_background(act: Callable[[], Any]) -> Callable[[], Any]:
    """Run in a thread; the returned function waits for the result or error."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(act())
        except DibsError as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def answer() -> Any:
        thread.join(PATIENCE)
        return found[0]

    return answer


def request(agent: str = "ann", *ids: str, count: int = 1, **more: Any) -> ClaimRequest:
    tokens = tuple(new_token() for _ in ids or range(count))
    return ClaimRequest(agent, tokens, SCOPE, ids, **({"lease": LEASE} | more))


def claim(store: NotionStore, agent: str = "ann", *ids: str, **more: Any) -> list[Claimed]:
    return store.claim(request(agent, *ids, **more))


def hold(store: NotionStore, task: str, agent: str = "ann", **more: Any) -> str:
    """Claim one task by name and return the token that proves it."""
    asked = request(agent, task, **more)
    store.claim(asked)
    return asked.tokens[0]


def move(store: NotionStore, verb: Verb, task: str, token: str | None = None, **more: Any) -> Moved:
    by = Actor(more.pop("agent", None), more.pop("run", None))
    brought = {"lease": LEASE} if verb is Verb.RENEW else {}
    return store.move(Move(verb, task, SCOPE, by, token=token, **(brought | more)), CanceledBlocker.RESOLVES)


def add(store: NotionStore, *titles: str, **fields: Any) -> list[Task]:
    return store.add(SCOPE, [Draft(name, **fields) for name in titles], [], Actor())


def peek_ids(store: NotionStore, limit: int = 100, **more: Any) -> list[str]:
    return [task.id for task in store.peek(request(**more), limit)]


__all__ = ["PATIENCE", "date", "number", "select", "text", "title"]
