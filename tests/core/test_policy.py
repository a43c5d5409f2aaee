"""Vocabulary and exit statuses of a protocol, both ways."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import DibsError, Held, LostLock, NotFound
from dibs.core.policy import NATIVE, CanceledBlocker, OwnerProof, Policy
from dibs.core.task import Status

SHOUTING = Policy(
    name="shouting",
    words={status: f"{status}!" for status in Status},
    aliases={"Straße": Status.PAUSED},
    exit_statuses={"LOST_LOCK": 9, "NOT_FOUND": 1},
)


@pytest.mark.parametrize("policy", [NATIVE, SHOUTING], ids=lambda policy: policy.name)
@pytest.mark.parametrize("status", Status)
def test_policy_describes_its_moves(policy: Policy, status: Status) -> None:
    assert policy.read(policy.say(status)) is status


@given(st.sampled_from(Status), st.lists(st.booleans(), min_size=12, max_size=12))
def test_case_does_not_matter(status: Status, upper: list[bool]) -> None:
    word = NATIVE.say(status)
    mixed = "".join(c.upper() if up else c for c, up in zip(word, upper, strict=False))
    assert NATIVE.read(mixed) is status
    assert NATIVE.read(word.upper()) is status


def test_case_does_not_matter_beyond_english() -> None:
    assert SHOUTING.read("STRASSE") is Status.PAUSED


@pytest.mark.parametrize(
    ("word", "status"),
    [("cancelled", Status.CANCELED), ("in_progress", Status.ACTIVE), ("open", Status.READY), ("Open", Status.READY)],
)
def test_the_native_policy_reads_common_other_words(word: str, status: Status) -> None:
    assert NATIVE.read(word) is status


@pytest.mark.parametrize("word", ["", "doing", "done ", "ready!"])
def test_an_unknown_word_is_not_guessed(word: str) -> None:
    assert NATIVE.read(word) is None


def test_another_policys_words_are_not_ours() -> None:
    assert SHOUTING.say(Status.READY) == "ready!"
    assert SHOUTING.read("ready") is None


def test_an_alias_beats_a_word() -> None:
    assert Policy("odd", aliases={"ready": Status.DONE}).read("Ready") is Status.DONE


def test_a_policy_maps_the_codes_it_names_and_no_others() -> None:
    assert SHOUTING.exit_status(LostLock("")) == 9
    assert SHOUTING.exit_status(NotFound("")) == 1
    assert SHOUTING.exit_status(Held("")) == Held.exit_status
    assert NATIVE.exit_status(LostLock("")) == 5
    assert NATIVE.exit_status(DibsError("")) == 1


def test_the_native_policy_is_strict() -> None:
    assert NATIVE.owner_proof is OwnerProof.TOKEN
    assert not NATIVE.late_holder_ok
    assert not NATIVE.requeue_on_change
    assert NATIVE.lease == timedelta(minutes=20)
    assert NATIVE.canceled_blocker is CanceledBlocker.ESCALATES
