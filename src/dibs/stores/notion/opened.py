"""From a `notion://` URL to an open store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, Misconfigured
from dibs.stores.notion.known import Known
from dibs.stores.notion.store import NotionStore
from dibs.stores.notion.target import Target, address, target_of, token

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.notion.gateway import Gateway
    from dibs.stores.notion.http import HttpGateway
    from dibs.stores.notion.limiter import Limiter
    from dibs.stores.port import Store


def open_notion(rest: str, open_other: Callable[[str], Store], *, create: bool) -> NotionStore:
    """The store that a URL names. `open_other` opens an arbiter. With `create`, a database is made under `parent`."""
    target = target_of(rest)
    if create and target.parent is not None and not target.database:
        target = _created(target)
    store = NotionStore(
        target.database,
        target.layout,
        connected(target),
        Known(address(), target.database),
        scope=target.scope,
        bounds=target.bounds,
        place=target.place,
        arbiter=None if target.arbiter is None else open_other(target.arbiter),
    )
    if create:
        try:
            store.learn()
        except DibsError:
            store.close()
            raise
    return store


def connected(target: Target) -> Gateway:
    if target.transport == "cli":
        from dibs.stores.notion.binary import BinaryGateway

        return BinaryGateway(limiter=_limiter(target), write_timeout=target.bounds.window)
    return over_http(target)


def over_http(target: Target) -> HttpGateway:
    try:
        from dibs.stores.notion.http import HttpGateway

        return HttpGateway(token(), address(), write_timeout=target.bounds.window, limiter=_limiter(target))
    except ModuleNotFoundError as error:
        if error.name not in {"notion_client", "httpx"}:
            raise
        raise Misconfigured("Notion needs its client: pip install 'dibs[notion]'.") from None


def _limiter(target: Target) -> Limiter | None:
    if target.limiter is None:
        return None
    from dibs.stores.notion.limiter import Limiter

    return Limiter(target.limiter)


def _created(target: Target) -> Target:
    """Make a database in the target's layout below the page it names."""
    from dibs.stores.notion.making import make_database

    gateway = over_http(target)
    try:
        made = make_database(gateway, target.parent or "", target.layout)
    finally:
        gateway.close()
    place = target.place.replace("notion://", f"notion://{made}", 1)
    return target._replace(database=made, place=place)
