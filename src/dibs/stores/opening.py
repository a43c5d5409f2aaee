"""Find a project's store, and open a store by its URL.

The nearest `.dibs` folder has the store, or the git repository that a worktree belongs to. Git's own files say where a
linked worktree belongs. They are read directly, because a cold command has no time to start git.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, Misconfigured, NoStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from dibs.stores.port import Store

FOLDER = ".dibs"
DEFAULT_FILE = "dibs.db"
BARE_FOLDER = "dibs"  # in the common git directory, where a repository has no main checkout
_LONGEST = 4096  # bytes of a `.git` file
MEMORY = ":memory:"

_MISTYPED = re.compile(r"(?:sqlite|vault|postgres|postgresql|neo4j|bolt|notion)(?:\+\w+)?(?::|//)")


class Worktree:
    """A linked git worktree: its top folder, and the git directory that all worktrees of its repository share.

    No named tuple, because making one takes a cold command longer than all that this module does for it.
    """

    __slots__ = ("common", "root")

    def __init__(self, root: str, common: str) -> None:
        self.root = root
        self.common = common

    @property
    def name(self) -> str:
        return os.path.basename(self.root)

    @property
    def main(self) -> str | None:
        """The main checkout of the repository; None if it has none."""
        if os.path.basename(self.common) == ".git" and not _config(self.common, "bare"):
            return os.path.dirname(self.common)
        checkout = _config(self.common, "worktree")
        return os.path.normpath(os.path.join(self.common, checkout)) if checkout else None

    @property
    def home(self) -> str:
        """The folder of the repository's own store."""
        return os.path.join(self.common, BARE_FOLDER) if self.main is None else os.path.join(self.main, FOLDER)


def default_url(start: str) -> str:
    """The store of the nearest project at or above `start`, or of the repository that `start` is a worktree of."""
    found = _found(os.path.abspath(start))
    if found is not None:
        return file_url(found)
    if linked_worktree(start) is None:
        raise NoStore(f"There is no dibs project in {start} or above it. 'dibs init' makes one here.")
    raise NoStore(
        f"There is no dibs project in {start}, above it or in its git repository. "
        "'dibs init' makes one for all worktrees of the repository."
    )


def project_name(store: Mapping[str, str]) -> str:
    """The name of a store's project: the folder that it belongs to."""
    if store.get("kind") == "notion":  # its place is a number
        return "Notion"
    place = store.get("place", "").rstrip("/")
    folder, name = os.path.split(place)
    if os.path.basename(folder) in {FOLDER, BARE_FOLDER}:
        folder, name = os.path.split(os.path.dirname(folder))
    return os.path.splitext(name)[0] if name not in {"", FOLDER} else os.path.basename(folder)


def has_store(folder: str) -> bool:
    """Whether a folder contains a store."""
    return os.path.exists(os.path.join(folder, FOLDER, DEFAULT_FILE))


def _found(start: str) -> str | None:
    for folder in _upwards(start):
        if has_store(folder):
            return os.path.join(folder, FOLDER, DEFAULT_FILE)
        if (linked := _linked(folder)) is not None and (found := _of_repository(linked)) is not None:
            return found
        candidate = os.path.join(folder, BARE_FOLDER, DEFAULT_FILE)
        if os.path.exists(candidate) and is_bare(folder):
            return candidate
    return None


def _of_repository(linked: Worktree) -> str | None:
    """What the main checkout would use; without one, the store in the common git directory."""
    inside = os.path.join(linked.common, BARE_FOLDER, DEFAULT_FILE)
    if os.path.exists(inside):
        return inside
    if os.path.basename(linked.common) == ".git":  # usual, and known without a look at git's settings
        usual = os.path.join(os.path.dirname(linked.common), FOLDER, DEFAULT_FILE)
        if os.path.exists(usual):
            return usual
    main = linked.main
    return None if main is None or main == linked.root else _found(main)


def linked_worktree(start: str) -> Worktree | None:
    """The linked git worktree that contains a folder; None in a main checkout, a submodule, or outside of git."""
    for folder in _upwards(os.path.abspath(start)):
        if os.path.exists(os.path.join(folder, ".git")):
            return _linked(folder)
    return None


