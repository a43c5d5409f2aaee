"""The Neo4j server of the tests, and desks on it.

`DIBS_TEST_NEO4J=bolt://user:password@host:port` points the tests at a server that is there already; they keep to desks
of their own, and remove them. Otherwise they start one (tools/neo4j_server.py). Processes that test side by side share
it: it takes a server a minute of processor time to get going. `conftest.py` orders it for them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import cache, partial
from typing import NoReturn

import neo4j
import pytest
from neo4j.exceptions import DriverError, Neo4jError

from dibs.stores.neo4j import database
from dibs.stores.neo4j.database import NEWEST, target_of
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.transaction import QUERIES
from maven import die_with
from neo4j_server import NoServer, Server

# Each query is planned once: plans do not follow the figures, which change with every test (test_query_plans.py).
_SETTINGS = ("dbms.cypher.min_replan_interval=10h",)

_ORDER = "DIBS_TEST_NEO4J_ORDER"  # the file that will say where the shared server is
_PATIENCE = 800.0

# A busy machine must not look like a server that is away. Tests of these limits lower them.
database._CONNECTING = database._PATIENCE = 120.0
database._TIMEOUT = "600"

_PREFIX = f"test-{os.getpid()}-"
_made: list[str] = []
_reasons: list[str] = []  # why there is no server here: Maven is not asked again for every test


class Order:
    """A server for all test processes, ordered by their parent, with which it ends."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="dibs-tests-")
        self._answer = os.path.join(self._folder, "server")
        self._process: subprocess.Popen[bytes] | None = None
        os.environ[_ORDER] = self._answer

    def place(self) -> None:
        if self._process is not None:
            return
        tool = os.path.join(os.path.dirname(__file__), os.pardir, os.pardir, "tools", "neo4j_server.py")
        with open(self._answer, "wb") as answer:
            self._process = subprocess.Popen(
                [sys.executable, tool, *_SETTINGS],
                stdin=subprocess.DEVNULL,
                stdout=answer,
                stderr=subprocess.STDOUT,
                preexec_fn=partial(die_with, os.getpid()),  # noqa: PLW1509 - two system calls
            )

    def close(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(120)
        shutil.rmtree(self._folder)


def _ordered() -> str | None:
    """Where the shared server is, if one was ordered."""
    path = os.environ.get(_ORDER, "")
    if not os.path.exists(path):
        return None
    deadline = time.monotonic() + _PATIENCE
    while not (told := _read(path)).endswith("\n") and time.monotonic() < deadline:
        time.sleep(0.1)
    if not told.startswith("export "):
        _no_server(told.strip() or "Neo4j did not start.")
    words = dict(word.split("=", 1) for word in told.split()[1:])
    return words["NEO4J_URI"].replace("://", f"://{words['NEO4J_USER']}:{words['NEO4J_PASSWORD']}@")


def _read(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


def _no_server(reason: str) -> NoReturn:
    advice = f"{reason} Install Java 17 and Maven, or set DIBS_TEST_NEO4J."
    if os.environ.get("CI"):
        pytest.fail(advice)
    pytest.skip(advice)


def _server() -> Server:
    if not _reasons:
        try:
            return Server(settings=_SETTINGS)
        except NoServer as error:
            _reasons.append(str(error))
    _no_server(_reasons[0])


@cache
def own_server() -> Server:
    """A server that a test may kill and restart. Its tests belong to the xdist group `neo4j-server`."""
    return _server()


@cache
def shared_url() -> str:
    """The server of the tests, started when it is first asked for."""
    given = os.environ.get("DIBS_TEST_NEO4J")
    if given:
        atexit.register(_remove_desks)
    return given or _ordered() or url_of(_server())


def url_of(server: Server) -> str:
    return f"bolt://{server.user}:{server.password}@127.0.0.1:{server.port}"


def admin() -> neo4j.Driver:
    """A direct connection."""
    return admin_of(shared_url())


@cache
def admin_of(url: str) -> neo4j.Driver:
    target = target_of(url)
    driver = neo4j.GraphDatabase.driver(target.uri, auth=(target.user, target.password))
    atexit.register(driver.close)
    return driver


def fresh_desk() -> str:
    """An empty desk. Only the first creates indexes, which all desks share."""
    name = f"{_PREFIX}{len(_made)}"
    if not _made:
        Neo4jStore(shared_url(), desk=name, create=True).close()
    else:
        admin().execute_query(QUERIES["make_desk"], desk=name, version=NEWEST)
    _made.append(name)
    return name


def _remove_desks() -> None:
    try:
        for label, name in (
            ("Item", "desk"),
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
