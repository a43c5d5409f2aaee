"""Faults around the store give a clear error, soon, and without secrets."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import neo4j
import pytest

from dibs.core.errors import DibsError, InvalidInput, Misconfigured, NoStore, SchemaTooNew, StoreUnavailable
from dibs.stores.neo4j import database
from dibs.stores.neo4j.database import target_of
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.opening import open_store
from support.neo4j import admin, fresh_desk, shared_url
from support.ports import silent_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SOON = 60.0  # seconds; in these tests, the driver itself would wait for 120
SECRET = "wrong-password-1"  # noqa: S105 - wrong on purpose


def refused(url: str, *, create: bool = False) -> tuple[DibsError, float]:
    began = time.monotonic()
    with pytest.raises(DibsError) as error:
        open_store(url, create=create)
    assert SECRET not in repr(error.value)
    return error.value, time.monotonic() - began


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], object]) -> Iterator[int]:
    """A server that accepts connections and is not Neo4j."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept = []

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    kept.append(server.accept()[0])
                    answer(kept[-1])

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
        for each in kept:
            each.close()


def silence(_: socket.socket) -> None:
    """Never answers."""


def test_wrong_password_differs_from_a_missing_server() -> None:
    target = target_of(shared_url())
    error, took = refused(target.uri.replace("://", f"://neo4j:{SECRET}@"))
    assert isinstance(error, Misconfigured)
    assert "NEO4J_PASSWORD" in error.message
    assert took < SOON


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_missing_server_fails_at_once(scheme: str) -> None:
    with silent_port() as port:
        error, took = refused(f"{scheme}://neo4j:{SECRET}@127.0.0.1:{port}")
    assert isinstance(error, StoreUnavailable)
    assert took < SOON


