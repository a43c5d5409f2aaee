"""kurultai's rules as data: words both ways, weights, routing, names."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import InvalidInput
from dibs.core.task import Status, Task
from dibs.protocols.kurultai.policy import (
    BLOCKED_REASON,
    DELIVERABLE_TYPES,
    FLEET,
    KURULTAI,
    agent_for,
    agent_id,
    blocked_reason_of,
    clamped,
    deliverable_type,
    priority_of,
    status_from,
    status_of,
    statuses_called,
    weight_of,
)

THEN = datetime(2026, 2, 4, tzinfo=UTC)


def task(status: Status = Status.READY, **more: object) -> Task:
    return Task("s", "a", "t", THEN, THEN, THEN, status=status)._replace(**more)  # type: ignore[arg-type]


def test_there_are_the_five_statuses_of_the_document_and_no_other() -> None:
    assert set(KURULTAI.words) == set(Status)
    assert set(KURULTAI.words.values()) == {"pending", "in_progress", "completed", "blocked", "escalated"}


@pytest.mark.parametrize(
    ("word", "base", "reason"),
    [("ready", "pending", None), ("paused", "blocked", "paused"), ("aborted", "blocked", "aborted")],
)
def test_its_other_words_are_mapped_to_those_five(word: str, base: str, reason: str | None) -> None:
    status = status_from(word)
    assert (status_of(task(status)), blocked_reason_of(task(status))) == (base, reason)
    assert status_from(base, reason) is status


@pytest.mark.parametrize("status", Status)
def test_every_status_comes_back_from_its_word_and_its_reason(status: Status) -> None:
    said = task(status, reason="no access")
    assert status_from(status_of(said), blocked_reason_of(said)) is status


def test_words_are_read_in_any_case_and_unknown_ones_are_refused() -> None:
    assert status_from("In_Progress") is Status.ACTIVE
    with pytest.raises(InvalidInput, match="pending"):
        status_from("doing")


def test_blocked_covers_all_that_is_called_so() -> None:
    assert set(statuses_called("BLOCKED")) == {Status.BLOCKED, *BLOCKED_REASON}
    assert statuses_called("paused") == (Status.PAUSED,)
    assert statuses_called("ready") == statuses_called("pending") == (Status.READY,)


@given(st.floats(allow_nan=False))
def test_a_weight_comes_back_clamped_and_never_as_minus_zero(weight: float) -> None:
    back = weight_of(task(priority=priority_of(weight)))
    assert back == min(1.0, max(0.0, weight))
    assert math.copysign(1, back) == 1


def test_what_is_no_number_is_no_weight() -> None:
    for wrong in (math.nan, True):
        with pytest.raises(InvalidInput):
            clamped(wrong)
    assert weight_of(task(priority=priority_of(None))) == 0.5


def test_every_deliverable_type_goes_to_an_agent_of_the_fleet_and_the_rest_to_the_analyst() -> None:
    assert {"research", "code", "analysis", "content", "strategy", "ops", "testing"} == DELIVERABLE_TYPES
    assert {agent_for(kind) for kind in DELIVERABLE_TYPES} <= {profile.id for profile in FLEET}
    assert (agent_for("testing"), agent_for("strategy"), agent_for(None)) == ("developer", "analyst", "analyst")
    assert deliverable_type(" Code ") == "code"
    with pytest.raises(InvalidInput, match="testing"):
        deliverable_type("poem")


@pytest.mark.parametrize("said", ["ops", "Ögedei", "ÖGEDEI", "ogedei", " Ops ", "O\N{COMBINING DIAERESIS}gedei"])
def test_an_agent_is_known_by_id_and_by_name_however_it_is_typed(said: str) -> None:
    assert agent_id(said) == "ops"


@pytest.mark.parametrize("said", ["", "Genghis", "any", "op"])
def test_an_unknown_agent_is_an_error_that_names_the_known_ones(said: str) -> None:
    with pytest.raises(InvalidInput, match="Temüjin"):
        agent_id(said)