def common_git_directory(start: str) -> str | None:
    """The git directory that the worktrees of a repository share; None outside of git."""
    for folder in _upwards(os.path.abspath(start)):
        path = os.path.join(folder, ".git")
        if os.path.isdir(path):
            return path
        if (linked := _linked(folder)) is not None:
            return linked.common
        if os.path.exists(path):
            return _git_directory(folder)
        if is_bare(folder):
            return folder
    return None


def _linked(folder: str) -> Worktree | None:
    git = _git_directory(folder)
    common = None if git is None else _line(os.path.join(git, "commondir"))
    if git is None or common is None:
        return None
    return Worktree(folder, os.path.normpath(os.path.join(git, common)))


def _git_directory(folder: str) -> str | None:
    """Where a `.git` file leads, which a linked worktree and a submodule have in place of the directory."""
    said = _line(os.path.join(folder, ".git"))
    if said is None or not said.startswith("gitdir:"):
        return None
    return os.path.normpath(os.path.join(folder, said.removeprefix("gitdir:").strip()))


def is_bare(folder: str) -> bool:
    """Whether a folder is a git directory without a checkout around it."""
    inside = all(os.path.exists(os.path.join(folder, name)) for name in ("HEAD", "objects", "refs"))
    return inside and bool(_config(folder, "bare"))


def _config(git: str, name: str) -> str:
    """A setting of the section [core]; empty if it is not set, or false."""
    try:
        with open(os.path.join(git, "config"), encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.strip() for line in file]
    except OSError:
        return ""
    section = ""
    for line in lines:
        if line.startswith("["):
            section = line.lower()
        key, separator, value = line.partition("=")
        if section == "[core]" and separator and key.strip().lower() == name:
            value = value.strip().strip('"')
            return "" if value.lower() in {"false", "no", "off", "0"} else value
    return ""


def _line(path: str) -> str | None:
    try:
        with open(path, "rb") as file:
            return os.fsdecode(file.read(_LONGEST)).strip()
    except (OSError, ValueError):  # it is missing, a directory, or no path at all
        return None


def is_below(path: str, folder: str) -> bool:
    return os.path.commonpath((os.path.abspath(path), folder)) == folder


def _upwards(folder: str) -> Iterator[str]:
    while True:
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


def file_url(path: str) -> str:
    """A file's path as a URL, with the two characters escaped that mean something in one."""
    return f"sqlite:///{path.replace('%', '%25').replace('?', '%3F')}"


def path_of(url: str) -> str:
    """The path that `file_url` made the URL of."""
    return unescaped(url.removeprefix("sqlite:///"))


def unescaped(path: str) -> str:
    if "%" not in path:
        return path
    from urllib.parse import unquote

    return unquote(path)


def store_url(given: str | None) -> str:
    """The store that is named, else that of DIBS_STORE, of this project, or of the server at NEO4J_URI."""
    if named := given or os.environ.get("DIBS_STORE"):
        return named
    try:
        return default_url(os.getcwd())
    except NoStore:
        if not os.environ.get("NEO4J_URI"):
            raise
        return "neo4j://"


def from_anywhere(url: str) -> str:
    """The same store for a process in another folder: a relative path in it becomes absolute."""
    scheme, separator, rest = url.partition("://")
    if separator and scheme not in {"sqlite", "vault"}:
        return url
    place, query, options = (rest if separator else url).partition("?")
    if separator:
        return f"{scheme}:///{os.path.abspath(place[1:])}{query}{options}" if place.startswith("/") else url
    return url if url == ":memory:" else os.path.abspath(url)


