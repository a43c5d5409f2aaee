"""An emulated Notion with simulated time, for Notion and for the agents."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import httpx

from dibs.lab.emulator import Emulator
from dibs.stores.notion import binary, gateway, http, steps
from dibs.stores.notion.store import NotionStore
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

PATIENCE = 120.0  # real seconds before a test gives up; a passing test never waits that long


def text(value: str) -> dict[str, Any]:
    return {"rich_text": [{"text": {"content": value}}] if value else []}


def title(value: str) -> dict[str, Any]:
    return {"title": [{"text": {"content": value}}]}


def select(value: str | None) -> dict[str, Any]:
    return {"select": None if value is None else {"name": value}}


def date(value: str | None) -> dict[str, Any]:
    return {"date": None if value is None else {"start": value}}


def number(value: float | None) -> dict[str, Any]:
    return {"number": value}


def plain(value: Mapping[str, Any]) -> Any:
    """A property's value as a person reads it."""
    kind = value["type"]
    said = value[kind]
    if kind in {"rich_text", "title"}:
        return "".join(piece["plain_text"] for piece in said)
    if kind in {"select", "status"}:
        return None if said is None else said["name"]
    if kind == "date":
        return None if said is None else said["start"]
    if kind == "relation":
        return [one["id"] for one in said]
    if kind == "rollup":
        return said.get("number")
    return said


def skip_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents of this process do not sleep; their clock jumps ahead instead.

    Otherwise it is stopped, and requests get PATIENCE real seconds, so that a busy machine causes no timeouts.
    `hurried` gives single requests the timeout of the product.
    """
    begin, began_at = gateway.ticks(), gateway.host_clock()
    now = [begin]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def ticks() -> float:
        return now[0]

    for module in (binary, steps, http):
        monkeypatch.setattr(module, "ticks", ticks)
    monkeypatch.setattr(gateway.ServerClock.__init__, "__defaults__", (ticks,))
    monkeypatch.setattr(binary, "host_clock", lambda: began_at + timedelta(seconds=now[0] - begin))
    for called in (NotionStore.__init__, http.HttpGateway.__init__):
        defaults = called.__kwdefaults__
        assert defaults is not None
        assert "sleep" in defaults
        monkeypatch.setitem(defaults, "sleep", sleep)
    _be_patient(monkeypatch)


_hurried: dict[str, Iterator[int]] = {}  # a turn for each request of this method that keeps the product's timeout
_timeouts: list[float] = []


@contextmanager
def hurried(method: str, times: int) -> Iterator[list[float]]:
    """Let this many requests of a method keep the timeout that the product sets; the list gets those timeouts."""
    _timeouts.clear()
    _hurried[method] = iter(range(times))
    try:
        yield _timeouts
    finally:
        del _hurried[method]


def _be_patient(monkeypatch: pytest.MonkeyPatch) -> None:
    handle_request = httpx.HTTPTransport.handle_request

    def patient_request(transport: httpx.HTTPTransport, request: httpx.Request) -> httpx.Response:
        timeouts = request.extensions["timeout"]
        if next(_hurried.get(request.method, iter(())), None) is None:
            request.extensions["timeout"] = dict.fromkeys(timeouts, PATIENCE)
        else:
            _timeouts.append(timeouts["read"])
        return handle_request(transport, request)

    def patient_run(*words: Any, **options: Any) -> subprocess.CompletedProcess[str]:
        return subprocess.run(*words, **(options | {"timeout": PATIENCE}))  # noqa: PLW1510 - the caller says

    monkeypatch.setattr(httpx.HTTPTransport, "handle_request", patient_request)
    patient = SimpleNamespace(run=patient_run, TimeoutExpired=subprocess.TimeoutExpired)
    monkeypatch.setattr(binary, "subprocess", patient)


class Notion:
    """The emulator, and the words with which a test looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        skip_waiting(monkeypatch)
        self.api = Emulator(Clock())
        self.api.start()
        self.environment = {"NOTION_TOKEN": self.api.token, "NOTION_API_BASE_URL": self.api.url}
        self._client: Any = None

    def client(self) -> Any:
        """The rights of any caller with the token."""
        if self._client is None:
            from notion_client import Client

            self._client = Client(auth=self.api.token, base_url=self.api.url, retry=False)
        return self._client

    def properties(self, page: str) -> dict[str, Any]:
        """All that a page says, as a person reads it."""
        found = self.client().pages.retrieve(page_id=page)["properties"]
        return {name: plain(value) for name, value in found.items()}

    def comments(self, page: str) -> list[str]:
        found = self.client().comments.list(block_id=page)["results"]
        return ["".join(piece["plain_text"] for piece in one["rich_text"]) for one in found]

    def rows(self, database: Any) -> list[dict[str, Any]]:
        found = self.client().data_sources.query(data_source_id=database.data_source_id)["results"]
        return [{name: plain(value) for name, value in row["properties"].items()} for row in found]

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
        self.api.close()
