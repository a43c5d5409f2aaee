"""The poller: opt-in, intervals, and isolation of failures."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from dibs.desk import Desk
from dibs.mail import sender_box
from dibs.protocols.kurultai.notion import Subscribers
from dibs.stores.sqlite.store import SqliteStore
from dibs.sync.notion.report import text_of
from dibs.sync.notion.schedule import Poller
from sync.notion.scene import ANN, BOB

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.sync.notion.report import Report
    from sync.notion.scene import Scene

ON = {"notion_integration_enabled": True, "notion_poll_enabled": True}


class Watched:
    """A poller on a scene, with its own clock."""

    def __init__(self, scene: Scene) -> None:
        self.scene, self.time = scene, 0.0
        self.reports: list[Report] = []
        self.trouble: list[str] = []
        self.started: list[str] = []
        place = scene.store.describe()["place"]
        subscribers = Subscribers(lambda: Desk(SqliteStore(place, clock=scene.clock)), None, 60.0)
        self.poller = Poller(subscribers, self.reports.append, self.trouble.append, lambda: self.time)

    def look(self, after: float = 0.0) -> list[str]:
        """Advance the clock, poll, and return the senders polled."""
        self.time += after
        self.started = []
        self.poller.look_round(self._start)
        return self.started

    def _start(self, sender: str, pages: tuple[str, ...]) -> None:
        self.started.append(sender)
        thread = threading.Thread(target=self.poller._one, args=(sender, pages))
        thread.start()
        self.after = thread

    def settled(self) -> None:
        self.after.join()


@pytest.fixture
def watched(scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Watched:
    for name, value in {
        "NOTION_API_BASE_URL": scene.notion.url,
        "NOTION_TOKEN": scene.notion.token,
        "NOTION_DATABASE_ID": scene.database.id,
        "XDG_CACHE_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    return Watched(scene)


def test_only_opted_in_senders_are_polled_at_their_interval(watched: Watched) -> None:
    scene = watched.scene
    for sender in (ANN, BOB):
        scene.row(f"Row of {sender[:1]}", sender=sender)
        scene.sync(sender)
    assert watched.look() == []
    scene.desk.configure({**ON, "notion_poll_interval": 10})
    assert watched.look() == [ANN]
    watched.settled()
    assert watched.look(9) == []
    assert watched.look(1) == [ANN]
    watched.settled()
    assert (watched.reports, watched.trouble) == ([], [])


def test_poll_results_are_reported_and_recorded(watched: Watched) -> None:
    scene = watched.scene
    page = scene.row("Research", status="Ready", priority="Low")
    scene.sync()
    scene.desk.configure({**ON, "notion_notify_on_change": True})
    scene.edit(page, priority="High")
    watched.look()
    watched.settled()
    (report,) = watched.reports
    assert [each.new for each in report.applied] == [0.8]
    (notice,) = [event for event in scene.desk.events() if event.verb == "sync_notice"]
    assert (notice.detail["applied"], notice.detail["failed"]) == (1, 0)
    with sender_box(Desk(scene.store), ANN).fetch() as notes:
        assert [note.description for note in notes] == [text_of(report)]


def test_webhook_reads_its_page_at_once(watched: Watched) -> None:
    scene = watched.scene
    page = scene.row("Research", status="Ready", priority="Low")
    scene.sync()
    scene.desk.configure(ON)
    watched.look()
    watched.settled()
    scene.notion.faults.query_lag = 120.0
    made = scene.row("Another", status="Ready")
    assert watched.look() == []
    watched.poller.ring(made.replace("-", ""))
    assert watched.look() == [ANN]
    watched.settled()
    assert scene.shown(made)["ID"] == scene.task("Another").id
    assert page != made


def test_failing_sender_is_reported_and_retried_less_often(watched: Watched) -> None:
    scene = watched.scene
    scene.row("Research")
    scene.sync()
    scene.desk.configure({**ON, "notion_database_id": "1" * 32})
    gaps = []
    for _ in range(4):
        waited = 0.0
        while not watched.look(5):
            waited += 5
        watched.settled()
        gaps.append(waited)
    assert len(watched.trouble) == 4
    assert all("This Notion database does not exist" in told for told in watched.trouble)
    assert gaps[1] < gaps[2] < gaps[3]
    assert scene.notion.token not in "".join(watched.trouble)


def test_token_variable_of_the_document_works(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTION_TOKEN")
    monkeypatch.setenv("NOTION_API_KEY", watched.scene.notion.token)
    watched.scene.row("Research")
    watched.scene.sync()
    watched.scene.desk.configure(ON)
    watched.look()
    watched.settled()
    assert watched.trouble == []


def test_it_can_be_switched_off_for_all(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.scene.row("Research")
    watched.scene.sync()
    watched.scene.desk.configure(ON)
    monkeypatch.setenv("NOTION_POLL_ENABLED", "false")
    assert watched.look() == []


def test_it_watches_until_it_is_stopped(watched: Watched) -> None:
    scene = watched.scene
    scene.row("Research", status="Ready", priority="Low", agent="Jochi")
    scene.desk.configure(ON)
    scene.sync()
    scene.row("Another", status="Ready")
    thread = threading.Thread(target=watched.poller.watch)
    thread.start()
    while not watched.reports and thread.is_alive():
        thread.join(0.05)
    watched.poller.stop()
    thread.join(120)
    assert not thread.is_alive()
    assert [each.title for each in watched.reports[0].applied] == ["Another"]