def open_store(url: str, *, create: bool = False, clock: Callable[[], datetime] | None = None) -> Store:
    """Open what the URL names: `sqlite:///relative/path`, `sqlite:////absolute/path`, just a file's path,
    `postgresql://host/database`, `neo4j://host:7687`, `vault:///folder`, `notion://database-id`, `https://server`, or
    `:memory:`.

    `clock` takes the place of the machine's, for a store that goes by it; those with a server go by the server's.
    """
    if url == MEMORY:
        return _open_memory(clock)
    scheme, separator, rest = url.partition("://")
    if not separator and _MISTYPED.match(url):
        raise InvalidInput(
            "That is not the URL of a store: write the scheme with '://', as in postgresql://host/database."
        )
    if not separator:
        place, query, options = url.partition("?")  # a plain path needs no decoding
        scheme, rest = "sqlite", f"/{place.replace('%', '%25')}{query}{options}"
    if scheme == "sqlite":
        return _open_sqlite(rest, create=create, clock=clock)
    if scheme in {"postgresql", "postgres"}:
        return _open_postgres(url, create=create)
    if scheme == "vault":
        return _open_vault(rest, create=create, clock=clock)
    if scheme == "notion":
        from dibs.stores.notion.connection import open_notion

        return open_notion(rest, open_store, create=create)
    if scheme in {"https", "http", "http+unix"}:
        from dibs.stores.http.store import HttpStore

        return HttpStore(url, create=create)
    if scheme.partition("+")[0] in {"neo4j", "bolt"}:
        return _open_neo4j(url, create=create)
    named = f"'{scheme}'" if scheme.isalnum() else "that"
    raise InvalidInput(f"No store is called {named}. Known are: sqlite, postgresql, neo4j, vault, notion, https.")


def _open_memory(clock: Callable[[], datetime] | None) -> Store:
    from dibs.stores.sqlite.store import SqliteStore

    return SqliteStore(MEMORY, create=True) if clock is None else SqliteStore(MEMORY, create=True, clock=clock)


def _open_sqlite(rest: str, *, create: bool, clock: Callable[[], datetime] | None) -> Store:
    from dibs.stores.sqlite.store import SqliteStore

    path, durable, timeout = _local(rest, "SQLite", "sqlite")
    if clock is None:
        return SqliteStore(path, create=create, durable=durable, timeout=timeout)
    return SqliteStore(path, create=create, durable=durable, timeout=timeout, clock=clock)


def _open_vault(rest: str, *, create: bool, clock: Callable[[], datetime] | None) -> Store:
    from dibs.stores.vault.store import VaultStore

    path, durable, timeout = _local(rest, "vault", "vault")
    if clock is None:
        return VaultStore(path, create=create, durable=durable, timeout=timeout)
    return VaultStore(path, create=create, durable=durable, timeout=timeout, clock=clock)


def _local(rest: str, kind: str, scheme: str) -> tuple[str, bool, float]:
    """The path, the durability and the patience that the URL of a store on this machine asks for."""
    place, _, query = rest.partition("?")
    options = dict(part.partition("=")[::2] for part in query.split("&") if part)
    durability = options.pop("durability", "full")
    timeout = options.pop("timeout", "30")
    if options or durability not in {"full", "normal"} or not (timeout.isascii() and timeout.isdigit()):
        raise InvalidInput(f"A {kind} URL takes durability=full|normal and timeout=SECONDS, nothing else.")
    if not place.startswith("/") or place == "/":
        raise InvalidInput(f"A {kind} URL is {scheme}:///relative/path or {scheme}:////absolute/path.")
    return os.path.abspath(unescaped(place[1:])), durability == "full", float(timeout)


def _open_postgres(url: str, *, create: bool) -> Store:
    try:
        from dibs.stores.postgres.store import PostgresStore
    except ModuleNotFoundError as error:
        if error.name != "psycopg2":
            raise
        raise Misconfigured("PostgreSQL needs its driver: pip install 'dibs[postgres]'.") from None
    return PostgresStore(url, create=create)


def _open_neo4j(url: str, *, create: bool) -> Store:
    try:
        from dibs.stores.neo4j.store import Neo4jStore
    except ModuleNotFoundError as error:
        if error.name != "neo4j":
            raise
        raise Misconfigured("Neo4j needs its driver: pip install 'dibs[neo4j]'.") from None
    return Neo4jStore(url, create=create)
