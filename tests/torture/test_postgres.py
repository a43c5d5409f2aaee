"""Fleets on PostgreSQL while workers die, sessions are ended, the network breaks and the server itself goes down.

The checker of the lab judges the histories of the workers. `make torture`
(DIBS_TORTURE=1) plays the full size.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, Self

import psycopg2
import pytest

from dibs.core.task import Status
from dibs.lab.torture.proxies import PostgresProxy
from dibs.stores.opening import open_store
from support.postgres_server import Server
from torture.drain import Drain, Fault, run

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

    from torture.drain import Report

TORTURE = bool(os.environ.get("DIBS_TORTURE"))
LIMIT = 1500.0 if TORTURE else 900.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600 if TORTURE else 1200),
    pytest.mark.xdist_group("torture-postgres"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server with durable commits, for crashes."""
    mine = Server(durable=True)
    yield mine
    mine.remove()


@pytest.fixture
def url(server: Server, request: pytest.FixtureRequest) -> str:
    """A schema for each test."""
    return f"{server.url}&timeout=10&schema={request.function.__name__[5:50]}"


def assert_sound(report: Report, drain: Drain) -> None:
    assert [(each.rule, each.message) for each in report.violations] == []
    assert list(report.findings) == []
    assert report.statuses[Status.DONE] == sum(report.statuses.values()) == drain.tasks
    assert set(report.endings) == {0}, "a worker broke down or gave up"


def test_every_task_is_done_once_in_order_by_its_one_holder(url: str, tmp_path: Path) -> None:
    drain = Drain(url, tasks=20_000 if TORTURE else 600, limit=LIMIT)
    report = run(drain, str(tmp_path))
    assert_sound(report, drain)
    assert report.figures.finishes == drain.tasks
    assert not report.starved, report.figures


def test_workers_killed_and_stopped_at_random_lose_no_task_and_no_late_token_counts(url: str, tmp_path: Path) -> None:
    drain = Drain(
        url,
        tasks=5_000 if TORTURE else 400,
        kills=6.0,
        stops=0.5,
        most=400 if TORTURE else 20,
        lease=1.0,
        work=0.25,
        mischief=0.02,
        seed=2,
        limit=LIMIT,
    )
    report = run(drain, str(tmp_path))
    assert_sound(report, drain)
    assert report.killed
    assert report.stopped
    assert report.figures.lost_locks


BREAKS = {"cut", "freeze", "answer", "request", "commit", "delay", "refuse", "hole"}
MANY = 10_000  # times that something happens, at most: in a small fleet so few that it has peace in the end
HOT = ("EXECUTE claim_head", "EXECUTE claim_named", "EXECUTE finish", "EXECUTE renew")

# The faults for eight workers, whose leases are slightly longer than the server's outages.
FLEET = Drain(
    processes=8, shared=2, tasks=8_000 if TORTURE else 400, work=0.1, lease=4.0, mischief=0.005, seed=3, limit=LIMIT
)


def test_a_server_torn_down_and_started_again_loses_nothing_and_its_workers_go_on(
    server: Server, url: str, tmp_path: Path
) -> None:
    restarts = []

    def restart(_dice: random.Random) -> None:
        server.stop()  # immediate: the next start recovers from a crash
        server.start()
        restarts.append(server.pid)

    drain = FLEET._replace(url=url)
    report = run(drain, str(tmp_path), faults=[Fault(1.0, restart, MANY if TORTURE else 3)])
    assert_sound(report, drain)
    assert restarts
    assert server.log().count("database system was not properly shut down") >= len(restarts)


