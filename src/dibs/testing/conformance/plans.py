"""Applying plans."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import CycleDetected, PlanInvalid
from dibs.core.lifecycle import Verb
from dibs.core.plan import REMOVED, Plan
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Edit, Link, LinkKind, ServiceClass, Status

from .builders import (
    MAKER,
    SCOPE,
    add,
    amend,
    apply,
    blockers,
    blocks,
    bring,
    claim_ids,
    draft,
    events,
    feeds,
    finish,
    get,
    hold,
    last_seq,
    link,
    links_of,
    move,
    no_trace,
    parallel,
    peek_ids,
    plan,
    quiet,
    statuses,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from dibs.stores.port import Store
    from dibs.testing import Clock


BLOCKS, FEEDS, PARALLEL = LinkKind.BLOCKS, LinkKind.FEEDS_INTO, LinkKind.PARALLEL_OK

FULL: tuple[dict[str, Any], ...] = (
    {"id": "a", "spec": "s", "p": 1.5, "steps": ["x"], "d": "lines\n\n"},
    {
        "id": "b",
        "spec": "s",
        "deps": ["a"],
        "feeds_from": ["c"],
        "extra": {"k": [1, 2.5, None]},
        "requires": ["y", "x"],
    },
    {"id": "c", "spec": "t", "parent": "b", "class": "intangible", "max_retries": 0},
)

CYCLES: dict[str, tuple[dict[str, Any], ...]] = {
    "blocks": ({"id": "a", "deps": ["b"]}, {"id": "b", "deps": ["a"]}),
    "mixed": ({"id": "a", "deps": ["b"]}, {"id": "b", "feeds_from": ["c"]}, {"id": "c", "deps": ["a"]}),
    "parent": ({"id": "a", "deps": ["b"]}, {"id": "b"}, {"id": "c", "parent": "b", "deps": ["a"]}),
    "parents": ({"id": "a", "parent": "b"}, {"id": "b", "parent": "a"}),
    "own parent": ({"id": "a", "parent": "a"},),
}
RING: tuple[dict[str, Any], ...] = tuple({"id": f"r{n:03}", "deps": [f"r{n - 1:03}"] if n else []} for n in range(250))

names = st.sampled_from("abcdef")
entries = st.fixed_dictionaries(
    {"id": names},
    optional={
        "p": st.integers(0, 3),
        "spec": st.sampled_from("st"),
        "deps": st.lists(names, max_size=2),
        "feeds_from": st.lists(names, max_size=2),
        "parent": names,
        "steps": st.lists(st.text("xy", max_size=2), max_size=2),
    },
)
plans = st.lists(st.lists(entries, max_size=6, unique_by=lambda entry: entry["id"]), min_size=1, max_size=4)


@needs("transactions")
class PlansTests(Suite):
    """A plan creates the planned tasks, changes nothing in a second run, and leaves active work alone."""

    def test_plan_adds_missing_tasks(self, store: Store) -> None:
        stated = {"d": "text", "p": 1, "cat": "x", "spec": "s", "ref": "r", "steps": ["1", "2"], "class": "expedite"}
        more = {"requires": ["gpu"], "assigned_to": "bob", "max_retries": 2, "extra": {"k": 1}}
        wanted = plan(
            {"id": "b", "deps": ["a"], "feeds_from": ["c"]}, {"id": "a", **stated}, {"id": "c", "parent": "b", **more}
        )
        changes = apply(store, wanted)
        assert [planned.draft.id for planned in changes.insert] == ["b", "a", "c"]
        assert changes.updated == ()
        a, c = get(store, "a"), get(store, "c")
        assert (a.title, a.description, a.priority, a.category) == ("Task a", "text", 1, "x")
        assert (a.spec_ref, a.ref, a.steps, a.service_class) == ("s", "r", ("1", "2"), ServiceClass.EXPEDITE)
        assert (c.parent, c.requires, c.assigned_to, c.max_retries, c.extra) == ("b", ("gpu",), "bob", 2, {"k": 1})
        assert store.links(SCOPE, "b") == [
            Link("b", "a", BLOCKS, detected_by="plan"),
            Link("b", "c", FEEDS, detected_by="plan"),
        ]
        assert blockers(store) == {"a": 0, "b": 1, "c": 0}
        assert peek_ids(store) == ["a"]

    def test_a_second_run_leaves_no_trace(self, store: Store, clock: Clock) -> None:
        apply(store, plan(*FULL))
        clock.advance(minutes=1)
        with no_trace(store):
            changes = apply(store, plan(*FULL))
        assert not any(changes)

    def test_a_second_run_leaves_no_trace_of_work_that_has_gone_on_since(self, store: Store, clock: Clock) -> None:
        apply(store, plan(*FULL))
        finish(store, "a")
        hold(store, "b", can=frozenset("xy"))
        clock.advance(minutes=1)
        with no_trace(store):
            changes = apply(store, plan(*FULL))
        assert changes == changes._replace(insert=(), edit=(), link=(), unlink=(), remove=(), skipped_done=("a",))
        assert changes.skipped_active == ()

    def test_plan_edits_only_differing_fields(self, store: Store, clock: Clock) -> None:
        apply(store, plan(*FULL))
        before = {task: get(store, task) for task in "abc"}
        clock.advance(minutes=1)
        changes = apply(store, plan({**FULL[0], "p": 7}, *FULL[1:]))
        assert changes.edit == (("a", Edit(priority=7)),)
        assert changes.updated == ("a",)
        assert get(store, "a") == before["a"]._replace(priority=7, updated_at=store.now())
        assert (get(store, "b"), get(store, "c")) == (before["b"], before["c"])

    def test_owned_field_missing_from_a_plan_is_reset(self, store: Store) -> None:
        apply(store, plan({"id": "a", "d": "text", "p": 7, "cat": "x", "ref": "r", "steps": ["1"], "spec": "s"}))
        apply(store, plan({"id": "a"}))
        task = get(store, "a")
        assert (task.description, task.priority, task.category, task.ref, task.steps, task.spec_ref) == (
            "", 2, None, None, (), None,
        )  # fmt: skip

    def test_field_not_owned_by_a_plan_is_kept(self, store: Store) -> None:
        apply(store, plan({"id": "a", "assigned_to": "bob", "requires": ["x"], "extra": {"k": 1}, "class": "expedite"}))
        with no_trace(store):
            apply(store, plan({"id": "a"}))

    @pytest.mark.parametrize("status", [Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED])
    def test_a_plan_edits_idle_tasks_without_moving_them(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        before = get(store, "a")
        apply(store, plan({"id": "a", "p": 5}))
        assert get(store, "a") == before._replace(priority=5)

    def test_a_plan_leaves_finished_work_alone(self, store: Store) -> None:
        bring(store, "a", Status.DONE)
        bring(store, "b", Status.CANCELED)
        add(store, "c")
        with no_trace(store):
            changes = apply(store, plan({"id": "a", "p": 5}, {"id": "b", "p": 5, "deps": ["c"]}))
        assert (changes.skipped_done, changes.skipped_canceled) == (("a",), ("b",))
        assert changes.updated == ()

    # Removing
    def test_plan_removes_tasks_that_its_specs_no_longer_name(self, store: Store) -> None:
        apply(store, plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s"}, {"id": "c", "spec": "t"}, {"id": "d"}))
        changes = apply(store, plan({"id": "a", "spec": "s"}))
        assert changes.remove == ("b",)
        gone = get(store, "b")
        assert (gone.status, gone.reason, gone.finished_at) == (Status.CANCELED, REMOVED, store.now())
        assert statuses(store) == {
            "a": Status.READY, "b": Status.CANCELED, "c": Status.READY, "d": Status.READY,
        }  # fmt: skip
        with no_trace(store):
            assert apply(store, plan({"id": "a", "spec": "s"})).remove == ()

    def test_a_plan_may_empty_a_spec(self, store: Store) -> None:
        apply(store, plan({"id": "a", "spec": "s"}))
        apply(store, Plan((), frozenset({"s"})))
        assert get(store, "a").status is Status.CANCELED

    @pytest.mark.parametrize("status", [Status.BACKLOG, Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED])
    def test_a_plan_removes_idle_tasks_of_any_status(self, store: Store, status: Status) -> None:
        bring(store, "a", status)
        amend(store, "a", Edit(spec_ref="s"))
        apply(store, Plan((), frozenset({"s"})))
        assert (get(store, "a").status, get(store, "a").reason) == (Status.CANCELED, REMOVED)

    def test_a_plan_does_not_remove_finished_work(self, store: Store) -> None:
        apply(store, plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s"}))
        finish(store, "a")
        move(store, Verb.CANCEL, "b", reason="mine")
        with no_trace(store):
            assert apply(store, Plan((), frozenset({"s"}))).remove == ()

    def test_removed_task_is_reopened_when_planned_again(self, store: Store, clock: Clock) -> None:
        wanted = plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s", "deps": ["a"]})
        apply(store, wanted)
        apply(store, Plan((), frozenset({"s"})))
        clock.advance(minutes=1)
        changes = apply(store, plan({"id": "a", "spec": "s", "p": 9}, {"id": "b", "spec": "s", "deps": ["a"]}))
        assert changes.reopen == ("a", "b")
        a = get(store, "a")
        assert (a.status, a.reason, a.finished_at, a.priority) == (Status.READY, None, None, 9)
        assert blockers(store) == {"a": 0, "b": 1}
        assert claim_ids(store, count=5) == ["a"]

    def test_plan_does_not_reopen_a_task_canceled_by_a_person(self, store: Store) -> None:
        apply(store, plan({"id": "a", "spec": "s"}))
        move(store, Verb.CANCEL, "a", reason="no")
        with no_trace(store):
            assert apply(store, plan({"id": "a", "spec": "s"})).skipped_canceled == ("a",)

    @pytest.mark.parametrize(
        ("rule", "status", "waiting"),
        [
            (CanceledBlocker.RESOLVES, Status.READY, Status.READY),
            (CanceledBlocker.ESCALATES, Status.ESCALATED, Status.READY),
            (CanceledBlocker.CASCADES, Status.CANCELED, Status.CANCELED),
        ],
    )
    def test_removing_has_the_consequences_of_canceling(
        self, store: Store, rule: CanceledBlocker, status: Status, waiting: Status
    ) -> None:
        apply(store, plan({"id": "a", "spec": "s"}))
        add(store, "b", "c", links=[blocks("b", "a"), blocks("c", "b")])
        apply(store, Plan((), frozenset({"s"})), on_cancel=rule)
        assert statuses(store) == {"a": Status.CANCELED, "b": status, "c": waiting}

    @pytest.mark.parametrize("rule", CanceledBlocker)
    def test_tasks_that_wait_for_each_other_are_removed_together(self, store: Store, rule: CanceledBlocker) -> None:
        wanted = plan(
            *({"id": i, "spec": "s", "deps": deps} for i, deps in (("a", []), ("b", ["a"]), ("c", ["a", "b"])))
        )
        apply(store, wanted)
        changes = apply(store, Plan((), frozenset({"s"})), on_cancel=rule)
        assert changes.remove == ("a", "b", "c")
        assert [(get(store, t).status, get(store, t).reason) for t in "abc"] == [(Status.CANCELED, REMOVED)] * 3
        assert apply(store, wanted, on_cancel=rule).reopen == ("a", "b", "c")
        assert blockers(store) == {"a": 0, "b": 1, "c": 2}

    @pytest.mark.parametrize("rule", CanceledBlocker)
    def test_task_freed_of_a_removed_prerequisite_is_claimable(self, store: Store, rule: CanceledBlocker) -> None:
        apply(store, plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s", "deps": ["a"]}))
        apply(store, plan({"id": "b", "spec": "s"}), on_cancel=rule)
        assert statuses(store) == {"a": Status.CANCELED, "b": Status.READY}
        assert claim_ids(store) == ["b"]

    # Live work
    def test_a_plan_does_not_touch_a_task_under_a_live_lease(self, store: Store) -> None:
        apply(store, plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s"}, {"id": "c", "deps": ["a"]}))
        hold(store, "a")
        hold(store, "b")
        with no_trace(store):
            changes = apply(store, plan({"id": "a", "spec": "s", "p": 1, "deps": ["c"]}, {"id": "c", "deps": ["a"]}))
        assert changes.skipped_active == ("a", "b")
        assert changes.updated == changes.remove == ()

    @pytest.mark.parametrize("more", [{"p": 1}, {"deps": ["z"]}, {"feeds_from": ["z"]}])
    def test_any_change_to_live_work_is_skipped(self, store: Store, more: dict[str, Any]) -> None:
        add(store, "z")
        apply(store, plan({"id": "a"}))
        hold(store, "a")
        with no_trace(store):
            assert apply(store, plan({"id": "a", **more})).skipped_active == ("a",)

    def test_once_the_lease_has_expired_the_plan_counts(self, store: Store, clock: Clock) -> None:
        apply(store, plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s"}))
        token = hold(store, "a")
        hold(store, "b")
        clock.advance(minutes=20)
        changes = apply(store, plan({"id": "a", "spec": "s", "p": 1}))
        assert (changes.updated, changes.remove, changes.skipped_active) == (("a",), ("b",), ())
        assert get(store, "b").status is Status.CANCELED
        assert get(store, "a").lease is not None
        assert get(store, "a").lease.token == token  # type: ignore[union-attr]
        assert claim_ids(store) == ["a"]

    # Links
    def test_a_plan_adds_and_removes_links(self, store: Store) -> None:
        apply(store, plan({"id": "a"}, {"id": "b"}, {"id": "c", "deps": ["a"]}))
        changes = apply(store, plan({"id": "a"}, {"id": "b"}, {"id": "c", "deps": ["b"]}))
        assert (changes.updated, changes.edit) == (("c",), ())
        assert links_of(store, "c") == {("c", "b", BLOCKS)}
        assert blockers(store) == {"a": 0, "b": 0, "c": 1}

    @pytest.mark.parametrize(
        ("old", "new", "kind"),
        [("deps", "feeds_from", FEEDS), ("feeds_from", "deps", BLOCKS)],
    )
    def test_a_plan_changes_the_kind_of_a_link_either_way(
        self, store: Store, old: str, new: str, kind: LinkKind
    ) -> None:
        apply(store, plan({"id": "a"}, {"id": "b", old: ["a"]}))
        apply(store, plan({"id": "a"}, {"id": "b", new: ["a"]}))
        assert links_of(store, "b") == {("b", "a", kind)}
        assert blockers(store)["b"] == int(kind is BLOCKS)
        assert ("b" in peek_ids(store)) is (kind is FEEDS)

    def test_a_plan_leaves_recorded_independence_alone_or_overrules_it(self, store: Store) -> None:
        apply(store, plan({"id": "a"}, {"id": "b"}, {"id": "c"}))
        link(store, parallel("c", "a"), parallel("c", "b"))
        apply(store, plan({"id": "a"}, {"id": "b"}, {"id": "c", "deps": ["b"]}))
        assert links_of(store, "c") == {("c", "a", PARALLEL), ("c", "b", BLOCKS)}
        assert blockers(store)["c"] == 1

    def test_a_plan_removes_links_that_others_made_to_its_tasks(self, store: Store) -> None:
        apply(store, plan({"id": "a"}, {"id": "b"}))
        link(store, feeds("b", "a"))
        apply(store, plan({"id": "a"}, {"id": "b"}))
        assert links_of(store, "b") == set()

    def test_a_plan_leaves_links_of_tasks_it_does_not_name(self, store: Store) -> None:
        apply(store, plan({"id": "a"}))
        add(store, "b", links=[blocks("b", "a")])
        with no_trace(store):
            apply(store, plan({"id": "a"}))

    def test_a_planned_task_may_depend_on_any_task_of_the_store(self, store: Store) -> None:
        add(store, "x", "p")
        apply(store, plan({"id": "a", "deps": ["x"], "parent": "p"}))
        assert blockers(store)["a"] == 1

    @pytest.mark.parametrize("more", [{"deps": ["nowhere"]}, {"feeds_from": ["nowhere"]}, {"parent": "nowhere"}])
    def test_plan_with_an_unknown_id_is_refused_with_its_line(self, store: Store, more: dict[str, Any]) -> None:
        add(store, "nowhere", scope="elsewhere")
        with no_trace(store), pytest.raises(PlanInvalid) as refused:
            apply(store, plan({"id": "a"}, {"id": "b", **more}))
        assert refused.value.line == 2

    def test_a_plan_may_turn_an_order_around(self, store: Store) -> None:
        apply(store, plan({"id": "a"}, {"id": "b", "deps": ["a"]}, {"id": "c", "deps": ["b"]}))
        apply(store, plan({"id": "a", "deps": ["b"]}, {"id": "b", "deps": ["c"]}, {"id": "c"}))
        assert blockers(store) == {"a": 1, "b": 1, "c": 0}
        assert claim_ids(store, count=5) == ["c"]

    @pytest.mark.parametrize("order", ["xy", "yx"])
    def test_a_plan_may_turn_parents_around(self, store: Store, order: str) -> None:
        apply(store, plan({"id": "x", "parent": "y"}, {"id": "y"}, {"id": "z"}))
        parents = {"x": "z", "y": "x"}
        apply(store, plan(*({"id": task, "parent": parents[task]} for task in order), {"id": "z"}))
        assert (get(store, "x").parent, get(store, "y").parent) == ("z", "x")

    @pytest.mark.parametrize("entries", CYCLES.values(), ids=CYCLES)
    @pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
    def test_plan_with_a_cycle_changes_nothing(
        self, store: Store, entries: tuple[dict[str, Any], ...], many: bool
    ) -> None:
        with no_trace(store), pytest.raises(CycleDetected) as refused:
            apply(store, plan(*entries, *(RING if many else ())))
        path = refused.value.path
        assert path[0] == path[-1]
        edges = {(entry["id"], on) for entry in entries for on in entry.get("deps", []) + entry.get("feeds_from", [])}
        edges |= {(entry["parent"], entry["id"]) for entry in entries if "parent" in entry}
        assert set(pairwise(path)) <= edges

    @pytest.mark.parametrize("many", [False, True], ids=["few", "many"])
    def test_plan_that_closes_a_cycle_changes_nothing(self, store: Store, many: bool) -> None:
        add(store, "x", "y")
        apply(store, plan({"id": "a"}))
        link(store, blocks("x", "a"), feeds("y", "x"))
        with no_trace(store), pytest.raises(CycleDetected):
            apply(store, plan({"id": "a", "deps": ["y"]}, *(RING if many else ())))

    def test_large_plan_counts_right_and_is_stable(self, store: Store) -> None:
        wanted = plan(*RING, {"id": "all", "deps": [entry["id"] for entry in RING]})
        apply(store, wanted)
        assert blockers(store) == {"r000": 0, "all": 250} | {f"r{n:03}": 1 for n in range(1, 250)}
        with no_trace(store):
            assert not any(apply(store, wanted))
        finish(store, "r000")
        assert peek_ids(store) == ["r001"]

    def test_a_large_plan_may_turn_everything_around(self, store: Store) -> None:
        apply(store, plan(*RING))
        turned = [{"id": f"r{n:03}", "deps": [f"r{n + 1:03}"] if n < 249 else []} for n in range(250)]
        apply(store, plan(*turned))
        assert peek_ids(store) == ["r249"]

    # Dry runs
    def test_dry_run_reports_all_changes_and_makes_none(self, store: Store) -> None:
        apply(store, plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s", "deps": ["a"]}, {"id": "c", "spec": "s"}))
        wanted = plan({"id": "b", "spec": "s", "p": 1}, {"id": "c", "spec": "s", "feeds_from": ["b"]}, {"id": "d"})
        with no_trace(store):
            told = apply(store, wanted, dry_run=True)
        assert told == apply(store, wanted)
        assert ([planned.draft.id for planned in told.insert], told.remove) == (["d"], ("a",))
        assert told.updated == ("b", "c")

    def test_dry_run_is_refused_like_the_run(self, store: Store) -> None:
        with no_trace(store), pytest.raises(CycleDetected):
            apply(store, plan(*CYCLES["blocks"]), dry_run=True)

    def test_a_plan_is_applied_in_its_own_scope_and_on_record(self, store: Store) -> None:
        add(store, draft("b", spec_ref="s"), scope="elsewhere")
        start = last_seq(store)
        store.apply_plan(
            SCOPE,
            plan({"id": "a", "spec": "s"}),
            CanceledBlocker.CASCADES,
            Actor("zoe", "r"),
            dry_run=False,
            progress=quiet,
        )
        assert statuses(store, "elsewhere") == {"b": Status.READY}
        assert [(e.task, e.verb, e.agent, e.run) for e in events(store, after=start)] == [("a", "add", "zoe", "r")]

    def test_a_plan_reports_its_progress(self, store: Store) -> None:
        steps: list[int] = []
        for wanted in (
            plan({"id": "a", "spec": "s"}, {"id": "b", "spec": "s"}),
            plan({"id": "a", "spec": "s", "p": 1}),
        ):
            store.apply_plan(SCOPE, wanted, CanceledBlocker.RESOLVES, MAKER, dry_run=False, progress=steps.append)
        assert sum(steps) == 4

    @given(rounds=plans, rule=st.sampled_from(CanceledBlocker))
    def test_second_run_of_a_plan_changes_nothing(
        self, store: Store, rounds: list[list[dict[str, Any]]], rule: CanceledBlocker
    ) -> None:
        scope = f"plans {len(store.scopes())}"
        for one in rounds:
            try:
                wanted = plan(*one)
                told = apply(store, wanted, dry_run=True, on_cancel=rule, scope=scope)
            except (PlanInvalid, CycleDetected):
                continue
            assert apply(store, wanted, on_cancel=rule, scope=scope) == told
            start = last_seq(store)
            again = apply(store, wanted, on_cancel=rule, scope=scope)
            assert last_seq(store) == start
            assert not any(again[: again._fields.index("skipped_done")])
