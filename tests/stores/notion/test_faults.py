"""Failures of Notion: the right error, no repeated write, useful advice."""

from __future__ import annotations

import http.server
import ssl
import subprocess
import threading
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import (
    DibsError,
    LostLock,
    Misconfigured,
    NotFound,
    StoreBusy,
    StoreUnavailable,
    Unconfirmed,
    Unsupported,
)
from dibs.core.events import Event
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Status
from support.notion import hurried
from support.ports import silent_port

from .desk import SCOPE, add, claim, hold, move, peek_ids, request, title

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .desk import Place

PASSING = [
    "unavailable",
    "internal_error",
    "bad_gateway",
    "gateway_timeout",
    "overload",
    "rate_limited",
    "drop",
    "garbage",
]


@pytest.mark.parametrize("kind", PASSING)
def test_a_read_that_fails_for_no_lasting_reason_is_repeated(place: Place, kind: str) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    place.notion.faults.next(kind, method="GET", times=2)
    assert store.get(SCOPE, task.id).title == "Sweep"
    place.notion.faults.next(kind, method="POST", times=2)
    assert peek_ids(store) == [task.id]


@pytest.mark.parametrize("kind", PASSING)
def test_failing_read_is_an_error_not_an_empty_list(place: Place, kind: str) -> None:
    store = place.open()
    add(store, "Sweep")
    place.notion.faults.next(kind, method="POST", times=99)
    with pytest.raises((StoreUnavailable, StoreBusy)) as failed:
        peek_ids(store)
    assert "again" in failed.value.message
    assert 3 <= place.notion.requests.count("POST") <= 6


DONE_ANYWAY = ["unavailable_after_commit", "gateway_timeout_after_commit", "drop_after_commit", "garbage"]


@pytest.mark.parametrize("kind", DONE_ANYWAY)
@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RENEW, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.RELEASE])
def test_write_made_despite_an_error_is_not_repeated(place: Place, verb: Verb, kind: str) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.clock.advance(minutes=5)
    place.notion.requests.clear()
    place.notion.faults.next(kind, method="PATCH")
    moved = move(store, verb, task.id, token, reason="because").task
    assert place.notion.requests.count("PATCH") == 1
    assert moved == store.get(SCOPE, task.id)
    assert (moved.status is Status.ACTIVE) is (verb is Verb.RENEW)


@pytest.mark.parametrize("kind", ["unavailable", "drop", "internal_error"])
@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RENEW, Verb.BLOCK])
def test_unanswered_write_is_not_repeated_by_dibs(place: Place, verb: Verb, kind: str) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.clock.advance(minutes=5)
    place.notion.requests.clear()
    place.notion.faults.next(kind, method="PATCH")
    with pytest.raises(StoreUnavailable, match="ry again"):
        move(store, verb, task.id, token, reason="because")
    assert place.notion.requests.count("PATCH") == 1
    assert move(store, verb, task.id, token, reason="because").task == store.get(SCOPE, task.id)


@pytest.mark.parametrize("kind", ["conflict", "rate_limited"])
@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RENEW, Verb.BLOCK])
def test_refused_write_is_judged_again_and_retried(place: Place, verb: Verb, kind: str) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.clock.advance(minutes=5)
    place.served()
    place.notion.faults.next(kind, method="PATCH")
    assert move(store, verb, task.id, token, reason="because").task == store.get(SCOPE, task.id)
    refused = "PATCH 409" if kind == "conflict" else "PATCH 429"
    assert place.served()[:4] == ["GET 200", refused, "GET 200", "PATCH 200"]


@pytest.mark.parametrize(
    "kind", ["conflict", "unavailable", "unavailable_after_commit", "drop", "drop_after_commit", "garbage"]
)
def test_claim_with_a_doubtful_write_does_not_count(place: Place, kind: str) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    place.notion.requests.clear()
    place.notion.faults.next(kind, method="PATCH")
    with pytest.raises(StoreUnavailable, match="does not count") as doubt:
        hold(store, task.id)
    assert not isinstance(doubt.value, Unconfirmed)
    assert place.notion.requests.count("PATCH") == 1


