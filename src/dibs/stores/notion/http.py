"""Notion over HTTPS, through the official client.

The client's own retries are off. Failed reads are repeated here, within limits; writes never are. Errors say what to do
and contain no secrets.
"""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any

from dibs.core.errors import Misconfigured, StoreUnavailable
from dibs.stores.notion.gateway import Failure, Pace, ServerClock, Trouble, may_pass, ticks, told
from dibs.stores.notion.values import pieces_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from dibs.core.errors import DibsError
    from dibs.stores.notion.gateway import Answer, Limiter

ADDRESS = "https://api.notion.com"
VERSION = "2025-09-03"
_TRIES = 4
_LONGEST_PAUSE = 60.0  # seconds; a longer demand is passed on to the caller
_FIRST_PAUSE = 0.5


class HttpGateway:
    """One connection to Notion. Implements `dibs.stores.notion.gateway.Gateway`."""

    def __init__(
        self,
        token: str,
        address: str = ADDRESS,
        *,
        read_timeout: float = 20.0,
        write_timeout: float = 4.0,
        limiter: Limiter | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        import httpx
        from notion_client import Client

        self.clock = ServerClock()
        self._read_timeout, self._write_timeout = read_timeout, write_timeout
        self._pace = Pace(limiter)
        self._sleep = sleep
        self._secrets = {token}
        self.address = address
        heard = lambda response: self.clock.learn(response.headers.get("date"))  # noqa: E731 - a hook
        self._client = Client(
            auth=token,
            base_url=address.rstrip("/"),
            notion_version=VERSION,
            retry=False,
            log_level=logging.CRITICAL,  # the client's log could repeat what was sent
            # Without TLS there is nothing to verify, and loading certificates takes most of a short command's time.
            client=httpx.Client(event_hooks={"response": [heard]}, verify=address.startswith("https:")),
        )

    def __repr__(self) -> str:
        return f"HttpGateway({self.address})"

    def source_of(self, database: str) -> str:
        found = self._read("GET", f"databases/{database}").get("data_sources")
        if not isinstance(found, list) or not found:
            raise StoreUnavailable("Notion's answer names no data source of the database.")
        if len(found) > 1:
            names = ", ".join(repr(str(source.get("name"))) for source in found)
            raise Misconfigured(
                f"The Notion database has several data sources ({names}); dibs needs one with a single."
            )
        return str(found[0]["id"])

    def schema(self, source: str) -> Answer:
        properties = self._read("GET", f"data_sources/{source}").get("properties")
        if not isinstance(properties, dict):
            raise StoreUnavailable("Notion's answer lacks the database's properties.")
        return properties

    def query(self, source: str, body: Mapping[str, Any]) -> Answer:
        return self._read("POST", f"data_sources/{source}/query", body=dict(body))

    def page(self, page: str, *, hasty: bool = False) -> Answer:
        if hasty:
            return self._once("GET", f"pages/{page}", timeout=self._write_timeout)
        return self._read("GET", f"pages/{page}")

    def related(self, page: str, property_id: str) -> list[str]:
        found: list[str] = []
        cursor: str | None = None
        while True:
            query = {"start_cursor": cursor} if cursor else {}
            answer = self._read("GET", f"pages/{page}/properties/{property_id}", query=query)
            found += [str((item.get("relation") or {}).get("id")) for item in answer.get("results") or ()]
            cursor = answer.get("next_cursor")
            if not cursor:
                return found

    def update(self, page: str, properties: Mapping[str, Any], *, by: float | None = None) -> Answer:
        return self._write("PATCH", f"pages/{page}", {"properties": dict(properties)}, by)

    def trash(self, page: str) -> None:
        self._write("PATCH", f"pages/{page}", {"in_trash": True})

    def create(self, source: str, properties: Mapping[str, Any]) -> Answer:
        parent = {"type": "data_source_id", "data_source_id": source}
        return self._write("POST", "pages", {"parent": parent, "properties": dict(properties)})

    def create_database(self, parent: str, title: str, properties: Mapping[str, Any]) -> Answer:
        body = {
            "parent": {"type": "page_id", "page_id": parent},
            "title": pieces_of(title),
            "initial_data_source": {"properties": dict(properties)},
        }
        return self._write("POST", "databases", body)

    def trash_database(self, database: str) -> None:
        self._write("PATCH", f"databases/{database}", {"in_trash": True})

    def update_schema(self, source: str, properties: Mapping[str, Any]) -> Answer:
        return self._write("PATCH", f"data_sources/{source}", {"properties": dict(properties)})

    def comment(self, page: str, text: str) -> None:
        self._write("POST", "comments", {"parent": {"page_id": page}, "rich_text": pieces_of(text)})

    def comments(self, page: str) -> list[str]:
        answer = self._read("GET", "comments", query={"block_id": page})
        return [text_of(comment.get("rich_text")) for comment in answer.get("results") or ()]

    def me(self) -> Answer:
        return self._read("GET", "users/me")

    def user(self, user: str) -> Answer:
        return self._read("GET", f"users/{user}")

    def reserve(self, requests: int) -> None:
        self._pace.reserve(requests)

    def now(self) -> datetime:
        if not self.clock.fresh:
            self.me()
        return self.clock.now()

    def heard(self) -> datetime:
        return self.clock.now()

    def hush(self, *secrets: str) -> None:
        self._secrets.update(secret for secret in secrets if secret)

    def close(self) -> None:
        self._client.close()

    def _read(self, method: str, path: str, **asked: Any) -> Answer:
        pause = _FIRST_PAUSE
        for tries_left in reversed(range(_TRIES)):
            failure = self._tried(method, path, self._read_timeout, asked)
            if not isinstance(failure, Failure):
                return failure
            wait = failure.retry_after or pause * random.uniform(0.5, 1.5)  # noqa: S311 - spreads clients that retry
            if not tries_left or not may_pass(failure) or wait > _LONGEST_PAUSE:
                raise self._error(failure, path, sent=False)
            self._sleep(wait)
            pause *= 2
        raise AssertionError  # the last try has returned or raised

    def _once(self, method: str, path: str, *, timeout: float) -> Answer:
        answer = self._tried(method, path, timeout, {})
        if isinstance(answer, Failure):
            raise self._error(answer, path, sent=False)
        return answer

    def _write(self, method: str, path: str, body: Mapping[str, Any], by: float | None = None) -> Answer:
        answer = self._tried(method, path, self._write_timeout, {"body": body}, by)
        if isinstance(answer, Failure):
            raise self._error(answer, path, sent=True)
        return answer

    def _tried(
        self, method: str, path: str, timeout: float, asked: Mapping[str, Any], by: float | None = None
    ) -> Answer | Failure:
        """Send one request. Failures are values, so that no traceback carries what was sent."""
        import httpx

        self._pace.take()
        left = timeout if by is None else min(timeout, by - ticks())
        if left <= 0:
            return Failure(Trouble.LATE)
        self._client.client.timeout = httpx.Timeout(left)
        try:
            answer = self._client.request(path=path, method=method, **asked)
        except Exception as error:  # noqa: BLE001 - Failure.of classifies client errors and raises the rest again
            failure = Failure.of(error)
        else:
            if isinstance(answer, dict):
                return answer
            failure = Failure(Trouble.GARBAGE)
        self._pace.silence(failure.retry_after)
        return failure

    def _error(self, failure: Failure, path: str, *, sent: bool) -> DibsError:
        return told(failure, path, self.address, self._secrets, sent=sent)