@pytest.mark.parametrize("scheme", ["bolt", "neo4j", "bolt+s", "neo4j+ssc"])
def test_silent_server_is_given_up(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_CONNECTING", 4.0 if scheme == "bolt" else 0.5)  # one in full length will do
    with listening(silence) as port:
        error, took = refused(f"{scheme}://neo4j:{SECRET}@127.0.0.1:{port}")
    assert isinstance(error, StoreUnavailable)
    assert took < SOON


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
@pytest.mark.parametrize(
    "answer", [b"\x00\x00\x00\x00", b"SSH-2.0-OpenSSH_9.2\r\n", b"\x00\x00\x00\x01", b"\x00\x00\x04\x04"]
)
def test_foreign_or_old_server_is_named(scheme: str, answer: bytes) -> None:
    """Without a common protocol, SSH, Neo4j 3, and Neo4j 4.4."""
    with listening(lambda client: client.sendall(answer)) as port:
        error, took = refused(f"{scheme}://neo4j:{SECRET}@127.0.0.1:{port}")
    assert isinstance(error, Misconfigured)
    assert "is not Neo4j, or too old: dibs needs Neo4j 5." in error.message
    assert took < SOON


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_http_port_error_names_the_bolt_port(scheme: str) -> None:
    with listening(lambda client: client.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as port:
        error, took = refused(f"{scheme}://neo4j:{SECRET}@127.0.0.1:{port}")
    assert isinstance(error, StoreUnavailable)
    assert "7687, not 7474" in error.message
    assert took < SOON


@pytest.mark.parametrize("scheme", ["bolt+s", "neo4j+s", "neo4j+ssc"])
def test_missing_tls_is_reported(scheme: str) -> None:
    port = urlsplit(shared_url()).port
    error, took = refused(f"{scheme}://neo4j:{SECRET}@127.0.0.1:{port}")
    assert isinstance(error, Misconfigured)
    assert "TLS to " in error.message
    assert took < SOON


@pytest.mark.parametrize(
    "agent", ["Neo4j/5.10.0", "Neo4j/4.4.9", "Neo4j/v5.11.0 compatible graph database", "Other/9.9"]
)
def test_too_old_or_foreign_server_is_refused(agent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy changes the version that a real server reports."""
    monkeypatch.setattr(neo4j.ServerInfo, "agent", property(lambda _: agent))
    error, _ = refused(shared_url())
    assert isinstance(error, Misconfigured)
    assert f"is {agent}; dibs needs Neo4j 5." in error.message


def test_driver_messages_do_not_reach_the_terminal(tmp_path: Path) -> None:
    """The driver would log errors, with addresses, to stderr."""
    command = [sys.executable, "-m", "dibs", "list"]
    with silent_port() as port:
        environment = {**os.environ, "DIBS_STORE": f"neo4j://127.0.0.1:{port}", "NEO4J_PASSWORD": SECRET}
        told = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.stdout == ""
    assert [line.partition(" ")[0] for line in told.stderr.splitlines()] == ["dibs:"]
    assert told.returncode == 7
    assert SECRET not in told.stderr


def test_missing_desk_is_no_store_until_created() -> None:
    url = f"{shared_url()}?desk={fresh_desk()}-other"
    assert isinstance(refused(url)[0], NoStore)
    open_store(url, create=True).close()
    open_store(url).close()


def test_missing_database_is_reported() -> None:
    error, _ = refused(f"{shared_url()}?database=nowhere")
    assert isinstance(error, Misconfigured)


def test_store_of_a_newer_dibs_is_refused() -> None:
    desk = fresh_desk()
    admin().execute_query("MATCH (d:Desk {name: $name}) SET d.version = 99", name=desk)
    error, _ = refused(f"{shared_url()}?desk={desk}", create=True)
    assert isinstance(error, SchemaTooNew)


def test_cluster_protocol_opens_the_same_store() -> None:
    desk = fresh_desk()
    with Neo4jStore(shared_url().replace("bolt://", "neo4j://"), desk=desk) as store:
        assert store.scopes() == []
        assert SECRET not in str(store.describe())


@pytest.mark.parametrize(
    "url",
    [
        "neo4j://",
        "neo4j://host/path",
        "neo4j://host?what=1",
        "neo4j://host?desk=a b",
        "neo4j://host?timeout=soon",
        "bolt://host:port",
        "neo4j+what://host",
    ],
)
def test_invalid_url_is_refused_before_connecting(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEO4J_URI", raising=False)
    with pytest.raises(InvalidInput):
        open_store(url)


def test_place_never_contains_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_USER", "ann")
    monkeypatch.setenv("NEO4J_PASSWORD", SECRET)
    target = target_of("neo4j://host?database=work&desk=team")
    assert (target.user, target.password) == ("ann", SECRET)
    assert (target.place, repr(target)) == (
        "neo4j://host:7687?database=work&desk=team",
        "Target(neo4j://host:7687?database=work&desk=team)",
    )
    given = target_of(f"bolt://bob:{SECRET}@[::1]:7000")
    assert (given.user, given.uri, given.place) == ("bob", "bolt://[::1]:7000", "bolt://[::1]:7000")


def test_environment_completes_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_URI", "bolt+s://elsewhere:7000/?database=work")
    monkeypatch.setenv("NEO4J_USER", "")
    target = target_of("neo4j://?desk=team")
    assert (target.user, target.place) == ("neo4j", "bolt+s://elsewhere:7000?database=work&desk=team")
    assert target_of("neo4j://here").place == "neo4j://here:7687"


def test_environment_names_the_server_outside_projects(tmp_path: Path) -> None:
    target = target_of(shared_url())
    environment = {name: value for name, value in os.environ.items() if name != "DIBS_STORE"}
    environment |= {"NEO4J_URI": f"{target.uri}?desk={fresh_desk()}", "NEO4J_PASSWORD": target.password}

    def told(*words: str) -> str:
        command = [sys.executable, "-m", "dibs", *words]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    told("add", "On the server", "--id", "far")
    assert "far" in told("list")
    told("init")
    told("add", "In the project", "--id", "near")
    assert "near" in told("list")
    assert "far" not in told("list")
    assert "far" in told("list", "--store", "neo4j://")
