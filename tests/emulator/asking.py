"""Plain HTTP requests, and short forms of the API's values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import httpx

if TYPE_CHECKING:
    from types import TracebackType

    from dibs.lab.emulator import Database, Emulator

NEW = "2025-09-03"
OLD = "2022-06-28"
NEWEST = "2026-03-11"
PATIENCE = 120.0  # seconds; a passing test never waits that long


def loopback(**options: Any) -> httpx.Client:
    """Return a client that skips reading the host's certificates, for speed."""
    return httpx.Client(verify=False, trust_env=False, **{"timeout": PATIENCE, **options})  # noqa: S501  (nothing here is encrypted)


class Said(NamedTuple):
    status: int
    body: Any
    headers: httpx.Headers

    @property
    def code(self) -> str:
        return str(self.body["code"])

    @property
    def message(self) -> str:
        return str(self.body["message"])


class Plain:
    """One connection with default headers."""

    def __init__(self, url: str, token: str) -> None:
        self._http = loopback(base_url=url)
        self.token = token

    def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        version: str | None = NEW,
        token: str | None = None,
        content: bytes | None = None,
    ) -> Said:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        if version is not None:
            headers["Notion-Version"] = version
        sent = self._http.request(
            method, path, headers=headers, **({"content": content} if content else {"json": body})
        )
        return Said(sent.status_code, sent.json(), sent.headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()


def words(content: str) -> list[dict[str, Any]]:
    return [{"text": {"content": content}}]


def task(name: str, status: str = "READY") -> dict[str, Any]:
    """Properties of a row in an ntask database."""
    return {"Task name": {"title": words(name)}, "Status": {"select": {"name": status}}}


def names(answer: Any) -> list[str]:
    """The titles of the rows in a list."""
    titles = (page["properties"]["Task name"]["title"] for page in answer["results"])
    return ["".join(piece["plain_text"] for piece in title) for title in titles]


def fill(notion: Emulator, database: Database, count: int) -> list[str]:
    return [notion.page(database.id, task(f"task {number}")) for number in range(count)]
