"""Enrolled agents with their limits, and agents that register."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import (
    AlreadyExists,
    DibsError,
    Held,
    IllegalMove,
    LostLock,
    NotForYou,
    NotFound,
    OverLimit,
    Waiting,
)
from dibs.core.fleet import Agent, AgentStatus, Assignment, Member, Profile, dispatched
from dibs.core.lifecycle import Verb
from dibs.core.task import Edit, Status, Task
from dibs.stores.port import EventQuery

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    amend,
    blocks,
    claim,
    claim_ids,
    dump,
    finish,
    fleet_of,
    get,
    hold,
    hold_as_human,
    move,
    no_trace,
    peek_ids,
    request,
    restore,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store
    from dibs.testing import Clock


def enrol(store: Store, agent: str = "ann", role: str = "writer", limit: int = 2, can: tuple[str, ...] = ()) -> Member:
    return fleet_of(store).enrol(Profile(agent, role, can, limit))


def assign(store: Store, agent: str | None, *tasks: str, scope: str = SCOPE, **more: Any) -> list[str]:
    """The assignee of each task, or the code of its error."""
    asked = Assignment(tuple((scope, task) for task in tasks), agent, **more)
    return [_became(outcome) for outcome in fleet_of(store).assign(asked, MAKER)]


def _became(outcome: Task | DibsError) -> str:
    return outcome.code if isinstance(outcome, DibsError) else str(outcome.assigned_to)


def member(store: Store, agent: str = "ann") -> Member:
    return next(one for one in fleet_of(store).members() if one.agent == agent)


@needs("fleet")
class EnrolmentTests(Suite):
    """The members of a fleet: who they are, that none ever has more than its limit, and how they are given tasks."""

    # Who they are
    def test_a_new_store_has_no_members(self, store: Store) -> None:
        assert fleet_of(store).members() == []

    def test_member_has_its_profile_and_is_present_at_enrolment(
        self, store: Store, beside: Store, reopen: Callable[[], Store], clock: Clock
    ) -> None:
        made = enrol(store, can=("gpu", "mail"), limit=3)
        assert made == Member("ann", "writer", ("gpu", "mail"), 3, clock.time, clock.time)
        assert fleet_of(beside).members() == [made]
        assert fleet_of(reopen()).members() == [made]

    def test_enrolling_again_changes_the_profile_and_not_when_it_was_seen(self, store: Store, clock: Clock) -> None:
        first = enrol(store)
        clock.advance(hours=1)
        again = enrol(store, role="editor", limit=5)
        assert again == first._replace(role="editor", limit=5)
        assert fleet_of(store).members() == [again]

    def test_members_are_listed_by_name(self, store: Store) -> None:
        for name in ("zoe", "bob", "ann"):
            enrol(store, name)
        assert [one.agent for one in fleet_of(store).members()] == ["ann", "bob", "zoe"]

    def test_dismissed_agent_has_no_limit(self, store: Store) -> None:
        made = enrol(store, limit=1)
        add(store, "a", "b")
        assert fleet_of(store).dismiss("ann") == made
        assert fleet_of(store).members() == []
        assert claim_ids(store, count=2) == ["a", "b"]
        with pytest.raises(NotFound) as refused:
            fleet_of(store).dismiss("ann")
        assert "ann" in refused.value.message

    def test_a_membership_and_a_registration_are_two_things(self, store: Store) -> None:
        enrol(store)
        assert fleet_of(store).agents() == []
        with pytest.raises(NotFound):
            fleet_of(store).deregister("ann")
        registered = fleet_of(store).register("ann", host="box", pid=7)
        enrol(store, role="editor")
        assert (fleet_of(store).agents(), member(store).role) == ([registered], "editor")
        fleet_of(store).dismiss("ann")
        assert (fleet_of(store).agents(), fleet_of(store).members()) == ([registered], [])

    @needs("transactions")
    def test_members_are_no_part_of_an_export(self, store: Store, another: Store) -> None:
        add(store, "a")
        enrol(store)
        restore(another, dump(store))
        assert fleet_of(another).members() == []

    # The limit
    def test_claim_above_the_limit_is_refused_with_the_reason(self, store: Store) -> None:
        enrol(store, limit=2)
        add(store, "a", "b", "c")
        assert (claim_ids(store), claim_ids(store)) == (["a"], ["b"])
        with pytest.raises(OverLimit) as refused:
            claim(store)
        assert refused.value.code == "OVER_LIMIT"
        assert "ann holds 2 of at most 2" in refused.value.message
        assert claim_ids(store, "bob") == ["c"], "an agent that is not enrolled has no limit"

    def test_claim_of_many_stops_at_the_limit(self, store: Store) -> None:
        enrol(store, limit=3)
        add(store, *"abcdef")
        assert claim_ids(store, count=2) == ["a", "b"]
        assert claim_ids(store, count=5) == ["c"]
        assert member(store).held == 3

    def test_limit_counts_held_tasks_of_all_scopes(self, store: Store) -> None:
        enrol(store, limit=2)
        add(store, "a", "b", scope="one")
        add(store, "c", scope="two")
        assert claim_ids(store, scope="one") == ["a"]
        assert claim_ids(store, scope="two") == ["c"]
        for scope in ("one", None):
            with pytest.raises(OverLimit):
                claim(store, scope=scope)

    def test_a_claim_anywhere_is_held_to_the_limit(self, store: Store) -> None:
        enrol(store, limit=2)
        add(store, "a", "b", scope="one")
        add(store, "c", scope="two")
        assert len(claim_ids(store, count=3, scope=None)) == 2

    def test_claim_of_named_tasks_over_the_limit_takes_none(self, store: Store) -> None:
        enrol(store, limit=2)
        add(store, "a", "b", "c")
        with pytest.raises(OverLimit):
            claim(store, "ann", "a", "b", "c")
        assert member(store).held == 0
        assert claim_ids(store, "ann", "c", "a") == ["c", "a"]
        with pytest.raises(OverLimit):
            claim(store, "ann", "b")
        refused = store.events(EventQuery(SCOPE, "b"))[-1]
        assert (refused.verb, refused.outcome, refused.reason) == ("claim", "refused", "OVER_LIMIT")

    def test_unclaimable_task_is_reported_before_the_limit(self, store: Store) -> None:
        enrol(store, limit=1)
        add(store, "a", "b")
        hold(store, "b", "bob")
        hold(store, "a")
        with pytest.raises(Held):
            claim(store, "ann", "b")

    @pytest.mark.parametrize(
        "verb", [Verb.DONE, Verb.FAIL, Verb.RELEASE, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.PAUSE]
    )
    def test_end_of_a_lease_makes_room_below_the_limit(self, store: Store, verb: Verb) -> None:
        enrol(store, limit=1)
        add(store, "a", "b")
        token = hold(store, "a")
        with pytest.raises(OverLimit):
            claim(store)
        move(store, verb, "a", token, reason="so it is")
        assert len(claim_ids(store)) == 1

    def test_a_lease_that_ran_out_counts_no_longer(self, store: Store, clock: Clock) -> None:
        enrol(store, limit=1)
        add(store, "a", "b")
        hold(store, "a")
        clock.advance(seconds=LEASE.total_seconds() - 1)
        with pytest.raises(OverLimit):
            claim(store)
        clock.advance(seconds=1)
        assert claim_ids(store) == ["a"]

    def test_a_renewed_lease_counts_on(self, store: Store, clock: Clock) -> None:
        enrol(store, limit=1)
        add(store, "a", "b")
        token = hold(store, "a")
        clock.advance(seconds=LEASE.total_seconds() - 1)
        move(store, Verb.RENEW, "a", token, lease=LEASE)
        clock.advance(minutes=10)
        with pytest.raises(OverLimit):
            claim(store)

    def test_a_person_has_no_limit_and_takes_none_of_the_agents(self, store: Store) -> None:
        enrol(store, limit=1)
        add(store, "a", "b", "c", "d")
        for task in ("a", "b"):
            hold_as_human(store, task, "ann")
        assert member(store).held == 0
        assert claim_ids(store) == ["c"]

    def test_finish_at_the_limit_claims_the_next_task(self, store: Store) -> None:
        enrol(store, limit=1)
        add(store, "a", "b")
        token = hold(store, "a")
        moved = move(store, Verb.DONE, "a", token, then=request("ann", count=2))
        assert [claimed.task.id for claimed in moved.next] == ["b"]

    def test_finish_above_the_limit_claims_no_next_task(self, store: Store) -> None:
        add(store, "a", "b", "c", "d")
        tokens = [hold(store, task) for task in ("a", "b", "c")]
        enrol(store, limit=2)
        moved = move(store, Verb.DONE, "a", tokens[0], then=request("ann"))
        assert (moved.task.status, moved.next) == (Status.DONE, ())
        moved = move(store, Verb.DONE, "b", tokens[1], then=request("ann"))
        assert [claimed.task.id for claimed in moved.next] == ["d"]

    def test_batch_finish_claims_follow_ups_within_the_limit(self, store: Store) -> None:
        from dibs.core.lifecycle import Move
        from dibs.core.policy import CanceledBlocker
        from dibs.core.task import Actor

        enrol(store, limit=2)
        add(store, *"abcdef")
        tokens = {task: hold(store, task) for task in ("a", "b")}
        moves = [Move(Verb.DONE, task, SCOPE, Actor("ann"), token=token) for task, token in tokens.items()]
        batch = store.move_all(moves, CanceledBlocker.RESOLVES, request("ann", count=4))
        assert [claimed.task.id for claimed in batch.next] == ["c", "d"]

    def test_the_order_is_the_same_for_a_member(self, store: Store, clock: Clock) -> None:
        add(store, "late", priority=3)
        add(store, "soon", priority=1)
        add(store, "left", priority=0)
        hold(store, "left", "bob")
        add(store, "gated", priority=0, links=[blocks("gated", "late")])
        clock.advance(hours=1)
        enrol(store, limit=9)
        assert peek_ids(store) == ["left", "soon", "late"]
        assert claim_ids(store, count=9) == ["left", "soon", "late"]

    # Being seen
    def test_request_of_a_member_updates_its_presence_now_and_then(self, store: Store, clock: Clock) -> None:
        enrolled = enrol(store).seen_at
        clock.advance(seconds=14)
        assert claim_ids(store) == []
        assert member(store).seen_at == enrolled
        clock.advance(seconds=1)
        assert claim_ids(store) == []
        assert member(store).seen_at == clock.time

    def test_member_is_present_while_it_asks_or_holds_tasks(self, store: Store, clock: Clock) -> None:
        enrol(store)
        add(store, "a")
        assert member(store).present(store.now())
        clock.advance(seconds=61)
        assert not member(store).present(store.now())
        hold(store, "a")
        clock.advance(minutes=10)
        assert member(store).present(store.now())

    # Being given tasks
    def test_task_assigned_to_a_member_is_reserved_and_counted(self, store: Store) -> None:
        enrol(store)
        add(store, "a", "b")
        assert assign(store, "ann", "a") == ["ann"]
        task = get(store, "a")
        assert (task.assigned_to, task.status, dispatched(task)) == ("ann", Status.READY, True)
        assert (member(store).held, member(store).waiting) == (0, 1)
        assert claim_ids(store, "bob", count=2) == ["b"]
        assert claim_ids(store, "ann") == ["a"]
        assert (member(store).held, member(store).waiting) == (1, 0)
        told = [event for event in store.events(EventQuery(SCOPE, "a")) if event.verb == "assign"]
        assert [(event.agent, dict(event.detail)) for event in told] == [("maker", {"from": None, "to": "ann"})]

    def test_assignment_stops_at_the_limit_of_a_member(self, store: Store) -> None:
        enrol(store, limit=3)
        add(store, *"abcdef")
        hold(store, "a")
        assert assign(store, "ann", "b", "c", "d") == ["ann", "ann", "OVER_LIMIT"]
        assert assign(store, "ann", "e") == ["OVER_LIMIT"]
        assert get(store, "d").assigned_to is None

    def test_a_refused_task_takes_no_room(self, store: Store) -> None:
        enrol(store, limit=1)
        add(store, "a", "b")
        hold(store, "a", "bob")
        assert assign(store, "ann", "a", "nowhere", "b") == ["HELD", "NOT_FOUND", "ann"]

    def test_assigned_task_is_not_assigned_again(self, store: Store) -> None:
        enrol(store)
        enrol(store, "bob")
        add(store, "a")
        assert assign(store, "ann", "a") == ["ann"]
        assert assign(store, "ann", "a") == ["NOT_FOR_YOU"]
        assert assign(store, "bob", "a") == ["NOT_FOR_YOU"]
        assert get(store, "a").assigned_to == "ann"

    def test_task_assigned_by_its_author_is_not_reassigned(self, store: Store) -> None:
        enrol(store)
        add(store, "a", assigned_to="bob")
        assert assign(store, "ann", "a") == ["NOT_FOR_YOU"]
        assert not dispatched(get(store, "a"))

    def test_only_claimable_tasks_are_assigned(self, store: Store, clock: Clock) -> None:
        enrol(store, limit=9)
        add(store, "done", "held", "first", "gated", links=[blocks("gated", "first")])
        add(store, "later", not_before=clock.time + timedelta(hours=1))
        add(store, "shelved", status=Status.BACKLOG)
        finish(store, "done")
        hold(store, "held", "bob")
        assert assign(store, "ann", "done", "held", "gated", "later", "shelved") == [
            "ILLEGAL_MOVE", "HELD", "WAITING", "WAITING", "ILLEGAL_MOVE",
        ]  # fmt: skip
        assert member(store).waiting == 0

    def test_unclaimable_task_is_not_counted_as_waiting(self, store: Store, clock: Clock) -> None:
        enrol(store)
        add(store, "first", "gated", links=[blocks("gated", "first")], assigned_to="ann")
        add(store, "later", not_before=clock.time + timedelta(hours=1), assigned_to="ann")
        assert member(store).waiting == 1
        finish(store, "first")
        clock.advance(hours=1)
        assert member(store).waiting == 2

    def test_assignment_to_an_unenrolled_agent_is_refused(self, store: Store) -> None:
        add(store, "a")
        with no_trace(store), pytest.raises(NotFound) as refused:
            assign(store, "nobody", "a")
        assert "dibs agent add" in refused.value.message

    def test_expired_task_can_be_assigned_to_another_agent(self, store: Store, clock: Clock) -> None:
        enrol(store)
        enrol(store, "bob")
        add(store, "a")
        assign(store, "ann", "a")
        token = hold(store, "a")
        assert assign(store, "bob", "a", taken_from="ann") == ["HELD"]
        clock.advance(hours=1)
        assert assign(store, "bob", "a", taken_from="ann") == ["bob"]
        assert (member(store).load, member(store, "bob").waiting) == (0, 1)
        with pytest.raises(LostLock):
            move(store, Verb.DONE, "a", token)
        assert claim_ids(store, "ann") == []
        assert claim_ids(store, "bob") == ["a"]
        assert (get(store, "a").attempt, get(store, "a").retries) == (2, 1)

    def test_assigned_task_can_be_unassigned(self, store: Store) -> None:
        enrol(store, limit=1)
        add(store, "a")
        assign(store, "ann", "a")
        assert assign(store, None, "a", taken_from="bob") == ["NOT_FOR_YOU"]
        assert assign(store, None, "a", taken_from="ann") == ["None"]
        assert member(store).waiting == 0
        assert dict(get(store, "a").extra) == {}
        assert claim_ids(store, "bob") == ["a"]

    def test_active_or_finished_task_cannot_be_unassigned(self, store: Store) -> None:
        enrol(store)
        add(store, "a", "b")
        assign(store, "ann", "a", "b")
        hold(store, "a")
        move(store, Verb.DONE, "b", hold(store, "b"))
        assert assign(store, None, "a", "b", taken_from="ann") == ["HELD", "ILLEGAL_MOVE"]

    def test_first_retry_limit_of_a_task_is_kept(self, store: Store) -> None:
        enrol(store)
        add(store, "a")
        add(store, "b", max_retries=7)
        assign(store, "ann", "a", "b", retries=1)
        assert (get(store, "a").max_retries, get(store, "b").max_retries) == (1, 7)
        for _ in range(2):
            move(store, Verb.FAIL, "a", hold(store, "a"), reason="broken")
        assert get(store, "a").status is Status.ESCALATED

    def test_assignment_by_a_person_replaces_the_dispatched_one(self, store: Store) -> None:
        enrol(store)
        add(store, "a")
        assign(store, "ann", "a")
        amend(store, "a", Edit(assigned_to="bob"))
        assert not dispatched(get(store, "a"))

    # Only what is one's own
    def test_claim_of_assigned_tasks_takes_no_others(self, store: Store) -> None:
        add(store, "free", priority=0)
        add(store, "mine", "mine2", assigned_to="ann", priority=3)
        add(store, "his", assigned_to="bob")
        add(store, "elsewhere", assigned_to="ann", priority=1, scope="two")
        add(store, "hard", assigned_to="ann", requires=("gpu",))
        assert peek_ids(store, assigned=True) == ["mine", "mine2"]
        assert claim_ids(store, assigned=True) == ["mine"]
        assert claim_ids(store, assigned=True, scope=None, count=9) == ["elsewhere", "mine2"]
        assert claim_ids(store, assigned=True, scope=None, count=9, can=frozenset({"gpu"})) == ["hard"]
        assert claim_ids(store, assigned=True) == []

    def test_expired_or_due_task_counts_as_assigned(self, store: Store, clock: Clock) -> None:
        add(store, "left", "last", assigned_to="ann", max_retries=1)
        add(store, "later", assigned_to="ann", not_before=clock.time + timedelta(minutes=1))
        hold(store, "left")
        move(store, Verb.FAIL, "last", hold(store, "last"))
        hold(store, "last")
        clock.advance(hours=1)
        assert peek_ids(store, assigned=True) == ["later", "left"]
        assert claim_ids(store, assigned=True, count=9) == ["later", "left"]
        assert get(store, "last").status is Status.ESCALATED

    def test_unassigned_task_is_refused_to_a_claim_of_assigned_ones(self, store: Store) -> None:
        add(store, "free")
        with pytest.raises(NotForYou) as refused:
            claim(store, "ann", "free", assigned=True)
        assert "nobody" in refused.value.message

    def test_finish_claims_the_next_assigned_task(self, store: Store) -> None:
        enrol(store, limit=1)
        add(store, "a", "b", priority=0)
        add(store, "mine", priority=3)
        token = hold(store, "a")
        amend(store, "mine", Edit(assigned_to="ann"))
        moved = move(store, Verb.DONE, "a", token, then=request("ann", assigned=True))
        assert [claimed.task.id for claimed in moved.next] == ["mine"]

    def test_claim_of_assigned_tasks_returns_inputs(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", assigned_to="ann", links=[blocks("b", "a")])
        move(store, Verb.DONE, "a", hold(store, "a", "bob"), result="found it")
        (claimed,) = claim(store, assigned=True)
        assert [(given.id, given.result) for given in claimed.inputs] == [("a", "found it")]

    def test_a_waiting_task_is_refused_to_a_member_as_to_anyone(self, store: Store) -> None:
        enrol(store)
        add(store, "a", "b", links=[blocks("b", "a")])
        with pytest.raises(Waiting):
            claim(store, "ann", "b")
        finish(store, "a")
        with pytest.raises(IllegalMove):
            claim(store, "ann", "a")


def register(store: Store, name: str, host: str | None = "box", pid: int | None = 7) -> Agent:
    return fleet_of(store).register(name, host=host, pid=pid)


@needs("fleet")
class AgentsTests(Suite):
    """Registrations: who says that it is at work, for people to look at. They prove nothing and gate nothing."""

    def test_a_new_store_has_no_agents(self, store: Store) -> None:
        assert fleet_of(store).agents() == []

    def test_a_registered_agent_is_active_since_the_stores_time(self, store: Store, clock: Clock) -> None:
        made = register(store, "ann")
        assert made == Agent("ann", "box", 7, clock.time, AgentStatus.ACTIVE, None)
        assert fleet_of(store).agents() == [made]

    def test_agent_may_register_without_host_and_process(self, store: Store) -> None:
        made = register(store, "ann", None, None)
        assert (made.host, made.pid) == (None, None)
        assert fleet_of(store).agents() == [made]

    def test_agents_are_listed_in_the_order_of_their_start_and_then_by_name(self, store: Store, clock: Clock) -> None:
        register(store, "zoe")
        clock.advance(seconds=1)
        register(store, "cid")
        register(store, "bob")
        assert [agent.id for agent in fleet_of(store).agents()] == ["zoe", "bob", "cid"]

    def test_a_name_that_is_at_work_cannot_be_registered_again(self, store: Store, clock: Clock) -> None:
        made = register(store, "ann")
        clock.advance(days=30)
        with pytest.raises(AlreadyExists) as refused:
            register(store, "ann", "elsewhere", 8)
        assert "ann" in refused.value.message
        assert fleet_of(store).agents() == [made]

    def test_deregistered_agent_stays_listed_as_gone(self, store: Store, clock: Clock) -> None:
        made = register(store, "ann")
        clock.advance(minutes=5)
        gone = fleet_of(store).deregister("ann")
        assert gone == made._replace(status=AgentStatus.GONE, ended_at=clock.time)
        assert fleet_of(store).agents() == [gone]

    def test_going_twice_changes_nothing(self, store: Store, clock: Clock) -> None:
        register(store, "ann")
        gone = fleet_of(store).deregister("ann")
        clock.advance(minutes=5)
        assert fleet_of(store).deregister("ann") == gone
        assert fleet_of(store).agents() == [gone]

    def test_dismissed_agent_may_register_again(self, store: Store, clock: Clock) -> None:
        register(store, "ann")
        register(store, "bob")
        fleet_of(store).deregister("ann")
        clock.advance(minutes=5)
        again = register(store, "ann", "elsewhere", 8)
        assert again == Agent("ann", "elsewhere", 8, clock.time)
        assert [agent.id for agent in fleet_of(store).agents()] == ["bob", "ann"]

    def test_unregistered_agent_cannot_deregister(self, store: Store) -> None:
        with pytest.raises(NotFound) as refused:
            fleet_of(store).deregister("nobody")
        assert "nobody" in refused.value.message

    def test_others_see_a_registration_and_so_does_a_newcomer(
        self, store: Store, beside: Store, reopen: Callable[[], Store]
    ) -> None:
        made = register(store, "ann")
        assert fleet_of(beside).agents() == [made]
        with pytest.raises(AlreadyExists):
            register(beside, "ann")
        assert fleet_of(reopen()).agents() == [made]

    def test_deregistered_agent_keeps_its_held_tasks(self, store: Store) -> None:
        add(store, "a")
        register(store, "ann")
        token = hold(store, "a", "ann")
        fleet_of(store).deregister("ann")
        assert get(store, "a").status is Status.ACTIVE
        assert move(store, Verb.DONE, "a", token).task.status is Status.DONE

    def test_unregistered_agent_can_claim(self, store: Store) -> None:
        add(store, "a")
        hold(store, "a", "stranger")
        assert fleet_of(store).agents() == []

    @needs("transactions")
    def test_registrations_are_no_part_of_an_export(self, store: Store, another: Store) -> None:
        add(store, "a")
        register(store, "ann")
        restore(another, dump(store))
        assert fleet_of(another).agents() == []
        assert len(fleet_of(store).agents()) == 1
