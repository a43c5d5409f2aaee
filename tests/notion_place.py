"""A Notion on this machine whose time nobody has to wait for: neither Notion's nor the agents' own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clock import Clock
from dibs.emulator.notion import Emulator
from dibs.stores.notion import binary, clock, driving, http
from dibs.stores.notion.store import NotionStore

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest


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
    """Agents of this process do not sleep: their own clock jumps ahead instead, so that they find they have waited.

    Else it stands still: on a busy machine they would find that they had been too slow to be given what they claim.
    """
    now = [clock.ticks()]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    def ticks() -> float:
        return now[0]

    for module in (binary, driving, http):
        monkeypatch.setattr(module, "ticks", ticks)
    for called in (NotionStore.__init__, http.HttpGateway.__init__):
        defaults = called.__kwdefaults__
        assert defaults is not None
        assert "sleep" in defaults
        monkeypatch.setitem(defaults, "sleep", sleep)


class Notion:
    """The emulator, and the words with which a test looks at it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        skip_waiting(monkeypatch)
        self.api = Emulator(Clock())
        self.api.start()
        self.environment = {"NOTION_TOKEN": self.api.token, "NOTION_API_BASE_URL": self.api.url}
        self._client: Any = None

    def client(self) -> Any:
        """What anybody with the token has."""
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
