"""Open the store that a `notion://` URL names.

    notion://DATABASE_ID?layout=ntask|dibs|mesh&properties=FILE.toml&scope=NAME
                        &transport=api|cli&limiter=FILE&arbiter=URL&window=SECONDS&settle=SECONDS

The token is never part of the URL. It stays in the environment, in NOTION_TOKEN.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qsl, quote

from dibs.core.errors import DibsError, InvalidInput, Misconfigured
from dibs.core.messages import without_password
from dibs.stores.notion.database import Cache
from dibs.stores.notion.guard import Bounds
from dibs.stores.notion.layout import Layout, layout_named, renamed
from dibs.stores.notion.pages import is_page
from dibs.stores.notion.store import NotionStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.notion.gateway import Gateway, Limiter
    from dibs.stores.notion.http import HttpGateway
    from dibs.stores.port import Store

OPTIONS = ("layout", "properties", "scope", "transport", "limiter", "arbiter", "window", "settle", "parent")


class Target(NamedTuple):
    database: str
    layout: Layout
    scope: str = "default"
    transport: str = "api"
    limiter: str | None = None
    arbiter: str | None = None
    bounds: Bounds = Bounds()
    parent: str | None = None
    place: str = ""

    def __repr__(self) -> str:
        """The arbiter's URL may hold a password."""
        return f"Target({self.place})"


def target_of(rest: str) -> Target:
    """Parse the part after `notion://`."""
    database, _, query = rest.partition("?")
    try:
        given = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise InvalidInput("The options of a Notion URL are name=value, joined by '&'.") from None
    unknown = sorted(given.keys() - set(OPTIONS))
    if unknown:
        raise InvalidInput(f"A Notion URL takes {', '.join(OPTIONS)}; not '{unknown[0][:40]}'.")
    _refuse_id(database, given.get("parent"))
    transport = given.get("transport", "api")
    if transport not in {"api", "cli"}:
        raise InvalidInput(f"Notion is reached by transport=api or transport=cli, not '{transport[:40]}'.")
    return Target(
        database,
        _layout(given),
        given.get("scope") or "default",
        transport,
        given.get("limiter") or None,
        given.get("arbiter") or None,
        _bounds(given),
        given.get("parent"),
        _place(database, given),
    )


def _refuse_id(database: str, parent: str | None) -> None:
    for id_, what in ((database, "database"), (parent, "page")):
        if id_ is not None and not is_page(id_) and not (id_ == "" and parent):
            shown = f"'{id_[:60]}' is not the id" if id_ else "The URL has no id"
            raise Misconfigured(
                f"{shown} of a Notion {what}. It is the 32 letters and digits in the address of the {what} in Notion."
            )


def _layout(given: dict[str, str]) -> Layout:
    layout = layout_named(given.get("layout", "ntask"))
    path = given.get("properties")
    if not path:
        return layout
    import tomllib

    try:
        with open(path, "rb") as file:
            said = tomllib.load(file)
    except OSError as error:
        raise Misconfigured(f"The file of property names, {path}, cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise Misconfigured(f"The file of property names, {path}, is not TOML: {error}.") from None
    return renamed(layout, said)


def _bounds(given: dict[str, str]) -> Bounds:
    try:
        window, settle = (float(given.get(name, usual)) for name, usual in (("window", 4), ("settle", 5)))
    except ValueError:
        raise InvalidInput("The window and the settle time of a Notion URL must be numbers of seconds.") from None
    return Bounds(window, settle)


def _place(database: str, given: dict[str, str]) -> str:
    """Return the URL without the arbiter's password, for display."""
    shown = {name: value for name, value in given.items() if name != "parent"}
    if "arbiter" in shown:
        shown["arbiter"] = without_password(shown["arbiter"])
        shown["arbiter"] = re.sub(r"((?:ssl)?password|passfile)=[^&\s]*", r"\1=…", shown["arbiter"])
    options = "&".join(f"{name}={quote(value, safe='/:.,@')}" for name, value in shown.items())
    return f"notion://{database}{'?' if options else ''}{options}"


def token() -> str:
    """Return the integration's secret, which is read from the environment only."""
    found = (os.environ.get("NOTION_TOKEN") or os.environ.get("NOTION_API_KEY") or "").strip()
    if not found:
        raise Misconfigured(
            "NOTION_TOKEN is not set. Make an integration in Notion's settings, share the database with it, and put "
            "its secret into that variable."
        )
    if not found.isascii() or not found.isprintable():
        raise Misconfigured("NOTION_TOKEN contains invalid characters. Copy it again from the integration's settings.")
    return found


def address() -> str:
    """Return the address of Notion's API."""
    from dibs.stores.notion.http import ADDRESS

    found = os.environ.get("NOTION_API_BASE_URL", "").strip().rstrip("/") or ADDRESS
    if not found.startswith(("http://", "https://")):
        raise Misconfigured("NOTION_API_BASE_URL must be an address such as https://api.notion.com.")
    if "@" in found:  # the client would send it instead of NOTION_TOKEN
        raise Misconfigured(
            "NOTION_API_BASE_URL holds a user name or a password, which Notion does not take. Write it like "
            "https://api.notion.com; the secret belongs into NOTION_TOKEN."
        )
    return found.removesuffix("/v1")


def open_notion(rest: str, open_other: Callable[[str], Store], *, create: bool) -> NotionStore:
    """Open the store of a URL. `open_other` opens an arbiter. With `create`, a database is made under `parent`."""
    target = target_of(rest)
    if create and target.parent is not None and not target.database:
        target = _created(target)
    store = NotionStore(
        target.database,
        target.layout,
        connected(target),
        Cache(f"{target.transport} {address()}", target.database),  # each transport stores its own ids
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

        given = address() if os.environ.get("NOTION_API_BASE_URL", "").strip() else None
        return BinaryGateway(given, limiter=_limiter(target), write_timeout=target.bounds.window)
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
    from dibs.stores.notion.gateway import Limiter

    return Limiter(target.limiter)


def _created(target: Target) -> Target:
    """Make a database in the target's layout below the page in `parent`."""
    from dibs.stores.notion.layout import make_database

    gateway = over_http(target)
    try:
        made = make_database(gateway, target.parent or "", target.layout)
    finally:
        gateway.close()
    place = target.place.replace("notion://", f"notion://{made}", 1)
    return target._replace(database=made, place=place)
