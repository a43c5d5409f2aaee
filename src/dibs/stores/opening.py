"""The one place that turns a URL into a store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, NoStore

if TYPE_CHECKING:
    from dibs.stores.port import Store

FOLDER = ".dibs"
DEFAULT_FILE = "dibs.db"


def open_store(url: str, *, create: bool = False) -> Store:
    """Open what the URL names: `sqlite:///relative/path`, `sqlite:////absolute/path`, or just a file's path."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "sqlite", f"/{url}"
    if scheme == "sqlite":
        return _open_sqlite(rest, create=create)
    raise InvalidInput(f"No store is called '{scheme}'. Known are: sqlite.")


def _open_sqlite(rest: str, *, create: bool) -> Store:
    from dibs.stores.sqlite.store import SqliteStore

    place, _, query = rest.partition("?")
    options = dict(part.partition("=")[::2] for part in query.split("&") if part)
    durability = options.pop("durability", "full")
    timeout = options.pop("timeout", "30")
    if options or durability not in {"full", "normal"} or not (timeout.isascii() and timeout.isdigit()):
        raise InvalidInput("A SQLite URL takes durability=full|normal and timeout=SECONDS, nothing else.")
    if not place.startswith("/") or place == "/":
        raise InvalidInput("A SQLite URL is sqlite:///relative/path or sqlite:////absolute/path.")
    path = os.path.abspath(_unescaped(place[1:]))
    return SqliteStore(path, create=create, durable=durability == "full", timeout=float(timeout))


def file_url(path: str) -> str:
    """A file's path as a URL, with the two characters escaped that mean something in one."""
    return f"sqlite:///{path.replace('%', '%25').replace('?', '%3F')}"


def _unescaped(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return unquote(path)


def default_url(start: str) -> str:
    """The store of the nearest project folder at or above `start`."""
    folder = os.path.abspath(start)
    while True:
        candidate = os.path.join(folder, FOLDER, DEFAULT_FILE)
        if os.path.exists(candidate):
            return file_url(candidate)
        above = os.path.dirname(folder)
        if above == folder:
            raise NoStore(f"There is no dibs project in {start} or above it. 'dibs init' makes one here.")
        folder = above
