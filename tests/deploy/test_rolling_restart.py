"""Two servers on PostgreSQL behind a proxy: restarted one after the other under load, they lose no request."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg2
import pytest

from dibs.desk import open_desk
from dibs.stores.port import Query
from support.balancer import start_balancer
from support.host_clock import HostClock
from support.http import PATIENCE, Line, Server
from support.ports import reserved_port
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CLIENTS = 4
_DRAIN = ("--drain", "1h")  # the test moves the clock when the proxy has noticed


@pytest.fixture
def store() -> Iterator[str]:
    schema = f"rolling_{os.getpid()}"
    url = f"{shared_url()}{'&' if '?' in shared_url() else '?'}schema={schema}"
    open_desk(url, create=True).close()
    yield url
    with closing(psycopg2.connect(shared_url())) as admin, admin.cursor() as cursor:
        cursor.execute(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
        admin.commit()


class Load:
    """Clients that add, claim and finish tasks over kept connections, never repeat a request and note each answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._over = threading.Event()
        self.finished: list[str] = []
        self.wrong: list[object] = []

    def run(self, agent: str) -> None:
        with Line(self._port) as line:
            while not self._over.is_set() and not self.wrong:
                try:
                    self._one_task(line, agent)
                except Exception as error:  # noqa: BLE001 - any failure is a lost request
                    self.wrong.append(error)

    def _one_task(self, line: Line, agent: str) -> None:
        scope = f"scope={agent}"
        added = line.ask("POST", f"tasks?{scope}", {"tasks": [{"title": "One"}]})
        claimed = line.ask("POST", f"claims?{scope}", {"agent": agent})
        held = claimed.data["claimed"][0]
        done = line.ask("POST", f"tasks/{held['task']['id']}/done?{scope}", {"token": held["token"]})
        if (added.status, claimed.status, done.status) != (201, 200, 200) or done.data["repeated"]:
            self.wrong.append((added, claimed, done))
        self.finished.append(held["task"]["id"])

    def stop(self) -> None:
        self._over.set()

    def wait_for_more(self, number: int) -> None:
        wanted, deadline = len(self.finished) + number, time.monotonic() + PATIENCE
        while len(self.finished) < wanted and not self.wrong:
            assert time.monotonic() < deadline, "the load stands still"
            time.sleep(0.05)


def test_rolling_restart_loses_no_request(store: str, tmp_path: Path) -> None:
    reserved = [reserved_port() for _ in range(2)]
    ports = [int(each.getsockname()[1]) for each in reserved]
    clock = HostClock(tmp_path)
    servers = [_server(store, port, clock) for port in ports]
    balancer = start_balancer(ports, tmp_path)
    load = Load(balancer.port)
    try:
        with ThreadPoolExecutor(_CLIENTS) as clients:
            running = [clients.submit(load.run, f"ann-{number}") for number in range(_CLIENTS)]
            for place, port in enumerate(ports):
                load.wait_for_more(20)
                servers[place].process.send_signal(signal.SIGTERM)
                balancer.leave(port)
                load.wait_for_more(20)
                assert servers[place].process.poll() is None, "it answers until the time is over"
                clock.advance(hours=1)
                assert (servers[place].told(), servers[place].process.returncode) == ("", 0)
                servers[place] = _server(store, port, clock)
                balancer.find(port)
            load.wait_for_more(20)
            load.stop()
            assert [each.result() for each in running] == [None] * _CLIENTS
    finally:
        load.stop()
        balancer.end()
        for server in servers:
            server.end(signal.SIGKILL)
        for each in reserved:
            each.close()
    assert load.wrong == []
    with open_desk(store) as desk:
        kept = [task.id for number in range(_CLIENTS) for task in desk.find(Query(f"ann-{number}"))]
    assert sorted(kept) == sorted(load.finished), "an answered request is kept, and nothing was done twice"


def _server(store: str, port: int, clock: HostClock) -> Server:
    return Server(store, "--port", str(port), *_DRAIN, variables=clock.environ)


def test_draining_server_answers_and_reports_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dibs.db"
    open_desk(url, create=True).close()
    clock = HostClock(tmp_path)
    server = _server(url, 0, clock)
    with Line(server.port) as line:
        assert line.ask("GET", "/health").data == {"status": "ok"}
        assert "connection" not in line.ask("GET", "tasks").headers
        server.process.send_signal(signal.SIGTERM)
        _wait_until_draining(server)
        last = line.ask("POST", "tasks", {"tasks": [{"title": "One", "id": "one"}]})
        assert (last.status, last.headers["connection"]) == (201, "close")
    with Line(server.port) as another:
        assert another.ask("GET", "tasks/one").status == 200
    clock.advance(hours=1)
    assert (server.told(), server.process.returncode) == ("", 0)


def _wait_until_draining(server: Server) -> None:
    deadline = time.monotonic() + PATIENCE
    while (answer := server.ask("GET", "/health")).status != 503:
        assert time.monotonic() < deadline, "the server does not report that it drains"
    assert answer.data == {"status": "draining"}
