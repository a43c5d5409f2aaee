"""Messages are stored at once, and read together when their window closes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.chat.conversation.inbox import LONGEST, SenderScopes, add_message, senders_waiting
from dibs.chat.conversation.settings import Limits
from dibs.core.errors import InvalidInput, Unsupported
from dibs.core.lifecycle import ClaimRequest
from dibs.core.task import Actor, Status
from dibs.desk import Desk
from dibs.stores.vault.store import VaultStore
from support.chat import ANN, BOB

if TYPE_CHECKING:
    from pathlib import Path

    from support.chat import Scene


def test_message_is_stored_before_it_is_acknowledged(scene: Scene) -> None:
    (noted,) = scene.hear("Research competitors")
    (kept,) = scene.messages()
    assert kept == noted.message
    assert kept.description == "Research competitors"
    assert kept.not_before == noted.closes_at == kept.created_at + timedelta(seconds=45)


def test_messages_are_claimed_by_readers_only(quick: Scene) -> None:
    quick.hear("Research competitors")
    quick.clock.advance(minutes=5)
    assert quick.store.claim(ClaimRequest("ann", ("t",), None)) == []
    assert quick.store.claim(ClaimRequest("ann", ("t",), None, can=frozenset({"code", "research"}))) == []


def test_window_closes_for_all_its_messages_at_once(quick: Scene) -> None:
    first, second = quick.hear("Research competitors", "Paint the fence", pause=20)
    assert (first.closes_at, second.messages) == (second.closes_at, 2)
    assert quick.tick() == []
    quick.clock.advance(seconds=6)
    (late,) = quick.hear("Call the plumber")
    assert late.messages == 1
    assert late.closes_at > first.closes_at
    (outcome,) = quick.tick()
    assert [message.id for message in outcome.messages] == [first.message.id, second.message.id]
    assert sorted(quick.tasks()) == ["Paint the fence", "Research competitors"]
    quick.clock.advance(seconds=60)
    (outcome,) = quick.tick()
    assert [message.id for message in outcome.messages] == [late.message.id]
    assert quick.tick() == []


def test_window_length_follows_the_senders_pace(quick: Scene) -> None:
    for sender, pause in ((ANN, 1), (BOB, 25)):
        for _ in range(4):
            quick.hear(
                *(f"Paint the {colour} fence" for colour in ("red", "blue", "green")), sender=sender, pause=pause
            )
            quick.read(sender, now=True)
    (quickly,), (slowly,) = quick.hear("Call the plumber", sender=ANN), quick.hear("Call the plumber", sender=BOB)
    assert quickly.closes_at - quickly.message.created_at == timedelta(seconds=30)
    assert timedelta(seconds=45) < slowly.closes_at - slowly.message.created_at <= timedelta(seconds=60)


def test_simultaneous_windows_are_read_together(quick: Scene) -> None:
    first = add_message(quick.scopes(), "Research competitors")
    rival = quick.scopes()
    rival.unread = list  # type: ignore[method-assign]  # it looked before the other one wrote
    quick.clock.advance(milliseconds=5)
    second = add_message(rival, "Then write a strategy based on the research")
    assert second.closes_at != first.closes_at
    quick.clock.advance(seconds=44.996)
    (outcome,) = quick.tick()
    assert [message.id for message in outcome.messages] == [first.message.id, second.message.id]
    assert len(outcome.links) == 1


def test_the_hundredth_message_closes_the_window(quick: Scene) -> None:
    noted = quick.hear(*(f"Paint fence number {number}" for number in range(99)), pause=0.1)
    assert senders_waiting(Desk(quick.store)) == []
    (last,) = quick.hear("Call the plumber")
    assert (noted[-1].messages, last.messages) == (99, 100)
    quick.limits = Limits(batch=1000)
    (outcome,) = quick.tick()
    assert len(outcome.messages) == 100
    (after,) = quick.hear("Buy paint")
    assert after.messages == 1


def test_window_can_be_closed_early(quick: Scene) -> None:
    quick.hear("Research competitors", "Paint the fence")
    outcome = quick.read(now=True)
    assert outcome is not None
    assert len(outcome.tasks) == 2
    assert quick.read(now=True) is None
    assert {message.status for message in quick.messages()} == {Status.DONE}


def test_small_talk_is_read_and_makes_no_task(quick: Scene) -> None:
    quick.hear("Thanks!", "Good morning")
    outcome = quick.read(now=True)
    assert outcome is not None
    assert outcome.tasks == ()
    assert [message.result for message in quick.messages()] == [{"tasks": []}] * 2


def test_senders_are_independent(scene: Scene) -> None:
    scene.hear("Research competitors", sender=ANN)
    scene.hear("Research competitors", sender=BOB)
    scene.clock.advance(minutes=1)
    assert senders_waiting(Desk(scene.store)) == [ANN, BOB]
    scene.read(ANN)
    assert list(scene.tasks(ANN)) == ["Research competitors"]
    assert scene.tasks(BOB) == {}
    assert scene.read(ANN, now=True) is None
    assert [message.status for message in scene.messages(BOB)] == [Status.READY]
    outcome = scene.read(BOB)
    assert outcome is not None
    assert [task.merged_into for task in outcome.tasks] == [None], "it is no duplicate of a stranger's"


@pytest.mark.parametrize("text", ["", " \n\t ", "x" * (LONGEST + 1)])
def test_empty_and_oversized_messages_are_rejected(quick: Scene, text: str) -> None:
    with pytest.raises(InvalidInput):
        quick.hear(text)
    assert quick.messages() == []


@pytest.mark.parametrize("text", ["a\x1b[2Jb", "line one\nline two", "\u202eevil", "🙂" * 300])
def test_any_text_is_accepted_and_kept_unchanged(quick: Scene, text: str) -> None:
    quick.hear(text)
    assert [message.description for message in quick.messages()] == [text]


def test_a_store_without_transactions_is_refused(tmp_path: Path) -> None:
    with VaultStore(str(tmp_path / "vault"), create=True) as store, pytest.raises(Unsupported, match="SQLite"):
        SenderScopes(Desk(store, by=Actor("chat")), ANN)
