"""A server on loopback in a separate process, and its client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dibs.desk import open_desk

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRIPT = Path(sys.executable).with_name("dibs")
PATIENCE = 120.0  # seconds; a busy machine may stall a process for long, and a passing test never waits for all of it


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class Server:
    """`dibs serve`, from when it listens until it is ended."""

    def __init__(
        self,
        store: str,
        *words: str,
        variables: Mapping[str, str] | None = None,
        command: Sequence[str] = (str(SCRIPT),),
    ) -> None:
        self.store = store
        whole = [*command, "serve", "--store", store, "--port", "0", "--json", *words]
        environment = {**os.environ, **(variables or {})}
        self.process = subprocess.Popen(
            whole, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "data" in line, (line, self.process.communicate()[1])
        started = json.loads(line)["data"]
        self.port: int = started["port"]
        self.url: str = started["url"]

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        """A request on a new connection; a body is sent as JSON."""
        with Line(self.port) as line:
            return line.ask(method, path, body, headers)

    def ok(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Any:
        answer = self.ask(method, path, body, headers)
        assert answer.status < 300, answer
        return answer.data

    def fails(self, status: int, code: str, method: str, path: str, body: object = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, headers)
        assert (answer.status, answer.data["code"]) == (status, code), answer
        assert answer.headers["content-type"] == "application/problem+json"
        return answer.data

    def end(self, how: signal.Signals = signal.SIGTERM) -> str:
        """Its output on stderr."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.told()

    def told(self) -> str:
        """Its output on stderr, once it has ended."""
        _, told = self.process.communicate(timeout=PATIENCE)
        return str(told)


class Line:
    """One connection, kept."""

    def __init__(self, port: int) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def ask(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Answer:
        raw = body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode()
        sent = {"Content-Type": "application/json"} if method != "GET" else {}
        self._connection.request(
            method, path if path.startswith("/") else f"/api/v1/{path}", raw, sent | dict(headers or {})
        )
        answer = self._connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Listener:
    """Reads a stream of events, one after the other."""

    def __init__(self, port: int, path: str, headers: Mapping[str, str] | None = None) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", f"/api/v1/{path}", headers={"Accept": "text/event-stream", **(headers or {})})
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        self.id = ""
        assert self.status == 200, self._answer.read()

    def next(self) -> tuple[str, Any] | None:
        """The name and the data of the next event that has data; None when the stream is over."""
        name, data = "message", None
        while line := self._answer.readline().decode():
            field, _, value = line.rstrip("\n").partition(": ")
            if field == "id":
                self.id = value
            elif field == "event":
                name = value
            elif field == "data":
                data = json.loads(value)
            elif not field and data is not None:
                return name, data
        return None

    def event(self) -> dict[str, Any]:
        """The next that happened."""
        while (came := self.next()) is not None:
            if came[0] == "message":
                event: dict[str, Any] = came[1]
                return event
        raise AssertionError("the stream is over")

    def close(self) -> None:
        self._connection.close()


def new_store(folder: Path) -> str:
    """A SQLite store, fast rather than safe from power cuts."""
    url = f"sqlite:///{folder / 'dibs.db'}?durability=normal"
    open_desk(url, create=True).close()
    return url
