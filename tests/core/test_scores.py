"""Scores are computed from events: the agent, outcome, duration and points of each attempt."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import LEASE_RAN_OUT
from dibs.core.scores import SCORE, Tally, scores

if TYPE_CHECKING:
    from dibs.core.task import Json

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(
    seconds: float, verb: str, task: str = "a", agent: str | None = "ann", attempt: int = 1, **more: object
) -> Event:
    return Event(START + timedelta(seconds=seconds), "default", task, verb, agent=agent, attempt=attempt, **more)  # type: ignore[arg-type]  # as the event has it


def rated(seconds: float, agent: str, points: float) -> Event:
    entry: dict[str, Json] = {"Agent": agent, "Points Earned": points}
    return at(seconds, "score", agent=None, detail={SCORE: entry})


def test_finished_tasks_count_for_their_holder_with_median_time() -> None:
    told = [at(0, "add", agent="boss")]
    for number, seconds in enumerate((10, 1, 3)):
        told += [at(number * 20, "claim", str(number)), at(number * 20 + seconds, "done", str(number), "someone")]
    assert scores(told).tallies == (Tally("ann", finished=3, duration=timedelta(seconds=3)),)
    assert scores(told).since == START


def test_failures_count_each_also_the_last_one() -> None:
    told = [at(0, "claim"), at(1, "fail"), at(2, "claim", attempt=2), at(3, "exhaust", attempt=2, reason="no luck")]
    assert scores(told).tallies == (Tally("ann", failed=2),)


def test_lost_lease_is_counted_when_taken_or_exhausted() -> None:
    told = [
        at(0, "claim"),
        at(50, "claim", agent="bob", attempt=2, detail={"taken_from": "ann", "forced": False}),
        at(60, "done", agent="ann", attempt=2, outcome=Outcome.LOST),
        at(100, "exhaust", agent="bob", attempt=2, reason=LEASE_RAN_OUT),
    ]
    assert scores(told).tallies == (Tally("ann", lost=1), Tally("bob", lost=1))


def test_takeover_by_a_person_counts_no_lost_lease() -> None:
    told = [at(0, "claim"), at(5, "claim", agent="boss", attempt=2, detail={"taken_from": "ann", "forced": True})]
    assert scores(told).tallies == ()


def test_approved_review_counts_for_its_author() -> None:
    told = [at(0, "claim"), at(5, "review")]
    assert scores(told).tallies == ()
    told.append(at(9, "approve", agent="boss"))
    assert scores(told).tallies == (Tally("ann", finished=1),)
    again = [*told[:2], at(9, "rework", agent="boss"), at(10, "approve", agent="boss")]
    assert scores(again).tallies == ()


def test_neutral_endings_count_nothing() -> None:
    for verb in ("release", "block", "cancel", "pause"):
        assert scores([at(0, "claim"), at(1, verb)]).tallies == ()


def test_points_are_summed_over_name_spellings() -> None:
    told = [at(0, "claim"), at(1, "done"), rated(2, "ANN", 37.2), rated(3, "ann", -10), rated(4, "cleo", 5)]
    found = scores(told).tallies
    assert [(one.agent, one.finished, one.points) for one in found] == [("ann", 1, 27.2), ("cleo", 0, 5)]


def test_only_recent_endings_count_with_their_start() -> None:
    told = [at(0, "claim", "x"), at(1, "done", "x"), at(2, "claim", "y"), at(100, "done", "y")]
    found = scores(told, START + timedelta(seconds=50))
    assert found.tallies == (Tally("ann", finished=1, duration=timedelta(seconds=98)),)
    assert found.since == START + timedelta(seconds=50)


def test_scores_are_sorted_by_finished_tasks() -> None:
    told = [at(0, "claim", "x", "bob"), at(1, "done", "x", "bob"), at(2, "claim", "y"), at(3, "fail", "y")]
    assert [one.agent for one in scores(told).tallies] == ["bob", "ann"]
    assert scores([]) == (None, ())
