"""Faults: each affects the page, the connection and the requests that it should."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from dibs.lab.emulator import server
from dibs.lab.emulator.api import KINDS
from emulator.asking import NEW, PATIENCE, Plain, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.lab.emulator import Database, Emulator

A_WHILE = 0.3  # seconds
FOR_EVER = 10 * PATIENCE  # closing the emulator ends it


@pytest.fixture
def page(notion: Emulator, tasks: Database) -> str:
    return notion.page(tasks.id, task("Wash up"))


def patch(plain: Plain, page: str, priority: int) -> Any:
    return plain("PATCH", f"/v1/pages/{page}", {"properties": {"Priority": {"number": priority}}})


def priority(plain: Plain, page: str) -> object:
    return plain("GET", f"/v1/pages/{page}").body["properties"]["Priority"]["number"]


def leave(notion: Emulator, page: str, priority: int) -> None:
    """Send a write, and leave once the emulator has started on it."""
    begun = threading.Event()
    pick = notion.faults.pick

    def picked(method: str, path: str, *, writes: bool) -> Any:
        found = pick(method, path, writes=writes)
        if method == "PATCH":
            begun.set()
        return found

    body = json.dumps({"properties": {"Priority": {"number": priority}}})
    head = (
        f"PATCH /v1/pages/{page} HTTP/1.1\r\nAuthorization: Bearer {notion.token}\r\nNotion-Version: {NEW}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(notion.faults, "pick", picked)
        with socket.create_connection(("127.0.0.1", int(notion.url.rsplit(":", 1)[1])), timeout=PATIENCE) as line:
            line.sendall((head + body).encode())
            assert begun.wait(PATIENCE)


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("kind", "status", "code", "kept"),
    [
        ("conflict", 409, "conflict_error", False),
        ("unavailable", 503, "service_unavailable", False),
        ("unavailable_after_commit", 503, "service_unavailable", True),
        ("overload", 529, "service_overload", False),
        ("internal_error", 500, "internal_server_error", False),
        ("bad_gateway", 502, "bad_gateway", False),
        ("gateway_timeout", 504, "gateway_timeout", False),
        ("gateway_timeout_after_commit", 504, "gateway_timeout", True),
        ("rate_limited", 429, "rate_limited", False),
    ],
)
def test_an_error_comes_before_the_write_or_after_it(
    notion: Emulator, plain: Plain, page: str, kind: str, status: int, code: str, *, kept: bool
) -> None:
    notion.faults.next(kind, method="PATCH")
    said = patch(plain, page, 5)
    assert (said.status, said.code) == (status, code)
    assert priority(plain, page) == (5 if kept else None)
    assert patch(plain, page, 6).status == 200, "only the next one"


def test_rate_limited_client_gets_a_retry_time(notion: Emulator, plain: Plain) -> None:
    notion.faults.retry_after = 7
    for kind in ("rate_limited", "overload"):
        notion.faults.next(kind)
        assert plain("GET", "/v1/users/me").headers["retry-after"] == "7"


def test_a_dropped_connection_wrote_nothing_or_wrote_all(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.next("drop", method="PATCH")
    with pytest.raises(httpx.RemoteProtocolError):
        patch(plain, page, 5)
    assert priority(plain, page) is None
    notion.faults.next("drop_after_commit", method="PATCH")
    with pytest.raises(httpx.RemoteProtocolError):
        patch(plain, page, 6)
    assert priority(plain, page) == 6
    assert notion.requests.count("PATCH", status=0) == 2


def test_garbage_is_no_json(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.next("garbage", method="GET")
    with pytest.raises(ValueError, match="Expecting"):
        plain("GET", f"/v1/pages/{page}")


def test_hanging_write_is_carried_out_after_the_client_left(notion: Emulator, plain: Plain, page: str) -> None:
    started = time.monotonic()
    notion.faults.next("hang_then_commit", method="PATCH", seconds=A_WHILE)
    leave(notion, page, 5)
    until(lambda: priority(plain, page) == 5)
    assert time.monotonic() - started >= A_WHILE


def test_write_is_carried_out_before_it_hangs(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.next("commit_then_hang", method="PATCH", seconds=FOR_EVER)
    leave(notion, page, 5)
    until(lambda: priority(plain, page) == 5)
    assert notion.requests.count("PATCH") == 0, "written, and not answered yet"


def test_a_request_can_hang_for_nothing(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.next("hang", method="PATCH", seconds=0.05)
    with pytest.raises(httpx.RemoteProtocolError):
        patch(plain, page, 5)
    assert priority(plain, page) is None


def test_fault_applies_to_paths_and_times(notion: Emulator, plain: Plain, tasks: Database, page: str) -> None:
    other = notion.page(tasks.id, task("Dry"))
    notion.faults.next("conflict", path=page, times=2, skip=1)
    assert [patch(plain, one, 1).status for one in (other, page, page, page, page)] == [200, 200, 409, 409, 200]


def test_invalid_request_is_reported_before_a_fault(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.next("unavailable_after_commit")
    assert plain("PATCH", f"/v1/pages/{page}", {"properties": {"No": {"number": 1}}}).status == 400


def test_a_share_of_the_writes_conflicts_and_no_read(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.rates = {"conflict": 0.3}
    writes = [patch(plain, page, number).status for number in range(200)]
    assert 30 < writes.count(409) < 90
    assert {plain("GET", f"/v1/pages/{page}").status for _ in range(50)} == {200}


def test_a_share_of_all_requests_finds_it_unavailable(notion: Emulator, plain: Plain) -> None:
    notion.faults.rates = {"unavailable": 0.5}
    assert {plain("GET", "/v1/users/me").status for _ in range(50)} == {200, 503}


def test_latency_before_the_write_delays_it(notion: Emulator, plain: Plain, page: str) -> None:
    started = time.monotonic()
    notion.faults.latency_before = A_WHILE
    leave(notion, page, 5)
    notion.faults.clear()
    until(lambda: priority(plain, page) == 5)
    assert time.monotonic() - started >= A_WHILE


def test_latency_after_the_write_delays_its_answer(notion: Emulator, plain: Plain, page: str) -> None:
    notion.faults.latency_after = FOR_EVER
    leave(notion, page, 5)
    notion.faults.clear()
    until(lambda: priority(plain, page) == 5)
    assert notion.requests.count("PATCH") == 0, "written, and not answered yet"


def test_latency_can_be_drawn_from_a_span(notion: Emulator, plain: Plain) -> None:
    notion.faults.latency_before = (0.02, 0.03)
    started = time.monotonic()
    plain("GET", "/v1/users/me")
    assert time.monotonic() - started >= 0.02


@pytest.mark.parametrize("after_commit", [False, True])
def test_a_request_is_held_until_the_test_lets_it_go(
    notion: Emulator, plain: Plain, page: str, *, after_commit: bool
) -> None:
    held = notion.faults.hold("PATCH", after_commit=after_commit)
    done: list[int] = []

    def write() -> None:
        with Plain(notion.url, notion.token) as mine:
            done.append(patch(mine, page, 5).status)

    thread = threading.Thread(target=write)
    thread.start()
    held.wait_for_arrival(PATIENCE)
    assert priority(plain, page) == (5 if after_commit else None)
    assert not done
    held.release()
    thread.join(PATIENCE)
    assert done == [200]
    assert priority(plain, page) == 5


def test_clear_makes_all_well_again(notion: Emulator, plain: Plain) -> None:
    notion.faults.rates = {"unavailable": 1.0}
    notion.faults.next("drop")
    notion.faults.clear()
    assert plain("GET", "/v1/users/me").status == 200


def test_unknown_settings_and_kinds_are_reported(notion: Emulator) -> None:
    with pytest.raises(ValueError, match="no such fault: fire; there are bad_gateway"):
        notion.faults.next("fire")
    with pytest.raises(ValueError, match="no such knob: lag"):
        notion.faults.set({"lag": 1})
    with pytest.raises(ValueError, match="no such fault: fire"):
        notion.faults.set({"rates": {"fire": 1}})


def test_close_does_not_wait_for_a_hanging_request(
    notion: Emulator, page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_PATIENCE", FOR_EVER)
    notion.faults.next("hang_then_commit", seconds=FOR_EVER)
    leave(notion, page, 5)
    started = time.monotonic()
    notion.close()
    assert time.monotonic() - started < PATIENCE


@pytest.mark.parametrize("kind", KINDS)
def test_the_emulator_lives_on_after_every_kind(notion: Emulator, plain: Plain, kind: str) -> None:
    notion.faults.next(kind, seconds=0.01)
    with suppress(httpx.HTTPError, ValueError):
        plain("GET", "/v1/users/me")
    assert plain("GET", "/v1/users/me").status == 200
