"""What the store needs of Notion, whoever carries it there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from dibs.core.errors import Misconfigured, StoreBusy, StoreUnavailable
from dibs.stores.notion.clock import ticks

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from dibs.stores.notion.limiter import Limiter

_TURN = 2.0  # seconds for which reserved requests may be sent: later they might meet with those of others

Answer: TypeAlias = "dict[str, Any]"  # a JSON object


class Unanswered(StoreUnavailable):
    """A write was sent and no answer came, or one that says nothing: it may have been done, or be done yet."""


class Conflict(StoreBusy):
    """Notion refused a write for the sake of another one to the same page."""


class Mistaken(Misconfigured):
    """Notion did not understand the request: it speaks of properties that are not there, or of another type."""


class Pace:
    """Requests are sent when the limiter that all agents of this host share lets them, where there is one."""

    def __init__(self, limiter: Limiter | None) -> None:
        self._limiter = limiter
        self._reserved, self._until = 0, 0.0

    def reserve(self, requests: int) -> None:
        """Wait until so many can go one right after the other. What was left of the time before is void."""
        if self._limiter is not None:
            self._limiter.reserve(requests)
            self._reserved, self._until = requests, ticks() + _TURN

    def take(self) -> None:
        """Wait for the turn of one."""
        if self._reserved and ticks() < self._until:
            self._reserved -= 1
        elif self._limiter is not None:
            self._limiter.reserve(1)

    def silence(self, seconds: float | None) -> None:
        """Notion has asked all to be silent for so long."""
        if seconds and self._limiter is not None:
            self._limiter.hold(seconds)


class Gateway(Protocol):
    """Reads are repeated when they fail for no lasting reason, unless they are `hasty`. Writes never are."""

    address: str

    def me(self) -> Answer:
        """Who we are to Notion."""
        ...

    def source_of(self, database: str) -> str:
        """The id under which a database's pages are found."""
        ...

    def schema(self, source: str) -> Answer:
        """A database's properties by name."""
        ...

    def query(self, source: str, body: Mapping[str, Any]) -> Answer:
        """One page of a list of pages."""
        ...

    def page(self, page: str, *, hasty: bool = False) -> Answer: ...

    def related(self, page: str, property_id: str) -> list[str]:
        """All pages that a relation names, also where a page shows only the first of them."""
        ...

    def update(self, page: str, properties: Mapping[str, Any], *, by: float | None = None) -> Answer:
        """Change a page, in one request; not at all once the clock of `ticks` has passed `by`."""
        ...

    def trash(self, page: str) -> None: ...

    def create(self, source: str, properties: Mapping[str, Any]) -> Answer: ...

    def comment(self, page: str, text: str) -> None: ...

    def comments(self, page: str) -> list[str]:
        """The texts of a page's open comments."""
        ...

    def reserve(self, requests: int) -> None:
        """Wait until so many requests can be sent without a pause between them."""
        ...

    def now(self) -> datetime:
        """The time by Notion's clock."""
        ...

    def heard(self) -> datetime:
        """The same as of the latest answer, without asking."""
        ...

    def hush(self, *secrets: str) -> None:
        """Texts that no error may repeat."""
        ...

    def close(self) -> None: ...
