"""The walkthrough of docs/howto/kurultai.md on a real Neo4j and an emulated Notion, each down once in the middle.

One process runs the engine, six workers are the agents, a person sends messages and edits rows. In the end, every task
is done once, by an agent whose role covers it, and its row and a note to the sender show the result. The daily run has
three workers and does not kill Neo4j; DIBS_TORTURE runs everything.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from dibs.core.errors import StoreError
from dibs.desk import Desk
from dibs.lab.emulator import Emulator, kurultai_schema
from dibs.mail import sender_box
from dibs.protocols.kurultai.memory import OperationalMemory
from dibs.protocols.kurultai.policy import FLEET, agent_for
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery, Query
from support.neo4j import own_server, shared_url, url_of
from support.notion import select, text, title

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.core.task import Task

pytestmark = [pytest.mark.xdist_group("neo4j-server"), pytest.mark.timeout(7200)]  # no more than all the patience

SCRIPT = Path(sys.executable).with_name("dibs")
PATIENCE = 600.0  # seconds for a step, on a machine that is busy with other tests
SENDER = uuid4().hex * 2
BURST = (
    "Research competitors of our community",
    "Write a strategy for the community based on the research",
    "Fix the bug in the signup parser",
)
FULL = bool(os.environ.get("DIBS_TORTURE"))  # six workers, and Neo4j is killed; a server takes a minute to start
NEEDED = [agent for agent in FLEET if agent.id in {"researcher", "analyst", "developer"}]
WORK = 'printf "result of %s" "$DIBS_TASK"'


class Day:
    """The engine and the agents as processes, as a person and the test see them."""

    def __init__(self, folder: Path) -> None:
        self.server = own_server() if FULL else None
        self.notion = Emulator()
        self.notion.start()
        self.database = self.notion.database(kurultai_schema(), "Kurultai Tasks")
        address = shared_url() if self.server is None else url_of(self.server)
        self.url = f"{address}?desk=day-{uuid4().hex[:8]}"
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")} | {
            "DIBS_STORE": self.url, "NOTION_API_BASE_URL": self.notion.url, "NOTION_TOKEN": self.notion.token,
            "NOTION_DATABASE_ID": self.database.id, "NOTION_POLL_INTERVAL": "1", "XDG_CACHE_HOME": str(folder),
        }  # fmt: skip
        self.folder = folder
        self.started: list[subprocess.Popen[bytes]] = []
        self.log = folder / "run.log"

    def dibs(self, *words: str) -> str:
        ran = subprocess.run(
            [SCRIPT, *words], env=self.environment, cwd=self.folder, capture_output=True, check=False, timeout=PATIENCE
        )
        assert ran.returncode == 0, ran
        return ran.stdout.decode()

    def start(self, *words: str) -> None:
        with self.log.open("ab") as log:
            self.started.append(
                subprocess.Popen([SCRIPT, *words], env=self.environment, cwd=self.folder, stdout=log, stderr=log)
            )

    def tasks(self) -> dict[str, Task]:
        with Neo4jStore(self.url) as store:
            return {task.title: task for task in store.find(Query(SENDER))}

    def row(self, name: str, **more: Any) -> str:
        return self.notion.page(self.database.id, {"Name": title(name), "SenderHash": text(SENDER), **more})

    def until(self, what: str, seen: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                if seen():
                    return
            except StoreError:
                pass  # the store is down
            said = self.log.read_text()[-4000:]
            assert time.monotonic() < deadline, f"{what}: not seen.\n{said}"
            assert all(process.poll() is None for process in self.started), said
            time.sleep(0.3)

    def close(self) -> None:
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait(PATIENCE)
        self.notion.close()


@pytest.fixture
def day(tmp_path: Path) -> Iterator[Day]:
    made = Day(tmp_path)
    yield made
    made.close()


def test_day_with_neo4j_and_notion_down_once(day: Day) -> None:
    who = ("--sender-hash", SENDER)
    day.dibs("kurultai", "init")
    for setting in ("notion_integration_enabled", "notion_poll_enabled", "notion_push_enabled"):
        day.dibs("kurultai", "config", setting, "true", *who)
    for setting in ("chat_window_shortest", "chat_window"):
        day.dibs("config", setting, "5", *who)
    day.start("kurultai", "run")
    for agent in FLEET if FULL else NEEDED:
        day.start("work", "--agent", agent.id, "--assigned", "--any-scope", "--", "sh", "-c", WORK)

    for message in BURST:  # a burst, read as one window
        day.dibs("say", *who, message)
    day.until("the burst is read", lambda: len(day.tasks()) >= len(BURST))

    if day.server is not None:
        day.server.stop()  # SIGKILL
        day.server.start()
    day.until("the first results", lambda: any(task.finished for task in day.tasks().values()))

    day.notion.faults.next("unavailable", path="/query", times=8)  # Notion is down for some polls
    page = day.row("Fix the broken landing page", Priority=select("High"))
    day.until("the row is read", lambda: "Fix the broken landing page" in day.tasks())
    assert day.tasks()["Fix the broken landing page"].reason == "pending_review"
    assert "Accepted" in day.dibs("say", *who, "accept Fix the broken landing page")

    day.until("all is done", lambda: all(task.finished for task in day.tasks().values()))
    settled(day, page)


def settled(day: Day, page: str) -> None:
    """Each task was done once, by a suitable agent; its row and a note to the sender show the result."""
    with Neo4jStore(day.url) as store:
        tasks = store.find(Query(SENDER))
        for task in tasks:
            ends = [event for event in store.events(EventQuery(SENDER, task.id)) if event.verb == "done"]
            assert len(ends) == 1, task
            assert task.finished_by == agent_for(task.deliverable)
            assert task.result
        failed = [event for event in store.events(EventQuery(SENDER)) if event.verb == "sync"
                  and event.detail["status"] == "failed"]  # fmt: skip
        assert failed, "Notion was down, which is recorded"
        assert store.check(fix=False) == []
        assert OperationalMemory(Desk(store)).get_ready_tasks(SENDER) == []
    day.until("the row shows the end", lambda: shown(day, page, "Status") == "Completed")
    day.until("every task has its row", lambda: [row_result(day, task) for task in day.tasks().values()].count("") == 0)
    day.until("the sender is told", lambda: told(day, len(tasks)))


def shown(day: Day, page: str, column: str) -> Any:
    from dibs.stores.notion.http import HttpGateway
    from support.notion import plain

    gateway = HttpGateway(day.notion.token, day.notion.url)
    try:
        return plain(gateway.page(page)["properties"][column])
    finally:
        gateway.close()


def row_result(day: Day, task: Task) -> str:
    """The result in the row of a task, or "" while it has none."""
    page = task.extra.get("notion_page_id")
    return str(shown(day, str(page), "Result") or "") if page else ""


def told(day: Day, number: int) -> bool:
    """Whether each result is in a note."""
    with Neo4jStore(day.url) as store:
        box = sender_box(Desk(store), SENDER)
        notes = [task.description for task in (*box.kept().unread, *box.history())]
    return sum(note.count("result of") for note in notes) >= number
