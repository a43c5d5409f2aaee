"""A Notion store with readable tokens, for the conformance suite, and the database for a layout.

Pages have only digests of spent tokens and of people's tokens. This store remembers every token that the suite has used
and puts them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

from dibs.core.lifecycle import ClaimRequest
from dibs.core.task import Claimed, Lease, Task
from dibs.stores.notion.layout import plain_properties
from dibs.stores.notion.pages import sealed
from dibs.stores.port import Batch, Moved
from dibs.stores.reports import Record

if TYPE_CHECKING:
    from dibs.stores.notion.layout import Layout
    from dibs.stores.notion.store import NotionStore
    from dibs.stores.port import Store


def schema_of(layout: Layout) -> dict[str, Any]:
    """The columns of a layout without a rollup, as a person would have made them."""
    relation = {"dual_property": {"synced_property_name": layout.properties["parent"].name}}
    return {**plain_properties(layout), layout.properties["children"].name: {"relation": relation}}


class OpenNotion:
    """Passes every verb on, and puts the tokens back into the answers."""

    def __init__(self, store: NotionStore, known: dict[str, str]) -> None:
        self._store, self._known = store, known

    def as_store(self) -> Store:
        return cast("Store", self)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        if not callable(found):
            return found

        def verb(*given: Any, **named: Any) -> Any:
            for one in (*given, *named.values()):
                if isinstance(one, ClaimRequest):
                    self._known.update({sealed(token): token for token in one.tokens})
            return self._told(found(*given, **named))

        return verb

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._store.close()

    def _told(self, answer: Any) -> Any:
        match answer:
            case Task():
                return answer._replace(lease=self._told(answer.lease), spent_token=self._token(answer.spent_token))
            case Lease():
                return answer._replace(token=self._token(answer.token) or "")
            case Claimed() | Moved() | Batch() | Record():
                return type(answer)(*(self._told(part) for part in answer))
            case list() | tuple() if not hasattr(answer, "_fields"):
                return type(answer)(self._told(part) for part in answer)
        if hasattr(answer, "__next__"):
            return (self._told(one) for one in answer)
        return answer

    def _token(self, said: str | None) -> str | None:
        return None if said is None else self._known.get(said, said)
