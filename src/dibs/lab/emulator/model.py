"""The values of a workspace: ids, clock, users, pages, data sources; and the API's errors.

Pages keep their past revisions, for reads that lag.
"""

from __future__ import annotations

import json
import re
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

_ID = re.compile(r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}", re.IGNORECASE)
_PROPERTY = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:;<=>?@[]^_`{|}~"
_LENGTH = 4


def new_id(rng: Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def new_property_id(rng: Random) -> str:
    return "".join(rng.choice(_PROPERTY) for _ in range(_LENGTH))


def new_secret(rng: Random) -> str:
    return f"ntn_{rng.getrandbits(184):046x}"


def whole_id(text: object) -> str | None:
    """Return an id with dashes, from either form; None if it is invalid."""
    if not isinstance(text, str) or not _ID.fullmatch(text):
        return None
    digits = text.replace("-", "").lower()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


@lru_cache(maxsize=4096)
def shown_property_id(property_id: str) -> str:
    """Return a property id as the API encodes it for addresses: `:UPp` becomes `%3AUPp`."""
    return quote(property_id, safe="")


def plain_property_id(text: str) -> str:
    return unquote(text)


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def host_clock() -> datetime:
    return _EPOCH + timedelta(0, 0, time.time_ns() // 1000)


class Clock:
    """A clock with an offset; it stops if its base does."""

    def __init__(self, base: Callable[[], datetime] | None = None) -> None:
        self._base = base or host_clock
        self._ahead = timedelta()
        self._lock = threading.Lock()

    def __call__(self) -> datetime:
        return self._base().astimezone(UTC) + self._ahead

    def advance(self, seconds: float) -> datetime:
        with self._lock:
            self._ahead += timedelta(seconds=seconds)
        return self()


def floored(moment: datetime) -> datetime:
    """Floor a time to the minute, as the API does for pages, data sources and comments."""
    return moment.replace(second=0, microsecond=0)


def stamp(moment: datetime) -> str:
    """Format a page's time as the API does: `2026-01-31T12:05:00.000Z`."""
    return f"{moment:%Y-%m-%dT%H:%M}:00.000Z"


def http_date(moment: datetime) -> str:
    """Format a time for the `Date` header, in English in every locale."""
    day, month = _DAYS[moment.weekday()], _MONTHS[moment.month - 1]
    return f"{day}, {moment.day:02} {month} {moment.year} {moment:%H:%M:%S} GMT"


# How long revisions are kept: longer than any useful lag.
MEMORY = timedelta(minutes=30)

READ, UPDATE, INSERT = "read_content", "update_content", "insert_content"
READ_COMMENTS, INSERT_COMMENTS = "read_comments", "insert_comments"
ALL_CAPABILITIES = frozenset({READ, UPDATE, INSERT, READ_COMMENTS, INSERT_COMMENTS})
# The capabilities of a new integration by default.
FRESH_CAPABILITIES = frozenset({READ, UPDATE, INSERT})


class User(NamedTuple):
    """A person, or a bot with a token and capabilities."""

    id: str
    name: str
    token: str | None = None
    capabilities: frozenset[str] = frozenset()

    @property
    def is_bot(self) -> bool:
        return self.token is not None


class Property(NamedTuple):
    """A column. `config` is the value under its type's name in the schema."""

    id: str
    name: str
    type: str
    config: Mapping[str, Any]


class Revision(NamedTuple):
    """A page's values from `at` on, by property id, without computed ones."""

    at: datetime
    edited_at: datetime
    edited_by: str
    values: Mapping[str, Any]
    in_trash: bool = False


class Comment(NamedTuple):
    id: str
    page_id: str
    discussion_id: str
    created_at: datetime
    edited_at: datetime
    created_by: str
    rich_text: list[dict[str, Any]]


class Page:
    """A page with its revisions."""

    def __init__(self, page_id: str, source_id: str, number: int, first: Revision) -> None:
        self.parent_page: str | None = None  # for a page that is not a row
        self.icon: dict[str, Any] | None = None
        self.cover: dict[str, Any] | None = None
        self.id = page_id
        self.source_id = source_id
        self.number = number
        self.created_at = first.at
        self.created_by = first.edited_by
        self.revisions = [first]

    @property
    def latest(self) -> Revision:
        return self.revisions[-1]

    def put(self, revision: Revision) -> None:
        self.revisions.append(revision)
        too_old = revision.at - MEMORY
        while len(self.revisions) > 1 and self.revisions[1].at < too_old:
            del self.revisions[0]

    def at(self, moment: datetime) -> Revision | None:
        """Return the revision at a time; None before the page existed."""
        return next((revision for revision in reversed(self.revisions) if revision.at <= moment), None)


class DataSource:
    """A table: columns and rows."""

    def __init__(self, source_id: str, database_id: str, title: str, made_at: datetime, made_by: str) -> None:
        self.id = source_id
        self.database_id = database_id
        self.title = title
        self.parent: dict[str, Any] = {"type": "workspace", "workspace": True}
        self.icon: dict[str, Any] | None = None
        self.cover: dict[str, Any] | None = None
        self.created_at = self.edited_at = made_at
        self.created_by = self.edited_by = made_by
        self.in_trash = False
        self.properties: dict[str, Property] = {}
        self.pages: dict[str, Page] = {}
        self.last_number = 0

    def find(self, name: str) -> Property | None:
        """Find a column by name or id; requests may use both."""
        named = next((prop for prop in self.properties.values() if prop.name == name), None)
        return named or self.properties.get(name) or self.properties.get(plain_property_id(name))


VERSIONS = ("2021-05-11", "2021-05-13", "2021-08-16", "2022-02-22", "2022-06-28", "2025-09-03", "2026-03-11")

# code → status and message
KNOWN = {
    "invalid_json": (400, "Error parsing JSON body."),
    "invalid_request_url": (400, "Invalid request URL."),
    "unauthorized": (401, "API token is invalid."),
    "restricted_resource": (403, "Insufficient permissions for this endpoint."),
    "conflict_error": (409, "Conflict occurred while saving. Please try again."),
    "rate_limited": (429, "You have been rate limited. Please try again later."),
    "internal_server_error": (500, "Unexpected error occurred."),
    "bad_gateway": (502, "Bad Gateway"),
    "service_unavailable": (503, "Notion is unavailable, please try again later."),
    "gateway_timeout": (504, "Gateway Timeout"),
    "service_overload": (529, "Notion is overloaded, please try again later."),
}
_SHOWN = 50


class ApiError(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, message: str, more: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more
        self.retry_after: int | None = None

    @classmethod
    def known(cls, code: str, retry_after: int | None = None) -> Self:
        status, message = KNOWN[code]
        limit = {"rate_limit_reason": "public_api_request_rate_limit", "retry_after": str(retry_after)}
        error = cls(status, code, message, limit if code == "rate_limited" else None)
        error.retry_after = retry_after
        return error

    def body(self, request_id: str) -> dict[str, Any]:
        said: dict[str, Any] = {
            "object": "error",
            "status": self.status,
            "code": self.code,
            "message": self.message,
            "request_id": request_id,
        }
        return said if self.more is None else {**said, "additional_data": dict(self.more)}


def not_emulated(what: str) -> ApiError:
    """Reject a feature that Notion has and the emulator lacks, so that nothing is dropped silently."""
    return ApiError(400, "not_emulated", f"{what} is not emulated; see 'What is not emulated' in the documentation.")


def invalid(message: str) -> ApiError:
    return ApiError(400, "validation_error", message)


def should(path: str, expected: str, was: object = ...) -> ApiError:
    """Format a validation error: `body.page_size should be ≤ `100`, instead was `500`.` Missing values show as an
    ellipsis.
    """
    part = path.partition(".")[0]
    return invalid(f"{part} failed validation: {should_line(path, expected, was)}")


def should_line(path: str, expected: str, was: object = ...) -> str:
    return f"{path} should be {expected}, instead was `{_shown(was)}`."


def fix_one(lines: list[str]) -> ApiError:
    """Reject a value that matches none of its permitted forms."""
    return invalid("body failed validation. Fix one:\n" + "\n".join(lines))


def not_found(kind: str, object_id: str, by: User | None) -> ApiError:
    """The same error for missing pages and for pages that are not shared."""
    whose = f' "{by.name}"' if by else ""
    shared = f"Make sure the relevant pages and databases are shared with your integration{whose}."
    more = {"integration_id": by.id} if by else None
    return ApiError(404, "object_not_found", f"Could not find {kind} with ID: {object_id}. {shared}", more)


def mistaken(object_id: str, kind: str, wanted: str) -> ApiError:
    """Reject an id of another kind of object."""
    return invalid(f"Provided ID {object_id} is a {kind}, not a {wanted}. Use the retrieve {kind} API instead")


def missing_version() -> ApiError:
    message = "Notion-Version header should be defined, instead was `undefined`."
    return ApiError(400, "missing_version", f"Notion-Version header failed validation: {message}")


def unknown_version(version: str) -> ApiError:
    known = ", ".join(f'`"{name}"`' for name in VERSIONS[:-1]) + f', or `"{VERSIONS[-1]}"`'
    message = should_line("Notion-Version header", known, version)
    return invalid(f"Notion-Version header failed validation: {message}")


def _shown(value: object) -> str:
    if value is ...:
        return "undefined"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
