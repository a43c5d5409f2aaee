"""The timer reads for all senders, and continues after a failure."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from dibs.chat.analyst.analysis import Thresholds
from dibs.chat.conversation.delivery import Deliverer
from dibs.chat.conversation.inbox import SenderScopes, add_message
from dibs.chat.conversation.reader import Reader, read_due, watch
from dibs.chat.conversation.windows import Rule
from dibs.core.errors import StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.core.task import INBOX, Actor, Status
from dibs.desk import Desk
from dibs.stores.port import Query
from dibs.stores.sqlite.store import SqliteStore
from support.chat import ANN, BOB, analyst, embedder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    import pytest

    from dibs.chat.analyst.analysis import Analysis, Message, OpenTask
    from support.chat import Scene


PATIENCE = 120.0  # seconds; a busy machine may stall a program for long, and a passing test never waits for all of it


class Squeamish:
    """An analyst that fails on one word."""

    def analyse(
        self,
        messages: Sequence[Message],
        known: Sequence[OpenTask],
        before: Mapping[str, Iterable[str]],
        limits: Thresholds = Thresholds(),  # noqa: B008 - frozen
    ) -> Analysis:
        if any("spider" in message.text for message in messages):
            raise ValueError("a spider")
        return analyst().analyse(messages, known, before, limits)


def test_trouble_with_one_sender_delays_no_other(quick: Scene) -> None:
    quick.hear("Catch the spider", sender=ANN)
    quick.hear("Paint the fence", sender=BOB)
    quick.clock.advance(minutes=1)
    told: list[str] = []
    read = list(read_due(Desk(quick.store), Reader(Desk(quick.store), Squeamish(), embedder()), told.append))
    assert [outcome.sender for outcome in read] == [BOB]
    assert told == ["The messages of aaaaaaaaaaaa… could not be read (ValueError: a spider)."]
    assert [message.status for message in quick.messages(ANN)] == [Status.ACTIVE], "they wait for the lease to end"


def test_unavailable_store_is_retried(quick: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    quick.hear("Paint the fence")
    quick.clock.advance(minutes=1)
    rests: list[float] = []
    shown: list[str] = []
    told: list[str] = []
    answers = [StoreUnavailable("It is away.")]
    scopes = quick.store.scopes

    def away_once(*, claimable: bool = False) -> list[str]:
        if answers:
            raise answers.pop()
        return scopes(claimable=claimable)

    def stopped_within(seconds: float) -> bool:
        rests.append(seconds)
        return len(rests) > 2

    monkeypatch.setattr(quick.store, "scopes", away_once)
    reader = Reader(Desk(quick.store), analyst(), embedder())
    watch(
        Desk(quick.store),
        reader,
        Deliverer(Desk(quick.store, by=Actor("t"))),
        lambda what: shown.append(what.sender),
        told.append,
        stopped_within,
    )
    assert told == ["It is away."]
    assert shown == [ANN, ANN], "their messages are read, and they are told so"
    assert rests[1] > rests[2]


def test_flush_watch_reads_due_messages_until_stopped(tmp_path: Path) -> None:
    path = str(tmp_path / "dibs.db")
    with SqliteStore(path, create=True) as store:
        for number in range(5):
            _say_and_be_due(store, number)
        first = _watch(path)
        assert _eventually_read(store) >= 5
        _end(first, signal.SIGKILL)
        for number in range(5, 8):
            _say_and_be_due(store, number)
        second = _watch(path)
        assert _eventually_read(store) == 8
        _end(second, signal.SIGINT)
        assert second.wait(30) == 0


def _say_and_be_due(store: SqliteStore, number: int) -> None:
    now: datetime = store.now()
    rule = Rule(*(3 * (now - now,)))
    add_message(SenderScopes(Desk(store, by=Actor("chat")), f"{number:064x}"), f"Paint fence {number}", rule)


def _watch(path: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "dibs", "flush", "--watch", "--store", path])


def _end(program: subprocess.Popen[Any], how: signal.Signals) -> None:
    program.send_signal(how)
    program.wait(PATIENCE)


def _eventually_read(store: SqliteStore) -> int:
    """The number of tasks, once all messages are read."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        said = [scope for scope in store.scopes() if scope.startswith(INBOX)]
        unread = [task for scope in said for task in store.find(Query(scope, (Status.READY, Status.ACTIVE)))]
        if not unread:
            return len(store.find(Query(text="Paint fence")))
        time.sleep(0.05)
    raise AssertionError(unread)


def test_followed_inbox_prints_notes_until_stopped(tmp_path: Path) -> None:
    path = str(tmp_path / "dibs.db")
    with SqliteStore(path, create=True) as store:
        words = [sys.executable, "-m", "dibs", "inbox", "--sender-hash", ANN, "--store", path, "--follow", "--json"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as follower:
            assert follower.stdout is not None
            try:
                add_message(SenderScopes(Desk(store, by=Actor("chat")), ANN), "Paint the fence")
                Reader(Desk(store), analyst(), embedder()).read(ANN, now=True)
                assert json.loads(follower.stdout.readline())["kind"] == "working"
                (claimed,) = SenderScopes(Desk(store, by=Actor("chat")), ANN).tasks.claim("jochi")
                assert claimed.task.lease is not None
                SenderScopes(Desk(store, by=Actor("chat")), ANN).tasks.move(
                    Verb.DONE, claimed.task.id, token=claimed.task.lease.token, result="red now"
                )
                told = json.loads(follower.stdout.readline())["text"]
                assert told == "Task complete: Paint the fence\n  red now"
            finally:
                _end(follower, signal.SIGINT)
            assert follower.wait(30) == 0