def test_rate_limited_claim_writes_nothing(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    place.notion.faults.next("rate_limited", method="PATCH")
    with pytest.raises(StoreBusy) as busy:
        hold(store, task.id)
    assert busy.value.retry_after_ms == 1000
    assert store.get(SCOPE, task.id).status is Status.READY


def test_unconfirmed_claim_can_be_released_with_its_token(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    place.notion.faults.next("unavailable", method="GET", times=4, skip=1)
    asked = request("ann", task.id)
    with pytest.raises(Unconfirmed) as unconfirmed:
        store.claim(asked)
    assert unconfirmed.value.token == asked.tokens[0]
    assert asked.tokens[0] not in unconfirmed.value.message
    assert move(store, Verb.RELEASE, task.id, asked.tokens[0]).task.status is Status.READY


@pytest.mark.parametrize(("options", "timeout"), [({"window": "0.3", "settle": "0.4"}, 0.3), ({}, 4.0)])
def test_unanswered_claim_write_is_given_up_after_the_window(
    place: Place, options: dict[str, Any], timeout: float
) -> None:
    store = place.open(**options)
    (task,) = add(store, "Sweep")
    held = place.notion.faults.hold("PATCH")
    with hurried("PATCH", times=1) as timeouts, pytest.raises(StoreUnavailable, match="does not count"):
        hold(store, task.id)
    assert not held.released.is_set()
    assert timeouts == [pytest.approx(timeout)]


def test_read_has_a_timeout_of_20_seconds(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    with hurried("GET", times=1) as timeouts:
        assert store.get(SCOPE, task.id).title == "Sweep"
    assert timeouts == [20.0]


@pytest.mark.parametrize("kind", ["unavailable_after_commit", "drop_after_commit"])
def test_doubtful_add_is_not_repeated(place: Place, kind: str) -> None:
    store = place.open()
    place.notion.faults.next(kind, method="POST", path="/pages")
    with pytest.raises(StoreUnavailable, match="not certain that 'Sweep' was added"):
        add(store, "Sweep")
    assert len(peek_ids(store)) == 1


def test_tasks_added_before_a_failure_are_removed(place: Place) -> None:
    store = place.open()
    place.notion.faults.next("unavailable", method="POST", path="/pages", skip=2)
    with pytest.raises(StoreUnavailable):
        add(store, "one", "two", "three")
    assert peek_ids(store) == []


def test_wrong_token_error_gives_advice(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.make()
    monkeypatch.setenv("NOTION_TOKEN", "ntn_wrong")
    with pytest.raises(Misconfigured, match="does not accept NOTION_TOKEN"):
        claim(place.join())
    monkeypatch.delenv("NOTION_TOKEN")
    with pytest.raises(Misconfigured, match="NOTION_TOKEN is not set"):
        place.join()


@pytest.mark.parametrize("id_", ["", "tasks", "https://notion.so/x", "2f835e81", "z" * 32, "../../users/me"])
def test_invalid_database_id_is_refused_before_requests(place: Place, id_: str) -> None:
    place.database = id_
    with pytest.raises(Misconfigured, match="of a Notion database"):
        place.join()
    assert place.served() == []


def test_unshared_database_error_gives_advice(place: Place) -> None:
    place.database = "2f835e81-2bbb-81b6-9700-e18108a40b1f"
    with pytest.raises(Misconfigured, match="Connections"):
        claim(place.join())
    place.make()
    place.page("one")
    place.notion.human.unshare(place.database)
    with pytest.raises(Misconfigured, match="Connections"):
        claim(place.join())


def test_ids_of_other_objects_are_refused(place: Place) -> None:
    place.make()
    page, database = place.page("one"), place.database
    with pytest.raises(NotFound):
        place.join().get(SCOPE, database)
    place.database = page
    with pytest.raises(Misconfigured, match="does not belong to a database"):
        claim(place.join())


def test_a_page_of_another_database_is_not_found(place: Place) -> None:
    place.make()
    elsewhere = place.page("not ours")
    store = place.open()
    for ask in (lambda: store.get(SCOPE, elsewhere), lambda: hold(store, elsewhere)):
        with pytest.raises(NotFound):
            ask()


@pytest.mark.parametrize(
    "ref", ["TASK-99", "99", "OTHER-1", "0", "-1", "x", "1" * 40, "2f835e81-2bbb-81b6-9700-e18108a40b1f"]
)
def test_an_unknown_task_is_not_found(place: Place, ref: str) -> None:
    store = place.open()
    add(store, "Sweep")
    for ask in (lambda: store.get(SCOPE, ref), lambda: hold(store, ref), lambda: move(store, Verb.CANCEL, ref)):
        with pytest.raises(NotFound):
            ask()


def test_task_is_found_by_id_number_or_page(place: Place) -> None:
    store = place.open()
    page = place.page("one")
    for ref in ("TASK-1", "1", page, page.replace("-", ""), page.upper()):
        assert store.get(SCOPE, ref).title == "one"


def test_read_only_integration_is_refused_with_its_capability(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.make()
    place.page("one")
    monkeypatch.setenv("NOTION_TOKEN", place.notion.bot(frozenset({"read_content"})))
    with pytest.raises(Misconfigured, match="capability"):
        claim(place.join())


def test_missing_comment_capability_is_named(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    said = Event(store.now(), SCOPE, task.id, "comment", agent="ann", reason="half way there")
    store.record(said)
    assert place.comments(str(task.origin)) == ["ann: half way there"]
    monkeypatch.setenv("NOTION_TOKEN", place.notion.bot())
    with pytest.raises(Unsupported, match="Insert comments"):
        place.join().record(said)


def test_closed_port_is_reported_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.make()
    with silent_port() as port:
        monkeypatch.setenv("NOTION_API_BASE_URL", f"http://127.0.0.1:{port}")
        with pytest.raises(StoreUnavailable, match=f"cannot be reached at http://127.0.0.1:{port}"):
            claim(place.join())


@pytest.fixture
def self_signed(tmp_path: Path) -> Iterator[str]:
    """Return the address of a server with a self-signed certificate."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days", "2",
         "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"],
        check=True, capture_output=True,
    )  # fmt: skip
    server = http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_untrusted_certificate_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch, self_signed: str) -> None:
    place.make()
    monkeypatch.setenv("NOTION_API_BASE_URL", self_signed)
    with pytest.raises(StoreUnavailable, match="certificate was not accepted"):
        claim(place.join())


@pytest.mark.parametrize("address", ["ftp://127.0.0.1", "127.0.0.1", "api.notion.com"])
def test_invalid_address_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    place.make()
    monkeypatch.setenv("NOTION_API_BASE_URL", address)
    with pytest.raises(Misconfigured, match="NOTION_API_BASE_URL"):
        place.join()


def test_foreign_json_answer_is_an_error(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.make()

    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.say(b'{"data_sources": [{"id": "x", "name": "Tasks"}]}')

        def do_POST(self) -> None:
            self.say(b'{"hello": "world"}')

        def say(self, what: bytes) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(what)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Other)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        monkeypatch.setenv("NOTION_API_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}")
        store = place.join()
        with pytest.raises(StoreUnavailable, match="no list of pages"):
            claim(store)
        with pytest.raises(StoreUnavailable, match="no list of pages"):
            hold(store, "TASK-1")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_wrong_cache_is_detected_and_corrected(place: Place) -> None:
    store = place.open()
    one, two = add(store, "one", "two")
    store._db.cache.put("page", one.id, str(two.origin))
    assert place.join().get(SCOPE, one.id).title == "one"


def test_a_cache_that_cannot_be_written_does_no_harm(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = place.folder / "a file"
    blocked.write_text("x")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(place.join(), task.id)
    assert move(place.join(), Verb.DONE, task.id, token).task.status is Status.DONE


def test_lease_end_has_margins_on_both_sides(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    place.clock.advance(seconds=1)
    token = hold(store, task.id)  # until 12:21
    place.clock.advance(minutes=19, seconds=30)
    for verb in (Verb.RENEW, Verb.DONE):
        with pytest.raises(LostLock, match="close to its end"):
            move(store, verb, task.id, token)
    place.clock.advance(minutes=2)  # 12:21:31
    assert claim(store, "bob") == []
    place.clock.advance(minutes=1)
    assert [claimed.task.id for claimed in claim(store, "bob")] == [task.id]
    with pytest.raises(LostLock, match="bob"):
        move(store, Verb.DONE, task.id, token)


def test_errors_are_those_of_the_core_and_have_a_code(place: Place) -> None:
    store = place.open()
    with pytest.raises(DibsError) as error:
        store.get(SCOPE, "TASK-7")
    assert (error.value.code, error.value.exit_status) == ("NOT_FOUND", 3)


def test_a_title_of_two_lines_and_odd_characters_is_kept(place: Place) -> None:
    store = place.open()
    said = "Sweep, “dust” & 😀 <b> \\ / ; --"
    (task,) = store.add(SCOPE, [Draft(said)], [], Actor())
    assert store.get(SCOPE, task.id).title == said
    assert title(said)["title"][0]["text"]["content"] == said
