"""A sender with tasks in a store, rows in an emulated Notion, and one clock for both."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from conformance.harness import HARNESSES
from dibs.desk import Desk
from dibs.lab.emulator import Emulator, kurultai_schema
from dibs.stores.notion.http import HttpGateway
from dibs.stores.port import EventQuery, Query
from dibs.sync.notion.database import Fleet
from dibs.sync.notion.report import text_of
from dibs.sync.notion.syncing import Options, Sync
from support.notion import date, plain, select, text, title

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.events import Event
    from dibs.core.task import Draft, Task
    from dibs.stores.port import Store
    from dibs.sync.notion.report import Report
    from support.clock import Clock

ANN, BOB = "a" * 64, "b" * 64
FLEET = Fleet({"analyst": "Jochi", "developer": "Temüjin", "writer": "Chagatai"})
COLUMNS = {
    "name": ("Name", title),
    "status": ("Status", select),
    "priority": ("Priority", select),
    "agent": ("Agent", select),
    "id": ("ID", text),
    "sender": ("SenderHash", text),
    "synced": ("Last Synced", date),
}


def cells(**said: Any) -> dict[str, Any]:
    return {COLUMNS[name][0]: COLUMNS[name][1](value) for name, value in said.items()}


class Scene:
    def __init__(self, store: Store, clock: Clock) -> None:
        self.store, self.clock, self.sender = store, clock, ANN
        self.notion = Emulator(clock)
        self.notion.start()
        self.database = self.notion.database(kurultai_schema(), "Kurultai Tasks")
        self.options = Options(self.database.id, FLEET)
        self.slept: list[float] = []
        self.time = 0.0
        self.gateway = self.connect()

    @property
    def desk(self) -> Desk:
        return Desk(self.store, scope=self.sender)

    def connect(self, token: str | None = None) -> HttpGateway:
        return HttpGateway(token or self.notion.token, self.notion.url, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds
        self.clock.advance(seconds=seconds)

    # Notion

    def row(self, name: str, *, sender: str | None = None, **said: Any) -> str:
        return self.notion.page(
            self.database.id, cells(name=name, sender=self.sender if sender is None else sender, **said)
        )

    def edit(self, page: str, **said: Any) -> None:
        self.notion.human.edit(page, cells(**said))

    def shown(self, page: str) -> dict[str, Any]:
        """Return the row's values as a person sees them."""
        found = self.gateway.page(page)["properties"]
        return {name: plain(value) for name, value in found.items()}

    # Here

    def add(self, *drafts: Draft, sender: str | None = None) -> list[Task]:
        return Desk(self.store, scope=sender or self.sender).add(list(drafts))

    def task(self, name: str, sender: str | None = None) -> Task:
        (found,) = [task for task in self.store.find(Query(sender or self.sender)) if task.title == name]
        return found

    def sync(self, sender: str | None = None, *, polled: bool = False, **more: Any) -> Report:
        return self.syncer(sender).run(polled=polled, **more)

    def syncer(self, sender: str | None = None, **more: Any) -> Sync:
        return Sync(
            self.desk,
            self.gateway,
            sender or self.sender,
            self.options,
            sleep=self.sleep,
            ticks=lambda: self.time,
            **more,
        )

    def told(self, **how: Any) -> str:
        return text_of(self.sync(**how))

    def changes(self, sender: str | None = None) -> list[Event]:
        """Return the recorded changes."""
        return [event for event in self.store.events(EventQuery(sender or self.sender)) if event.verb == "sync_change"]

    def close(self) -> None:
        self.gateway.close()
        self.notion.close()


@contextmanager
def opened(kind: str, folder: str) -> Iterator[Scene]:
    harness = HARNESSES[kind](folder)
    store = harness.open()
    scene = Scene(store, harness.clock)
    try:
        yield scene
        assert store.check(fix=False) == []
    finally:
        scene.close()
        store.close()
        harness.close()
