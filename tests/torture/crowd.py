"""Many clients of a server: listeners that get every event, and agents that claim and finish without a pause."""

from __future__ import annotations

import asyncio
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter


class Heard(NamedTuple):
    """The event numbers that each listener got, in order of arrival."""

    listeners: list[list[int]]
    claims: list[float]  # seconds that each claim took


async def crowd(port: int, listeners: int, agents: int, last: str) -> Heard:
    """Run until no task is claimable and every listener has got the event of the task `last`."""
    heard: list[list[int]] = [[] for _ in range(listeners)]
    ready = [asyncio.Event() for _ in range(listeners)]
    ears = [asyncio.create_task(_listen(port, *each, last)) for each in zip(heard, ready, strict=True)]
    await asyncio.gather(*(event.wait() for event in ready))
    claims: list[float] = []
    await asyncio.gather(*(_work(port, f"agent-{number}", claims) for number in range(agents)))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    await _ask(reader, writer, "tasks", {"tasks": [{"title": last, "id": last}]})
    await _leave(writer)
    await asyncio.wait_for(asyncio.gather(*ears), 240)
    return Heard(heard, claims)


async def _listen(port: int, heard: list[int], ready: asyncio.Event, last: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /api/v1/events HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n")
    while line := await reader.readline():
        if line.startswith(b"event: hello"):
            ready.set()
        if line.startswith(b"data: ") and b'"seq"' in line:
            event = json.loads(line[6:])
            heard.append(event["seq"])
            if event["task"] == last:
                break
    await _leave(writer)


async def _work(port: int, agent: str, claims: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while True:
        began = time.monotonic()
        claimed = (await _ask(reader, writer, "claims", {"agent": agent}))["claimed"]
        claims.append(time.monotonic() - began)
        if not claimed:
            break
        task = claimed[0]["task"]["id"]
        await _ask(reader, writer, f"tasks/{task}/done", {"token": claimed[0]["token"]})
    await _leave(writer)


async def _leave(writer: StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


async def _ask(reader: StreamReader, writer: StreamWriter, path: str, body: object) -> Any:
    raw = json.dumps(body).encode()
    head = f"POST /api/v1/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}content-length: {len(raw)}\r\n\r\n".encode() + raw)
    status = int((await reader.readline()).split()[1])
    length = 0
    while (line := await reader.readline()) != b"\r\n":
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    answer = json.loads(await reader.readexactly(length))
    assert status < 300, answer
    return answer


def resident(pid: int) -> int:
    """How much memory a process has, in KiB."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
