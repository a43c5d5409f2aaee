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


def test_statuses_are_the_documents_five() -> None:
    assert set(KURULTAI.words) == set(Status)
    assert set(KURULTAI.words.values()) == {"pending", "in_progress", "completed", "blocked", "escalated"}


@pytest.mark.parametrize(
    ("word", "base", "reason"),
    [("ready", "pending", None), ("paused", "blocked", "paused"), ("aborted", "blocked", "aborted")],
)
def test_other_words_map_to_the_five(word: str, base: str, reason: str | None) -> None:
    status = status_from(word)
    assert (status_of(task(status)), blocked_reason_of(task(status))) == (base, reason)
    assert status_from(base, reason) is status


@pytest.mark.parametrize("status", Status)
def test_every_status_comes_back_from_its_word_and_its_reason(status: Status) -> None:
    said = task(status, reason="no access")
    assert status_from(status_of(said), blocked_reason_of(said)) is status


def test_status_words_ignore_case_and_refuse_unknown() -> None:
    assert status_from("In_Progress") is Status.ACTIVE
    with pytest.raises(InvalidInput, match="pending"):
        status_from("doing")


def test_blocked_covers_paused_and_aborted() -> None:
    assert set(statuses_called("BLOCKED")) == {Status.BLOCKED, *BLOCKED_REASON}
    assert statuses_called("paused") == (Status.PAUSED,)
    assert statuses_called("ready") == statuses_called("pending") == (Status.READY,)


@given(st.floats(allow_nan=False))
def test_a_weight_comes_back_clamped_and_never_as_minus_zero(weight: float) -> None:
    back = weight_of(task(priority=priority_of(weight)))
    assert back == min(1.0, max(0.0, weight))
    assert math.copysign(1, back) == 1


def test_weight_must_be_a_number() -> None:
    for wrong in (math.nan, True):
        with pytest.raises(InvalidInput):
            clamped(wrong)
    assert weight_of(task(priority=priority_of(None))) == 0.5


def test_every_deliverable_is_routed_to_an_agent() -> None:
    assert {"research", "code", "analysis", "content", "strategy", "ops", "testing"} == DELIVERABLE_TYPES
    assert {agent_for(kind) for kind in DELIVERABLE_TYPES} <= {profile.id for profile in FLEET}
    assert (agent_for("testing"), agent_for("strategy"), agent_for(None)) == ("developer", "analyst", "analyst")
    assert deliverable_type(" Code ") == "code"
    with pytest.raises(InvalidInput, match="testing"):
        deliverable_type("poem")


@pytest.mark.parametrize("said", ["ops", "Ögedei", "ÖGEDEI", "ogedei", " Ops ", "O\N{COMBINING DIAERESIS}gedei"])
def test_agent_is_found_by_id_or_name(said: str) -> None:
    assert agent_id(said) == "ops"


@pytest.mark.parametrize("said", ["", "Genghis", "any", "op"])
def test_unknown_agent_error_names_the_agents(said: str) -> None:
    with pytest.raises(InvalidInput, match="Temüjin"):
        agent_id(said)
