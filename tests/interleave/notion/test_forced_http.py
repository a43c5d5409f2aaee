"""The same interleaving through the store and real HTTP: another agent claims while one agent's write is delayed."""

from __future__ import annotations

import time
from datetime import timedelta
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError, Held, LostLock, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Status
from dibs.lab.emulator import Emulator, ntask_schema
from dibs.stores.notion import guard
from dibs.stores.opening import open_store
from interleave.notion import unguarded
from support.notion import PATIENCE, hurried, skip_waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dibs.core.task import Task

GUARDED = "window=1.5&settle=1.6"


class Desk:
    """One database with one task, and its agents."""

    def __init__(self, notion: Emulator) -> None:
        self.notion = notion
        self.database = notion.database(ntask_schema()).id
        self.page = notion.page(
            self.database,
            {
                "Task name": {"title": [{"text": {"content": "The only one"}}]},
                "Status": {"select": {"name": "READY"}},
            },
        )

    def claim(self, agent: str, bounds: str) -> Task:
        with open_store(f"notion://{self.database}?{bounds}") as store:
            request = ClaimRequest(agent, (f"token-of-{agent}",), "default", ("TASK-1",), lease=timedelta(minutes=20))
            return store.claim(request)[0].task

    def say(self, verb: Verb, agent: str) -> Task:
        with open_store(f"notion://{self.database}?{GUARDED}") as store:
            move = Move(verb, "TASK-1", "default", Actor(agent), f"token-of-{agent}", lease=timedelta(minutes=20))
            return store.move(move, CanceledBlocker.RESOLVES).task


class Claiming(Thread):
    """A claim in the background, with its `result`."""

    def __init__(self, desk: Desk, agent: str, bounds: str) -> None:
        super().__init__()
        self._desk, self._agent, self._bounds = desk, agent, bounds
        self.result: Task | DibsError | None = None

    def run(self) -> None:
        try:
            self.result = self._desk.claim(self._agent, self._bounds)
        except DibsError as error:
            self.result = error


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    skip_waiting(monkeypatch)
    with Emulator() as notion:
        monkeypatch.setenv("NOTION_TOKEN", notion.token)
        monkeypatch.setenv("NOTION_API_BASE_URL", notion.url)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        yield Desk(notion)


def test_naive_claim_over_http_has_two_winners(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "claim", unguarded.naive)
    hold = desk.notion.faults.hold("PATCH", path=desk.page)
    bob = Claiming(desk, "bob", GUARDED)
    bob.start()
    hold.wait_for_arrival(PATIENCE)
    ann = desk.claim("ann", GUARDED)
    hold.release()
    bob.join()
    assert ann.status is Status.ACTIVE
    assert not isinstance(bob.result, DibsError)


def test_guarded_claim_with_a_delayed_write_is_abandoned(desk: Desk) -> None:
    hold = desk.notion.faults.hold("PATCH", path=desk.page)
    bob = Claiming(desk, "bob", GUARDED)
    with hurried("PATCH", times=1):
        bob.start()
        hold.wait_for_arrival(PATIENCE)
        assert desk.claim("ann", GUARDED).status is Status.ACTIVE
        bob.join()
    assert isinstance(bob.result, StoreUnavailable)
    hold.release()


def test_write_after_its_timeout_ends_the_claim_and_frees_nothing(desk: Desk) -> None:
    hold = desk.notion.faults.hold("PATCH", path=desk.page)
    bob = Claiming(desk, "bob", GUARDED)
    with hurried("PATCH", times=1):
        bob.start()
        hold.wait_for_arrival(PATIENCE)
        desk.claim("ann", GUARDED)
        bob.join()
    writes = desk.notion.requests.count("PATCH")
    hold.release()
    while desk.notion.requests.count("PATCH") == writes:
        time.sleep(0.01)
    with pytest.raises(LostLock):
        desk.say(Verb.RENEW, "ann")
    with pytest.raises(Held):
        desk.claim("cat", GUARDED)
    desk.notion.advance(22 * 60 + 91)
    assert desk.claim("cat", GUARDED).status is Status.ACTIVE
