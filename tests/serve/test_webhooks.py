"""Webhooks: events posted to a real receiver, which fails, hangs up and comes back, while servers come and go."""

from __future__ import annotations

import base64
import hmac
import json
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dibs.core.errors import InvalidInput, NotFound
from dibs.core.task import Draft
from dibs.desk import Desk, open_desk
from dibs.serve.webhooks import (
    Deliverer,
    add_webhook,
    checked_url,
    listed_webhooks,
    message_of,
    remove_webhook,
    shown_key,
    signed_headers,
)
from support.http import PATIENCE, Server, new_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRET = b"s" * 40
HASTE = (0.05,)  # seconds between tries


class Got(NamedTuple):
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> Any:
        return json.loads(self.body)

    @property
    def what(self) -> tuple[str, str | None]:
        return self.data["type"], self.data["data"].get("task")


class Receiver:
    """Answers with each of `statuses`, then with 204."""

    def __init__(self) -> None:
        self.got: list[Got] = []
        self.statuses: list[int] = []
        self.url = ""

    def until(self, enough: Callable[[list[Got]], bool]) -> list[Got]:
        end = time.monotonic() + PATIENCE
        while not enough(list(self.got)):
            assert time.monotonic() < end, self.got
            time.sleep(0.01)
        return list(self.got)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.got.append(Got({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(found.statuses.pop(0) if found.statuses else 204)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_port}/hook"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield found
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return new_store(tmp_path)


@pytest.fixture
def desk(store: str) -> Iterator[Desk]:
    with open_desk(store) as opened:
        yield opened


@contextmanager
def delivering(store: str, name: str = "server-1", secrets: tuple[bytes, ...] = (SECRET,)) -> Iterator[None]:
    deliverer = Deliverer(lambda: open_desk(store), secrets, name, HASTE)
    deliverer.start()
    try:
        yield
    finally:
        deliverer.close()


def ids(got: list[Got]) -> list[str]:
    return [each.id for each in got]


def test_a_signature_is_that_of_the_standard_webhooks_library() -> None:
    """Computed with `standardwebhooks` from PyPI, from the same secret, id, time and body."""
    headers = signed_headers("abc123", "dibs-7", 1767268800, b'{"type":"task.done"}', [SECRET])
    assert shown_key(SECRET, "abc123") == "whsec_I+xqkaOogf85Bdb9B4uANvXsuRYaiAf8GzR/xMk/Byc="
    assert headers["webhook-signature"] == "v1,rM/Vtb4gbxKh+207musRu+Tr3bHIySkRmk+WFk8E8GI="
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("dibs-7", "1767268800")


def test_events_come_in_order_and_signed(desk: Desk, store: str, receiver: Receiver) -> None:
    desk.add([Draft("before", "before")])
    webhook = add_webhook(desk, receiver.url, (), "default")
    key = base64.b64decode(shown_key(SECRET, webhook.id).removeprefix("whsec_"))
    with delivering(store):
        desk.add([Draft("a", "a"), Draft("b", "b")])
        desk.claim("ann", refs=["a"])
        got = receiver.until(lambda got: len(got) >= 3)
    assert [each.what for each in got] == [("task.add", "a"), ("task.add", "b"), ("task.claim", "a")]
    for each in got:
        content = f"{each.id}.{each.headers['webhook-timestamp']}.".encode() + each.body
        signature = base64.b64encode(hmac.digest(key, content, "sha256")).decode()
        assert each.headers["webhook-signature"] == f"v1,{signature}"


def test_only_the_events_that_were_asked_for(desk: Desk, store: str, receiver: Receiver) -> None:
    add_webhook(desk, receiver.url, ("claim",), "default")
    with delivering(store):
        desk.at("other").add([Draft("x", "x")])
        desk.at("other").claim("ann")
        desk.add([Draft("a", "a")])
        desk.claim("ann")
        got = receiver.until(lambda got: len(got) >= 1)
    assert [each.what for each in got] == [("task.claim", "a")]


def test_refused_event_is_retried_before_later_ones(desk: Desk, store: str, receiver: Receiver) -> None:
    add_webhook(desk, receiver.url, (), "default")
    receiver.statuses = [500, 302, 404]
    with delivering(store):
        desk.add([Draft("a", "a")])
        desk.add([Draft("b", "b")])
        got = receiver.until(lambda got: len(got) >= 5)
    assert [each.what[1] for each in got] == ["a", "a", "a", "a", "b"]
    assert len(set(ids(got)[:4])) == 1
    assert listed_webhooks(desk)[0].trouble is None


def test_failure_is_listed_until_it_ends(desk: Desk, store: str, receiver: Receiver) -> None:
    add_webhook(desk, receiver.url, (), "default")
    receiver.statuses = [503] * 1000
    with delivering(store):
        desk.add([Draft("a", "a")])
        receiver.until(lambda got: len(got) >= 2)
        assert listed_webhooks(desk)[0].trouble == "HTTP status 503"
        receiver.statuses.clear()
        seen = len(receiver.got)
        receiver.until(lambda got: len(got) > seen)
    assert listed_webhooks(desk)[0].trouble is None


def test_next_server_continues_after_the_last_event(desk: Desk, store: str, receiver: Receiver) -> None:
    add_webhook(desk, receiver.url, (), "default")
    with delivering(store):
        desk.add([Draft("a", "a")])
        receiver.until(lambda got: len(got) >= 1)
    desk.add([Draft("b", "b")])
    with delivering(store, "server-2"):
        got = receiver.until(lambda got: len(got) >= 2)
    assert [each.what[1] for each in got] == ["a", "b"]


def test_one_of_several_servers_delivers(desk: Desk, store: str, receiver: Receiver) -> None:
    add_webhook(desk, receiver.url, ("add",), "default")
    with delivering(store), delivering(store, "server-2"), delivering(store, "server-3"):
        for number in range(20):
            desk.add([Draft(f"t{number}", f"t{number}")])
        got = receiver.until(lambda got: len(got) >= 20)
    assert len(ids(got)) == len(set(ids(got))) == 20


def test_both_secrets_sign_during_a_change(desk: Desk, store: str, receiver: Receiver) -> None:
    webhook = add_webhook(desk, receiver.url, (), "default")
    new = b"n" * 40
    with delivering(store, secrets=(new, SECRET)):
        desk.add([Draft("a", "a")])
        (got,) = receiver.until(lambda got: len(got) >= 1)
    at = int(got.headers["webhook-timestamp"])
    signatures = got.headers["webhook-signature"].split()
    assert signatures == [
        signed_headers(webhook.id, got.id, at, got.body, [secret])["webhook-signature"] for secret in (new, SECRET)
    ]


def test_a_removed_webhook_gets_nothing_more(desk: Desk, store: str, receiver: Receiver) -> None:
    kept = add_webhook(desk, receiver.url, (), "default")
    gone = add_webhook(desk, receiver.url.replace("hook", "gone"), (), "default")
    remove_webhook(desk, gone.id)
    with delivering(store):
        desk.add([Draft("a", "a")])
        receiver.until(lambda got: len(got) >= 1)
    assert [each.id for each in listed_webhooks(desk)] == [kept.id]
    assert len(receiver.got) == 1
    with pytest.raises(NotFound, match="dibs webhook list"):
        remove_webhook(desk, gone.id)


def test_a_message_holds_no_token(desk: Desk) -> None:
    desk.add([Draft("a", "a")])
    (claimed,) = desk.claim("ann")
    assert claimed.task.lease is not None
    assert all(claimed.task.lease.token.encode() not in message_of(event) for event in desk.events())


@pytest.mark.parametrize(
    "url", ["ftp://x", "https://", "example.org", "https://a b", "https://me:pw@example.org", "http://x:0"]
)
def test_an_address_that_cannot_be_posted_to_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        checked_url(url)


def test_a_server_delivers_webhooks(store: str, desk: Desk, receiver: Receiver) -> None:
    add_webhook(desk, receiver.url, ("add",), None)
    server = Server(store, variables={"DIBS_SERVE_SECRET": SECRET.decode()})
    try:
        desk.at("other").add([Draft("a", "a")])
        (got,) = receiver.until(lambda got: len(got) >= 1)
    finally:
        server.end()
    assert got.what == ("task.add", "a")
    assert listed_webhooks(desk)[0].delivering is None
