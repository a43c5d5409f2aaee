"""Attempts and trends, computed from events."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import LEASE_RAN_OUT, Verb
from dibs.core.task import Draft, Holder, Lease, Link, Status, Task
from dibs.desk import open_desk
from dibs.fleet import trends as module
from dibs.fleet.trends import attempts, percentiles, stuck, summed, trends

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from dibs.core.task import Json

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def event(seconds: float, verb: str, task: str = "t", agent: str = "ann", **more: object) -> Event:
    return Event(at(seconds), "scope", task, verb, agent=agent, **more)  # type: ignore[arg-type]


def claim(seconds: float, task: str = "t", agent: str = "ann", number: int = 1, **detail: Json) -> Event:
    return event(seconds, Verb.CLAIM, task, agent, attempt=number, detail=detail)


def test_attempts_distinguish_retries_expiries_and_takeovers() -> None:
    events = [
        event(0, "add"),
        claim(10),
        event(15, Verb.FAIL),
        claim(20, agent="bob", number=2),
        claim(80, agent="cleo", number=3, taken_from="bob", forced=False),
        claim(90, agent="mira", number=4, taken_from="cleo", forced=True),
        event(95, Verb.DONE, outcome=Outcome.LOST),
        event(99, Verb.DONE),
        claim(100, "u"),
        event(130, Verb.EXHAUST, "u", reason=LEASE_RAN_OUT),
        claim(140, "v"),
    ]
    told = [(one.agent, one.number, one.outcome) for one in attempts(events)]
    assert told == [
        ("ann", 1, "failed"),
        ("bob", 2, "expired"),
        ("cleo", 3, "taken over"),
        ("mira", 4, "done"),
        ("ann", 1, "expired"),
        ("ann", 1, "running"),
    ]
    assert [one.waited for one in attempts(events)][:2] == [timedelta(seconds=10), timedelta(seconds=5)]


def test_wait_begins_when_the_last_prerequisite_is_finished() -> None:
    events = [event(0, "add", "a"), event(0, "add", "b"), claim(1, "a"), event(61, Verb.DONE, "a"), claim(64, "b")]
    waited = {one.task: one.waited for one in attempts(events, [Link("b", "a")])}
    assert waited == {"a": timedelta(seconds=1), "b": timedelta(seconds=3)}


def test_summary_counts_recent_events_by_agent_and_label() -> None:
    events = [claim(0, "a"), event(5, Verb.DONE, "a"), claim(10, "b"), event(70, Verb.DONE, "b"), claim(71, "c", "bob")]
    events += [event(80, Verb.FAIL, "c", "bob")]
    found = summed(events, at(8), at(108), labels={"a": ("x",), "b": ("x", "y"), "c": ("y",)})
    assert (found.finished, found.failed, found.expired, found.claims) == (1, 1, 0, 2)
    assert [(one.name, one.finished, one.failed) for one in found.agents] == [("ann", 1, 0), ("bob", 0, 1)]
    assert [(one.name, one.finished, one.failed) for one in found.labels] == [("y", 1, 1), ("x", 1, 0)]
    assert found.run == percentiles([timedelta(seconds=60)])
    assert sum(one.finished for one in found.buckets) == 1
    assert found.buckets[18].finished == 1


def test_stuck_tasks_have_a_reason() -> None:
    def task(name: str, status: Status, **more: object) -> Task:
        return Task("scope", name, name.title(), at(0), at(0), at(0), status=status, **more)  # type: ignore[arg-type]

    def lease(end: float) -> Lease:
        return Lease("token", 1, "ann", None, Holder.AGENT, at(0), at(end))

    tasks = [
        task("late", Status.ACTIVE, lease=lease(10)),
        task("long", Status.ACTIVE, lease=lease(9000)),
        task("asks", Status.BLOCKED, reason="no key"),
        task("able", Status.READY, requires=("gpu",)),
        task("fine", Status.READY, requires=("web",)),
    ]
    run = percentiles([timedelta(seconds=20)] * 9)
    found = stuck(tasks, at(2000), run=run, abilities=frozenset({"web"}))
    why = {one.task: one.why for one in found}
    assert set(why) == {"late", "long", "asks", "able"}
    assert "expired" in why["late"]
    assert "95 % of attempts end within 20s" in why["long"]
    assert why["asks"] == "Blocked: no key"
    assert "gpu" in why["able"]


def test_summary_reads_no_more_events_than_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FIRST", 4)
    monkeypatch.setattr(module, "_MOST", 10)
    with open_desk(f"sqlite:///{tmp_path}/dibs.db", create=True) as desk:
        desk.add([Draft(f"Task {number}", id=f"t{number}", labels=("web",)) for number in range(20)])
        for number in range(6):
            lease = desk.claim("ann", refs=[f"t{number}"])[0].task.lease
            desk.move(Verb.DONE, f"t{number}", token=lease.token if lease else None)
        found = trends(desk, timedelta(hours=1))
        assert (found.whole, found.finished, found.added) == (False, 5, 0)
        assert [(one.name, one.finished) for one in found.labels] == [("web", 5)]
        monkeypatch.setattr(module, "_MOST", 100)
        found = trends(desk, timedelta(hours=1))
        assert (found.whole, found.finished, found.added) == (True, 6, 20)
