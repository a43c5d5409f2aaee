"""Claim and finish over HTTP and through the library: eight clients at once on one PostgreSQL server.

The two alternate, because the load of a shared machine changes from minute to minute. A client is a few lines over a
socket, so that it takes little of the processor time that it shares with the server. Then fifty listeners wait for the
writes of another process.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Figure, percentile
from bench.postgres.server import running
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft
from dibs.desk import open_desk

if TYPE_CHECKING:
    from multiprocessing.queues import Queue

CLIENTS = 8
TASKS = 1600  # for each way and turn
_TURNS = 5
_LEAST = 0.6
_LISTENERS = 50
_WRITES = 40
_TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
_SCRIPT = Path(sys.executable).with_name("dibs")


def run() -> list[Figure]:
    with running() as server, server.database("http") as url:
        open_desk(url, create=True).close()
        process, port = _serve(url)
        try:
            turns, spent = [], 0.0
            for _ in range(_TURNS):
                library, before = _measured(url, _through_library, url), _spent_ms(process.pid)
                turns.append((library, _measured(url, _over_http, port)))
                spent += _spent_ms(process.pid) - before
            late = _fan_out(url, port)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
    ratios = sorted(library / over_http for (library, _), (over_http, _) in turns)
    rates = [TASKS / statistics.median(turn[way][0] for turn in turns) for way in (0, 1)]
    ratio = statistics.median(ratios)
    share = f"{ratio:.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f}) of {rates[0]:.0f}/s through the library"
    p99 = percentile([seconds for _, (_, claims) in turns for seconds in claims], 0.99) * 1000
    return [
        Figure(
            f"claim and finish over HTTP, {CLIENTS} clients", f"{rates[1]:.0f}/s, {share}", ">= 0.6", ratio >= _LEAST
        ),
        Figure("a claim over HTTP, 99 of 100", f"{p99:.1f} ms"),
        Figure("the server's processor time for a claim and finish", f"{spent / _TURNS / TASKS:.2f} ms"),
        Figure(
            f"the last of {_LISTENERS} listeners has what another process wrote, p50",
            f"{percentile(late, 0.5):.0f} ms (p95 {percentile(late, 0.95):.0f} ms)", "<= 50 ms",
            percentile(late, 0.5) <= 50,
        ),
    ]  # fmt: skip


def _spent_ms(pid: int) -> float:
    """Processor time of the server so far, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * _TICK_MS


def _fan_out(url: str, port: int) -> list[float]:
    """Milliseconds from a write until the last listener has the event."""
    waiting = selectors.DefaultSelector()
    head = b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    for _ in range(_LISTENERS):
        line = socket.create_connection(("127.0.0.1", port))
        line.sendall(head)
        while b"event: hello" not in line.recv(65536):
            pass
        waiting.register(line, selectors.EVENT_READ)
    took = []
    with open_desk(url) as desk:
        for number in range(_WRITES):
            time.sleep(0.15 + 0.01 * (number % 7))
            (task,) = desk.add([Draft("Heard of")])
            began, missing = time.perf_counter(), _LISTENERS
            while missing:
                missing -= sum(task.id.encode() in key.fileobj.recv(65536) for key, _ in waiting.select())  # type: ignore[union-attr]  # sockets
            took.append((time.perf_counter() - began) * 1000)
    for key in list(waiting.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]  # sockets
    return took


def _serve(url: str) -> tuple[subprocess.Popen[str], int]:
    words = [str(_SCRIPT), "serve", "--store", url, "--port", "0", "--json"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["data"]["port"]


def _measured(url: str, client: object, place: object) -> tuple[float, list[float]]:
    """Seconds from the common start until no task is left, and the seconds of each claim."""
    with open_desk(url) as desk:
        desk.add([Draft(f"Task {number}") for number in range(TASKS)])
    context = get_context("fork")
    ready, go, told = context.Barrier(CLIENTS + 1), context.Event(), context.Queue()
    workers = [
        context.Process(target=_client, args=(client, place, f"agent-{number}", ready, go, told))
        for number in range(CLIENTS)
    ]
    for worker in workers:
        worker.start()
    ready.wait()
    began = time.perf_counter()
    go.set()
    claims = [seconds for _ in workers for seconds in told.get()]
    took = time.perf_counter() - began
    for worker in workers:
        worker.join()
    return took, claims


def _client(work: object, place: object, agent: str, ready: object, go: object, told: Queue[list[float]]) -> None:
    told.put(work(place, agent, ready, go))  # type: ignore[operator]  # one of the two below


def _through_library(url: str, agent: str, ready: object, go: object) -> list[float]:
    claims = []
    with open_desk(url) as desk:
        desk.counts()
        _at_their_place(ready, go)
        while True:
            began = time.perf_counter()
            claimed = desk.claim(agent)
            claims.append(time.perf_counter() - began)
            if not claimed:
                return claims
            task = claimed[0].task
            desk.move(Verb.DONE, task.id, token=task.lease.token if task.lease else None)


def _over_http(port: int, agent: str, ready: object, go: object) -> list[float]:
    claims = []
    line = socket.create_connection(("127.0.0.1", port))
    _ask(line, "GET", "counts", None)
    _at_their_place(ready, go)
    while True:
        began = time.perf_counter()
        claimed = _ask(line, "POST", "claims", {"agent": agent})["claimed"]
        claims.append(time.perf_counter() - began)
        if not claimed:
            line.close()
            return claims
        body = {"token": claimed[0]["token"]}
        _ask(line, "POST", f"tasks/{claimed[0]['task']['id']}/done", body)


def _ask(line: socket.socket, method: str, path: str, body: object) -> dict[str, list[dict[str, dict[str, str]]]]:
    raw = b"" if body is None else json.dumps(body).encode()
    head = f"{method} /api/v1/{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    line.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
    told, _, got = line.recv(65536).partition(b"\r\n\r\n")
    length = int(told.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(got) < length:
        got += line.recv(65536)
    answer: dict[str, list[dict[str, dict[str, str]]]] = json.loads(got)
    return answer


def _at_their_place(ready: object, go: object) -> None:
    ready.wait()  # type: ignore[attr-defined]  # a barrier
    go.wait()  # type: ignore[attr-defined]  # an event
