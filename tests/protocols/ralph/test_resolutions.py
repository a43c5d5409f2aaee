"""Decisions of docs/reference/ralph.md where ralph's document is silent, contradictory or wrong."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError, NothingReady, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Verb, refusal
from dibs.core.task import Draft, Holder, Lease, Link, LinkKind, Status, Task
from dibs.desk import Desk
from dibs.protocols.ralph.settings import RALPH

if TYPE_CHECKING:
    from support.ralph import Ralph


# Looking


def test_an_abandoned_task_is_peeked_at_once_as_open_and_nobodys(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.claim("a", "--lease", "1")
    ralph.claim("b")
    ralph.place.let(1.1)
    shown = [(task.id, task.status, task.assignee, task.lease_expires_at is None) for task in ralph("peek").tasks]
    assert shown == [("a", "open", None, True), ("b", "active", "ann", False)]


def test_show_and_list_name_the_last_holder_of_an_abandoned_task(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("a", "--lease", "1")
    ralph.place.let(1.1)
    (shown,) = ralph("show", "a").tasks
    assert (shown.status, shown.assignee) == ("active", "ann")
    assert [task.id for task in ralph("list", "--markdown", "--assignee", "ann").tasks] == ["a"]


def test_tasks_of_one_plan_have_one_created_at_and_come_by_id(ralph: Ralph) -> None:
    ralph.sync(*({"id": task, "t": "T"} for task in "cab"))
    assert [ralph.claim().id for _ in range(3)] == ["a", "b", "c"]


def test_a_lease_without_an_end_counts_as_expired_unless_a_person_holds_it() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    lease = Lease("token", 1, "ann", None, Holder.AGENT, now, None)
    task = Task("s", "a", "A", now, now, now, status=Status.ACTIVE, attempt=1, lease=lease)
    asked = ClaimRequest("bob", ("other",), "s", ("a",))
    assert refusal(task, asked, now) is None
    assert refusal(task._replace(lease=lease._replace(holder=Holder.HUMAN)), asked, now) is not None


def test_a_claim_prints_the_description_too(ralph: Ralph) -> None:
    ralph.create("a", d="One\n\n## Task b\nid: b")
    (claimed,) = ralph("claim", agent="ann").tasks
    assert claimed.description == "One\n\n## Task b\nid: b"


def test_newlines_and_pipes_are_escaped(ralph: Ralph) -> None:
    ralph.create("a", d="one\ntwo | three")
    assert "description: one\\ntwo \\| three\n" in ralph("peek").out


def test_blocker_done_without_a_result_is_marked(ralph: Ralph) -> None:
    ralph.create("first")
    ralph.create("a", deps="first")
    ralph.finish("first")
    assert "blocker_results:\n- first: null\n" in ralph("claim", agent="ann").out


# Plans


def test_a_replanned_task_is_reopened_and_counts_as_updated(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"})
    ralph.sync({"id": "a", "t": "A", "spec": "s"})
    ran = ralph.sync({"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"})
    assert ran.out == "inserted: 0, updated: 1, deleted: 0, skipped (done): 0\n"
    assert ralph.tasks() == {"a": "open", "b": "open"}


def test_so_is_one_that_was_deleted_by_hand(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"})
    ralph.ok("delete", "a")
    assert ralph.sync({"id": "a", "t": "A", "spec": "s"}).out.startswith("inserted: 0, updated: 1,")
    assert ralph.claim().id == "a"


def test_a_deleted_task_is_not_deleted_again(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"})
    ralph.sync({"id": "a", "t": "A", "spec": "s"})
    assert ralph.sync({"id": "a", "t": "A", "spec": "s"}).out.endswith("deleted: 0, skipped (done): 0\n")


def test_a_task_may_depend_on_one_further_down_in_the_plan(ralph: Ralph) -> None:
    assert ralph.sync({"id": "a", "t": "A", "deps": ["b"]}, {"id": "b", "t": "B"}).status == 0
    assert ralph("peek").ids == ["b"]


def test_a_task_may_depend_on_one_that_is_not_in_the_plan_but_in_the_store(ralph: Ralph) -> None:
    ralph.create("old")
    assert ralph.sync({"id": "a", "t": "A", "deps": ["old"]}).status == 0
    assert ralph("peek").ids == ["old"]


def test_an_unknown_dependency_is_refused_with_its_line_and_nothing_is_written(ralph: Ralph) -> None:
    ralph.create("x")
    before = ralph.place.written()
    ran = ralph.sync({"id": "a", "t": "A"}, "", {"id": "b", "t": "B", "deps": ["nowhere"]})
    assert (ran.status, ran.out) == (1, "")
    assert "line 3" in ran.err
    assert "nowhere" in ran.err
    assert ralph.place.written() == before


def test_a_duplicate_id_is_refused_and_a_duplicate_dependency_is_one(ralph: Ralph) -> None:
    ran = ralph.sync({"id": "a", "t": "A"}, {"id": "a", "t": "B"})
    assert (ran.status, ran.out) == (1, "")
    assert "line 2" in ran.err
    ralph.sync({"id": "a", "t": "A"}, {"id": "b", "t": "B", "deps": ["a", "a"]})
    assert ralph.task("b").blockers == 1


def test_a_task_under_a_live_lease_is_neither_rewritten_nor_deleted(ralph: Ralph) -> None:
    ralph.sync(
        {"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"}, {"id": "c", "t": "C", "spec": "s"}
    )
    ralph.claim("a")
    ralph.claim("b")
    before = [ralph.task("a"), ralph.task("b")]
    ran = ralph.sync({"id": "a", "t": "Other", "spec": "s"}, {"id": "c", "t": "C", "spec": "s"})
    assert ran.out == "inserted: 0, updated: 0, deleted: 0, skipped (done): 0, skipped (active): 2\n"
    assert "a, b" in ran.err
    assert ran.status == 0
    assert [ralph.task("a"), ralph.task("b")] == before


def test_a_held_task_that_the_plan_would_not_change_is_not_counted(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"})
    ralph.claim("a")
    assert ralph.sync({"id": "a", "t": "A", "spec": "s"}) == (
        0,
        "inserted: 0, updated: 0, deleted: 0, skipped (done): 0\n",
        "",
    )


def test_an_abandoned_task_is_rewritten(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"})
    ralph.claim("a", "--lease", "1")
    ralph.place.let(1.1)
    assert ralph.sync({"id": "a", "t": "Other", "spec": "s"}).out.startswith("inserted: 0, updated: 1,")


def test_spec_lets_a_plan_empty_a_spec(ralph: Ralph) -> None:
    ralph.sync(
        {"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "u"}, {"id": "c", "t": "C", "spec": "v"}
    )
    ran = ralph.sync(words=("--spec", "s", "--spec", "u"))
    assert ran.out == "inserted: 0, updated: 0, deleted: 2, skipped (done): 0\n"
    assert ralph.tasks() == {"a": "deleted", "b": "deleted", "c": "open"}


def test_tasks_without_a_spec_are_never_deleted_by_a_plan(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A"}, {"id": "b", "t": "B"})
    ralph.sync({"id": "a", "t": "A"})
    assert ralph.tasks() == {"a": "open", "b": "open"}


def test_empty_stdin_and_empty_lines_plan_nothing(ralph: Ralph) -> None:
    for nothing in ("", "\n\n  \n"):
        ran = ralph.sync(nothing)
        assert ran == (0, "inserted: 0, updated: 0, deleted: 0, skipped (done): 0\n", "")


def test_a_dry_run_says_the_same_and_changes_nothing(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "spec": "s"}, {"id": "b", "t": "B", "spec": "s"})
    before = ralph.place.written()
    plan = [{"id": "a", "t": "New", "spec": "s"}, {"id": "c", "t": "C", "spec": "s"}]
    expected = "inserted: 1, updated: 1, deleted: 1, skipped (done): 0\n"
    assert ralph.sync(*plan, words=("--dry-run",)).out == expected
    assert ralph.place.written() == before
    assert ralph.sync(*plan).out == expected


def test_long_names_are_accepted_too(ralph: Ralph) -> None:
    long = {
        "title": "A",
        "description": "D",
        "priority": 1,
        "category": "c",
        "spec_ref": "s",
        "deps": [],
        "steps": ["x"],
    }
    assert ralph.sync({"id": "a", **long}).out.startswith("inserted: 1")
    short = {"t": "A", "d": "D", "p": 1, "cat": "c", "spec": "s", "steps": ["x"]}
    assert ralph.sync({"id": "a", **short}).out.startswith("inserted: 0, updated: 0")


def test_max_retries_is_optional_and_then_escalates(ralph: Ralph) -> None:
    ralph.sync({"id": "a", "t": "A", "max_retries": 1})
    for _ in range(2):
        ralph.claim("a")
        ralph.ok("fail", "a", agent="ann")
    assert ralph.tasks() == {"a": "escalated"}
    ran = ralph("claim", "a", agent="ann")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "Task not eligible")


# Progress


def test_plan_status_counts_every_task_and_the_blocked_among_the_open(ralph: Ralph) -> None:
    ralph.create("done", "active", "open", "deleted")
    ralph.create("blocked", deps="open")
    ralph.finish("done")
    ralph.claim("active")
    ralph.ok("delete", "deleted")
    assert ralph.ok("plan-status") == "2 open, 1 active, 1 done, 1 blocked, 1 deleted\n"
    assert ralph("plan-status", "--json").data == {"open": 2, "active": 1, "done": 1, "blocked": 1, "deleted": 1}


def test_task_set_aside_by_others_counts_as_blocked(ralph: Ralph) -> None:
    ralph.create("paused", "blocked", "open")
    ralph.natively(Verb.PAUSE, "paused")
    ralph.natively(Verb.BLOCK, "blocked", reason="no key")
    assert ralph.ok("plan-status") == "3 open, 0 active, 0 done, 2 blocked, 0 deleted\n"
    assert ralph.tasks() == {"paused": "paused", "blocked": "blocked", "open": "open"}


def test_deadlock_is_reported_and_checked_by_waiting_loops(ralph: Ralph) -> None:
    ralph.create("stuck")
    ralph.create("a", deps="stuck")
    assert ralph("plan-status", "--check") == (0, "2 open, 0 active, 0 done, 1 blocked, 0 deleted\n", "")
    ralph.natively(Verb.PAUSE, "stuck")
    told = ralph("plan-status")
    assert (told.status, told.out) == (0, "2 open, 0 active, 0 done, 2 blocked, 0 deleted\n")
    assert "Stalled" in told.err
    assert ralph("plan-status", "--check").status == 1
    assert "Stalled" in ralph("claim", agent="ann").err


def test_nothing_to_do_and_someone_at_work_are_no_deadlocks(ralph: Ralph) -> None:
    assert ralph("plan-status", "--check").status == 0
    ralph.create("a")
    ralph.create("b", deps="a")
    ralph.claim("a")
    assert ralph("plan-status", "--check") == (0, "1 open, 1 active, 0 done, 1 blocked, 0 deleted\n", "")


# Steering


def test_block_is_idempotent_and_unblock_of_no_link_exits_with_2(ralph: Ralph) -> None:
    ralph.create("a", "b")
    assert ralph.ok("block", "b", "--by", "a") == ralph.ok("block", "b", "--by", "a") == "blocked b by a\n"
    ralph.ok("unblock", "b", "--by", "a")
    ran = ralph("unblock", "b", "--by", "a")
    assert (ran.status, ran.out) == (2, "")
    assert "not blocked by" in ran.err


def test_a_task_cannot_block_itself(ralph: Ralph) -> None:
    ralph.create("a")
    assert ralph("block", "a", "--by", "a").status == 1


@pytest.mark.parametrize("ends", [("a", "nowhere"), ("nowhere", "a")])
@pytest.mark.parametrize("verb", ["block", "unblock"])
def test_block_and_unblock_of_unknown_tasks_exit_with_2(ralph: Ralph, verb: str, ends: tuple[str, str]) -> None:
    ralph.create("a")
    ran = ralph(verb, ends[0], "--by", ends[1])
    assert (ran.status, ran.out) == (2, "")
    assert "nowhere" in ran.err


def test_block_on_a_done_task_is_refused_and_by_a_done_task_allowed(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.finish("a")
    assert ralph("block", "a", "--by", "b").status == 1
    assert ralph.ok("block", "b", "--by", "a") == "blocked b by a\n"
    assert ralph.claim("b").deps == ("a",)


def test_block_on_an_active_task_is_allowed_with_a_warning(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.claim("a")
    ran = ralph("block", "a", "--by", "b")
    assert (ran.status, ran.out) == (0, "blocked a by b\n")
    assert "ann is working on a" in ran.err
    assert ralph.ok("done", "a", agent="ann") == "done a\n"


def test_delete_is_soft_refuses_done_tasks_and_may_be_repeated(ralph: Ralph) -> None:
    ralph.create("a", "b")
    assert ralph.ok("delete", "a") == ralph.ok("delete", "a") == "deleted a\n"
    ralph.finish("b")
    assert ralph("delete", "b").status == 1
    assert ralph.tasks() == {"a": "deleted", "b": "done"}


def test_deleting_an_active_task_warns_and_ends_the_attempt(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.claim("a", agent="ann")
    ran = ralph("delete", "a")
    assert (ran.status, ran.out) == (0, "deleted a\n")
    assert "ann is working on a" in ran.err
    assert ralph("done", "a", agent="ann").status == 1


def test_only_who_overrules_a_holder_is_recorded_as_doing_so(ralph: Ralph) -> None:
    ralph.create("a", "b")
    ralph.claim("b", agent="ann")
    for task in "ab":
        ralph("delete", task)
    assert [ralph.events(task)[-1].detail for task in "ab"] == [{}, {"forced": True}]


def test_a_task_that_is_claimed_while_it_is_being_deleted_is_deleted(
    ralph: Ralph, monkeypatch: pytest.MonkeyPatch
) -> None:
    ralph.create("a")
    look = Desk.get

    def look_too_early(desk: Desk, ref: str) -> Task:
        found = look(desk, ref)
        if found.lease is None:
            desk.claim("ann", refs=[ref])
        return found

    monkeypatch.setattr(Desk, "get", look_too_early)
    assert ralph.ok("delete", "a") == "deleted a\n"
    assert ralph.tasks() == {"a": "deleted"}


def test_claim_is_printed_even_if_the_store_fails_right_after(ralph: Ralph, monkeypatch: pytest.MonkeyPatch) -> None:
    ralph.create("first")
    ralph.create("a", deps="first")
    ralph.finish("first", "1")

    def gone(_desk: Desk, *_refs: str) -> list[Link]:
        raise StoreUnavailable("the server is gone")

    with monkeypatch.context() as here:
        here.setattr(Desk, "links", gone)
        ran = ralph("claim", agent="ann")
    assert (ran.status, ran.tasks[0].deps) == (0, ("first",))
    assert "the server is gone" in ran.err
    assert ralph.tasks()["a"] == "active"


# Not ralph's own


@pytest.mark.parametrize("kind", [LinkKind.FEEDS_INTO, LinkKind.PARALLEL_OK])
def test_links_of_other_kinds_are_no_dependencies(ralph: Ralph, kind: LinkKind) -> None:
    ralph.create("a", "b")
    with ralph.desk() as desk:
        desk.link([Link("b", "a", kind)])
    (shown,) = ralph("show", "b").tasks
    assert shown.deps == ()
    assert ralph("unblock", "b", "--by", "a").status == 2


def test_task_assigned_to_another_agent_is_not_offered(ralph: Ralph) -> None:
    ralph.ok("plan-status")
    with ralph.desk() as desk:
        desk.add([Draft("For Bob", "a", assigned_to="bob"), Draft("Skilled", "b", requires=("gpu",))])
    assert ralph("peek", agent="ann").ids == []
    assert ralph("claim", "b", agent="ann").status == 2
    assert "gpu" in ralph("claim", "b", agent="ann").err
    assert ralph("peek", agent="bob").ids == ["a"]
    assert ralph.claim(agent="bob").id == "a"


def test_task_that_is_not_due_is_not_offered(ralph: Ralph) -> None:
    ralph.ok("plan-status")
    with ralph.desk() as desk:
        desk.add([Draft("Later", "a", not_before=desk.now() + timedelta(hours=1))])
    ran = ralph("claim", "a", agent="ann")
    assert (ran.status, ran.err.splitlines()[0]) == (2, "Task not eligible")
    assert "not due" in ran.err
    assert ralph("plan-status", "--check").status == 0


def test_a_person_who_holds_a_task_without_end_is_named(ralph: Ralph) -> None:
    ralph.create("a")
    with ralph.desk() as desk:
        desk.claim("hannah", refs=["a"], holder=Holder.HUMAN)
    assert "hannah" in ralph("claim", "a", agent="ann").err
    (shown,) = ralph("peek").tasks
    assert (shown.status, shown.assignee, shown.lease_expires_at) == ("active", "hannah", None)


# The policy


def error_classes(kind: type[DibsError] = DibsError) -> list[type[DibsError]]:
    """All error classes of the core; a server's errors never reach ralph."""
    below = [each for each in kind.__subclasses__() if each.__module__ == DibsError.__module__]
    return [kind, *(found for each in below for found in error_classes(each))]


def test_every_error_has_an_exit_status_of_ralphs() -> None:
    codes = {kind.code for kind in error_classes()}
    assert set(RALPH.exit_statuses) == codes
    assert {code for code in codes if RALPH.exit_statuses[code] == 2} == {"NOT_FOUND", "AMBIGUOUS_ID", "NOTHING_READY"}
    assert set(RALPH.exit_statuses.values()) == {1, 2}
    assert RALPH.exit_status(NothingReady("")) == 2


def test_every_status_has_a_unique_word() -> None:
    assert len(set(RALPH.words.values())) == len(Status)
    assert all(RALPH.read(RALPH.say(status)) is status for status in Status)
    assert RALPH.read("ready") is None


def test_the_policy_is_what_the_document_says() -> None:
    assert RALPH.lease == timedelta(seconds=600)
    assert RALPH.late_holder_ok
    assert not RALPH.short_ids
