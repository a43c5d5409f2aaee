"""The Neo4j server of the tests, and desks on it.

`DIBS_TEST_NEO4J=bolt://user:password@host:port` points the tests at a server that is there already; they keep to desks
of their own, and remove them. Otherwise each test process starts its own (tools/neo4j_server.py).
"""

from __future__ import annotations

import atexit
import os
from functools import cache

import neo4j
import pytest
from neo4j.exceptions import DriverError, Neo4jError

from dibs.stores.neo4j.database import NEWEST
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.target import target_of
from neo4j_server import NoServer, Server

_PREFIX = f"test-{os.getpid()}-"
_made: list[str] = []
_reasons: list[str] = []  # why there is no server here: Maven is not asked again for every test


@cache
def shared_server() -> Server:
    return _server()


def _server() -> Server:
    if not _reasons:
        try:
            return Server()
        except NoServer as error:
            _reasons.append(f"{error} Install Java 17 and Maven, or set DIBS_TEST_NEO4J.")
    if os.environ.get("CI"):
        pytest.fail(_reasons[0])
    pytest.skip(_reasons[0])


@cache
def own_server() -> Server:
    """One that a test may end, stop and start again. Who uses it belongs to the xdist group `neo4j-server`."""
    return _server()


@cache
def shared_url() -> str:
    """The server of this test process, started when it is first asked for."""
    given = os.environ.get("DIBS_TEST_NEO4J")
    if given:
        atexit.register(_remove_desks)
    return given or url_of(shared_server())


def url_of(server: Server) -> str:
    return f"bolt://{server.user}:{server.password}@127.0.0.1:{server.port}"


@cache
def admin() -> neo4j.Driver:
    """A way in beside the store."""
    target = target_of(shared_url())
    driver = neo4j.GraphDatabase.driver(target.uri, auth=(target.user, target.password))
    atexit.register(driver.close)
    return driver


def fresh_desk() -> str:
    """An empty desk. The first is made as a user would make it; the others beside it have the same indexes already."""
    name = f"{_PREFIX}{len(_made)}"
    if not _made:
        Neo4jStore(shared_url(), desk=name, create=True).close()
    else:
        admin().execute_query("CREATE (:Desk {name: $name, version: $version, seq: 0})", name=name, version=NEWEST)
    _made.append(name)
    return name


def _remove_desks() -> None:
    try:
        for label, name in (
            ("Task", "desk"),
            ("Event", "desk"),
            ("Scope", "desk"),
            ("Agent", "desk"),
            ("UserConfig", "desk"),
            ("Desk", "name"),
        ):
            rubbish = f"MATCH (n:{label}) WHERE n.{name} STARTS WITH $prefix DETACH DELETE n"
            admin().execute_query(rubbish, prefix=_PREFIX)
    except (DriverError, Neo4jError):
        return  # the server is gone
