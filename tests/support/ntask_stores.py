"""Where ntask's tasks may lie: each kind of store that its sentences are tested on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from dibs.core.task import Holder
from dibs.desk import Desk
from dibs.lab.emulator import ntask_schema
from dibs.protocols.ntask.policy import NTASK
from dibs.stores.opening import open_store
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock
from support.notion import Notion, select

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import pytest

    from dibs.core.events import Event


class Place(Protocol):
    """An empty store, and what a test can do behind ntask's back."""

    environment: dict[str, str]
    tick: float  # how much later something must be to be seen as later

    def let(self, seconds: float) -> None:
        """Let so much time pass, by the store's clock."""
        ...

    def person_takes(self, task: str) -> None:
        """A person claims it, from whoever has it."""
        ...

    def comments(self, task: str) -> list[str]:
        """What was said about it."""
        ...

    def close(self) -> None: ...


class SqlitePlace:
    tick = 0.001

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = f"sqlite:///{folder / 'tasks.db'}"
        self.environment = {"NTASK_STORE": self.url}
        self._clock = Clock()
        defaults = SqliteStore.__init__.__kwdefaults__
        assert defaults is not None
        monkeypatch.setitem(defaults, "clock", self._clock)

    def let(self, seconds: float) -> None:
        self._clock.advance(seconds=seconds)

    def desk(self) -> Desk:
        return Desk(open_store(self.url), policy=NTASK)

    def person_takes(self, task: str) -> None:
        with self.desk() as desk:
            desk.claim("Zoe", refs=[task], holder=Holder.HUMAN, force=True)

    def events(self, task: str) -> list[Event]:
        with self.desk() as desk:
            return desk.events(ref=task)

    def comments(self, task: str) -> list[str]:
        return [event.reason or "" for event in self.events(task) if event.verb == "comment"]

    def close(self) -> None:
        with open_store(self.url, create=True) as store:
            assert store.check(fix=False) == []


class NotionPlace:
    """A database of ntask's own, on an emulator that listens on this machine."""

    tick = 60.0  # Notion tells the time of a page in minutes

    def __init__(
        self, _folder: Path, monkeypatch: pytest.MonkeyPatch, schema: Mapping[str, object] | None = None
    ) -> None:
        self.notion = Notion(monkeypatch)
        self.database = self.notion.api.database(ntask_schema() if schema is None else schema)
        self.environment = {**self.notion.environment, "NOTION_TASKS_DB_ID": self.database.id}

    def let(self, seconds: float) -> None:
        self.notion.api.advance(seconds)

    def page(self, task: str) -> str:
        """The id of a task's page, found as a person would find it."""
        found = self.notion.client().data_sources.query(data_source_id=self.database.data_source_id)["results"]
        numbered = {f"TASK-{page['properties']['ID']['unique_id']['number']}": page["id"] for page in found}
        return str(numbered[task])

    def properties(self, task: str) -> dict[str, Any]:
        return self.notion.properties(self.page(task))

    def edit(self, task: str, **properties: object) -> None:
        """A person changes a page: `edit("TASK-1", Status=select("READY"))`; Claimed_By stands for Claimed By."""
        self.notion.api.human.edit(
            self.page(task), {name.replace("_", " "): value for name, value in properties.items()}
        )

    def person_takes(self, task: str) -> None:
        self.edit(task, Claimed_By=select("HUMAN"))

    def comments(self, task: str) -> list[str]:
        return self.notion.comments(self.page(task))

    def close(self) -> None:
        self.notion.close()


PLACES: dict[str, Callable[[Path, pytest.MonkeyPatch], Place]] = {"notion": NotionPlace, "sqlite": SqlitePlace}
