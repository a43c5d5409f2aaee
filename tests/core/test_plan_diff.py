"""From what there is to what the plan says: no more than the difference, and none the second time."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dibs.core.errors import PlanInvalid
from dibs.core.lifecycle import Move, Verb, moved
from dibs.core.plan import REMOVED, Plan, PlanChanges, diff, parse_jsonl
from dibs.core.task import Edit, Link, LinkKind, Status, Task

from .samples import LEASE, NOW, SOON, human_lease, make_lease, make_task, task_in

LATE = NOW + 2 * LEASE
NOTHING = PlanChanges()


class Model(NamedTuple):
    """A store in its simplest form."""

    tasks: dict[str, Task]
    links: dict[tuple[str, str], Link]


def model(*tasks: Task, links: tuple[Link, ...] = ()) -> Model:
    return Model({task.id: task for task in tasks}, {(link.task, link.on): link for link in links})


def plan_of(*entries: dict[str, Any]) -> Plan:
    return parse_jsonl("\n".join(json.dumps({"t": f"Task {entry['id']}", **entry}) for entry in entries))


def compare(plan: Plan, now_there: Model) -> PlanChanges:
    """Give `diff` what a store gives it: the tasks a plan concerns, their own links, and who else is known."""
    named = {planned.draft.id for planned in plan.tasks}
    tasks = [task for task in now_there.tasks.values() if task.id in named or task.spec_ref in plan.specs]
    links = [link for link in now_there.links.values() if link.task in named]
    return diff(plan, tasks, links, set(now_there.tasks) - named, SOON)


def apply(changes: PlanChanges, before: Model) -> Model:
    tasks, links = dict(before.tasks), dict(before.links)
    for link in changes.unlink:
        del links[link.task, link.on]
    for planned in changes.insert:
        assert planned.draft.id not in tasks
        stated: dict[str, Any] = planned.draft._asdict()
        tasks[planned.draft.id] = Task("desk", created_at=SOON, updated_at=SOON, queued_at=SOON, **stated)
    for task_id in changes.reopen:
        tasks[task_id] = moved(tasks[task_id], Move(Verb.REOPEN, task_id, "desk"), SOON)
    for task_id, edit in changes.edit:
        changed: dict[str, Any] = edit.changed(tasks[task_id])
        assert changed, "an edit that changes nothing is no edit"
        tasks[task_id] = tasks[task_id]._replace(**changed)
    for link in changes.link:
        links[link.task, link.on] = link
    for task_id in changes.remove:
        move = Move(Verb.CANCEL, task_id, "desk", force=True, reason=REMOVED)
        tasks[task_id] = moved(tasks[task_id], move, SOON)
    return Model(tasks, links)


def changing(changes: PlanChanges) -> PlanChanges:
    return changes._replace(skipped_done=(), skipped_active=(), skipped_canceled=())


# New tasks, changed tasks


def test_a_new_task_is_inserted_with_its_links() -> None:
    plan = plan_of({"id": "a"}, {"id": "b", "deps": ["a"], "feeds_from": ["old"]})
    changes = compare(plan, model(make_task("old")))
    assert [planned.draft.id for planned in changes.insert] == ["a", "b"]
    assert [(link.task, link.on, link.kind) for link in changes.link] == [
        ("b", "a", LinkKind.BLOCKS),
        ("b", "old", LinkKind.FEEDS_INTO),
    ]
    assert changes.updated == ()


def test_a_task_as_planned_is_left_alone() -> None:
    task = make_task("a", description="d", steps=("s",), priority=1, extra={"own": 1}, assigned_to="ada")
    assert compare(plan_of({"id": "a", "d": "d", "steps": ["s"], "p": 1.0}), model(task)) == NOTHING


def test_plan_edit_lists_only_differences() -> None:
    task = make_task("a", description="old", priority=1)
    changes = compare(plan_of({"id": "a", "d": "new", "p": 1}), model(task))
    assert changes == PlanChanges(edit=(("a", Edit(description="new")),))
    assert changes.updated == ("a",)


def test_omitted_owned_key_resets_to_default() -> None:
    task = make_task("a", description="old", category="c", steps=("s",), ref="r", priority=7, assigned_to="ada")
    [(_, edit)] = compare(plan_of({"id": "a"}), model(task)).edit
    assert edit == Edit(description="", category=None, steps=(), ref=None, priority=2)


@pytest.mark.parametrize("status", [Status.BACKLOG, Status.READY, Status.BLOCKED, Status.PAUSED, Status.REVIEW])
def test_unheld_task_is_edited_in_any_status(status: Status) -> None:
    changes = compare(plan_of({"id": "a", "t": "New"}), model(task_in(status)))
    assert changes == PlanChanges(edit=(("a", Edit(title="New")),))


# Links


def test_links_follow_the_plan() -> None:
    there = model(make_task("a"), make_task("b"), make_task("c"), links=(Link("c", "a"),))
    changes = compare(plan_of({"id": "c", "deps": ["b"]}), there)
    assert [(link.task, link.on) for link in changes.link] == [("c", "b")]
    assert changes.unlink == (Link("c", "a"),)
    assert changes.edit == ()
    assert changes.updated == ("c",)


def test_a_link_that_is_there_is_not_made_again() -> None:
    there = model(make_task("a"), make_task("b"), links=(Link("b", "a", LinkKind.BLOCKS, 0.5, "analyst", 0.5),))
    assert compare(plan_of({"id": "b", "deps": ["a"]}), there) == NOTHING


@pytest.mark.parametrize(("now_there", "key"), [(LinkKind.BLOCKS, "feeds_from"), (LinkKind.FEEDS_INTO, "deps")])
def test_a_link_of_another_kind_is_replaced(now_there: LinkKind, key: str) -> None:
    there = model(make_task("a"), make_task("b"), links=(Link("b", "a", now_there),))
    changes = compare(plan_of({"id": "b", key: ["a"]}), there)
    assert [link.kind for link in changes.link] == [LinkKind.BLOCKS if key == "deps" else LinkKind.FEEDS_INTO]
    assert changes.unlink == ()


def test_plan_keeps_parallel_links_except_for_dependencies() -> None:
    there = model(make_task("a"), make_task("b"), links=(Link("b", "a", LinkKind.PARALLEL_OK),))
    assert compare(plan_of({"id": "b"}), there) == NOTHING
    assert [link.kind for link in compare(plan_of({"id": "b", "deps": ["a"]}), there).link] == [LinkKind.BLOCKS]


def test_others_links_to_a_planned_task_are_left_alone() -> None:
    there = model(make_task("a"), make_task("b"), links=(Link("b", "a"),))
    assert compare(plan_of({"id": "a"}), there) == NOTHING


@pytest.mark.parametrize("key", ["deps", "feeds_from"])
def test_unknown_dependency_is_refused_with_its_line(key: str) -> None:
    with pytest.raises(PlanInvalid, match="'b' refers to 'x', which is neither planned nor in the store") as error:
        compare(plan_of({"id": "a"}, {"id": "b", key: ["a", "x"]}), model())
    assert error.value.line == 2


def test_unknown_parent_is_refused() -> None:
    with pytest.raises(PlanInvalid, match="refers to 'x'"):
        compare(plan_of({"id": "a", "parent": "x"}), model())


def test_a_dependency_may_be_planned_later_or_be_in_the_store() -> None:
    plan = plan_of({"id": "a", "deps": ["b", "old"], "parent": "p"}, {"id": "b"})
    assert len(compare(plan, model(make_task("old"), make_task("p"))).link) == 2


# What a plan does not touch


def test_finished_work_is_not_touched() -> None:
    task = task_in(Status.DONE, spec_ref="s")
    there = model(task, make_task("b"), links=(Link("a", "b"),))
    assert compare(plan_of({"id": "a", "t": "New", "spec": "s"}), there) == PlanChanges(skipped_done=("a",))


@pytest.mark.parametrize("lease", [make_lease(), human_lease()], ids=["agent", "human"])
def test_live_work_is_skipped_whatever_the_difference(lease: Any) -> None:
    task = task_in(Status.ACTIVE, lease=lease)
    there = model(task, make_task("b"), links=(Link("a", "b"),))
    skipped = PlanChanges(skipped_active=("a",))
    assert compare(plan_of({"id": "a", "t": "New", "deps": ["b"]}), there) == skipped
    assert compare(plan_of({"id": "a"}), there) == skipped
    assert compare(plan_of({"id": "a", "deps": ["b"]}), there) == NOTHING


def test_a_lease_that_has_expired_protects_nothing() -> None:
    task = task_in(Status.ACTIVE, lease=make_lease(expires_at=SOON - timedelta(seconds=1)))
    assert compare(plan_of({"id": "a", "t": "New"}), model(task)).edit == (("a", Edit(title="New")),)


def test_plan_keeps_tasks_canceled_by_a_person() -> None:
    task = task_in(Status.CANCELED, reason="not needed")
    assert compare(plan_of({"id": "a", "t": "New"}), model(task)) == PlanChanges(skipped_canceled=("a",))


def test_replanned_task_is_reopened() -> None:
    task = task_in(Status.CANCELED, reason=REMOVED)
    assert compare(plan_of({"id": "a"}), model(task)) == PlanChanges(reopen=("a",))
    changes = compare(plan_of({"id": "a", "t": "New"}), model(task))
    assert (changes.reopen, changes.edit, changes.updated) == (("a",), (("a", Edit(title="New")),), ("a",))


# Removing


def test_unplanned_task_of_the_spec_is_canceled() -> None:
    there = model(make_task("b", spec_ref="s"), make_task("a", spec_ref="s"), make_task("c", spec_ref="other"))
    plan = plan_of({"id": "new", "spec": "s"})
    assert compare(plan, there).remove == ("a", "b")


def test_a_task_without_a_spec_or_of_another_never_goes() -> None:
    there = model(make_task("a"), make_task("b", spec_ref="other"))
    assert compare(plan_of({"id": "new"}, {"id": "newer", "spec": "s"}), there).remove == ()


@pytest.mark.parametrize("status", [Status.DONE, Status.CANCELED])
def test_finished_task_is_not_removed(status: Status) -> None:
    there = model(task_in(status, spec_ref="s"))
    assert changing(compare(plan_of({"id": "new", "spec": "s"}), there)).remove == ()


@pytest.mark.parametrize(("now_held", "name"), [(True, "skipped_active"), (False, "remove")])
def test_live_work_does_not_go_either(now_held: bool, name: str) -> None:
    lease = make_lease(expires_at=LATE if now_held else NOW)
    changes = compare(plan_of({"id": "new", "spec": "s"}), model(task_in(Status.ACTIVE, spec_ref="s", lease=lease)))
    assert getattr(changes, name) == ("a",)
    assert not set(changes.remove) & set(changes.skipped_active)


def test_a_planned_task_that_changes_its_spec_does_not_go() -> None:
    there = model(make_task("a", spec_ref="old"))
    changes = compare(plan_of({"id": "a", "spec": "new"}, {"id": "b", "spec": "old"}), there)
    assert changes.remove == ()
    assert changes.edit == (("a", Edit(spec_ref="new")),)


# Any plan on any store

IDS = st.sampled_from("abcdef")
SPECS = st.sampled_from([None, "s", "r"])
LIVES: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(Status).map(lambda status: {"status": status}),
    st.just({"status": Status.ACTIVE, "lease": make_lease(expires_at=NOW)}),
    st.just({"status": Status.ACTIVE, "lease": human_lease()}),
    st.just({"status": Status.CANCELED, "reason": REMOVED}),
)


@st.composite
def models(draw: st.DrawFn) -> Model:
    tasks = []
    for task_id in draw(st.sets(IDS)):
        life = draw(LIVES)
        task = task_in(life["status"])._replace(id=task_id, title=f"Task {task_id}", spec_ref=draw(SPECS), **life)
        tasks.append(task._replace(description=draw(st.sampled_from(["", "d"]))))
    known = sorted(task.id for task in tasks)
    if not known:
        return model()
    ends = st.tuples(st.sampled_from(known), st.sampled_from(known), st.sampled_from(LinkKind))
    links = [Link(*given_ends) for given_ends in draw(st.lists(ends, max_size=8)) if given_ends[0] != given_ends[1]]
    return model(*tasks, links=tuple(links))


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    entries: list[dict[str, Any]] = []
    for task_id in sorted(draw(st.sets(IDS))):
        others = st.lists(st.sampled_from([other for other in "abcdef" if other != task_id]), max_size=2)
        entries.append(
            {
                "id": task_id,
                "d": draw(st.sampled_from(["", "d"])),
                "spec": draw(SPECS),
                "deps": draw(others),
                "feeds_from": draw(others),
            }
        )
    return plan_of(*entries)


@given(plans(), models())
def test_a_plan_applied_leaves_nothing_to_do(plan: Plan, before: Model) -> None:
    after = apply(_changes(plan, before), before)
    assert changing(compare(plan, after)) == NOTHING


@given(plans(), models())
def test_applied_plan_matches_the_store(plan: Plan, before: Model) -> None:
    changes = _changes(plan, before)
    after = apply(changes, before)
    skipped = {*changes.skipped_done, *changes.skipped_active, *changes.skipped_canceled}
    for planned in plan.tasks:
        task = after.tasks[planned.draft.id]
        if task.id not in skipped:
            assert not planned.edit.changed(task)
            assert not task.finished
            own = {link.on: link.kind for link in after.links.values() if link.task == task.id}
            ordering = {on: kind for on, kind in own.items() if kind is not LinkKind.PARALLEL_OK}
            assert ordering == {link.on: link.kind for link in planned.links()}


@given(plans(), models())
def test_a_plan_touches_nothing_finished_held_or_not_its_own(plan: Plan, before: Model) -> None:
    after = apply(_changes(plan, before), before)
    named = {planned.draft.id for planned in plan.tasks}
    for task in before.tasks.values():
        canceled_by_someone = task.status is Status.CANCELED and task.reason != REMOVED
        foreign = task.id not in named and task.spec_ref not in plan.specs
        if task.status is Status.DONE or task.held(SOON) or canceled_by_someone or foreign:
            assert after.tasks[task.id] == task
        elif task.id not in named and not task.finished:
            assert (after.tasks[task.id].status, after.tasks[task.id].reason) == (Status.CANCELED, REMOVED)


def _changes(plan: Plan, before: Model) -> PlanChanges:
    try:
        return compare(plan, before)
    except PlanInvalid:
        assume(False)
        raise
