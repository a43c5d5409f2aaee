"""The statements of kurultai's document about the operational memory, on every store."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, IllegalMove, InvalidInput, LostLock, NotForYou, NotFound, OverLimit, Waiting
from dibs.core.lifecycle import Verb
from dibs.core.policy import NATIVE, CanceledBlocker
from dibs.core.task import Draft, Status
from dibs.desk import Desk
from dibs.protocols.kurultai.errors import (
    CycleDetectedError,
    DependencyNotFoundError,
    NoPendingTaskError,
    RaceConditionError,
    TaskDependencyError,
)
from dibs.protocols.kurultai.memory import OperationalMemory
from dibs.protocols.kurultai.records import TaskRecord
from dibs.stores.port import EventQuery
from support.kurultai import ANN, BOB, complete, create, depend, hold, ready, show

if TYPE_CHECKING:
    from dibs.stores.port import Store
    from support.clock import Clock

# The fields that the document names, base and additions; its embedding is kept by the store and never read along.
DOCUMENT = """
    id type description status assigned_to claimed_by delegated_by created_at updated_at sender_hash
    window_expires_at deliverable_type priority_weight user_priority_override merged_into merged_from
    notion_synced_at notion_page_id notion_url external_priority_source external_priority_weight
    quality_score blocked_reason blocked_at escalation_count result_summary started_at completed_at
