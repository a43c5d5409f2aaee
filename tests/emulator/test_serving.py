"""The server: concurrent, lossless, quick, and gone when closed."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import httpx
import pytest

from dibs.lab.emulator import Emulator, ntask_schema, server
from dibs.lab.emulator.server import Request
from emulator.asking import NEW, PATIENCE, Plain, fill, loopback, task

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.lab.emulator import Database


def headers(notion: Emulator) -> dict[str, str]:
    return {"Authorization": f"Bearer {notion.token}", "Notion-Version": NEW}


def raw(notion: Emulator, *pieces: bytes) -> bytes:
    """Send these chunks and return all bytes received."""
    with socket.create_connection(("127.0.0.1", int(notion.url.rsplit(":", 1)[1])), timeout=PATIENCE) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(0.01)
        found = b""
        while chunk := connection.recv(65536):
            found += chunk
    return found


@pytest.fixture
def restless() -> Iterator[None]:
    """Switch threads often, so that races show."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("restless")
def test_ids_given_to_many_at_once_are_all_different(notion: Emulator, tasks: Database) -> None:
    def make(_worker: int) -> list[int]:
        body = {"parent": {"database_id": tasks.id}, "properties": task("Wash up")}
        with Plain(notion.url, notion.token) as plain:
            made = [plain("POST", "/v1/pages", body).body["properties"]["ID"] for _ in range(40)]
        return [one["unique_id"]["number"] for one in made]

    with ThreadPoolExecutor(8) as pool:
        assert sorted(number for made in pool.map(make, range(8)) for number in made) == list(range(1, 321))


def test_writes_of_many_properties_never_mix(notion: Emulator, plain: Plain, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    stop = threading.Event()
    torn: list[object] = []

    def write(name: str) -> None:
        with Plain(notion.url, notion.token) as mine:
            text = {"rich_text": [{"text": {"content": name}}]}
            body = {"properties": dict.fromkeys(("Agent", "Agent Run", "Lock Token"), text)}
            for _ in range(60):
                mine("PATCH", f"/v1/pages/{page}", body)

    def watch() -> None:
        with Plain(notion.url, notion.token) as mine:
            while not stop.is_set():
                shown = mine("GET", f"/v1/pages/{page}").body["properties"]
                said = {shown[name]["rich_text"][0]["plain_text"] for name in ("Agent", "Agent Run", "Lock Token")}
                torn.extend([said] if len(said) > 1 else [])

    write("zero")
    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write, ("one", "two", "three")))
    stop.set()
    watcher.join()
    assert torn == []
    assert plain("GET", f"/v1/pages/{page}").status == 200


def test_read_costs_well_under_a_millisecond(notion: Emulator, tasks: Database) -> None:
    page = notion.page(tasks.id, task("Wash up"))
    known = {name.lower(): value for name, value in headers(notion).items()}
    request = Request("GET", f"/v1/pages/{page}", {}, known, b"")

    def spent() -> float:
        started = time.thread_time()
        for _ in range(50):
            answered = notion.answer(request)
            assert answered is not None
            assert answered.status == 200
        return (time.thread_time() - started) / 50

    # Other processes slow some measurements, but not all.
    assert min(spent() for _ in range(20)) < 0.001, "of the processor's time"


def test_a_thousand_rows_are_read_in_ten_requests(notion: Emulator, plain: Plain, tasks: Database) -> None:
    fill(notion, tasks, 1000)
    found, cursor = 0, None
    while True:
        body = {"filter": {"property": "Status", "select": {"equals": "READY"}}}
        answer = plain(
            "POST",
            f"/v1/data_sources/{tasks.data_source_id}/query",
            body | ({"start_cursor": cursor} if cursor else {}),
        ).body
        found, cursor = found + len(answer["results"]), answer["next_cursor"]
        if cursor is None:
            break
    assert (found, len(notion.requests)) == (1000, 10)


def test_a_connection_serves_many_requests_and_closes_when_asked(notion: Emulator) -> None:
    head = f"GET /v1/users/me HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {notion.token}\r\nNotion-Version: {NEW}\r\n"
    answer = raw(notion, f"{head}\r\n{head}Connection: close\r\n\r\n".encode())
    assert answer.count(b"HTTP/1.1 200 OK") == 2


def test_chunked_and_expected_bodies_are_read(notion: Emulator, tasks: Database) -> None:
    body = json.dumps({"parent": {"database_id": tasks.id}, "properties": task("Wash up")}).encode()
    head = (
        f"POST /v1/pages HTTP/1.1\r\nAuthorization: Bearer {notion.token}\r\nNotion-Version: {NEW}\r\n"
        "Connection: close\r\n"
    ).encode()
    chunked = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n\r\n" % (10, body[:10], len(body) - 10, body[10:])
    assert b"200 OK" in raw(notion, head + b"Transfer-Encoding: chunked\r\n\r\n", chunked)
    asking = b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    answer = raw(notion, head + asking, body)
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"hello\r\n\r\n",
        b"POST /v1/pages HTTP/1.1\r\nContent-Length: many\r\n\r\n",
        b"POST /v1/pages HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST /v1/pages HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
    ],
)
def test_nonsense_is_hung_up_on_and_others_are_served(notion: Emulator, plain: Plain, nonsense: bytes) -> None:
    with socket.create_connection(("127.0.0.1", int(notion.url.rsplit(":", 1)[1])), timeout=PATIENCE) as connection:
        connection.sendall(nonsense)
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(100) == b""
    assert plain("GET", "/v1/users/me").status == 200


def test_it_listens_on_loopback_only(notion: Emulator) -> None:
    assert notion.url.startswith("http://127.0.0.1:")
    assert notion._server._listener.getsockname()[0] == "127.0.0.1"


def test_close_ends_connections_without_waiting_for_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_PATIENCE", 10 * PATIENCE)  # the server waits that long for a client
    before = set(threading.enumerate())
    with Emulator() as notion, loopback(base_url=notion.url, headers=headers(notion)) as http:
        http.get("/v1/users/me")
        started = time.monotonic()
        notion.close()
        assert time.monotonic() - started < PATIENCE
        with pytest.raises(httpx.TransportError):
            http.get("/v1/users/me")
    assert set(threading.enumerate()) <= before


def test_two_emulators_know_nothing_of_each_other() -> None:
    with Emulator(seed=1) as one, Emulator(seed=2) as two, Plain(two.url, two.token) as plain:
        page = one.page(one.database(ntask_schema()).id, task("Wash up"))
        assert plain("GET", f"/v1/pages/{page}").status == 404
        assert plain("GET", f"/v1/pages/{page}", token=one.token).status == 401


def test_one_that_was_never_started_closes_quietly() -> None:
    Emulator().close()
