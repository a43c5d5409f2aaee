"""Failover from a killed primary to its standby: answered writes survive if the standby is synchronous."""

from __future__ import annotations

import os
import threading
import time
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

import dibs
from dibs.core.errors import Held, LostLock
from dibs.core.task import Status
from dibs.stores.opening import open_store
from support.postgres_server import Server
from torture.drain import Drain, Fault, run

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("postgres-failover")]

TORTURE = bool(os.environ.get("DIBS_TORTURE"))
PATIENCE = 120.0
STANDBY = "application_name=standby"


class Pair:
    """A primary and its standby, which is synchronous from `wait_for_standby` on."""

    def __init__(self) -> None:
        self.primary = Server(durable=True, settings=("wal_level=replica",))
        self.standby = Server(durable=True, settings=("synchronous_standby_names=",), standby_of=self.primary)

    @property
    def url(self) -> str:
        """Both hosts; the client uses the one that accepts writes."""
        hosts = f"{self.primary.folder},{self.standby.folder}"
        return f"postgresql:///postgres?host={hosts}&user=postgres&timeout=60"

    def be_synchronous(self) -> None:
        """From now on a commit is answered only after the standby has it on disk."""
        self.primary.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.primary.ask("SELECT pg_reload_conf()")
        self._until("sync")

    def _until(self, state: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while self.primary.ask("SELECT sync_state FROM pg_stat_replication") != [(state,)]:
            assert time.monotonic() < deadline, self.standby.log()[-2000:]
            time.sleep(0.05)

    def fail_over(self) -> None:
        self.primary.kill()
        self.standby.promote()

    def close(self) -> None:
        self.primary.remove()
        self.standby.remove()


def assert_sound(pair: Pair) -> None:
    with open_store(pair.url) as store:
        assert store.check(fix=False) == []


@pytest.fixture
def pair() -> Iterator[Pair]:
    with closing(Pair()) as servers:
        yield servers


def test_answered_claims_and_finishes_survive_failover(pair: Pair) -> None:
    pair.be_synchronous()
    with dibs.open(pair.url) as desk:
        for name in ("finished", "held", "open"):
            desk.add(name, id=name)
        finished, held = desk.claim("finished", agent="ann"), desk.claim("held", agent="ben")
        assert finished is not None
        assert held is not None
        finished.done("result")
        pair.fail_over()
        assert desk.get("finished").status is Status.DONE
        held.renew()
        with pytest.raises(Held):
            desk.claim("held", agent="cleo")
        held.done()
        assert desk.get("held").status is Status.DONE
        assert desk.claim(agent="dora") is not None
    assert_sound(pair)


def test_claim_lost_with_an_asynchronous_standby_has_no_valid_token(pair: Pair) -> None:
    """The documented limit: the claim was answered, the standby never received it, and another agent gets the task."""
    with dibs.open(pair.url) as desk:
        desk.add("a", id="a")
        desk.add("b", id="b")
        while pair.primary.ask("SELECT pg_current_wal_lsn() <> replay_lsn FROM pg_stat_replication") != [(False,)]:
            time.sleep(0.05)
        pair.standby.stop()
        forgotten = desk.claim("a", agent="ann")
        assert forgotten is not None
        pair.primary.kill()
        pair.standby.start()
        pair.standby.promote()
        again = desk.claim("a", agent="ben")
        assert again is not None
        with pytest.raises(LostLock):
            forgotten.done()
        again.done()
        assert desk.get("a").finished_by == "ben"
    assert_sound(pair)


def test_command_started_during_failover_waits_for_the_new_primary(pair: Pair) -> None:
    pair.be_synchronous()
    with dibs.open(pair.url) as desk:
        desk.add("a", id="a")
    pair.primary.kill()
    later = threading.Timer(2.0, pair.standby.promote)
    later.start()
    try:
        with dibs.open(pair.url) as desk:
            assert desk.claim(agent="ann") is not None
    finally:
        later.join()


def test_command_waits_for_a_server_that_is_starting() -> None:
    server = Server(durable=True, settings=("hot_standby=off",))
    url = f"{server.url}&timeout=60"
    with dibs.open(url) as desk:
        desk.add("a", id="a")
    server.stop()
    server.recover_slowly(0.3)
    server.launch()
    try:
        while not os.path.exists(os.path.join(server.folder, ".s.PGSQL.5432")):
            time.sleep(0.02)
        with dibs.open(url) as desk:
            assert desk.claim(agent="ann") is not None
        assert "FATAL:  the database system is" in server.log()
    finally:
        server.remove()


def test_storm_loses_nothing_when_the_primary_is_killed(pair: Pair, tmp_path: Path) -> None:
    pair.be_synchronous()
    struck: list[bool] = []

    def fail_over(_dice: random.Random) -> None:
        pair.fail_over()
        struck.append(True)

    tasks = 5_000 if TORTURE else 400
    drain = Drain(pair.url, processes=8, shared=2, tasks=tasks, work=0.1, lease=30.0, mischief=0.005, seed=5)
    report = run(drain, str(tmp_path), faults=[Fault(0.5, fail_over, 1)])
    assert struck
    assert [(each.rule, each.message) for each in report.violations] == []
    assert list(report.findings) == []
    assert report.statuses[Status.DONE] == sum(report.statuses.values()) == drain.tasks
    assert set(report.endings) == {0}, "a worker stopped or gave up"
