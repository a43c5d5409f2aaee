"""What goes wrong around the store: a clear error of ours, soon, without a secret in it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError, InvalidInput, Misconfigured, NoStore, SchemaTooNew, StoreUnavailable
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.neo4j.target import target_of
from dibs.stores.opening import open_store
from neo4j_desks import admin, fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SOON = 7.0  # five seconds of patience, and a busy machine
SECRET = "wrong-password-1"  # noqa: S105 - wrong on purpose


def refused(url: str, **options: bool) -> tuple[DibsError, float]:
    began = time.monotonic()
    with pytest.raises(DibsError) as error:
        open_store(url, **options)
    assert SECRET not in repr(error.value)
    return error.value, time.monotonic() - began


@contextlib.contextmanager
def listening(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """Something that takes connections, and is no Neo4j."""
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


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
    return port


def test_a_wrong_password_is_told_apart_from_a_server_that_is_not_there() -> None:
    target = target_of(shared_url())
    error, took = refused(target.uri.replace("://", f"://neo4j:{SECRET}@"))
    assert isinstance(error, Misconfigured)
    assert "NEO4J_PASSWORD" in error.message
    assert took < SOON


@pytest.mark.parametrize("scheme", ["bolt", "neo4j"])
def test_a_server_that_is_not_there_is_not_waited_for(scheme: str) -> None:
    error, took = refused(f"{scheme}://neo4j:{SECRET}@127.0.0.1:{free_port()}")
    assert isinstance(error, StoreUnavailable)
    assert took < SOON


def test_a_server_that_takes_the_connection_and_falls_silent_is_given_up() -> None:
    with listening(lambda _: None) as port:
        error, took = refused(f"bolt://neo4j:{SECRET}@127.0.0.1:{port}")
    assert isinstance(error, StoreUnavailable)
    assert took < SOON


@pytest.mark.parametrize("answer", [b"\x00\x00\x00\x00", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00\x00\x00\x01"])
def test_a_server_of_another_kind_or_age_is_told_so(answer: bytes) -> None:
    """It knows none of our protocols, speaks HTTP, or is a Neo4j 3."""
    with listening(lambda client: client.sendall(answer)) as port:
        error, took = refused(f"bolt://neo4j:{SECRET}@127.0.0.1:{port}")
    assert error.code in {"STORE_UNAVAILABLE", "MISCONFIGURED"}
    assert took < SOON


def test_a_desk_that_is_not_there_is_no_store_until_it_is_made() -> None:
    url = f"{shared_url()}?desk={fresh_desk()}-other"
    assert isinstance(refused(url)[0], NoStore)
    open_store(url, create=True).close()
    open_store(url).close()


def test_a_database_that_is_not_there_is_told() -> None:
    error, _ = refused(f"{shared_url()}?database=nowhere")
    assert isinstance(error, Misconfigured)


def test_a_store_of_a_newer_dibs_is_refused() -> None:
    desk = fresh_desk()
    admin().execute_query("MATCH (d:Desk {name: $name}) SET d.version = 99", name=desk)
    error, _ = refused(f"{shared_url()}?desk={desk}", create=True)
    assert isinstance(error, SchemaTooNew)


def test_the_way_over_the_cluster_protocol_leads_to_the_same_store() -> None:
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
    ],
)
def test_a_url_that_makes_no_sense_is_refused_before_anything_is_tried(url: str) -> None:
    with pytest.raises(InvalidInput):
        open_store(url)


def test_a_place_never_tells_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
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
