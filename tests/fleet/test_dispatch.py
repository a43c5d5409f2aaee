"""Rounds of a dispatcher, on a store with the test's clock."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import LostLock
from dibs.core.events import Outcome
from dibs.core.fleet import Profile, dispatched
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Link, Status
from dibs.desk import Desk, mint_token
from dibs.fleet.dispatch import Dispatcher, DispatchRound, Lead, Rules, Watch
from dibs.fleet.routing import Roster
from dibs.mail import sender_box
from dibs.stores.port import EventQuery
from dibs.stores.sqlite.store import SqliteStore
from dibs.testing.conformance.builders import fleet_of
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dibs.stores.port import Store

BY = Actor("desk")
ANN = "a" * 64  # a sender
LEASE = timedelta(minutes=20)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Iterator[Store]:
    with SqliteStore(str(tmp_path / "fleet.db"), create=True, durable=False, clock=clock) as opened:
        yield opened


def enrol(store: Store, *names: str, role: str = "writer", limit: int = 2) -> None:
    for name in names:
        fleet_of(store).enrol(Profile(name, role, (), limit))


def add(store: Store, *names: str, scope: str = "s", links: tuple[tuple[str, str], ...] = (), **fields: Any) -> None:
    drafts = [Draft(f"Task {name}", name, **({"deliverable": "content"} | fields)) for name in names]
    store.add(scope, drafts, [Link(task, on) for task, on in links], BY)


def take(store: Store, agent: str) -> dict[str, str]:
    """Claim all tasks assigned to the agent; return them with their tokens."""
    tokens = tuple(mint_token() for _ in range(9))
    claimed = store.claim(ClaimRequest(agent, tokens, lease=LEASE, assigned=True))
    return {one.task.id: one.task.lease.token for one in claimed if one.task.lease is not None}


def end(store: Store, verb: Verb, task: str, token: str, scope: str = "s") -> None:
    store.move(Move(verb, task, scope, BY, token=token, reason="so it is"), CanceledBlocker.ESCALATES)


def given(done: DispatchRound) -> dict[str, str]:
    return {one.task: one.agent for one in done.given}


def test_free_tasks_are_assigned_and_others_wait(store: Store) -> None:
    enrol(store, "ann", "bob", limit=1)
    add(store, "a", "b", "c", "d", links=(("d", "a"),))
    dispatcher = Dispatcher(Desk(store, by=BY))
    done = dispatcher.round()
    assert given(done) == {"a": "ann", "b": "bob"}
    assert [one.task.id for one in done.queued] == ["c"]
    assert not dispatcher.round(), "there is nothing new to tell"
    end(store, Verb.DONE, "a", take(store, "ann")["a"])
    assert given(dispatcher.round()) == {"c": "ann"}


def test_long_unroutable_line_hides_no_other_task(store: Store) -> None:
    enrol(store, "ann", limit=1)
    enrol(store, "dev", role="developer")
    add(store, *(f"w{number:03}" for number in range(300)))
    add(store, "code", deliverable="code", priority=9)
    assert given(Dispatcher(Desk(store, by=BY)).round()) == {"w000": "ann", "code": "dev"}


def test_unroutable_task_is_reported_until_a_capable_agent_joins(store: Store, clock: Clock) -> None:
    enrol(store, "ann", limit=1)
    add(store, "a", "b")
    add(store, "paint", requires=("brush",), scope="studio")
    add(store, "elsewhere", requires=("nobody has this",), scope=".mail.ann")
    dispatcher = Dispatcher(Desk(store, by=BY))
    told = "No agent with the role 'writer' can do what it requires: brush."
    assert [(one.task.id, one.error) for one in dispatcher.round().troubles] == [("paint", told)]
    assert [one.task.id for one in dispatcher.round().troubles] == ["paint"], "it goes on"
    fleet_of(store).enrol(Profile("pat", "writer", ("brush",), 2))
    done = dispatcher.round()
    assert (given(done), done.troubles) == ({"b": "pat", "paint": "pat"}, ())
    add(store, "varnish", requires=("lacquer",), scope="studio")
    clock.advance(seconds=6)
    assert [one.task.id for one in dispatcher.round().troubles] == ["varnish"]
    assert [one.task.id for one in Dispatcher(Desk(store, by=BY), Rules(scope="s")).round().troubles] == []


def test_round_respects_its_limit_and_all_agents(store: Store) -> None:
    enrol(store, "ann", "bob", limit=9)
    add(store, *"abcdefgh")
    done = Dispatcher(Desk(store, by=BY), Rules(most=4)).round()
    assert sorted(given(done).values()) == ["ann", "ann", "bob", "bob"]


def test_dispatch_covers_one_scope_or_all(store: Store) -> None:
    enrol(store, "ann", limit=9)
    add(store, "a", scope="one")
    add(store, "b", scope="two")
    assert given(Dispatcher(Desk(store, by=BY), Rules("two")).round()) == {"b": "ann"}
    assert given(Dispatcher(Desk(store, by=BY)).round()) == {"a": "ann"}


def test_task_of_an_absent_agent_is_reassigned(store: Store, clock: Clock) -> None:
    enrol(store, "ann", "bob")
    add(store, "a", "b", "c")
    add(store, "hers", assigned_to="ann")
    dispatcher = Dispatcher(Desk(store, by=BY))
    assert given(dispatcher.round()) == {"a": "bob", "b": "ann", "c": "bob"}
    begun = take(store, "bob")
    clock.advance(seconds=61)
    done = dispatcher.round()
    assert (done.taken_back, given(done)) == (("b",), {})
    assert store.get("s", "hers").assigned_to == "ann", "its author has said so"
    end(store, Verb.DONE, "a", begun["a"])
    assert given(dispatcher.round()) == {"b": "bob"}


def test_begun_task_of_an_absent_agent_follows_its_lease(store: Store, clock: Clock) -> None:
    enrol(store, "ann", limit=1)
    add(store, "a")
    dispatcher = Dispatcher(Desk(store, by=BY))
    dispatcher.round()
    token = take(store, "ann")["a"]
    enrol(store, "bob")
    clock.advance(minutes=19)
    assert not dispatcher.round()
    clock.advance(minutes=1)
    store.claim(ClaimRequest("bob", (mint_token(),), "nowhere"))  # bob is present
    done = dispatcher.round()
    assert (done.taken_back, given(done)) == (("a",), {"a": "bob"})
    with pytest.raises(LostLock):
        end(store, Verb.DONE, "a", token)
    assert "a" in take(store, "bob")
    assert store.get("s", "a").retries == 1


def test_failed_task_is_retried_then_escalated(store: Store, clock: Clock) -> None:
    enrol(store, "ann")
    add(store, "a", "after", links=(("after", "a"),))
    dispatcher = Dispatcher(Desk(store, by=BY), Rules(retries=1))
    dispatcher.round()
    end(store, Verb.FAIL, "a", take(store, "ann")["a"])
    Roster(Desk(store, by=BY)).take_back("ann")
    assert given(dispatcher.round()) == {}, "it rests"
    clock.advance(seconds=10)
    assert given(dispatcher.round()) == {"a": "ann"}
    end(store, Verb.FAIL, "a", take(store, "ann")["a"])
    done = dispatcher.round()
    assert done.escalated == ("after",)
    assert store.get("s", "after").reason == "prerequisite a failed"
    assert dispatcher.settled()


@pytest.mark.parametrize(
    ("rule", "after", "canceled"),
    [
        (CanceledBlocker.ESCALATES, {"a": "escalated", "b": "escalated", "c": "escalated"}, ()),
        (CanceledBlocker.RESOLVES, {"a": "canceled", "b": "ready", "c": "ready"}, ("a",)),
        (CanceledBlocker.CASCADES, {"a": "canceled", "b": "canceled", "c": "canceled"}, ("a", "b", "c")),
    ],
)
def test_dependents_of_a_failed_task_follow_the_option(
    store: Store, rule: CanceledBlocker, after: dict[str, str], canceled: tuple[str, ...]
) -> None:
    enrol(store, "ann")
    add(store, "a", "b", "c", links=(("b", "a"), ("c", "b")), max_retries=0)
    dispatcher = Dispatcher(Desk(store, by=BY), Rules(failed=rule))
    dispatcher.round()
    end(store, Verb.FAIL, "a", take(store, "ann")["a"])
    done = dispatcher.round()
    assert {name: str(store.get("s", name).status) for name in "abc"} == after
    assert done.canceled == canceled
    assert not Dispatcher(Desk(store, by=BY), Rules(failed=rule)).round().canceled, (
        "another one finds nothing left to do"
    )


def test_sender_is_notified_once_about_a_delay(store: Store, clock: Clock) -> None:
    enrol(store, "ann", limit=1)
    add(store, "a", "b", scope=ANN)
    add(store, "c", scope="project")
    for _ in range(2):
        dispatcher = Dispatcher(Desk(store, by=BY))
        dispatcher.round()
        clock.advance(seconds=1)
        dispatcher.round()
    (note,) = sender_box(Desk(store), ANN).kept().unread
    assert "“Task b” waits" in note.description
    assert note.extra["expected_seconds"] is None
    end(store, Verb.DONE, "a", take(store, "ann")["a"], ANN)
    done = Dispatcher(Desk(store, by=BY)).round()
    assert done.expected == timedelta(0)


def test_messages_notes_and_the_lead_are_no_work(store: Store) -> None:
    enrol(store, "ann", role="analyst")
    for scope in (".inbox.x", ".outbox.x", ".mail.x"):
        add(store, "m", scope=scope)
    assert Lead(Desk(store), ".dispatch.*", "d1").have()
    dispatcher = Dispatcher(Desk(store, by=BY))
    done = dispatcher.round()
    assert (done.given, done.troubles) == ((), ())
    assert dispatcher.settled()


def test_removed_agents_assignments_are_reassigned(store: Store) -> None:
    enrol(store, "ann", limit=3)
    add(store, "a", "b", "c")
    Dispatcher(Desk(store, by=BY)).round()
    held = store.claim(ClaimRequest("ann", (mint_token(),), lease=LEASE, assigned=True))[0].task
    member, back = Roster(Desk(store, by=BY)).remove("ann")
    assert (member.held, sorted(back)) == (1, ["b", "c"])
    assert not any(dispatched(store.get("s", name)) for name in back)
    end(store, Verb.DONE, held.id, held.lease.token if held.lease else "")


def test_watch_reports_trouble_once_and_runs_until_done(store: Store) -> None:
    enrol(store, "ann")
    add(store, "a", "b")
    add(store, "odd", deliverable="code")
    told: list[DispatchRound] = []
    rounds = count()

    def work() -> None:
        for task, token in take(store, "ann").items():
            end(store, Verb.DONE, task, token)
        if next(rounds) == 4:
            enrol(store, "dev", role="developer")
        for token in take(store, "dev").values():
            end(store, Verb.DONE, "odd", token)

    class Working(Dispatcher):
        def round(self) -> DispatchRound:
            done = super().round()
            work()
            return done

    watch = Watch(
        Desk(store), Working(Desk(store, by=BY)), Lead(Desk(store), ".dispatch.*", "d1"), told.append, pytest.fail
    )
    total = watch.run(Event().wait, until_done=True)
    assert [one.error for done in told for one in done.troubles] == ["No enrolled agent has the role 'developer'."]
    assert given(total) == {"a": "ann", "b": "ann", "odd": "dev"}
    assert store.get(".dispatch.*", "lead").status is Status.READY, "the lead was given up"


# The lead


def test_one_dispatcher_leads_until_its_lease_ends(store: Store, clock: Clock) -> None:
    time = [0.0]
    first, second = (Lead(Desk(store), ".dispatch.*", name, clock=lambda: time[0]) for name in ("d1", "d2"))
    assert (first.have(), second.have()) == (True, False)
    for _ in range(5):
        time[0] += 1
        clock.advance(seconds=1)
        assert (first.have(), second.have()) == (True, False), "it is renewed"
    clock.advance(seconds=2)
    time[0] += 2
    assert second.have()
    assert not first.have(), "it slept too long"
    second.give_up()
    time[0] += 1
    assert first.have(), "at once"
    events = [event for event in store.events(EventQuery(".dispatch.*", "lead")) if event.outcome is Outcome.OK]
    told = [(event.verb, event.agent) for event in events[1:]]
    assert told == [("claim", "d1"), ("claim", "d2"), ("release", "d2"), ("claim", "d1")]


def test_lead_is_never_claimed_by_accident(store: Store) -> None:
    lead = Lead(Desk(store), ".dispatch.*", "d1")
    assert lead.have()
    lead.give_up()
    assert store.claim(ClaimRequest("ann", (mint_token(),))) == []
    assert store.get(".dispatch.*", "lead").status is Status.READY
