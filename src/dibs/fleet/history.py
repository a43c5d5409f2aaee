"""The whole record of a store, a page at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.scopes import holds_work
from dibs.stores.port import EventQuery

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.events import Event
    from dibs.stores.port import Store

_PAGE = 1000


def history(store: Store, scope: str | None) -> Iterator[Event]:
    """All events of a scope, or of every one that holds work, oldest first."""
    after = 0
    while page := store.events(EventQuery(scope, after=after, limit=_PAGE)):
        yield from (event for event in page if scope is not None or holds_work(event.scope))
        after = page[-1].seq
