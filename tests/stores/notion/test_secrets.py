"""No failure shows the integration's token or a lock's."""

from __future__ import annotations

import http.server
import json
import logging
import threading
import traceback
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.task import Holder

from .desk import SCOPE, add, claim, hold, move, request, select

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.stores.notion.store import NotionStore

    from .desk import Place

FAULTS = [
    "conflict", "unavailable", "unavailable_after_commit", "overload", "internal_error", "bad_gateway", "rate_limited",
    "drop", "drop_after_commit", "garbage",
]  # fmt: skip


class Ears:
    """Collects logs and errors, and checks them for secrets."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        self._log = caplog
        self._heard: list[str] = []
        self.secrets: list[str] = []

    def hear(self, error: BaseException) -> None:
        said = vars(error).copy()
        said.pop("token", None)  # the caller's own, of an unconfirmed claim
        self._heard.append(f"{error} {error!r} {''.join(traceback.format_exception(error))} {said}")

    def check(self) -> int:
        everything = "\n".join((*self._heard, self._log.text))
        for secret in self.secrets:
            assert secret not in everything
        return len(self._heard)


@pytest.fixture
def ears(caplog: pytest.LogCaptureFixture) -> Ears:
    return Ears(caplog)


def attempts(store: NotionStore, task: str, ears: Ears) -> None:
    """Run every verb that sends a token, and collect the errors."""
    asked = request("ann", task)
    ears.secrets += asked.tokens
    proof = asked.tokens[0]
    doings: list[Callable[[], object]] = [
        lambda: store.claim(asked),
        lambda: move(store, Verb.RENEW, task, proof),
        lambda: move(store, Verb.BLOCK, task, proof, reason="because"),
        lambda: move(store, Verb.UNBLOCK, task),
        lambda: move(store, Verb.DONE, task, proof),
    ]
    for ask in doings:
        try:
            ask()
        except DibsError as error:
            ears.hear(error)


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_no_failure_shows_a_token(place: Place, ears: Ears, method: str, kind: str) -> None:
    store = place.open()
    ears.secrets.append(place.notion.token)
    for skip in range(4):
        (task,) = add(store, "Sweep")
        place.notion.faults.next(kind, method=method, times=9, skip=skip)
        attempts(store, task.id, ears)
        place.notion.faults.clear()
    assert ears.check() > 0


def test_no_lost_lock_shows_a_token(place: Place, ears: Ears) -> None:
    store = place.open()
    ears.secrets.append(place.notion.token)
    for edit in ({"Claimed By": select("HUMAN")}, {"Status": select("REVIEW")}):
        (task,) = add(store, "Sweep")
        token = hold(store, task.id)
        other = "somebody else's lock"
        ears.secrets += [token, other]
        with pytest.raises(DibsError) as refused:
            hold(store, task.id)
        ears.hear(refused.value)
        with pytest.raises(DibsError) as refused:
            move(store, Verb.DONE, task.id, other)
        ears.hear(refused.value)
        place.notion.human.edit(str(task.origin), edit)
        with pytest.raises(DibsError) as lost:
            move(store, Verb.DONE, task.id, token)
        ears.hear(lost.value)
    assert ears.check() == 6


@pytest.fixture
def echo() -> Iterator[str]:
    """A server that refuses every request and echoes it."""

    class Echo(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            message = f"{self.headers['Authorization']} {body}"
            said = json.dumps({"object": "error", "status": 400, "code": "validation_error", "message": message})
            self.send_response(400)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said.encode())

        do_POST = do_PATCH = do_GET  # noqa: N815 - names that the library calls

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_echoed_request_is_shown_without_secrets(
    place: Place, ears: Ears, echo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dibs.stores.notion.http import HttpGateway

    ears.secrets += [place.notion.token, "lock-token-in-the-body"]
    gateway = HttpGateway(place.notion.token, echo)
    gateway.hush("lock-token-in-the-body")
    lock = {"Lock Token": {"rich_text": [{"text": {"content": "lock-token-in-the-body"}}]}}
    doings: list[Callable[[], object]] = [
        lambda: gateway.update("2f835e812bbb81b69700e18108a40b1f", lock),
        gateway.me,
    ]
    for ask in doings:
        with pytest.raises(DibsError, match="…") as refused:
            ask()
        ears.hear(refused.value)
    gateway.close()
    place.make()
    monkeypatch.setenv("NOTION_API_BASE_URL", echo)
    with pytest.raises(DibsError) as refused:
        claim(place.join())
    ears.hear(refused.value)
    assert ears.check() == 3


def test_no_representation_shows_a_token(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    asked = request("ann", task.id)
    (claimed,) = store.claim(asked)
    reading = store._db.read(task.id)
    shown = [repr(part) for part in (store, store._db.gateway, claimed, reading, store.get(SCOPE, task.id), asked)]
    shown += [str(store.describe()), str(store.examine()), str(store.check(fix=False))]
    for secret in (place.notion.token, asked.tokens[0]):
        assert not [text for text in shown if secret in text]
    assert claimed.task.lease is not None
    assert claimed.task.lease.holder is Holder.AGENT


def test_an_arbiters_password_is_in_nothing_that_is_shown() -> None:
    from dibs.stores.notion.connection import target_of

    rest = "2f835e812bbb81b69700e18108a40b1f?arbiter=postgresql://me:hidden@host/db%3Fsslpassword=hidden%26timeout=3"
    target = target_of(rest)
    assert target.arbiter == "postgresql://me:hidden@host/db?sslpassword=hidden&timeout=3"
    assert "hidden" not in repr(target) + target.place


def test_of_a_spent_token_only_a_digest_stays_behind(place: Place) -> None:
    store = place.open("dibs")
    from dibs.core.task import Actor, Draft

    store.add(SCOPE, [Draft("Sweep", id="sweep")], [], Actor())
    token = hold(store, "sweep")
    move(store, Verb.DONE, "sweep", token, result={"n": 1})
    assert token not in str(place.shows(store._db.find_page("sweep")))
    again = move(store, Verb.DONE, "sweep", token)
    assert again.repeated
