"""A separate store for the lab on the same disk or server as the given one, without its data.

A SQLite store gets another file beside its own, a vault another folder, PostgreSQL another schema of the database,
Neo4j another desk, and Notion another database below the page that is named. All of it is removed in the end.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from dibs.core.errors import InvalidInput, StoreError
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.lab.torture.proxies import Proxy

FAULTS = ("kill", "stop", "restart", "partition", "clock", "disk", "slow")

_LOCAL = frozenset({"kill", "stop", "clock", "disk", "slow"})
_REMOTE = frozenset({"kill", "stop", "restart", "partition", "slow"})
_PATIENCE = 3  # seconds that a worker waits for a silent server
_PATIENCE_AFTER_A_START = (
    10  # After a restart Neo4j compiles every query again; workers with a shorter timeout never succeed
)
_DESKS = (("Task", "desk"), ("Event", "desk"), ("Scope", "desk"), ("Agent", "desk"), ("UserConfig", "desk"))


class Place:
    """`url` leads to it directly; workers use `through` and `environment`, where faults can happen."""

    timed = False

    def __init__(self, kind: str, url: str, faults: frozenset[str], what: str, remove: Callable[[], None]) -> None:
        self.kind, self.url, self.faults, self.what, self._remove = kind, url, faults, what, remove
        self.through = url
        self.environment: dict[str, str] = {}
        self.proxy: Proxy | None = None

    def close(self) -> None:
        """Remove the store. Returns what could not be removed."""
        if self.proxy is not None:
            self.proxy.close()
        try:
            self._remove()
        except Exception as error:
            raise StoreError(f"The lab could not tidy up: {self.what} is left, for you to remove.") from error


def place_beside(url: str, name: str) -> Place:
    """Check that the store exists, and create a separate one beside it."""
    scheme = url.partition("://")[0].partition("+")[0] if "://" in url else "sqlite"
    if scheme != "notion":
        open_store(url).close()
    makers = {"sqlite": _sqlite, "vault": _vault, "postgresql": _postgres, "postgres": _postgres, "notion": _notion}
    place = makers.get(scheme, _neo4j)(url, name)
    try:
        with open_store(place.url, create=scheme != "notion") as store:
            store.counts("default")  # report existing problems before the run starts
    except BaseException:
        place.close()
        raise
    return place


def _beside(url: str, name: str) -> tuple[str, str]:
    """The URL of something beside a file or a folder, and its path."""
    base, mark, query = url.partition("?")
    ours = f"{base.rstrip('/')}.{name}"
    path = os.path.abspath(unquote(ours.partition("://")[2][1:]) if "://" in ours else ours)
    return f"{ours}{mark}{query}", path


def _sqlite(url: str, name: str) -> Place:
    ours, path = _beside(url, name)

    def remove() -> None:
        for file in glob.glob(f"{glob.escape(path)}*"):
            os.remove(file)

    return Place("sqlite", ours, _LOCAL, f"the file {path}", remove)


def _vault(url: str, name: str) -> Place:
    ours, path = _beside(url, name)
    return Place("vault", ours, _LOCAL, f"the folder {path}", lambda: shutil.rmtree(path, ignore_errors=True))


def _with(url: str, **options: object) -> str:
    """The URL with these options replaced."""
    base, _, query = url.partition("?")
    kept = [part for part in query.split("&") if part and part.partition("=")[0] not in options]
    return f"{base}?{'&'.join([*kept, *(f'{key}={value}' for key, value in options.items() if value)])}".rstrip("?")


def _postgres(url: str, name: str) -> Place:
    import psycopg2

    from dibs.lab.torture.proxies import PostgresProxy
    from dibs.stores.postgres.connection import target_of

    schema = name.replace("-", "_")

    def remove() -> None:
        connection = psycopg2.connect(None, **cast("dict[str, Any]", target_of(url).parameters))
        try:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
        finally:
            connection.close()

    place = Place("postgresql", _with(url, schema=schema), _REMOTE, f"the schema {schema}", remove)
    place.proxy = proxy = PostgresProxy(_with(url, schema="", timeout=""))
    place.through = proxy.url(schema=schema, timeout=_PATIENCE)
    return place


def _neo4j(url: str, name: str) -> Place:
    import neo4j

    from dibs.lab.torture.proxies import BoltProxy
    from dibs.stores.neo4j.database import target_of

    ours = _with(url, desk=name)
    target = target_of(ours)

    def remove() -> None:
        with neo4j.GraphDatabase.driver(target.uri, auth=(target.user, target.password)) as driver:
            for label, key in (*_DESKS, ("Desk", "name")):
                all_of_it = (
                    f"MATCH (n:{label} {{{key}: $name}}) CALL {{ WITH n DETACH DELETE n }} IN TRANSACTIONS OF 1000 ROWS"
                )
                with driver.session(database=target.database) as session:
                    session.run(all_of_it, name=name).consume()

    encrypted = target.uri.partition("://")[0].endswith(("+s", "+ssc"))
    faults = _REMOTE - {"partition", "slow"} if encrypted else _REMOTE
    place = Place("neo4j", ours, faults, f"the desk {name}", remove)
    if not encrypted:
        address = target.uri.partition("://")[2]
        place.proxy = proxy = BoltProxy(f"bolt://{target.user}:{target.password}@{address}")
        database = {"database": target.database} if target.database else {}
        place.through = proxy.url(desk=name, timeout=_PATIENCE_AFTER_A_START, **database)
    return place


def _stubbornly(act: Callable[[], None], times: int = 5) -> None:
    """Retry when Notion is busy or an answer is lost; moving a page to the trash twice is harmless."""
    for _ in range(times - 1):
        try:
            return act()
        except StoreError:
            time.sleep(1.0)
    return act()


def _notion(url: str, _name: str) -> Place:
    from dibs.lab.torture.proxies import HttpProxy
    from dibs.stores.notion.connection import address, over_http, target_of

    target = target_of(url.partition("://")[2])
    if target.database or not target.parent or target.layout.assigns_ids:
        raise InvalidInput(
            "The lab uses no existing database in Notion. Name a page: the lab creates a temporary database below it "
            "and moves it to the trash afterwards: notion://?parent=PAGE_ID&layout=dibs."
        )
    with open_store(url, create=True) as store:
        made = store.describe()["place"]
    database = re.split(r"[/?]+", made)[1]

    def remove() -> None:
        gateway = over_http(target)
        try:
            _stubbornly(lambda: gateway.trash_database(database))
        finally:
            gateway.close()

    plain = address().startswith("http://")
    faults = (_REMOTE if plain else _REMOTE - {"partition", "slow"}) - {"restart"}
    place = Place("notion", made, faults, f"the database {database}", remove)
    place.timed = target.arbiter is None
    if target.arbiter is not None:
        place.url = _with(made, arbiter=target.arbiter)
    if plain:
        place.proxy = proxy = HttpProxy(address())
        place.environment = {"NOTION_API_BASE_URL": proxy.url}
    place.through = place.url
    return place