def test_sessions_ended_at_random_lose_nothing_and_their_workers_go_on(
    server: Server, url: str, tmp_path: Path
) -> None:
    drain = FLEET._replace(url=url, seed=4)
    ended = [0]
    with closing(psycopg2.connect(server.url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True

        def end_one(dice: random.Random) -> None:
            cursor.execute("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'dibs %' ORDER BY pid")
            if pids := [row[0] for row in cursor.fetchall()]:
                cursor.execute("SELECT pg_terminate_backend(%s)", (dice.choice(pids),))
                ended[0] += 1

        report = run(drain, str(tmp_path), faults=[Fault(20.0, end_one, MANY if TORTURE else 60)])
    assert_sound(report, drain)
    assert ended[0]


def test_a_network_that_is_cut_freezes_and_delays_loses_nothing_and_its_workers_go_on(url: str, tmp_path: Path) -> None:
    """Cut connections, half-open ones, answers and requests lost, moments in which nothing passes at all."""
    drain = FLEET._replace(url=url, seed=5)
    breaks: list[str] = []
    with PostgresProxy(url.replace("&timeout=10", "").partition("&schema=")[0]) as proxy:
        schema = url.partition("&schema=")[2]

        def break_something(dice: random.Random) -> None:
            proxy.heal()
            name = dice.choice(sorted(BREAKS - set(breaks)) or sorted(BREAKS))
            breaks.append(name)
            if name == "cut":
                proxy.cut()
            elif name == "freeze":
                proxy.freeze()
            elif name == "answer":
                proxy.lose_answer(dice.choice(HOT))
            elif name == "request":
                proxy.lose_request(dice.choice(HOT))
            elif name == "commit":
                proxy.lose_answer("COMMIT")
            elif name == "delay":
                proxy.delay = 0.05
            elif name == "refuse":
                proxy.refuse()
            else:
                proxy.black_hole()

        through = proxy.url(timeout=1, schema=schema)
        report = run(
            drain, str(tmp_path), through=through, faults=[Fault(2.0, break_something, MANY if TORTURE else 16)]
        )
    assert_sound(report, drain)
    assert breaks


class Wait(NamedTuple):
    """Whether a session waited for a lock of another one."""

    waiting: str
    holding: str
    kind: str


class Watch(threading.Thread):
    """Records who waits for whose lock, every few milliseconds.

    Two kinds of waiting do not count, because no transaction can prolong them. A NOTIFY takes a lock of the whole
    server, after the work is committed. `extend` and `page` protect a file while one statement adds a page to it.
    """

    QUERY = """
        SELECT split_part(waiting.application_name, ' ', 1), split_part(holding.application_name, ' ', 1),
               waiting.wait_event
        FROM pg_stat_activity AS waiting
        CROSS JOIN LATERAL unnest(pg_blocking_pids(waiting.pid)) AS blocking (pid)
        JOIN pg_stat_activity AS holding ON holding.pid = blocking.pid
        WHERE waiting.wait_event_type = 'Lock' AND waiting.wait_event NOT IN ('extend', 'page')
          AND waiting.query !~ 'pg_notify'
    """

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._over = threading.Event()
        self.looks = 0
        self.waits: list[Wait] = []

    def run(self) -> None:
        with closing(psycopg2.connect(self._url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            while not self._over.wait(0.005):
                cursor.execute(self.QUERY)
                self.waits += [Wait(*row) for row in cursor.fetchall()]
                self.looks += 1

    def end(self) -> None:
        self._over.set()
        self.join(120)


class Waiters:
    """Some who wait for work, of no scope in particular, as idle workers do."""

    def __init__(self, url: str, number: int) -> None:
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._wait, args=(url,), daemon=True) for _ in range(number)]

    def _wait(self, url: str) -> None:
        with open_store(url) as store:
            while not self._over.is_set():
                store.wait(0.5)

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(120)


@pytest.mark.parametrize("waiters", [0, 2])
def test_fleets_in_different_scopes_never_wait_for_each_other_s_locks(
    server: Server, url: str, waiters: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{url}_{waiters}"
    tasks = 10_000 if TORTURE else 300
    drains = {
        scope: Drain(url, scope, tasks=tasks, processes=4, shared=1, mischief=0.0, limit=LIMIT)
        for scope in ("alone", "left", "right")
    }

    def play(scope: str) -> Report:
        folder = tmp_path / scope
        folder.mkdir()
        return run(drains[scope], str(folder), through=f"{url}&application_name={scope}")

    open_store(url, create=True).close()
    watch = Watch(server.url)
    with Waiters(url, waiters), ThreadPoolExecutor(2) as pool:
        reports = {"alone": play("alone")}
        watch.start()
        reports |= dict(zip(("left", "right"), pool.map(play, ("left", "right")), strict=True))
        watch.end()
    for scope, report in reports.items():
        assert_sound(report, drains[scope])
    with capsys.disabled():
        speeds = ", ".join(f"{scope} {report.per_second:.0f}/s" for scope, report in reports.items())
        print(f"\n{speeds}; {watch.looks} looks, {dict(Counter(watch.waits))}")  # noqa: T201 - a figure, not a test
    assert watch.looks
    fleets = {"left", "right"}
    assert [wait for wait in watch.waits if {wait.waiting, wait.holding} == fleets] == []
