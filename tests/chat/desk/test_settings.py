"""Chat settings, global and per sender, and their effects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.chat.conversation.settings import OPTIONS, Limits, Settings, configure, settings_of, values
from dibs.core.errors import InvalidInput
from dibs.core.task import Actor
from dibs.desk import Desk
from support.chat import ANN, BOB

if TYPE_CHECKING:
    from dibs.core.task import Json
    from support.chat import Scene

BY = Actor("boss")


def test_unset_options_have_their_defaults(quick: Scene) -> None:
    assert settings_of(Desk(quick.store), ANN) == Settings()
    assert values(Desk(quick.store), None) == {name: option.default for name, option in OPTIONS.items()}


def test_senders_setting_overrides_the_global_one(scene: Scene) -> None:
    configure(Desk(scene.store, by=BY), None, {"chat_tasks_an_hour": 20})
    configure(Desk(scene.store, by=BY), ANN, {"chat_tasks_an_hour": 5, "chat_merge": 0.95})
    assert settings_of(Desk(scene.store), ANN).limits == Limits(5, 50)
    assert settings_of(Desk(scene.store), BOB).limits == Limits(20, 50)
    configure(Desk(scene.store, by=BY), ANN, {"chat_tasks_an_hour": None})
    assert settings_of(Desk(scene.store), ANN).limits == Limits(20, 50)
    assert settings_of(Desk(scene.store), ANN).thresholds.merge == 0.95


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("chat_merge", 1.5, "a number from 0 to 1"),
        ("chat_merge", float("nan"), "a number from 0 to 1"),
        ("chat_merge", "high", "a number from 0 to 1"),
        ("chat_tasks_at_once", 0, "a whole number from 1 to 1000"),
        ("chat_tasks_at_once", 2.5, "a whole number"),
        ("chat_tasks_at_once", True, "a whole number"),
        ("chat_window", 0, "a whole number of seconds from 1 to 3600"),
        ("chat_speed", 1, "There is no setting 'chat_speed'. Choose from chat_merge"),
        (
            "chat_ask",
            0.95,
            "must rise in this order: chat_related 0.55, chat_ask 0.95, chat_merge 0.9",
        ),
        ("chat_window", 90, "chat_window_shortest 30, chat_window 90, chat_window_longest 60"),
    ],
)
def test_invalid_setting_is_refused_when_written(quick: Scene, name: str, value: Json, told: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        configure(Desk(quick.store, by=BY), ANN, {"chat_tasks_an_hour": 7, name: value})
    assert told in caught.value.message
    assert settings_of(Desk(quick.store), ANN) == Settings(), "all or none"


def test_conflicting_setting_is_adjusted(quick: Scene) -> None:
    configure(Desk(quick.store, by=BY), ANN, {"chat_merge": 0.8})
    configure(Desk(quick.store, by=BY), None, {"chat_merge": 0.97, "chat_ask": 0.93})
    assert settings_of(Desk(quick.store), ANN).thresholds == (0.8, 0.8, 0.55)


def test_batch_limit_is_enforced(quick: Scene) -> None:
    configure(Desk(quick.store, by=BY), ANN, {"chat_tasks_at_once": 2})
    quick.hear("Paint the fence", "Call the plumber", "Order a new lamp")
    outcome = quick.read(now=True)
    assert outcome is not None
    assert (len(outcome.tasks), len(outcome.later.messages)) == (2, 1)


def test_window_span_follows_the_senders_setting(quick: Scene) -> None:
    configure(Desk(quick.store, by=BY), ANN, {"chat_window_shortest": 5, "chat_window": 10, "chat_window_messages": 3})
    (first,) = quick.hear("Paint the fence")
    assert (first.closes_at - first.message.created_at).total_seconds() == 10
    assert quick.hear("Call the plumber", "Order a lamp")[-1].messages == 3
    assert [len(outcome.messages) for outcome in quick.tick()] == [3]


def test_thresholds_decide_about_merges(quick: Scene) -> None:
    said = ("Paint the garden fence", "Paint the garden fence green")
    configure(Desk(quick.store, by=BY), BOB, {"chat_related": 0.3, "chat_ask": 0.4, "chat_merge": 0.5})
    for sender, merged in ((ANN, 0), (BOB, 1)):
        quick.hear(*said, sender=sender)
        outcome = quick.read(sender, now=True)
        assert outcome is not None
        assert sum(task.merged_into is not None for task in outcome.tasks) == merged
