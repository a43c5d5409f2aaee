"""Two servers on PostgreSQL behind a proxy: restarted one after the other under load, they lose no request."""

from __future__ import annotations

import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import TYPE_CHECKING

import psycopg2
import pytest

from dibs.desk import open_desk
from dibs.stores.port import Query
from support.balancer import free_ports, start_balancer
from support.http import Line, Server
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CLIENTS = 4
_DRAIN = "3s"


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
        wanted, deadline = len(self.finished) + number, time.monotonic() + 120
        while len(self.finished) < wanted and not self.wrong:
            assert time.monotonic() < deadline, "the load stands still"
            time.sleep(0.05)


def test_rolling_restart_loses_no_request(store: str, tmp_path: Path) -> None:
    ports = free_ports(2)
    servers = [_server(store, port) for port in ports]
    balancer = start_balancer(ports, tmp_path)
    load = Load(balancer.port)
    try:
        with ThreadPoolExecutor(_CLIENTS) as clients:
            running = [clients.submit(load.run, f"ann-{number}") for number in range(_CLIENTS)]
            for place, port in enumerate(ports):
                load.wait_for_more(20)
                servers[place].end(signal.SIGTERM)
                servers[place] = _server(store, port)
                time.sleep(1.5)  # the proxy asks for its health once a second
            load.wait_for_more(20)
            load.stop()
            assert [each.result() for each in running] == [None] * _CLIENTS
    finally:
        load.stop()
        balancer.end()
        for server in servers:
            server.end()
    assert load.wrong == []
    with open_desk(store) as desk:
        kept = [task.id for number in range(_CLIENTS) for task in desk.find(Query(f"ann-{number}"))]
    assert sorted(kept) == sorted(load.finished), "an answered request is kept, and nothing was done twice"


def _server(store: str, port: int) -> Server:
    return Server(store, "--port", str(port), "--drain", _DRAIN)


def test_draining_server_answers_and_reports_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dibs.db"
    open_desk(url, create=True).close()
    server = Server(url, "--drain", "3s")
    with Line(server.port) as line:
        assert line.ask("GET", "/health").data == {"status": "ok"}
        assert "connection" not in line.ask("GET", "tasks").headers
        server.process.send_signal(signal.SIGTERM)
        _wait_until_draining(server)
        last = line.ask("POST", "tasks", {"tasks": [{"title": "One", "id": "one"}]})
        assert (last.status, last.headers["connection"]) == (201, "close")
    with Line(server.port) as another:
        assert another.ask("GET", "tasks/one").status == 200
    _, told = server.process.communicate(timeout=60)
    assert (server.process.returncode, told) == (0, "")


def _wait_until_draining(server: Server) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(OSError):
            answer = server.ask("GET", "/health")
            if answer.status == 503:
                assert answer.data == {"status": "draining"}
                return
    raise AssertionError("the server does not report that it drains")
