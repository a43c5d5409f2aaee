"""Tasks, links and events as JSON, and back again."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import InvalidInput
from dibs.core.events import Event, Outcome
from dibs.core.task import Claimed, Holder, Input, Lease, Link, LinkKind, ServiceClass, Status, Task
from dibs.core.times import time_from, time_text
from dibs.core.wire import (
    claimed_json,
    event_from_json,
    event_json,
    lease_json,
    link_from_json,
    link_json,
    task_from_json,
    task_json,
)

from .samples import NOW, OTHER_TOKEN, SOON, TOKEN, make_task, task_in

NAMES = st.text("abcäß日-_. ", min_size=1, max_size=6).map(lambda text: f"x{text}x")
IDS = st.text("abc123-", max_size=6).map(lambda text: f"x{text}")
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=20)
TIMES = st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - given a zone
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
WHOLE = st.integers(0, 10**9)


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.none(), strategy)


LEASES = st.one_of(
    st.builds(Lease, NAMES, WHOLE, NAMES, maybe(NAMES), st.just(Holder.AGENT), claimed_at=TIMES, expires_at=TIMES),
    st.builds(Lease, NAMES, WHOLE, NAMES, maybe(NAMES), st.just(Holder.HUMAN), claimed_at=TIMES, expires_at=st.none()),
)


@st.composite
def tasks(draw: st.DrawFn) -> Task:
    status = draw(st.sampled_from(Status))
    lease = draw(LEASES) if status is Status.ACTIVE else None
    drawn: dict[str, Any] = {
        **{name: draw(NAMES) for name in ("scope", "title")},
        **{name: draw(TIMES) for name in ("created_at", "updated_at", "queued_at")},
        **{
            name: draw(maybe(NAMES)) for name in ("category", "deliverable", "spec_ref", "ref", "assigned_to", "origin")
        },
        **{
            name: draw(maybe(TEXTS))
            for name in ("reason", "reason_before", "unblock_action", "finished_by", "merged_into", "ended")
        },
        **{name: draw(maybe(TIMES)) for name in ("started_at", "not_before", "next_check_at")},
        **{name: tuple(draw(st.lists(TEXTS, max_size=2))) for name in ("steps", "requires", "artifacts")},
        **{name: draw(WHOLE) for name in ("retries", "blockers")},
    }
    return Task(
        **drawn,
        id=draw(IDS),
        description=draw(TEXTS),
        status=status,
        paused_from=draw(maybe(st.sampled_from(Status))),
        service_class=draw(st.sampled_from(ServiceClass)),
        override=draw(st.booleans()),
        priority=draw(st.one_of(st.integers(-9, 9), st.sampled_from([0.5, -2.25]))),
        finished_at=draw(TIMES) if status in {Status.DONE, Status.CANCELED} else None,
        parent=draw(maybe(IDS)),
        max_retries=draw(maybe(WHOLE)),
        attempt=lease.attempt if lease else draw(WHOLE),
        lease=lease,
        spent_token=draw(maybe(NAMES)),
        result=draw(JSON),
        extra=draw(st.dictionaries(TEXTS, JSON, max_size=2)),
    )


def over_the_wire(value: object) -> Any:
    return json.loads(json.dumps(value))


def refused(read: Any, data: object, *more: Any) -> str:
    with pytest.raises(InvalidInput) as error:
        read(data, *more)
    return error.value.message


def no_token() -> str:
    raise AssertionError


# There and back


@given(tasks())
def test_a_task_comes_back_as_it_went(task: Task) -> None:
    trimmed = task._replace(scope=task.scope.strip(), title=task.title.strip())
    assert task_from_json(over_the_wire(task_json(task, secrets=True)), str if task.lease else no_token) == trimmed


def test_no_field_of_a_task_is_forgotten() -> None:
    """Fails for a new field that exports do not carry."""
    full = task_in(Status.ACTIVE)._replace(
        description="d", reason="r", paused_from=Status.READY, reason_before="s", override=True, finished_by="x",
        category="c", labels=("l",), deliverable="d", steps=("s",), spec_ref="s", ref="r", parent="p", requires=("q",),
        assigned_to="a", not_before=SOON, retries=1, max_retries=2, ended="done", spent_token=OTHER_TOKEN, result=[1],
        artifacts=("f",), unblock_action="u", next_check_at=SOON, merged_into="m", origin="o", extra={"k": 1},
        blockers=3,
    )  # fmt: skip
    out = over_the_wire(task_json(full, secrets=True))
    assert set(out) == set(Task._fields) - {"finished_at"}
    assert task_from_json(out, str) == full


@given(
    st.builds(
        Link, IDS, IDS.map(lambda name: f"y{name}"), st.sampled_from(LinkKind), st.floats(0, 1), NAMES, st.floats(0, 1)
    )
)
def test_a_link_comes_back_as_it_went(link: Link) -> None:
    assert link_from_json(over_the_wire(link_json(link))) == link


EVENTS = st.builds(
    Event,
    at=TIMES,
    scope=NAMES,
    task=IDS,
    verb=NAMES,
    outcome=st.sampled_from(Outcome),
    agent=maybe(NAMES),
    run=maybe(NAMES),
    attempt=maybe(WHOLE),
    source=maybe(st.sampled_from(Status)),
    target=maybe(st.sampled_from(Status)),
    reason=maybe(TEXTS),
    detail=st.dictionaries(TEXTS, JSON, max_size=2),
    seq=WHOLE,
)


@given(EVENTS)
def test_an_event_comes_back_as_it_went(event: Event) -> None:
    assert event_from_json(over_the_wire(event_json(event))) == event


def test_unset_fields_are_omitted() -> None:
    assert task_json(make_task("a")) == {
        "scope": "desk", "id": "a", "title": "Task a", "status": "ready", "service_class": "standard", "priority": 2,
        "attempt": 0, "created_at": "2026-01-01T12:00:00Z", "updated_at": "2026-01-01T12:00:00Z",
        "queued_at": "2026-01-01T12:00:00Z",
    }  # fmt: skip
    assert link_json(Link("a", "b")) == {"task": "a", "on": "b", "kind": "blocks", "detected_by": "explicit"}
    assert event_json(Event(NOW, "desk", "a", "add")) == {
        "at": "2026-01-01T12:00:00Z", "scope": "desk", "task": "a", "verb": "add",
    }  # fmt: skip


# Secrets


@given(tasks(), st.uuids(version=4).map(str))
def test_token_is_written_only_with_secrets(task: Task, token: str) -> None:
    task = task._replace(lease=task.lease and task.lease._replace(token=token), spent_token=token)
    assert token not in json.dumps(task_json(task))
    assert token in json.dumps(task_json(task, secrets=True))


def test_claim_json_has_token_and_inputs() -> None:
    out = claimed_json(Claimed(task_in(Status.ACTIVE), (Input("b", "Task b", {"n": 1}, ("f",)),)))
    assert out["token"] == TOKEN
    assert TOKEN not in json.dumps(out["task"])
    assert out["inputs"] == [{"id": "b", "title": "Task b", "result": {"n": 1}, "artifacts": ["f"]}]
    assert "inputs" not in claimed_json(Claimed(task_in(Status.ACTIVE)))


def test_imported_lease_without_token_gets_an_unknown_one() -> None:
    task = task_in(Status.ACTIVE)
    back = task_from_json(task_json(task), lambda: OTHER_TOKEN)
    assert task.lease is not None
    assert back == task._replace(lease=task.lease._replace(token=OTHER_TOKEN))
    assert "token" not in lease_json(task.lease)


# Times


@given(TIMES, st.integers(-14 * 60, 14 * 60))
def test_time_is_written_in_utc(moment: datetime, offset: int) -> None:
    told = time_text(moment.astimezone(timezone(timedelta(minutes=offset))))
    assert told.endswith("Z")
    assert time_from(told) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T12:00", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("2026-01-31T12:00:00+02:00", datetime(2026, 1, 31, 10, tzinfo=UTC)),
    ],
)
def test_a_time_is_read_in_utc(text: str, moment: datetime) -> None:
    assert (time_from(text), time_from(text).tzinfo) == (moment, UTC)


@pytest.mark.parametrize("text", ["", "soon", "2026-13-01", "12:00", "1767268800", "\ud800"])
def test_invalid_time_is_refused(text: str) -> None:
    assert "is not a time" in refused(time_from, text)


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+12:00", "9999-12-31T23:59:59-12:00"])
def test_a_time_at_the_end_of_time_is_refused(text: str) -> None:
    refused(time_from, text)


# Refusals

TIME = "2026-01-01T12:00:00Z"
GOOD: dict[str, Any] = {
    "scope": "desk", "id": "a", "title": "t", "created_at": TIME, "updated_at": TIME, "queued_at": TIME,
}  # fmt: skip
LEASE: dict[str, Any] = {"agent": "ada", "attempt": 1, "holder": "agent", "claimed_at": TIME, "expires_at": TIME}
HELD: dict[str, Any] = {**GOOD, "status": "active", "attempt": 1, "lease": LEASE}


def test_a_task_needs_little() -> None:
    assert task_from_json(GOOD, no_token).status is Status.READY
    assert task_from_json(HELD, str).lease is not None


@pytest.mark.parametrize("name", GOOD)
def test_task_without_required_keys_is_refused(name: str) -> None:
    left = {key: value for key, value in GOOD.items() if key != name}
    assert f"task lacks {name}" in refused(task_from_json, left, no_token)


@pytest.mark.parametrize("name", [*GOOD, "status", "steps", "retries", "attempt", "extra", "priority", "override"])
def test_null_is_refused_or_means_left_out(name: str) -> None:
    with suppress(InvalidInput):
        read = task_from_json({**GOOD, name: None}, no_token)
        assert name not in GOOD
        assert read == task_from_json(GOOD, no_token)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("colour", "red"), ("title", 7), ("title", ""), ("title", "a\nb"), ("id", "a b"), ("description", "\x00"),
        ("status", "doing"), ("status", 3), ("status", []), ("service_class", "soon"), ("override", 1), ("scope", " "),
        ("retries", 1.5), ("retries", True), ("attempt", 1 << 63), ("priority", "high"), ("priority", True),
        ("priority", 10**10), ("steps", "one"), ("steps", [1]), ("created_at", 5), ("created_at", "soon"),
        ("extra", []), ("lease", "x"), ("lease", []),
    ],
)  # fmt: skip
def test_a_wrong_field_of_a_task_is_refused(name: str, value: object) -> None:
    refused(task_from_json, {**GOOD, name: value}, str)


@pytest.mark.parametrize(
    "lease", [{**LEASE, "holder": "cat"}, {**LEASE, "attempt": "1"}, {**LEASE, "pet": 1}, {"agent": "ada"}, {}]
)
def test_a_wrong_lease_is_refused(lease: dict[str, Any]) -> None:
    refused(task_from_json, {**HELD, "lease": lease}, str)


@pytest.mark.parametrize(
    "data",
    [
        {**GOOD, "status": "active"},
        {**GOOD, "attempt": 1, "lease": LEASE},
        {**GOOD, "status": "done"},
        {**GOOD, "finished_at": TIME},
        {**GOOD, "attempt": -1},
        {**GOOD, "retries": -1},
        {**HELD, "attempt": 2},
        {**HELD, "lease": {**LEASE, "holder": "human"}},
        {**HELD, "lease": {name: value for name, value in LEASE.items() if name != "expires_at"}},
    ],
)
def test_a_task_that_contradicts_itself_is_refused(data: dict[str, Any]) -> None:
    assert "do not agree" in refused(task_from_json, data, str)


@pytest.mark.parametrize("data", [None, [], "text", 3])
@pytest.mark.parametrize("read", [lambda data: task_from_json(data, str), link_from_json, event_from_json])
def test_non_object_is_refused(read: Any, data: object) -> None:
    assert "is an object" in refused(read, data)


@pytest.mark.parametrize(
    "data",
    [
        {"task": "a"},
        {"task": "a", "on": "a"},
        {"task": "a", "on": "b", "kind": "x"},
        {"task": "a", "on": "b", "weight": 2},
    ],
)
def test_a_wrong_link_is_refused(data: dict[str, Any]) -> None:
    refused(link_from_json, data)


ANY_VALUE = st.one_of(JSON, st.sampled_from(["active", "2026-01-01", LEASE, 1 << 70, "\ud800"]))


@given(
    st.dictionaries(st.sampled_from([*Task._fields, *Event._fields, *Link._fields]), ANY_VALUE, max_size=5),
    st.booleans(),
)
def test_no_json_raises_anything_but_invalid_input(data: dict[str, Any], complete: bool) -> None:
    for read in (lambda given_data: task_from_json(given_data, str), link_from_json, event_from_json):
        with suppress(InvalidInput):
            read({**GOOD, **data} if complete else data)
