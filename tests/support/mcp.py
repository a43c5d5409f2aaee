"""A desk, and clients at it: the protocol's own client, in this process or over the pipes of a real server."""

from __future__ import annotations

import os
import sys
import time
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
from mcp import Client, StdioServerParameters

from dibs.core.task import Actor, Draft, Holder
from dibs.desk import Desk
from dibs.serve.desks import Desks
from dibs.serve.mcp.server import make_server
from dibs.serve.mcp.sessions import Identity, LeaseRenewer, Session
from dibs.serve.mcp.transports import ON_STDIO, StdioTransport
from dibs.stores.opening import open_store
from support.host_clock import HostClock

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from datetime import datetime
    from pathlib import Path

    from dibs.core.task import Link, Task

PATIENCE = 120.0  # for operations that are quick unless the machine is busy
# `dibs mcp`, with more time to end a session in the store: on a busy machine its usual limit is short.
_PATIENT = f"""
import sys
from dibs.cli.main import run
from dibs.serve.mcp import transports
sys.argv[0], transports._GOODBYE = "dibs", {PATIENCE}
run()
"""
DIBS_MCP = (sys.executable, "-c", _PATIENT, "mcp")
SECRET = "a secret for the tests of tools"  # noqa: S105 - of no one


class Said:
    """What a tool answered; `code` where it refused."""

    def __init__(self, data: dict[str, Any], code: str | None) -> None:
        self.data = data
        self.code = code

    def __getitem__(self, name: str) -> Any:
        return self.data[name]


class Hand:
    """A client that is connected. `pid` is the server's, if that is a process."""

    def __init__(self, client: Client, pid_file: Path | None = None) -> None:
        self.client = client
        self._pid_file = pid_file

    @property
    def pid(self) -> int:
        assert self._pid_file is not None
        return int(self._pid_file.read_text())

    async def ask(self, tool: str, **given: Any) -> Said:
        result = await self.client.call_tool(tool, given, read_timeout_seconds=PATIENCE)
        data = result.structured_content
        assert isinstance(data, dict)
        assert result.is_error == ("error" in data)
        return Said(data, data["error"]["code"] if result.is_error else None)


class Place:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.clock = HostClock(folder)
        open_store(url, create=True).close()

    def desk(self) -> Desk:
        return Desk(open_store(self.url, clock=self.clock), by=Actor("tester"))

    def add(self, *ids: str, links: tuple[Link, ...] = (), **fields: Any) -> None:
        with self.desk() as desk:
            desk.add([Draft(f"Task {name}", name, **fields) for name in ids], links)

    def task(self, name: str) -> Task:
        with self.desk() as desk:
            return desk.get(name)

    def expires_at(self, name: str) -> datetime:
        lease = self.task(name).lease
        assert lease is not None
        assert lease.expires_at is not None
        return lease.expires_at

    def take_over(self, name: str) -> None:
        """As a person in charge may."""
        with self.desk() as desk:
            desk.claim("boss", refs=[name], holder=Holder.HUMAN, force=True)

    def claimed_by_another(self, name: str) -> bool:
        with self.desk() as desk, suppress(Exception):
            return bool(desk.claim("bob", refs=[name]))
        return False

    @asynccontextmanager
    async def in_process(self, who: Identity = Identity("ann", "run-1")) -> AsyncIterator[Hand]:  # noqa: B008 - frozen
        """The same server without pipes, to call its tools."""
        renewer, desks = LeaseRenewer(self.desk), Desks(self.desk, size=1)
        transport = StdioTransport(desks, Session(who, renewer))
        try:
            async with Client(make_server(transport, ON_STDIO)) as client:
                yield Hand(client)
        finally:
            await transport.end()
            renewer.stop()
            desks.close()

    @asynccontextmanager
    async def process(self, *words: str, agent: str = "ann", mode: str = "auto") -> AsyncIterator[Hand]:
        """A real `dibs mcp`, as a client starts it."""
        pid_file = self.folder / f"pid-{time.monotonic_ns()}"
        line = f'echo $$ > {pid_file} && exec "$@"'
        command = [*DIBS_MCP, "--store", self.url, "--agent", agent, *words]
        environ = {name: value for name, value in os.environ.items() if not name.startswith("DIBS_")}
        parameters = StdioServerParameters(
            command="sh",
            args=["-c", line, "sh", *command],
            env=environ | self.clock.environ | {"DIBS_SENDER_SECRET": SECRET},
        )
        async with Client(parameters, mode=mode) as client:
            yield Hand(client, pid_file)


async def until(what: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Look again and again until it is so."""
    with anyio.fail_after(patience):
        while not what():  # noqa: ASYNC110 - what is waited for happens in other processes
            await anyio.sleep(0.05)


def lost_renewal(place: Place, name: str) -> bool:
    """Whether a renewal was rejected because the lease is lost."""
    with place.desk() as desk:
        return any(event.verb == "renew" and event.outcome == "lost" for event in desk.events(ref=name))
