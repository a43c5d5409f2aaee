"""Task scheduling as ralph's users know it: each sentence of their document, on every kind of store.

Where docs/reference/ralph.md differs from that document, the tests follow docs/reference/ralph.md.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.task import Link, Status
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from dibs.core.task import Lease
    from support.ralph import Ralph

ZERO = "inserted: 0, updated: 0, deleted: 0, skipped (done): 0\n"


def lease_of(ralph: Ralph, task: str) -> Lease:
    lease = ralph.task(task).lease
    assert lease is not None
    return lease


# Peek (build phase)


def test_peek_returns_a_read_only_snapshot_of_the_task_landscape(ralph: Ralph) -> None:
    ralph.create("a", "b", "c")
    ralph.claim("b")
    before = ralph.place.written()
    assert ralph("peek").ids == ["a", "c", "b"]
    assert ralph.place.written() == before
    assert ralph.tasks() == {"a": "open", "b": "active", "c": "open"}


def test_peek_lists_the_top_n_claimable_tasks_by_priority_and_then_by_created_at(ralph: Ralph) -> None:
    for task, priority in (("e", 2), ("d", 1), ("c", 2), ("b", 0), ("a", 1)):
        ralph.create(task, p=priority)
    assert ralph("peek", "-n", "4").ids == ["b", "d", "a", "e"]
    assert ralph("peek", "-n", "9").ids == ["b", "d", "a", "e", "c"]


def test_peek_lists_five_by_default(ralph: Ralph) -> None:
    ralph.create(*"abcdefg")
    assert len(ralph("peek").ids) == 5


def test_peek_lists_only_what_meets_the_criteria_for_claiming(ralph: Ralph) -> None:
    ralph.create("ready", "finished", "gone", "taken")
    ralph.create("blocked", deps="ready")
    ralph.create("freed", deps="finished,gone")
    ralph.finish("finished")
    ralph.ok("delete", "gone")
    ralph.claim("taken")
    shown = {section.id: section.status for section in ralph("peek").tasks}
    assert shown == {"ready": "open", "freed": "open", "taken": "active"}


def test_peek_lists_all_active_tasks_regardless_of_n_with_their_assignee(ralph: Ralph) -> None:
    ralph.create(*"abcdef")
    for task, agent in (("a", "ann"), ("b", "bob"), ("c", "cid")):
        ralph.claim(task, agent=agent)
    shown = ralph("peek", "-n", "1").tasks
    assert [(task.id, task.status, task.assignee) for task in shown] == [
        ("d", "open", None),
        ("a", "active", "ann"),
        ("b", "active", "bob"),
        ("c", "active", "cid"),
    ]


def test_peek_prints_each_task_as_a_section_of_key_value_lines(ralph: Ralph) -> None:
    ralph.create("a", p=1, c="feat", r="spec-1", d="Say it.", s='["one", "two"]', ref="doc/1")
    ralph.create("b")
    ralph.claim("b")
    lines = ralph("peek").out.splitlines()
    assert lines[:15] == [
        "## Task a",
        "id: a",
        "title: Task a",
        "description: Say it.",
        "priority: 1",
        "status: open",
        "category: feat",
        "spec: spec-1",
        "ref: doc/1",
        "retry_count: 0",
        "steps:",
        "- one",
        "- two",
        "",
        "## Task b",
    ]
    assert lines[15:20] == ["id: b", "title: Task b", "priority: 2", "status: active", "assignee: ann"]
    assert lines[20].startswith("lease_expires_at: ")
    assert lines[21:] == ["retry_count: 0"]


def test_status_separates_claimable_from_active(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.claim("a")
    assert [(task.id, task.status) for task in ralph("peek").tasks] == [("b", "open"), ("a", "active")]


def test_peek_takes_no_locks_and_waits_for_none(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.claim("b")
    with ralph.place.locked():
        assert ralph("peek").ids == ["a", "b"]


def test_the_snapshot_may_be_stale_by_the_time_the_agent_acts_on_it(ralph: Ralph) -> None:
    ralph.create("a")
    assert [(task.id, task.status) for task in ralph("peek").tasks] == [("a", "open")]
    ralph.claim("a", agent="bob")
    assert ralph("claim", "a", agent="ann").status == 2


def test_peek_prints_nothing_and_exits_0_when_nothing_is_claimable_or_active(ralph: Ralph) -> None:
    assert ralph("peek") == (0, "", "")
    ralph.create("a", "b")
    ralph.finish("a")
    ralph.ok("delete", "b")
    assert ralph("peek") == (0, "", "")


# Claiming (build phase)


def test_an_open_task_is_eligible(ralph: Ralph) -> None:
    ralph.create("a")
    assert ralph.claim().id == "a"


def test_an_active_task_with_an_expired_lease_is_eligible(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("--lease", "1", agent="bob")
    assert ralph("claim", agent="ann").status == 2
    ralph.place.let(1.1)
    assert ralph.claim(agent="ann").assignee == "ann"


def test_an_active_task_with_a_live_lease_is_not_eligible(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim(agent="bob")
    assert ralph("claim", agent="ann").status == 2
    assert ralph("claim", agent="bob").status == 2


def test_a_task_is_eligible_only_when_all_its_blockers_are_done_or_deleted(ralph: Ralph) -> None:
    ralph.create("one", "two", p=5)
    ralph.create("a", deps="one,two", p=0)
    assert ralph("claim", "a", agent="ann").status == 2
    ralph.finish("one")
    assert ralph("claim", "a", agent="ann").status == 2
    ralph.ok("delete", "two")
    assert ralph.claim().id == "a"


@pytest.mark.parametrize("state", ["open", "active"])
def test_a_blocker_that_is_neither_done_nor_deleted_blocks(ralph: Ralph, state: str) -> None:
    ralph.create("first")
    ralph.create("a", deps="first")
    if state == "active":
        ralph.claim("first", agent="bob")
    assert ralph("claim", "a", agent="ann").status == 2


def test_a_lower_number_is_a_higher_priority(ralph: Ralph) -> None:
    for priority in (2, 10, 0, 1):
        ralph.create(f"p{priority}", p=priority)
    assert [ralph.claim().id for _ in range(4)] == ["p0", "p1", "p2", "p10"]


def test_of_equal_priorities_the_oldest_comes_first(ralph: Ralph) -> None:
    ralph.create("z", "a", "m")
    assert [ralph.claim().id for _ in range(3)] == ["z", "a", "m"]


# Untargeted claim


def test_claim_without_an_id_selects_the_highest_priority_eligible_task(ralph: Ralph) -> None:
    ralph.create("blocker", p=7)
    ralph.create("best", p=0, deps="blocker")
    ralph.create("taken", p=1)
    ralph.create("next", p=3)
    ralph.claim("taken", agent="bob")
    assert ralph.claim().id == "next"


def test_a_claim_sets_status_assignee_lease_and_updated_at_at_one_moment(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.place.let(0.01)
    ralph.claim("--lease", "90", agent="ann")
    task, lease = ralph.task("a"), lease_of(ralph, "a")
    assert (task.status, lease.agent) == (Status.ACTIVE, "ann")
    assert lease.expires_at == task.updated_at + timedelta(seconds=90)
    assert task.updated_at > task.created_at
    assert [event.at for event in ralph.events("a") if event.verb == "claim"] == [task.updated_at]


def test_reclaiming_from_an_expired_lease_increments_retry_count(ralph: Ralph) -> None:
    ralph.create("a")
    assert ralph.claim("--lease", "1").retry_count == 0
    ralph.place.let(1.1)
    assert ralph.claim("--lease", "1", agent="bob").retry_count == 1
    ralph.place.let(1.1)
    assert ralph.claim("a").retry_count == 2


def test_a_claim_returns_the_full_task_row(ralph: Ralph) -> None:
    ralph.create("first")
    ralph.create("a", p=1, c="feat", r="spec-1", d="Say\nit.", s='["one", "two"]', ref="doc/1", deps="first")
    ralph.finish("first", '{"commit": "abc"}')
    claimed = ralph.claim()
    task = ralph.task("a")
    assert claimed._asdict() == {
        "id": "a",
        "title": "Task a",
        "description": "Say\nit.",
        "priority": 1,
        "status": "active",
        "category": "feat",
        "spec": "spec-1",
        "ref": "doc/1",
        "assignee": "ann",
        "lease_expires_at": claimed.lease_expires_at,
        "retry_count": 0,
        "deps": ("first",),
        "steps": ("one", "two"),
        "blocker_results": (("first", {"commit": "abc"}),),
        "reason": None,
        "result": None,
        "created_at": time_text(task.created_at),
        "updated_at": time_text(task.updated_at),
    }
    assert task.lease is not None
    assert time_from(claimed.lease_expires_at or "") == task.lease.expires_at


def test_a_claim_brings_the_results_of_all_resolved_blockers(ralph: Ralph) -> None:
    ralph.create("one", "two", "three", p=9)
    ralph.create("a", deps="one,two,three", p=0)
    ralph.finish("one", '{"commit": "abc", "files": ["x|y", "z\\n"]}')
    ralph.finish("two", "[1, 2.5, null]")
    ralph.ok("delete", "three")
    claimed = ralph.claim()
    assert dict(claimed.blocker_results) == {"one": {"commit": "abc", "files": ["x|y", "z\n"]}, "two": [1, 2.5, None]}


def test_claim_exits_with_2_when_no_task_is_eligible(ralph: Ralph) -> None:
    ran = ralph("claim", agent="ann")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == "No eligible tasks"


# Targeted claim


def test_claim_with_an_id_claims_that_task_whatever_else_would_come_first(ralph: Ralph) -> None:
    ralph.create("urgent", p=0)
    ralph.create("chosen", p=9)
    assert ralph.claim("chosen").id == "chosen"
    assert ralph.tasks() == {"urgent": "open", "chosen": "active"}


def test_a_targeted_claim_takes_an_abandoned_task(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("--lease", "1", agent="bob")
    ralph.place.let(1.1)
    claimed = ralph.claim("a", agent="ann")
    assert (claimed.assignee, claimed.retry_count) == ("ann", 1)


@pytest.mark.parametrize("state", ["claimed by another", "claimed by yourself", "blocked", "done", "deleted"])
def test_a_targeted_claim_of_a_task_that_is_not_eligible_exits_with_2(ralph: Ralph, state: str) -> None:
    ralph.create("first", "a")
    match state:
        case "claimed by another":
            ralph.claim("a", agent="bob")
        case "claimed by yourself":
            ralph.claim("a", agent="ann")
        case "blocked":
            ralph.ok("block", "a", "--by", "first")
        case "done":
            ralph.finish("a")
        case "deleted":
            ralph.ok("delete", "a")
    before = ralph.task("a")
    ran = ralph("claim", "a", agent="ann")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err.splitlines()[0] == "Task not eligible"
    assert ralph.task("a") == before


def test_a_targeted_claim_does_all_that_an_untargeted_one_does(ralph: Ralph) -> None:
    ralph.create("first")
    ralph.create("a", deps="first")
    ralph.finish("first", '"here"')
    ralph.place.let(0.01)
    claimed = ralph.claim("a", "--lease", "90")
    task, lease = ralph.task("a"), lease_of(ralph, "a")
    assert lease.expires_at == task.updated_at + timedelta(seconds=90)
    assert task.updated_at > task.created_at
    assert (claimed.status, claimed.assignee, claimed.blocker_results) == ("active", "ann", (("first", "here"),))


def test_an_agent_chooses_from_the_landscape_and_claims_what_it_chose(ralph: Ralph) -> None:
    ralph.create("parser", "form", "manual")
    ralph.claim("parser", agent="bob")
    open_tasks = [task for task in ralph("peek").tasks if task.status == "open"]
    assert ralph.claim(open_tasks[-1].id, agent="ann").id == "manual"


# Lease renewal


def test_renew_extends_the_lease_to_a_whole_one_from_now(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("--lease", "5")
    ralph.place.let(0.01)
    assert ralph.ok("renew", "a", "--lease", "90", agent="ann") == "renewed a\n"
    assert lease_of(ralph, "a").expires_at == ralph.task("a").updated_at + timedelta(seconds=90)


def test_renew_verifies_that_the_caller_is_the_assignee(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim(agent="ann")
    before = ralph.task("a")
    ran = ralph("renew", "a", agent="bob")
    assert (ran.status, ran.out) == (1, "")
    assert "ann" in ran.err
    assert ralph.task("a").lease == before.lease


def test_renew_of_an_unknown_task_exits_with_2_and_of_one_that_is_not_active_with_1(ralph: Ralph) -> None:
    ralph.create("a")
    assert ralph("renew", "nowhere", agent="ann").status == 2
    assert ralph("renew", "a", agent="ann").status == 1


# Lease-based recovery


def test_an_active_task_past_its_lease_is_abandoned_and_needs_no_recovery_command(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("--lease", "1", agent="bob")
    ralph.place.let(1.1)
    assert [(task.id, task.status, task.assignee) for task in ralph("peek").tasks] == [("a", "open", None)]
    assert ralph.claim(agent="ann").assignee == "ann"


def test_repeated_failures_are_counted(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("--lease", "1", agent="bob")
    ralph.place.let(1.1)
    ralph.claim(agent="ann")
    ralph.ok("fail", "a", agent="ann")
    assert ralph.claim(agent="cid").retry_count == 2


def test_lease_lasts_600_seconds_by_default(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim()
    assert lease_of(ralph, "a").expires_at == ralph.task("a").updated_at + timedelta(seconds=600)
    ralph.ok("renew", "a", agent="ann")
    assert lease_of(ralph, "a").expires_at == ralph.task("a").updated_at + timedelta(seconds=600)


# Completion


def test_done_sets_the_status_stores_the_result_and_updates_updated_at(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim()
    claimed = ralph.task("a")
    ralph.place.let(0.01)
    assert ralph.ok("done", "a", "--result", '{"commit": "abc"}', agent="ann") == "done a\n"
    task = ralph.task("a")
    assert (task.status, task.result) == (Status.DONE, {"commit": "abc"})
    assert task.updated_at > claimed.updated_at


@pytest.mark.parametrize("state", ["open", "done", "deleted"])
@pytest.mark.parametrize("verb", ["done", "fail"])
def test_done_and_fail_verify_that_the_task_is_active(ralph: Ralph, verb: str, state: str) -> None:
    ralph.create("a")
    if state == "done":
        ralph.finish("a", "1")
    if state == "deleted":
        ralph.ok("delete", "a")
    before = ralph.task("a")
    ran = ralph(verb, "a", agent="ann")
    assert (ran.status, ran.out) == (1, "")
    assert f"a is {state}, not active" in ran.err
    assert ralph.task("a") == before


def test_done_unblocks_what_waited_for_it(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.create("b", deps="a", p=0)
    ralph.claim("a")
    assert ralph("claim", agent="bob").status == 2
    ralph.ok("done", "a", agent="ann")
    assert ralph.claim(agent="bob").id == "b"


def test_fail_makes_it_open_and_nobodys_and_counts_a_retry(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim()
    claimed = ralph.task("a")
    ralph.place.let(0.01)
    assert ralph.ok("fail", "a", "--reason", "no disk", agent="ann") == "failed a\n"
    task = ralph.task("a")
    assert (task.status, task.lease, task.retries, task.reason) == (Status.READY, None, 1, "no disk")
    assert task.updated_at > claimed.updated_at


def test_a_failed_task_is_eligible_at_once(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim()
    ralph.ok("fail", "a", agent="ann")
    assert ralph.claim(agent="bob").id == "a"


def test_done_and_fail_of_an_unknown_task_exit_with_2(ralph: Ralph) -> None:
    assert ralph("done", "nowhere", agent="ann").status == 2
    assert ralph("fail", "nowhere", agent="ann").status == 2


# Dependency rules


def test_block_adds_a_dependency(ralph: Ralph) -> None:
    ralph.create("a", "b")
    assert ralph.ok("block", "b", "--by", "a") == "blocked b by a\n"
    with ralph.desk() as desk:
        assert desk.links("b") == [Link("b", "a")]
    assert ralph("claim", "b", agent="ann").status == 2


def test_unblock_removes_it(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.ok("block", "b", "--by", "a")
    assert ralph.ok("unblock", "b", "--by", "a") == "unblocked b from a\n"
    with ralph.desk() as desk:
        assert desk.links("b") == []
    assert ralph.claim("b").id == "b"


def test_circular_dependencies_are_refused_though_the_document_leaves_them_to_the_planner(ralph: Ralph) -> None:
    ralph.create("a", "b", "c")
    ralph.ok("block", "b", "--by", "a")
    ralph.ok("block", "c", "--by", "b")
    ran = ralph("block", "a", "--by", "c")
    assert (ran.status, ran.out) == (1, "")
    assert "a → c → b → a" in ran.err
    assert ralph.claim("a").id == "a"


def test_a_task_with_all_blockers_done_or_deleted_is_unblocked(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.create("c", deps="a,b")
    ralph.finish("a")
    ralph.ok("delete", "b")
    assert ralph.ok("plan-status") == "1 open, 0 active, 1 done, 0 blocked, 1 deleted\n"
    assert ralph.claim("c").id == "c"


# Plan synchronization (plan phase)


def test_plan_sync_reads_tasks_with_planner_assigned_ids_from_stdin(ralph: Ralph) -> None:
    first = {"id": "s/01", "t": "One", "d": "Text.", "p": 0, "cat": "feat", "spec": "s", "ref": "R", "steps": ["x"]}
    ran = ralph.sync(first, {"id": "s/02", "t": "Two", "spec": "s", "deps": ["s/01"]})
    assert ran == (0, "inserted: 2, updated: 0, deleted: 0, skipped (done): 0\n", "")
    task = ralph.task("s/01")
    assert (task.title, task.description, task.priority, task.category) == ("One", "Text.", 0, "feat")
    assert (task.spec_ref, task.ref, task.steps, task.status) == ("s", "R", ("x",), Status.READY)
    assert ralph.task("s/02").priority == 2
    assert ralph.task("s/02").blockers == 1


def test_plan_sync_skips_what_is_done(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "One", "spec": "s"})
    ralph.finish("a", "1")
    before = ralph.task("a")
    ran = ralph.sync({"id": "a", "t": "Other", "d": "New.", "p": 0, "spec": "s", "deps": []})
    assert ran == (0, "inserted: 0, updated: 0, deleted: 0, skipped (done): 1\n", "")
    assert ralph.task("a") == before


def test_plan_sync_updates_what_is_not_done(ralph: Ralph) -> None:
    ralph.sync({"id": "x", "t": "X", "spec": "s"}, {"id": "a", "t": "One", "spec": "s"})
    new = {"id": "a", "t": "Two", "d": "New.", "p": 0, "cat": "fix", "steps": ["s"], "spec": "s", "deps": ["x"]}
    ran = ralph.sync({"id": "x", "t": "X", "spec": "s"}, new)
    assert ran == (0, "inserted: 0, updated: 1, deleted: 0, skipped (done): 0\n", "")
    task = ralph.task("a")
    assert (task.title, task.description, task.category, task.priority) == ("Two", "New.", "fix", 0)
    assert (task.steps, task.blockers) == (("s",), 1)


def test_plan_sync_inserts_new_tasks_as_open(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "One", "spec": "s"})
    assert ralph.sync({"id": "a", "t": "One", "spec": "s"}, {"id": "b", "t": "Two", "spec": "s"}).out.startswith(
        "inserted: 1,"
    )
    assert ralph.tasks() == {"a": "open", "b": "open"}


def test_plan_sync_deletes_what_a_spec_in_stdin_no_longer_names(ralph: Ralph) -> None:
    ralph.sync(
        {"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"}, {"id": "c", "t": "C", "spec": "u"}
    )
    ran = ralph.sync({"id": "a", "t": "A", "spec": "s"})
    assert ran == (0, "inserted: 0, updated: 0, deleted: 1, skipped (done): 0\n", "")
    assert ralph.tasks() == {"a": "open", "b": "deleted", "c": "open"}


def test_plan_sync_leaves_done_tasks_that_are_no_longer_named(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"})
    ralph.finish("b")
    assert ralph.sync({"id": "a", "t": "A", "spec": "s"}).out == ZERO
    assert ralph.tasks() == {"a": "open", "b": "done"}


def test_all_of_plan_sync_happens_or_nothing_does(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"})
    before = ralph.place.written()
    cycle = [{"id": "c", "t": "C", "spec": "s", "deps": ["d"]}, {"id": "d", "t": "D", "spec": "s", "deps": ["c"]}]
    ran = ralph.sync({"id": "a", "t": "Other", "spec": "s"}, *cycle)
    assert (ran.status, ran.out) == (1, "")
    assert ralph.place.written() == before
    assert ralph.tasks() == {"a": "open", "b": "open"}


def test_plan_sync_prints_a_summary(ralph: Ralph) -> None:
    ralph.sync(*({"id": task, "t": "T", "spec": "s"} for task in "abcd"))
    ralph.finish("a")
    plan = [
        {"id": "a", "t": "T", "spec": "s"},
        {"id": "b", "t": "New", "spec": "s"},
        {"id": "e", "t": "E", "spec": "s"},
    ]
    assert ralph.sync(*plan).out == "inserted: 1, updated: 1, deleted: 2, skipped (done): 1\n"


# Constraints


def test_plan_sync_is_idempotent_and_the_second_run_writes_no_row(ralph: Ralph) -> None:
    ralph.sync({"id": "old", "t": "Old", "spec": "s"}, {"id": "a", "t": "A", "spec": "s"})
    ralph.finish("a", "1")
    plan: list[dict[str, Any]] = [
        {"id": "a", "t": "A", "spec": "s"},
        {"id": "b", "t": "B", "spec": "s", "deps": ["c", "a", "c"], "steps": ["1", "2"], "p": 1, "cat": "x"},
        {"id": "c", "t": "C", "spec": "u", "d": "Text\n", "ref": "r"},
    ]
    assert ralph.sync(*plan).out == "inserted: 2, updated: 0, deleted: 1, skipped (done): 1\n"
    before = ralph.place.written()
    assert ralph.sync(*plan).out == "inserted: 0, updated: 0, deleted: 0, skipped (done): 1\n"
    assert ralph.place.written() == before


def test_claim_answers_at_once_and_never_waits_for_work(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("--lease", "1")
    assert ralph("claim", agent="bob").status == 2