"""


# The Task node


def test_a_task_has_every_field_of_the_document(memory: OperationalMemory) -> None:
    ends = datetime(2026, 2, 4, 12, 0, 45, tzinfo=UTC)
    task = memory.create_task(
        "Research competitors\nand tell who they are",
        sender_hash=ANN,
        type="market",
        deliverable_type="research",
        delegated_by="Kublai",
        priority_weight=0.8,
        window_expires_at=ends,
    )
    assert set(task) >= set(DOCUMENT.split())
    assert set(TaskRecord.__annotations__) - set(task) == {"claim_attempt_id"}
    said = (task["description"], task["type"], task["deliverable_type"], task["delegated_by"], task["sender_hash"])
    assert said == ("Research competitors\nand tell who they are", "market", "research", "main", ANN)
    assert (task["status"], task["priority_weight"], task["window_expires_at"]) == ("pending", 0.8, ends)
    assert task["created_at"] == task["updated_at"]
    assert show(memory, task["id"]) == task


def test_id_is_a_uuid_with_a_typed_prefix(memory: OperationalMemory) -> None:
    task = memory.create_task("Earn 1,000 USDC", sender_hash=ANN)
    assert [len(part) for part in task["id"].split("-")] == [8, 4, 4, 4, 12]
    assert show(memory, task["id"][:8]) == task


def test_missing_priority_weight_is_a_half(memory: OperationalMemory) -> None:
    create(memory, "plain")
    create(memory, "low", priority_weight=0.4)
    create(memory, "high", priority_weight=0.6)
    assert show(memory, "plain")["priority_weight"] == 0.5
    assert ready(memory) == ["high", "plain", "low"]


@pytest.mark.parametrize(("given", "kept"), [(7, 1.0), (-3, 0.0), (0, 0.0), (1, 1.0), (0.35, 0.35)])
def test_weights_are_clamped_to_0_and_1(local: OperationalMemory, given: float, kept: float) -> None:
    create(local, "a", priority_weight=given)
    assert str(show(local, "a")["priority_weight"]) == str(kept)  # 0.0, and never -0.0


def test_a_user_priority_override_sorts_first(memory: OperationalMemory) -> None:
    create(memory, "heavy", priority_weight=1)
    create(memory, "chosen", priority_weight=0.1, user_priority_override=True)
    assert ready(memory) == ["chosen", "heavy"]


def test_of_equal_weights_the_earlier_comes_first(memory: OperationalMemory, clock: Clock) -> None:
    for each in ("z", "m", "a"):
        create(memory, each)
        clock.advance(seconds=1)
    assert ready(memory) == ["z", "m", "a"]


# Status values


def test_task_goes_from_pending_to_completed(memory: OperationalMemory, clock: Clock) -> None:
    create(memory, "a")
    assert (show(memory, "a")["status"], show(memory, "a")["started_at"]) == ("pending", None)
    clock.advance(minutes=1)
    proof = hold(memory, "a", "Temüjin")
    now = show(memory, "a")
    assert (now["status"], now["claimed_by"], now["completed_at"]) == ("in_progress", "developer", None)
    clock.advance(minutes=1)
    done = memory.complete_task("a", proof, "it works", sender_hash=ANN, quality_score=0.75).task
    assert (done["status"], done["result_summary"], done["quality_score"]) == ("completed", "it works", 0.75)
    assert (done["claimed_by"], done["started_at"]) == ("developer", now["started_at"])
    assert done["started_at"] is not None
    assert done["completed_at"] == done["started_at"] + timedelta(minutes=1)
    assert show(memory, "a") == done


def test_paused_task_is_blocked_and_resumes_unchanged(memory: OperationalMemory) -> None:
    create(memory, "a")
    paused = memory.pause_task("a", sender_hash=ANN)
    assert (paused["status"], paused["blocked_reason"]) == ("blocked", "paused")
    assert ready(memory) == []
    assert memory.resume_task("a", sender_hash=ANN)["status"] == "pending"
    assert ready(memory) == ["a"]


def test_an_aborted_task_is_blocked_with_that_reason(memory: OperationalMemory) -> None:
    create(memory, "a")
    aborted = memory.abort_task("a", sender_hash=ANN, reason="nobody wants it").task
    assert (aborted["status"], aborted["blocked_reason"]) == ("blocked", "aborted")
    assert aborted["completed_at"] is None
    assert ready(memory) == []


def test_blocked_task_has_reason_and_time(memory: OperationalMemory, store: Store) -> None:
    create(memory, "a", "b")
    task = memory.block_task("a", hold(memory, "a"), reason="no access", sender_hash=ANN)
    assert (task["status"], task["blocked_reason"], task["blocked_at"]) == ("blocked", "no access", store.now())
    assert task["claimed_by"] is None
    assert memory.block_task("b", reason="not yet", sender_hash=ANN)["status"] == "blocked"
    assert ready(memory) == []


def test_pause_keeps_the_time_and_the_reason_of_a_block(memory: OperationalMemory, store: Store, clock: Clock) -> None:
    create(memory, "a")
    since = memory.block_task("a", reason="no access", sender_hash=ANN)["blocked_at"]
    clock.advance(minutes=1)
    assert memory.pause_task("a", sender_hash=ANN)["blocked_at"] is None
    again = memory.resume_task("a", sender_hash=ANN)
    assert (again["blocked_reason"], again["blocked_at"]) == ("no access", since)
    assert "blocked_at" in store.get(ANN, "a").extra
    memory.reassign_blocked_task("a", sender_hash=ANN)
    assert "blocked_at" not in store.get(ANN, "a").extra


def test_task_in_review_is_blocked_without_an_agent(local: OperationalMemory) -> None:
    create(local, "a")
    desk = local._desk.at(ANN, policy=NATIVE)
    desk.move(Verb.REVIEW, "a", token=hold(local, "a"))
    shown = show(local, "a")
    assert (shown["status"], shown["blocked_reason"], shown["claimed_by"]) == ("blocked", "review", None)


# claim_task and complete_task


def test_an_agent_claims_what_is_routed_to_it(memory: OperationalMemory) -> None:
    for kind in ("research", "code", "content", "analysis", "strategy", "ops", "testing"):
        memory.create_task(f"some {kind}", sender_hash=ANN, deliverable_type=kind, task_id=kind)
    memory.create_task("whatever", sender_hash=ANN, task_id="untyped")
    got: dict[str, list[str]] = {}
    for agent in ("researcher", "developer", "writer", "analyst", "ops", "main"):
        try:
            while True:
                claimed = memory.claim_task(agent, sender_hash=ANN)
                got.setdefault(agent, []).append(claimed.task["id"])
                memory.complete_task(claimed.task["id"], claimed.claim_attempt_id, sender_hash=ANN)
        except NoPendingTaskError:
            continue
    assert {agent: sorted(ids) for agent, ids in got.items()} == {
        "researcher": ["research"],
        "developer": ["code", "testing"],
        "writer": ["content"],
        "analyst": ["analysis", "strategy", "untyped"],
        "ops": ["ops"],
    }


def test_claim_returns_results_of_prerequisites(memory: OperationalMemory) -> None:
    create(memory, "research", "notes", "strategy", "other")
    depend(memory, "strategy", "research")
    depend(memory, "strategy", "notes", "feeds_into")
    depend(memory, "strategy", "other", "parallel_ok")
    for each in ("research", "notes", "other"):
        complete(memory, each, f"{each} is done")
    claimed = memory.claim_task("analyst", sender_hash=ANN, task_id="strategy")
    assert {one["id"]: one["result_summary"] for one in claimed.prerequisites} == {
        "research": "research is done",
        "notes": "notes is done",
    }


def test_only_the_holder_sees_the_claim_attempt_id(memory: OperationalMemory) -> None:
    create(memory, "a")
    claimed = memory.claim_task("ops", sender_hash=ANN)
    assert claimed.task.get("claim_attempt_id") == claimed.claim_attempt_id
    proof = claimed.claim_attempt_id
    others = [show(memory, "a"), *memory.get_tasks(ANN), repr(claimed), memory.get_agents()]
    assert proof not in str(others)


def test_two_processes_under_one_name_never_share_a_task(memory: OperationalMemory) -> None:
    create(memory, "a", "b")
    first = memory.claim_task("developer", sender_hash=ANN)
    second = memory.claim_task("developer", sender_hash=ANN)
    assert {first.task["id"], second.task["id"]} == {"a", "b"}
    with pytest.raises(RaceConditionError) as caught:
        memory.claim_task("developer", sender_hash=ANN, task_id="a")
    assert (caught.value.code, caught.value.holder) == ("HELD", "developer")
    with pytest.raises(LostLock):
        memory.complete_task(first.task["id"], second.claim_attempt_id, sender_hash=ANN)
    with pytest.raises(NoPendingTaskError):
        memory.claim_task("ops", sender_hash=ANN)


def test_agent_limit_holds_over_all_senders(memory: OperationalMemory) -> None:
    create(memory, "a", "b", "c")
    create(memory, "d", sender=BOB)
    first = hold(memory, "a")
    memory.claim_task("developer", sender_hash=BOB)
    for sender, task in ((ANN, None), (ANN, "c"), (None, None)):
        with pytest.raises(OverLimit):
            memory.claim_task("developer", sender_hash=sender, task_id=task)
    memory.complete_task("a", first, sender_hash=ANN)
    assert memory.claim_task("developer").task["id"] == "b"
    assert [agent["load"] for agent in memory.get_agents() if agent["id"] == "developer"] == [2]


def test_late_write_is_rejected(memory: OperationalMemory, clock: Clock) -> None:
    create(memory, "a")
    late = hold(memory, "a", "writer")
    clock.advance(minutes=21)
    assert ready(memory) == ["a"]
    current = hold(memory, "a", "ops")
    for act in (
        lambda: memory.complete_task("a", late, "too late", sender_hash=ANN),
        lambda: memory.block_task("a", late, reason="too late", sender_hash=ANN),
        lambda: memory.renew_task("a", late, sender_hash=ANN),
        lambda: memory.fail_task("a", late, "too late", sender_hash=ANN),
    ):
        with pytest.raises(LostLock):
            act()
    assert show(memory, "a")["claimed_by"] == "ops"
    memory.complete_task("a", current, sender_hash=ANN)


def test_a_renewed_lease_keeps_a_task(memory: OperationalMemory, clock: Clock) -> None:
    create(memory, "a")
    proof = hold(memory, "a")
    for _ in range(3):
        clock.advance(minutes=15)
        memory.renew_task("a", proof, sender_hash=ANN)
    assert memory.complete_task("a", proof, sender_hash=ANN).task["status"] == "completed"


def test_task_in_progress_needs_proof_or_force(memory: OperationalMemory) -> None:
    create(memory, "a", "b")
    for each in ("a", "b"):
        hold(memory, each)
    with pytest.raises(Held):
        memory.block_task("a", reason="mine now", sender_hash=ANN)
    with pytest.raises(Held):
        memory.pause_task("a", sender_hash=ANN)
    with pytest.raises(Held):
        memory.abort_task("a", sender_hash=ANN)
    assert memory.pause_task("a", sender_hash=ANN, force=True)["blocked_reason"] == "paused"
    assert memory.abort_task("b", sender_hash=ANN, force=True).task["blocked_reason"] == "aborted"


# reassign_blocked_task


def test_reassigned_task_is_pending_and_counted(memory: OperationalMemory) -> None:
    memory.create_task("a", sender_hash=ANN, task_id="a", deliverable_type="code")
    memory.block_task("a", hold(memory, "a"), reason="stuck", sender_hash=ANN)
    task = memory.reassign_blocked_task("a", "Jochi", sender_hash=ANN)
    assert (task["status"], task["escalation_count"], task["assigned_to"]) == ("pending", 1, "analyst")
    assert (task["blocked_reason"], task["blocked_at"]) == (None, None)
    with pytest.raises(NoPendingTaskError):
        memory.claim_task("developer", sender_hash=ANN)
    assert memory.claim_task("analyst", sender_hash=ANN).task["id"] == "a"


def test_third_reassignment_escalates(memory: OperationalMemory) -> None:
    create(memory, "a")
    counted = []
    for _ in range(3):
        memory.block_task("a", reason="no access", sender_hash=ANN)
        task = memory.reassign_blocked_task("a", sender_hash=ANN)
        counted.append((task["escalation_count"], task["status"]))
    assert counted == [(1, "pending"), (2, "pending"), (3, "escalated")]
    assert "no access" in (task["blocked_reason"] or "")
    assert ready(memory) == []
    again = memory.reassign_blocked_task("a", sender_hash=ANN)
    assert (again["status"], again["escalation_count"]) == ("pending", 0)


def test_unblocked_task_is_not_reassigned(memory: OperationalMemory) -> None:
    create(memory, "pending", "paused", "aborted", "busy")
    memory.pause_task("paused", sender_hash=ANN)
    memory.abort_task("aborted", sender_hash=ANN)
    hold(memory, "busy")
    before = memory.get_tasks(ANN)
    for each in ("pending", "paused", "aborted", "busy"):
        with pytest.raises(IllegalMove):
            memory.reassign_blocked_task(each, "writer", sender_hash=ANN)
    assert memory.get_tasks(ANN) == before


def test_a_task_is_escalated_when_its_retries_run_out(memory: OperationalMemory) -> None:
    create(memory, "a", max_retries=1)
    statuses = [memory.fail_task("a", hold(memory, "a"), "it broke", sender_hash=ANN).task["status"] for _ in range(2)]
    assert statuses == ["pending", "escalated"]


# Dependencies


def test_a_must_complete_before_b_starts(memory: OperationalMemory) -> None:
    create(memory, "research", "strategy")
    assert depend(memory, "strategy", "research")
    assert ready(memory) == ["research"]
    with pytest.raises(Waiting):
        hold(memory, "strategy")
    assert complete(memory, "research").unblocked == ("strategy",)
    assert ready(memory) == ["strategy"]


@pytest.mark.parametrize("kind", ["feeds_into", "parallel_ok"])
def test_feeds_into_and_parallel_ok_do_not_block(memory: OperationalMemory, kind: str) -> None:
    create(memory, "analysis", "positioning")
    depend(memory, "positioning", "analysis", kind)
    assert sorted(ready(memory)) == ["analysis", "positioning"]


def test_a_dependency_carries_type_weight_detected_by_and_confidence(memory: OperationalMemory) -> None:
    create(memory, "a", "b", "c")
    depend(memory, "b", "a")
    memory.add_dependency("c", "a", "feeds_into", sender_hash=ANN, weight=0.81, detected_by="semantic", confidence=0.7)
    assert memory.get_dependencies("a", sender_hash=ANN) == [
        {"task_id": "b", "depends_on_id": "a", "type": "blocks", "weight": 0.5, "detected_by": "explicit",
         "confidence": 1.0},
        {"task_id": "c", "depends_on_id": "a", "type": "feeds_into", "weight": 0.81, "detected_by": "semantic",
         "confidence": 0.7},
    ]  # fmt: skip


def test_a_dependency_that_would_make_a_cycle_is_refused(memory: OperationalMemory) -> None:
    create(memory, "a", "b", "c")
    depend(memory, "b", "a")
    depend(memory, "c", "b", "feeds_into")
    with pytest.raises(CycleDetectedError) as caught:
        depend(memory, "a", "c")
    assert isinstance(caught.value, TaskDependencyError)
    assert caught.value.code == "CYCLE"
    assert set(caught.value.path) == {"a", "b", "c"}
    assert len(memory.get_dependencies("a", sender_hash=ANN)) == 1


def test_a_task_does_not_depend_on_itself(memory: OperationalMemory) -> None:
    create(memory, "abc")
    for on in ("abc", "ab"):
        with pytest.raises(CycleDetectedError):
            depend(memory, "abc", on)


def test_parallel_ok_takes_no_part_in_cycles(memory: OperationalMemory) -> None:
    create(memory, "a", "b", "c")
    depend(memory, "b", "a")
    depend(memory, "c", "b", "parallel_ok")
    assert depend(memory, "a", "c")
    assert ready(memory) == ["c"]


def test_a_dependency_needs_both_its_tasks(memory: OperationalMemory) -> None:
    create(memory, "a")
    for pair in (("a", "ghost"), ("ghost", "a")):
        with pytest.raises(DependencyNotFoundError) as caught:
            depend(memory, *pair)
        assert (caught.value.code, isinstance(caught.value, TaskDependencyError)) == ("NOT_FOUND", True)


def test_strongest_type_between_two_tasks_wins(memory: OperationalMemory) -> None:
    create(memory, "a", "b")
    assert depend(memory, "a", "b", "parallel_ok")
    assert depend(memory, "a", "b", "blocks")
    assert not depend(memory, "a", "b", "feeds_into")
    assert not depend(memory, "a", "b")
    assert [one["type"] for one in memory.get_dependencies("b", sender_hash=ANN)] == ["blocks"]


def test_task_is_created_with_prerequisites(memory: OperationalMemory) -> None:
    create(memory, "a", "b")
    memory.create_task("c", sender_hash=ANN, task_id="c", depends_on=["a", "b"])
    assert show(memory, "c")["unmet_dependencies"] == 2
    with pytest.raises(DependencyNotFoundError):
        memory.create_task("d", sender_hash=ANN, task_id="d", depends_on=["a", "ghost"])
    assert len(memory.get_tasks(ANN)) == 3


# Completion and its effects


def test_a_dependent_is_ready_when_no_unfinished_blocker_is_left(memory: OperationalMemory) -> None:
    create(memory, "a", "b", "fed", "c")
    for on, kind in (("a", "blocks"), ("b", "blocks"), ("fed", "feeds_into")):
        depend(memory, "c", on, kind)
    assert complete(memory, "a").unblocked == ()
    assert complete(memory, "b").unblocked == ("c",)


def test_completion_never_revives_paused_aborted_or_blocked(memory: OperationalMemory) -> None:
    create(memory, "a", "paused", "aborted", "blocked", "waiting")
    for each in ("paused", "aborted", "blocked", "waiting"):
        depend(memory, each, "a")
    memory.pause_task("paused", sender_hash=ANN)
    memory.abort_task("aborted", sender_hash=ANN)
    memory.block_task("blocked", reason="no access", sender_hash=ANN)
    assert complete(memory, "a").unblocked == ("waiting",)
    assert ready(memory) == ["waiting"]


@pytest.mark.parametrize(
    ("rule", "status", "reason"),
    [
        (CanceledBlocker.ESCALATES, "escalated", "prerequisite a was canceled"),
        (CanceledBlocker.RESOLVES, "pending", None),
        (CanceledBlocker.CASCADES, "blocked", "aborted"),
    ],
)
def test_on_abort_decides_about_dependents(
    store: Store, rule: CanceledBlocker, status: str, reason: str | None
) -> None:
    memory = OperationalMemory(Desk(store), on_abort=rule)
    create(memory, "a", "b")
    depend(memory, "b", "a")
    change = memory.abort_task("a", sender_hash=ANN)
    after = show(memory, "b")
    assert (after["status"], after["blocked_reason"]) == (status, reason)
    told = {"escalated": change.escalated, "pending": change.unblocked, "blocked": change.aborted}
    assert told[status] == ("b",)


def test_escalation_is_the_default_for_an_aborted_blocker(memory: OperationalMemory) -> None:
    create(memory, "a", "b")
    depend(memory, "b", "a")
    assert memory.abort_task("a", sender_hash=ANN).escalated == ("b",)
    assert memory.reassign_blocked_task("b", sender_hash=ANN)["status"] == "pending"
    assert ready(memory) == ["b"]


# The ready set and the load


def test_ready_returns_50_tasks_by_default(local: OperationalMemory) -> None:
    create(local, *(f"t{number:02}" for number in range(60)))
    assert len(ready(local)) == 50
    assert ready(local, limit=3) == ["t00", "t01", "t02"]


def test_expired_task_without_a_retry_is_not_ready(memory: OperationalMemory, clock: Clock) -> None:
    create(memory, "again", max_retries=1)
    create(memory, "never", max_retries=0)
    for each in ("again", "never"):
        hold(memory, each)
    assert ready(memory) == []
    clock.advance(minutes=21)
    assert ready(memory) == ["again"]
    assert memory.claim_task("ops", sender_hash=ANN).task["id"] == "again"
    with pytest.raises(NoPendingTaskError):
        memory.claim_task("ops", sender_hash=ANN)
    assert show(memory, "never")["status"] == "escalated"


# One rule routes


def unassigned(store: Store, *kinds: str) -> None:
    """Tasks as the chat creates them, without an agent."""
    Desk(store, scope=ANN).add([Draft(f"Do {kind}", id=kind, deliverable=kind) for kind in kinds])


@pytest.mark.parametrize(("kind", "agent"), [("strategy", "Jochi"), ("testing", "Temüjin"), ("content", "Chagatai")])
def test_an_agent_claims_what_its_role_covers(memory: OperationalMemory, store: Store, kind: str, agent: str) -> None:
    unassigned(store, "research", "strategy", "content", "testing", "ops")
    claimed = memory.claim_task(agent, sender_hash=ANN)
    assert claimed.task["id"] == kind
    assert claimed.task["assigned_to"] == claimed.task["claimed_by"]
    assert memory.get_current_load(agent) == 1


def test_claim_by_id_needs_the_role(memory: OperationalMemory, store: Store) -> None:
    unassigned(store, "strategy")
    with pytest.raises(NoPendingTaskError):
        memory.claim_task("developer")
    with pytest.raises(NotForYou, match="for the role 'analyst'"):
        hold(memory, "strategy", "developer")
    assert show(memory, "strategy")["status"] == "pending"


def test_failed_task_is_free_for_its_role(memory: OperationalMemory, store: Store) -> None:
    unassigned(store, "strategy")
    proof = hold(memory, "strategy", "analyst")
    memory.fail_task("strategy", proof, "no", sender_hash=ANN)
    task = show(memory, "strategy")
    assert (task["assigned_to"], task["routed_to"]) == (None, "analyst")


def test_role_and_agent_tasks_share_one_order(memory: OperationalMemory, store: Store) -> None:
    unassigned(store, "analysis")
    create(memory, "mine", assigned_to="analyst")
    memory.set_priority("mine", 0.9, sender_hash=ANN)
    memory.set_priority("analysis", 0.95, sender_hash=ANN)
    assert [memory.claim_task("analyst", sender_hash=ANN).task["id"] for _ in range(2)] == ["analysis", "mine"]


def test_priority_source_is_the_last_writer(memory: OperationalMemory) -> None:
    create(memory, "a", "b")
    create(memory, "c", priority_weight=0.7)
    memory.set_priority("b", 0.5, sender_hash=ANN)
    assert [show(memory, each)["external_priority_source"] for each in "abc"] == ["auto", "user", "user"]


def test_ready_set_ignores_assignment(memory: OperationalMemory) -> None:
    create(memory, "a", assigned_to="writer")
    create(memory, "b", assigned_to="ops")
    create(memory, "c")
    assert sorted(ready(memory)) == ["a", "b", "c"]
    with pytest.raises(NotForYou):
        hold(memory, "a", "ops")


def test_load_counts_tasks_of_all_senders(memory: OperationalMemory, clock: Clock) -> None:
    create(memory, "a", "b")
    create(memory, "c", sender=BOB)
    assert memory.get_current_load("developer") == 0
    hold(memory, "a")
    hold(memory, "c", sender=BOB)
    hold(memory, "b", "writer")
    assert memory.get_current_load("Temüjin") == 2
    clock.advance(minutes=21)
    assert memory.get_current_load("developer") == 0


def test_the_fleet_is_six_agents_with_names_and_a_limit_of_two(memory: OperationalMemory) -> None:
    assert not any(agent["registered"] for agent in memory.get_agents())
    for _ in range(2):
        fleet = memory.register_fleet()
    assert [(agent["id"], agent["name"]) for agent in fleet] == [
        ("main", "Kublai"),
        ("researcher", "Möngke"),
        ("writer", "Chagatai"),
        ("developer", "Temüjin"),
        ("analyst", "Jochi"),
        ("ops", "Ögedei"),
    ]
    assert all(agent["registered"] and agent["limit"] == 2 and agent["load"] == 0 for agent in fleet)
    assert [agent["id"] for agent in fleet if agent["failover_for"] == "main"] == ["ops"]


# Priority, audited


def test_priority_changes_are_audited(memory: OperationalMemory, store: Store) -> None:
    create(memory, "a")
    task = memory.set_priority("a", 2, sender_hash=ANN, user_priority_override=True, reason="Priority: a first")
    assert (task["priority_weight"], task["user_priority_override"]) == (1.0, True)
    told = store.events(EventQuery(ANN, "a"))[-1]
    assert (told.verb, told.reason, told.agent) == ("edit", "Priority: a first", "main")
    assert {name: told.detail[name] for name in ("priority", "override")} == {
        "priority": [-0.5, -1],
        "override": [False, True],
    }


def test_new_weight_changes_the_order_at_once(memory: OperationalMemory) -> None:
    create(memory, "a", "b", "busy")
    proof = hold(memory, "busy")
    memory.set_priority("b", 0.9, sender_hash=ANN)
    assert ready(memory) == ["b", "a"]
    assert memory.set_priority("busy", 1, sender_hash=ANN)["status"] == "in_progress"
    memory.complete_task("busy", proof, sender_hash=ANN)
    with pytest.raises(IllegalMove):
        memory.set_priority("busy", 0.5, sender_hash=ANN)


# Senders


def test_no_call_reaches_another_senders_task(memory: OperationalMemory) -> None:
    create(memory, "a", "blocked")
    memory.block_task("blocked", reason="x", sender_hash=ANN)
    proof = hold(memory, "a")
    create(memory, "own", sender=BOB)
    before = memory.get_tasks(ANN)
    for act in (
        lambda: memory.get_task("a", sender_hash=BOB),
        lambda: memory.get_dependencies("a", sender_hash=BOB),
        lambda: memory.complete_task("a", proof, sender_hash=BOB),
        lambda: memory.renew_task("a", proof, sender_hash=BOB),
        lambda: memory.fail_task("a", proof, "x", sender_hash=BOB),
        lambda: memory.block_task("a", proof, reason="x", sender_hash=BOB),
        lambda: memory.reassign_blocked_task("blocked", sender_hash=BOB),
        lambda: memory.pause_task("a", sender_hash=BOB, force=True),
        lambda: memory.resume_task("a", sender_hash=BOB),
        lambda: memory.abort_task("a", sender_hash=BOB, force=True),
        lambda: memory.set_priority("a", 1, sender_hash=BOB),
        lambda: memory.claim_task("ops", sender_hash=BOB, task_id="a"),
        lambda: memory.add_dependency("own", "a", sender_hash=BOB),
        lambda: memory.add_dependency("a", "own", sender_hash=BOB),
        lambda: memory.create_task("x", sender_hash=BOB, depends_on=["a"]),
    ):
        with pytest.raises(NotFound):
            act()
    assert memory.get_tasks(ANN) == before
    assert [task["id"] for task in memory.get_tasks(BOB)] == ready(memory, BOB) == ["own"]


def test_agent_may_serve_all_senders(memory: OperationalMemory, clock: Clock) -> None:
    create(memory, "a", sender=BOB)
    clock.advance(seconds=1)
    create(memory, "a")
    served = [memory.claim_task("ops").task["sender_hash"] for _ in range(2)]
    assert served == [BOB, ANN]
    with pytest.raises(NoPendingTaskError):
        memory.claim_task("writer")


def test_a_senders_tasks_can_be_listed_by_status(memory: OperationalMemory) -> None:
    create(memory, "a", "b", "c")
    memory.pause_task("b", sender_hash=ANN)
    complete(memory, "c")
    assert [task["id"] for task in memory.get_tasks(ANN, [Status.PAUSED, Status.DONE])] == ["b", "c"]
    assert [task["id"] for task in memory.get_tasks(ANN, limit=1)] == ["a"]


# UserConfig


def test_sender_has_every_setting_of_the_document(memory: OperationalMemory, store: Store) -> None:
    assert memory.get_config(ANN) == {
        "sender_hash": ANN,
        "notion_integration_enabled": False,
        "notion_database_id": None,
        "notion_poll_enabled": False,
        "notion_poll_interval": 60,
        "notion_notify_on_change": False,
        "notion_push_enabled": False,
        "sync_preference": "safe",
    }
    new: dict[str, bool | int | str | None] = {
        "notion_integration_enabled": True,
        "notion_database_id": "2f835e81",
        "notion_poll_enabled": True,
        "notion_poll_interval": 30,
        "notion_notify_on_change": True,
        "notion_push_enabled": True,
        "sync_preference": "aggressive",
    }
    assert memory.configure(ANN, new) == {"sender_hash": ANN, **new}
    assert memory.get_config(BOB)["sync_preference"] == "safe"
    assert memory.configure(ANN, {"notion_poll_interval": None})["notion_poll_interval"] == 60
    told = store.events(EventQuery(ANN))[0]
    assert told.verb == "configure"
    assert "2f835e81" not in str(told)


@pytest.mark.parametrize(
    "wrong",
    [
        {"notion_poll_interval": 0},
        {"notion_poll_interval": 1.5},
        {"notion_poll_interval": True},
        {"notion_poll_enabled": 1},
        {"notion_database_id": ""},
        {"sync_preference": "reckless"},
        {"window_seconds": 45},
    ],
)
def test_invalid_setting_refuses_all_changes(
    local: OperationalMemory, wrong: dict[str, bool | int | float | str]
) -> None:
    before = local.get_config(ANN)
    with pytest.raises(InvalidInput):
        local.configure(ANN, {"notion_poll_enabled": True, **wrong})
    assert local.get_config(ANN) == before
