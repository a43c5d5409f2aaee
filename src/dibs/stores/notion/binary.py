"""Notion through notion-cli, for users who are logged in there and have no token of their own.

Values go through standard input where the program allows that, because other users of the machine can read a process's
arguments. The program reports no time, so this machine's clock is used.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

from dibs.core.errors import CliMissing, Misconfigured, StoreUnavailable
from dibs.stores.notion.gateway import Failure, Pace, Trouble, host_clock, may_pass, ticks, told
from dibs.stores.notion.values import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from dibs.core.errors import DibsError
    from dibs.stores.notion.gateway import Answer, Limiter

PROGRAMS = ("notion", "ntn")  # notion-cli has used both names
_TRIES = 3


class BinaryGateway:
    """One logged-in program. Implements `dibs.stores.notion.gateway.Gateway`."""

    def __init__(
        self,
        address: str | None = None,
        *,
        read_timeout: float = 60.0,
        write_timeout: float = 4.0,
        limiter: Limiter | None = None,
    ) -> None:
        """`address` is the API's address without a version, if it differs from the program's default."""
        found = next(filter(None, map(shutil.which, PROGRAMS)), None)
        if found is None:
            raise CliMissing(
                f"PATH has no program {' or '.join(map(repr, PROGRAMS))}. Install notion-cli, or reach "
                "Notion with a token instead: transport=api and NOTION_TOKEN."
            )
        self._program = found
        self._name = os.path.basename(found)
        self.address = f"the program '{self._name}'"
        self._environment = {"NOTION_OUTPUT": "json", "NOTION_NO_UPDATE_CHECK": "1"}
        if address is not None:
            self._environment["NOTION_API_BASE_URL"] = f"{address}/v1"  # the program appends no version
        self._read_timeout, self._write_timeout = read_timeout, write_timeout
        self._pace = Pace(limiter)
        self._secrets = {os.environ.get("NOTION_TOKEN", "")} - {""}

    def me(self) -> Answer:
        if self._read(["auth", "status"]).get("authenticated") is False:
            raise self._not_logged_in()
        return self._object(self._read(["user", "me"]))

    def user(self, user: str) -> Answer:
        return self._object(self._read(["user", "get", user]))

    def source_of(self, database: str) -> str:
        """The program finds a database's data source itself."""
        return database

    def schema(self, source: str) -> Answer:
        told = self._read(["db", "get", source])
        properties = told.get("properties")
        if not properties and isinstance(told.get("data_sources"), list) and told["data_sources"]:
            properties = self._read(["datasource", "get", str(told["data_sources"][0]["id"])]).get("properties")
        if not isinstance(properties, dict):
            raise StoreUnavailable(f"'{self._name} db get' does not list the database's properties.")
        return properties

    def query(self, source: str, body: Mapping[str, Any]) -> Answer:
        """The program fetches all pages of a list itself."""
        words = ["db", "query", source, "--all", "--results-only", "--sorts", json.dumps(body.get("sorts", []))]
        if body.get("filter") is not None:
            words += ["--filter", json.dumps(body["filter"])]
        found = self._read(words, anything=True)
        if isinstance(found, dict):
            return found
        return {"results": [] if found is None else found, "has_more": False}  # it prints null for an empty list

    def page(self, page: str, *, hasty: bool = False) -> Answer:
        if not hasty:
            return self._object(self._read(["page", "get", page]))
        answer = self._tried(["page", "get", page], self._write_timeout)
        if isinstance(answer, Failure):
            raise self._error(answer, "pages/", sent=False)
        return self._object(answer)

    def related(self, page: str, property_id: str) -> list[str]:
        told = self._read(["page", "property", page, property_id])
        return [str((item.get("relation") or {}).get("id")) for item in told.get("results") or ()]

    def update(self, page: str, properties: Mapping[str, Any], *, by: float | None = None) -> Answer:
        return self._object(self._write(["page", "update", page, "--properties", "-"], properties, by))

    def trash(self, page: str) -> None:
        self._write(["page", "update", page, "--archived"])

    def create(self, source: str, properties: Mapping[str, Any]) -> Answer:
        words = ["page", "create", "--parent", source, "--parent-type", "database", "--properties", "-"]
        return self._object(self._write(words, properties))

    def comment(self, page: str, text: str) -> None:
        self._write(["comment", "add", page, "--text", text])

    def comments(self, page: str) -> list[str]:
        told = self._read(["comment", "list", page], anything=True)
        found = told.get("results") if isinstance(told, dict) else told
        return [text_of(comment.get("rich_text")) for comment in found or ()]

    def reserve(self, requests: int) -> None:
        self._pace.reserve(requests)

    def now(self) -> datetime:
        return host_clock()

    def heard(self) -> datetime:
        return host_clock()

    def hush(self, *secrets: str) -> None:
        self._secrets.update(secret for secret in secrets if secret)

    def close(self) -> None:
        """Nothing to close: each call is a separate process."""

    def _read(self, words: Sequence[str], *, anything: bool = False) -> Any:
        for tries_left in reversed(range(_TRIES)):
            answer = self._tried(words, self._read_timeout)
            if not isinstance(answer, Failure):
                return answer if anything else self._object(answer)
            if not tries_left or not may_pass(answer) or answer.status == 429:  # noqa: PLR2004 - the program has already waited
                raise self._error(answer, "pages/" if words[0] == "page" else "", sent=False)
        raise AssertionError  # the last try has returned or raised

    def _write(self, words: Sequence[str], body: Mapping[str, Any] | None = None, by: float | None = None) -> Any:
        answer = self._tried(words, self._write_timeout, body, by)
        if isinstance(answer, Failure):
            raise self._error(answer, "pages/" if words[0] == "page" else "", sent=True)
        return answer

    def _tried(
        self,
        words: Sequence[str],
        timeout: float,
        body: Mapping[str, Any] | None = None,
        by: float | None = None,
    ) -> Any:
        self._pace.take()
        left = timeout if by is None else min(timeout, by - ticks())
        if left <= 0:
            return Failure(Trouble.LATE)
        try:
            done = subprocess.run(  # noqa: S603 - the program that the user named, without a shell
                [self._program, *words],
                input=json.dumps(body) if body is not None else "",
                capture_output=True,
                text=True,
                timeout=left,
                check=False,
                env={**os.environ, **self._environment},
            )
        except subprocess.TimeoutExpired:
            return Failure(Trouble.TIMEOUT)
        except (OSError, UnicodeDecodeError) as error:
            return Failure(Trouble.UNREACHABLE, message=f"'{self._name}' cannot be run: {type(error).__name__}")
        return _answer(done.stdout) if done.returncode == 0 else _failure(done.stderr, done.returncode)

    def _object(self, answer: Any) -> Answer:
        if not isinstance(answer, dict):
            raise StoreUnavailable(f"'{self._name}' did not answer with a JSON object.")
        return answer

    def _error(self, failure: Failure, path: str, *, sent: bool) -> DibsError:
        if failure.status == 401:  # noqa: PLR2004 - HTTP's own number
            return self._not_logged_in()
        return told(failure, path, self.address, self._secrets, sent=sent)

    def _not_logged_in(self) -> Misconfigured:
        return Misconfigured(f"'{self._name}' is not logged in. '{self._name} auth login' does that.")


def _answer(said: str) -> Any:
    if not said.strip():
        return {}
    try:
        return json.loads(said)
    except ValueError:
        return Failure(Trouble.GARBAGE)


# Exit statuses of the program, for errors whose text cannot be parsed.
_STATUSES = {3: 401, 4: 404, 5: 429}


# The program's error text: `GET https://… (404): notion API error 404 (object_not_found): …`.
_WORDING = re.compile(r"notion API error (\d{3})(?: \(([a-z_]+)\))?: ?(.*)")


def _failure(said: str, status: int) -> Failure:
    """Read Notion's HTTP status and message from the program's error, which is text or JSON."""
    worded = _WORDING.search(said)
    if worded is not None:
        return Failure(Trouble.ANSWER, int(worded[1]), worded[2] or "", worded[3][:500])
    try:
        stated = json.loads(said)["error"]
        http, message = int(stated.get("status") or 0), str(stated.get("message") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        http, message = 0, ""
    http = http or _STATUSES.get(status, 0)
    return Failure(Trouble.ANSWER if http else Trouble.BROKEN, http, message=message[:500])
