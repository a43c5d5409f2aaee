"""The effects of a finished or canceled task on its dependents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import IncompleteSubtasks, LostLock, Waiting
from dibs.core.events import Outcome
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Edit, Status

from .builders import (
    LEASE,
    add,
    amend,
    blockers,
    blocks,
    bring,
    chain,
    claim,
    claim_ids,
    draft,
    events,
    feeds,
    finish,
    get,
    hold,
    hold_as_human,
    keeps_history,
    last_seq,
    link,
    move,
    nothing_changes,
    only,
    parallel,
    peek_ids,
    statuses,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.stores.port import Moved, Store
    from dibs.testing import Clock


RESOLVES, ESCALATES, CASCADES = CanceledBlocker.RESOLVES, CanceledBlocker.ESCALATES, CanceledBlocker.CASCADES
DRAWN_ALONG = (Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED)
LEFT_ALONE = (Status.ACTIVE, Status.REVIEW, Status.DONE, Status.CANCELED)


def cancel(store: Store, task: str, rule: CanceledBlocker, **more: Any) -> Moved:
    return move(store, Verb.CANCEL, task, on_cancel=rule, **more)


def diamond(store: Store) -> None:
    """d waits for b and c, both wait for a; e waits for d and for the unconcerned z."""
    add(store, "a", "b", "c", "d", "e", "z")
    link(store, *(blocks(task, on) for task, on in ("ba", "ca", "db", "dc", "ed", "ez")))


LONG = [f"t{number:04}" for number in range(1200)]  # more than Python would go deep


# Parents
def family(store: Store) -> None:
    add(store, "p", draft("x", parent="p"), draft("y", parent="p"), draft("z", parent="y"))


class ConsequencesTests(Suite):
    """What a move means for the tasks around it: who is set free, gated, escalated or canceled along."""

    # Done
    @needs("links")
    def test_last_finished_prerequisite_unblocks_its_dependents(self, store: Store) -> None:
        add(store, "a", "b", "c", "d", links=[blocks("c", "a"), blocks("c", "b"), blocks("d", "b")])
        assert blockers(store) == {"a": 0, "b": 0, "c": 2, "d": 1}
        moved = move(store, Verb.DONE, "a", hold(store, "a"))
        assert (moved.unblocked, blockers(store)) == ((), {"a": 0, "b": 0, "c": 1, "d": 1})
        moved = move(store, Verb.DONE, "b", hold(store, "b"))
        assert (sorted(moved.unblocked), blockers(store)) == (["c", "d"], dict.fromkeys("abcd", 0))
        assert (moved.escalated, moved.canceled) == ((), ())
        assert claim_ids(store, count=5) == ["c", "d"]

    @needs("links")
    def test_approving_sets_dependents_free_like_finishing(self, store: Store) -> None:
        bring(store, "a", Status.REVIEW)
        add(store, "b", links=[blocks("b", "a")])
        assert blockers(store)["b"] == 1
        assert move(store, Verb.APPROVE, "a").unblocked == ("b",)

    @needs("links")
    def test_only_blocking_links_are_counted(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[feeds("b", "a"), parallel("c", "a")])
        assert move(store, Verb.DONE, "a", hold(store, "a")).unblocked == ()
        assert blockers(store) == {"a": 0, "b": 0, "c": 0}

    @needs("links")
    @pytest.mark.parametrize("verb", [Verb.FAIL, Verb.BLOCK, Verb.REVIEW, Verb.RELEASE, Verb.PAUSE])
    def test_unfinished_task_unblocks_no_dependent(self, store: Store, verb: Verb) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        assert move(store, verb, "a", hold(store, "a")).unblocked == ()
        assert blockers(store)["b"] == 1
        assert "b" not in peek_ids(store)

    @needs("links")
    @pytest.mark.parametrize("status", [Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED])
    def test_a_dependent_that_is_not_up_for_work_is_not_unblocked(self, store: Store, status: Status) -> None:
        bring(store, "b", status)
        add(store, "a", links=[blocks("b", "a")])
        before = get(store, "b")
        assert move(store, Verb.DONE, "a", hold(store, "a")).unblocked == ()
        assert get(store, "b") == before._replace(blockers=0)
        assert claim(store) == []

    @needs("links")
    def test_dependent_with_a_later_start_becomes_claimable_when_due(self, store: Store, clock: Clock) -> None:
        add(store, "a", draft("b", not_before=store.now() + LEASE), links=[blocks("b", "a")])
        assert move(store, Verb.DONE, "a", hold(store, "a")).unblocked == ()
        assert claim(store) == []
        clock.advance(minutes=20)
        assert claim_ids(store) == ["b"]

    @needs("links")
    @pytest.mark.parametrize("woken", [False, True])
    def test_dependent_that_became_due_is_unblocked(self, store: Store, clock: Clock, woken: bool) -> None:
        add(store, "a", draft("b", not_before=store.now() + LEASE / 2), links=[blocks("b", "a")])
        token = hold(store, "a")
        clock.advance(minutes=15)
        if woken:
            claim(store, scope="elsewhere")
        assert move(store, Verb.DONE, "a", token).unblocked == ("b",)

    @needs("links")
    @pytest.mark.parametrize("woken", [False, True])
    def test_dependent_with_an_expired_lease_is_unblocked(self, store: Store, clock: Clock, woken: bool) -> None:
        add(store, "a", "b")
        hold(store, "b", "bob", lease=LEASE / 2)
        link(store, blocks("b", "a"))
        token = hold(store, "a")
        clock.advance(minutes=15)
        if woken:
            claim(store, scope="elsewhere")
        assert move(store, Verb.DONE, "a", token).unblocked == ("b",)
        assert claim_ids(store) == ["b"]

    @needs("links")
    def test_a_dependent_under_a_live_lease_or_a_human_hold_is_not_unblocked(self, store: Store) -> None:
        add(store, "a", "b", "c")
        hold(store, "b", "bob")
        hold_as_human(store, "c")
        link(store, blocks("b", "a"), blocks("c", "a"))
        assert move(store, Verb.DONE, "a", hold(store, "a")).unblocked == ()
        assert blockers(store) == {"a": 0, "b": 0, "c": 0}
        assert claim(store) == []

    @needs("links")
    def test_finishing_leaves_a_dependents_own_history_alone(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        before = get(store, "b")
        finish(store, "a")
        assert get(store, "b") == before._replace(blockers=0)
        assert [event.verb for event in events(store, "b")] == ["add", "link"]

    @needs("links")
    def test_scopes_do_not_reach_into_each_other(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        add(store, "a", "b", links=[blocks("b", "a")], scope="elsewhere")
        finish(store, "a")
        assert blockers(store, "elsewhere") == {"a": 0, "b": 1}

    # Canceled
    @needs("links")
    def test_resolving_cancelation_unblocks_dependents(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), blocks("c", "a"), blocks("c", "b")])
        moved = cancel(store, "a", RESOLVES)
        assert (moved.unblocked, moved.escalated, moved.canceled) == (("b",), (), ())
        assert blockers(store) == {"a": 0, "b": 0, "c": 1}
        assert claim_ids(store, count=5) == ["b"]

    @needs("links")
    @pytest.mark.parametrize("status", DRAWN_ALONG)
    def test_escalating_cancelation_escalates_dependents(self, store: Store, clock: Clock, status: Status) -> None:
        bring(store, "b", status)
        add(store, "a", links=[blocks("b", "a")])
        before = get(store, "b")
        clock.advance(minutes=1)
        start = last_seq(store)
        moved = cancel(store, "a", ESCALATES, by=Actor("zoe", "r"), reason="over")
        assert (moved.unblocked, moved.escalated, moved.canceled) == ((), ("b",), ())
        after = get(store, "b")
        assert after == before._replace(
            status=Status.ESCALATED, reason=after.reason, blockers=0, updated_at=store.now()
        )
        assert "a" in str(after.reason)
        told = only(events(store, "b", after=start))
        assert (told.verb, told.agent, told.run) == ("escalate", "zoe", "r")
        assert (told.source, told.target, told.reason) == (status, Status.ESCALATED, after.reason)

    @needs("links")
    def test_escalation_reaches_the_direct_dependents_only(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), blocks("c", "b")])
        assert cancel(store, "a", ESCALATES).escalated == ("b",)
        assert get(store, "c").status is Status.READY
        assert blockers(store) == {"a": 0, "b": 0, "c": 1}

    @needs("links")
    def test_escalated_dependent_stays_escalated(self, store: Store) -> None:
        bring(store, "b", Status.ESCALATED)
        add(store, "a", links=[blocks("b", "a")])
        before = get(store, "b")
        assert cancel(store, "a", ESCALATES).escalated == ()
        assert get(store, "b") == before._replace(blockers=0)

    @needs("links")
    def test_escalated_dependent_is_ready_after_a_persons_decision(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        cancel(store, "a", ESCALATES)
        assert peek_ids(store) == []
        move(store, Verb.UNBLOCK, "b")
        assert claim_ids(store) == ["b"]

    @needs("links")
    @pytest.mark.parametrize("status", [*DRAWN_ALONG, Status.ESCALATED])
    def test_where_a_cancelation_cascades_dependents_are_canceled_too(
        self, store: Store, clock: Clock, status: Status
    ) -> None:
        bring(store, "b", status)
        add(store, "a", links=[blocks("b", "a")])
        before = get(store, "b")
        clock.advance(minutes=1)
        start = last_seq(store)
        moved = cancel(store, "a", CASCADES, by=Actor("zoe", "r"))
        assert (moved.unblocked, moved.escalated, moved.canceled) == ((), (), ("b",))
        after = get(store, "b")
        now = store.now()
        assert after == before._replace(
            status=Status.CANCELED, reason=after.reason, blockers=0, updated_at=now, finished_at=now
        )
        assert "a" in str(after.reason)
        told = only(events(store, "b", after=start))
        assert (told.verb, told.agent, told.run, told.source) == ("cancel", "zoe", "r", status)

    @needs("links")
    @pytest.mark.parametrize("rule", [ESCALATES, CASCADES])
    @pytest.mark.parametrize("status", LEFT_ALONE)
    def test_cancelation_leaves_active_and_finished_tasks(
        self, store: Store, status: Status, rule: CanceledBlocker
    ) -> None:
        bring(store, "b", status)
        add(store, "a", "c", links=[blocks("b", "a"), blocks("c", "b")])
        before = get(store, "b")
        moved = cancel(store, "a", rule)
        assert (moved.escalated, moved.canceled) == ((), ())
        assert get(store, "b") == before._replace(blockers=0)
        assert get(store, "c").status is Status.READY

    @needs("links")
    @pytest.mark.parametrize("rule", CanceledBlocker)
    @pytest.mark.parametrize("kind", [feeds, parallel])
    def test_cancelation_affects_only_waiting_tasks(self, store: Store, rule: CanceledBlocker, kind: type) -> None:
        add(store, "a", "b", links=[kind("b", "a")])
        moved = cancel(store, "a", rule)
        assert (moved.unblocked, moved.escalated, moved.canceled) == ((), (), ())
        assert get(store, "b").status is Status.READY

    @needs("links")
    def test_cascading_cancelation_cancels_each_task_of_a_diamond_once(self, store: Store) -> None:
        diamond(store)
        start = last_seq(store)
        moved = cancel(store, "a", CASCADES)
        assert sorted(moved.canceled) == ["b", "c", "d", "e"]
        assert moved.unblocked == ()
        assert statuses(store) == dict.fromkeys("abcde", Status.CANCELED) | {"z": Status.READY}
        assert blockers(store) == dict.fromkeys("abcdz", 0) | {"e": 1}
        assert sorted(event.task for event in events(store, after=start)) == ["a", "b", "c", "d", "e"]
        assert get(store, "d").reason in {f"prerequisite {task} was canceled" for task in "bc"}

    @needs("links")
    def test_a_diamond_is_escalated_at_its_first_level_only(self, store: Store) -> None:
        diamond(store)
        moved = cancel(store, "a", ESCALATES)
        assert sorted(moved.escalated) == ["b", "c"]
        assert blockers(store) == {"a": 0, "b": 0, "c": 0, "d": 2, "e": 2, "z": 0}

    @needs("links")
    def test_resolving_cancelation_unblocks_a_diamond(self, store: Store) -> None:
        diamond(store)
        assert sorted(cancel(store, "a", RESOLVES).unblocked) == ["b", "c"]
        assert blockers(store) == {"a": 0, "b": 0, "c": 0, "d": 2, "e": 2, "z": 0}

    @needs("links")
    def test_dependent_over_two_paths_is_canceled_once(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), blocks("c", "a"), blocks("c", "b")])
        start = last_seq(store)
        moved = cancel(store, "a", CASCADES)
        assert sorted(moved.canceled) == ["b", "c"]
        assert sorted(event.task for event in events(store, after=start)) == ["a", "b", "c"]

    @needs("links")
    def test_a_cascade_stops_at_work_that_is_going_on(self, store: Store) -> None:
        add(store, "a", "b", "c")
        hold(store, "b")
        link(store, blocks("b", "a"), blocks("c", "b"))
        assert cancel(store, "a", CASCADES).canceled == ()
        assert statuses(store) == {"a": Status.CANCELED, "b": Status.ACTIVE, "c": Status.READY}

    @needs("links")
    @pytest.mark.parametrize("rule", CanceledBlocker)
    def test_cancelation_by_the_holder_has_the_same_consequences(self, store: Store, rule: CanceledBlocker) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        moved = cancel(store, "a", rule, token=hold(store, "a"))
        drawn = {RESOLVES: moved.unblocked, ESCALATES: moved.escalated, CASCADES: moved.canceled}
        assert drawn[rule] == ("b",)

    @needs("links")
    def test_the_rule_about_cancelation_matters_for_cancelations_only(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        moved = move(store, Verb.DONE, "a", hold(store, "a"), on_cancel=CASCADES)
        assert (moved.unblocked, moved.canceled) == (("b",), ())

    @needs("links")
    def test_a_long_chain_is_canceled_to_its_end(self, store: Store) -> None:
        add(store, *LONG, links=chain(LONG))
        moved = cancel(store, LONG[0], CASCADES)
        assert sorted(moved.canceled) == LONG[1:]
        assert set(statuses(store).values()) == {Status.CANCELED}
        assert set(blockers(store).values()) == {0}

    @needs("links")
    def test_a_long_chain_moves_on_by_one_where_cancelation_escalates_or_resolves(self, store: Store) -> None:
        add(store, *LONG, links=chain(LONG))
        assert cancel(store, LONG[0], ESCALATES).escalated == (LONG[1],)
        assert cancel(store, LONG[1], RESOLVES).unblocked == (LONG[2],)
        assert claim_ids(store, count=5) == [LONG[2]]

    # Opened again
    @needs("links")
    def test_reopening_gates_the_dependents_again(self, store: Store) -> None:
        add(store, "a", "b", "c", "d")
        link(store, blocks("b", "a"), blocks("c", "a"), blocks("c", "d"), feeds("d", "a"))
        cancel(store, "a", RESOLVES)
        assert (peek_ids(store), blockers(store)["c"]) == (["b", "d"], 1)
        moved = move(store, Verb.REOPEN, "a")
        assert (moved.unblocked, moved.escalated, moved.canceled) == ((), (), ())
        assert (peek_ids(store), blockers(store)) == (["a", "d"], {"a": 0, "b": 1, "c": 2, "d": 0})

    @needs("links")
    def test_reopening_a_done_task_gates_its_dependents_again(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        token = hold(store, "a")
        assert move(store, Verb.DONE, "a", token).unblocked == ("b",)
        move(store, Verb.REOPEN, "a")
        assert (peek_ids(store), blockers(store)) == (["a"], {"a": 0, "b": 1})
        with pytest.raises(LostLock):
            move(store, Verb.DONE, "a", token)

    @needs("links")
    def test_closing_a_waiting_task_needs_force(self, store: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), blocks("c", "b")])
        with pytest.raises(Waiting):
            move(store, Verb.CLOSE, "b")
        assert move(store, Verb.CLOSE, "b", force=True).unblocked == ("c",)
        assert move(store, Verb.CLOSE, "a").task.status is Status.DONE

    @needs("links")
    def test_reopening_does_not_disturb_work_that_is_going_on(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        cancel(store, "a", RESOLVES)
        token = hold(store, "b")
        before = get(store, "b")
        move(store, Verb.REOPEN, "a")
        assert get(store, "b") == before._replace(blockers=1)
        assert move(store, Verb.DONE, "b", token).task.status is Status.DONE

    @needs("links")
    def test_a_reopened_task_still_waits_for_its_own_prerequisites(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        cancel(store, "b", RESOLVES)
        assert move(store, Verb.REOPEN, "b").task.blockers == 1
        assert peek_ids(store) == ["a"]

    @needs("links")
    def test_canceling_and_reopening_is_a_way_there_and_back(self, store: Store, clock: Clock) -> None:
        diamond(store)
        before = blockers(store)
        for _ in range(3):
            clock.advance(minutes=1)
            cancel(store, "b", RESOLVES)
            move(store, Verb.REOPEN, "b")
        assert blockers(store) == before

    @pytest.mark.parametrize("status", [status for status in Status if status not in {Status.DONE, Status.CANCELED}])
    def test_a_parent_cannot_be_done_before_its_children(self, store: Store, status: Status) -> None:
        add(store, "p")
        bring(store, "child", status)
        amend(store, "child", Edit(parent="p"))
        token = hold(store, "p")
        with nothing_changes(store), pytest.raises(IncompleteSubtasks, match="child"):
            move(store, Verb.DONE, "p", token)
        if keeps_history(store):
            refused = events(store, "p")[-1]
            assert (refused.verb, refused.outcome, refused.reason) == ("done", Outcome.REFUSED, "INCOMPLETE_SUBTASKS")

    def test_a_parent_cannot_be_approved_before_its_children(self, store: Store) -> None:
        family(store)
        move(store, Verb.REVIEW, "p", hold(store, "p"))
        with nothing_changes(store), pytest.raises(IncompleteSubtasks):
            move(store, Verb.APPROVE, "p")

    def test_force_does_not_complete_a_parent_before_its_children(self, store: Store) -> None:
        family(store)
        hold(store, "p")
        with nothing_changes(store), pytest.raises(IncompleteSubtasks):
            move(store, Verb.DONE, "p", force=True)

    def test_a_parent_is_done_once_its_children_are_done_or_canceled(self, store: Store) -> None:
        family(store)
        finish(store, "x", "z", "y")
        assert move(store, Verb.DONE, "p", hold(store, "p")).task.status is Status.DONE

    def test_a_canceled_child_does_not_hold_its_parent_up(self, store: Store) -> None:
        add(store, "p", draft("x", parent="p"))
        cancel(store, "x", ESCALATES)
        assert get(store, "p").status is Status.READY
        assert move(store, Verb.DONE, "p", hold(store, "p")).task.status is Status.DONE

    def test_only_completing_waits_for_the_children(self, store: Store) -> None:
        family(store)
        assert "p" in peek_ids(store)
        move(store, Verb.REVIEW, "p", hold(store, "p"))
        assert cancel(store, "p", CASCADES).canceled == ()

    @needs("scopes")
    def test_children_of_a_namesake_in_another_scope_do_not_count(self, store: Store) -> None:
        add(store, "p")
        add(store, "p", draft("x", parent="p"), scope="elsewhere")
        finish(store, "p")

    def test_repeated_finish_is_recognised_after_a_new_child(self, store: Store) -> None:
        add(store, "p")
        token = hold(store, "p")
        done: Task = move(store, Verb.DONE, "p", token).task
        add(store, draft("x", parent="p"))
        assert move(store, Verb.DONE, "p", token).task == done
