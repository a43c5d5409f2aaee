"""What a `notion://` URL means: which database, in which layout, reached how, with whose help.

    notion://DATABASE_ID?layout=ntask|dibs|mesh&properties=FILE.toml&scope=NAME
                        &transport=api|cli&limiter=FILE&arbiter=URL&window=SECONDS&settle=SECONDS

The token is never part of it: that is NOTION_TOKEN, and stays in the environment.
"""

import os
import re
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from dibs.core.errors import InvalidInput, Misconfigured
from dibs.stores.notion.guard import Bounds
from dibs.stores.notion.layout import Layout, layout_named, renamed
from dibs.stores.notion.reading import is_page

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
    """Read what follows `notion://`."""
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
            shown = f"'{id_[:60]}' is no id" if id_ else "There is no id"
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
        raise Misconfigured(f"The file of property names, {path}, is no TOML: {error}.") from None
    return renamed(layout, said)


def _bounds(given: dict[str, str]) -> Bounds:
    try:
        window, settle = (float(given.get(name, usual)) for name, usual in (("window", 4), ("settle", 5)))
    except ValueError:
        raise InvalidInput("The window and the settle time of a Notion URL are numbers of seconds.") from None
    return Bounds(window, settle)


def _place(database: str, given: dict[str, str]) -> str:
    """The URL as it may be shown: an arbiter's password is nobody's business."""
    shown = {name: value for name, value in given.items() if name != "parent"}
    if "arbiter" in shown:
        shown["arbiter"] = re.sub(r"(://[^:/@\s]*):[^@\s]*@", r"\1@", shown["arbiter"])
        shown["arbiter"] = re.sub(r"((?:ssl)?password|passfile)=[^&\s]*", r"\1=…", shown["arbiter"])
    options = "&".join(f"{name}={quote(value, safe='/:.,@')}" for name, value in shown.items())
    return f"notion://{database}{'?' if options else ''}{options}"


def token() -> str:
    """The integration's secret, from the environment and from nowhere else."""
    found = (os.environ.get("NOTION_TOKEN") or os.environ.get("NOTION_API_KEY") or "").strip()
    if not found:
        raise Misconfigured(
            "NOTION_TOKEN is not set. Make an integration in Notion's settings, share the database with it, and put "
            "its secret into that variable."
        )
    if not found.isascii() or not found.isprintable():
        raise Misconfigured(
            "NOTION_TOKEN holds characters that no token has. Copy it anew from the integration's settings."
        )
    return found


def address() -> str:
    """Where Notion's API is, unless the environment says otherwise."""
    from dibs.stores.notion.http import ADDRESS

    found = os.environ.get("NOTION_API_BASE_URL", "").strip().rstrip("/") or ADDRESS
    if not found.startswith(("http://", "https://")):
        raise Misconfigured("NOTION_API_BASE_URL is an address such as https://api.notion.com.")
    return found.removesuffix("/v1")
