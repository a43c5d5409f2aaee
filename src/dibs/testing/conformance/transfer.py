"""Export and import."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import AlreadyExists, CycleDetected, DibsError, InvalidInput, LostLock, NotFound
from dibs.core.events import Event
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Link, LinkKind, ServiceClass, Status, Task
from dibs.stores.port import EventQuery, Replaceable
from dibs.stores.reports import Record

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    blockers,
    blocks,
    bring,
    claim,
    claim_ids,
    draft,
    dump,
    events,
    feeds,
    finish,
    get,
    hold,
    hold_as_human,
    last_seq,
    move,
    no_trace,
    parallel,
    peek_ids,
    quiet,
    restore,
    state,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.stores.port import Store
    from dibs.testing import Clock


def task(store: Store, name: str, **fields: str) -> Record:
    now = store.now()
    return Record(SCOPE, Task(SCOPE, name, name, now, now, now, **fields))  # type: ignore[arg-type]


class TransferTests(Suite):
    """A whole store out and back in: nothing lost, nothing bent, nothing half-written."""

    @pytest.fixture
    def full(self, store: Store, clock: Clock) -> list[Record]:
        """A store with something of everything, and its dump."""
        for status in Status:
            bring(store, status.value, status)
            clock.advance(seconds=1)
        everything = Draft(
            "Everything", "everything", "text", Status.BACKLOG, "why", ServiceClass.EXPEDITE, override=True,
            priority=0.5, category="c", deliverable="d", steps=("s",), spec_ref="spec", ref="r", parent="ready",
            requires=("x",), assigned_to="bob", not_before=store.now() + LEASE, max_retries=3, origin="chat",
            extra={"k": [1, None]},
        )  # fmt: skip
        add(store, everything, "human", draft("kid", parent="everything"))
        hold_as_human(store, "human")
        weighed = Link("everything", "done", LinkKind.FEEDS_INTO, 0.5, "semantic", 0.25)
        store.link(SCOPE, [blocks("everything", "active"), weighed, parallel("kid", "paused")], MAKER)
        add(store, "a", "b", scope="elsewhere", links=[blocks("b", "a")])
        move(store, Verb.FAIL, "a", hold(store, "a", scope="elsewhere"), scope="elsewhere", reason="oops")
        clock.advance(minutes=1)
        return dump(store)

    @needs("links")
    def test_a_dump_is_tasks_then_links_then_events_each_with_its_scope(self, full: list[Record]) -> None:
        kinds = [type(record.item) for record in full]
        assert kinds == sorted(kinds, key=[Task, Link, Event].index)
        assert set(kinds) == {Task, Link, Event}
        assert all(record.scope == record.item.scope for record in full if isinstance(record.item, Task | Event))
        assert sorted(record.scope for record in full if isinstance(record.item, Link)) == ["elsewhere"] + [SCOPE] * 3

    @needs("transactions")
    def test_a_restored_store_holds_the_same_and_one_more_event_per_scope(
        self, another: Store, full: list[Record]
    ) -> None:
        tasks = sum(isinstance(record.item, Task) for record in full)
        assert restore(another, full) == tasks
        after = dump(another)
        assert after[: len(full)] == full
        imported = [record.item for record in after[len(full) :]]
        assert [(e.scope, e.verb, e.agent, e.run, e.at) for e in imported if isinstance(e, Event)] == [
            (scope, "import", "mover", "run-1", another.now()) for scope in ("elsewhere", SCOPE)
        ]

    @needs("transactions")
    def test_a_dump_of_a_restored_store_restores_again(self, store: Store, another: Store, full: list[Record]) -> None:
        restore(another, full)
        for records in (dump(another), full):
            with no_trace(store), pytest.raises(AlreadyExists):
                restore(store, records)

    @needs("transactions")
    def test_an_empty_dump_leaves_no_trace(self, store: Store, another: Store) -> None:
        assert dump(store) == []
        with no_trace(another):
            assert restore(another, []) == 0

    @needs("transactions")
    def test_imported_leases_keep_running(self, store: Store, another: Store, clock: Clock) -> None:
        add(store, "a", "b", "c", links=[blocks("c", "a")])
        live, late = hold(store, "a"), hold(store, "b", lease=timedelta(minutes=1))
        clock.advance(minutes=5)
        restore(another, dump(store))
        assert peek_ids(another) == ["b"]
        with pytest.raises(LostLock):
            move(another, Verb.DONE, "b", late)
        assert move(another, Verb.DONE, "a", live).unblocked == ("c",)
        assert claim_ids(another, count=9) == ["b", "c"]
        assert get(another, "b").attempt == 2

    @needs("transactions")
    def test_a_finish_may_be_repeated_after_the_move_to_another_store(self, store: Store, another: Store) -> None:
        add(store, "a")
        token = hold(store, "a")
        done = move(store, Verb.DONE, "a", token, result="r").task
        restore(another, dump(store))
        assert move(another, Verb.DONE, "a", token).task == done

    @needs("transactions")
    def test_restored_task_keeps_its_due_time(self, store: Store, another: Store, clock: Clock) -> None:
        add(store, draft("a", not_before=store.now() + LEASE), draft("b", not_before=store.now() + 2 * LEASE))
        hold_as_human(store, "b", force=True)
        clock.advance(minutes=5)
        restore(another, dump(store))
        assert claim(another) == []
        clock.advance(minutes=15)
        assert claim_ids(another, count=9) == ["a"]

    @needs("transactions")
    def test_restore_recomputes_the_blocker_counts(self, store: Store, another: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a"), blocks("c", "a"), blocks("c", "b")])
        lying = [
            record._replace(item=record.item._replace(blockers=7)) if isinstance(record.item, Task) else record
            for record in dump(store)
        ]
        restore(another, lying)
        assert blockers(another) == {"a": 0, "b": 1, "c": 2}
        assert peek_ids(another) == ["a"]

    @needs("transactions")
    def test_import_adds_to_existing_tasks(self, store: Store, another: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")])
        add(another, "x")
        hold(another, "x")
        before = state(another)
        restore(another, dump(store))
        assert [record for record in state(another) if record in before] == before
        assert blockers(another) == {"a": 0, "b": 1, "x": 0}

    @needs("transactions")
    def test_imported_ids_may_exist_in_another_scope(self, store: Store, another: Store) -> None:
        add(store, "a")
        add(another, "a", scope="elsewhere")
        restore(another, dump(store))
        assert another.scopes() == ["elsewhere", SCOPE]

    @needs("transactions")
    def test_import_with_a_taken_id_changes_nothing(self, store: Store, another: Store) -> None:
        add(store, "a", "b", "c", links=[blocks("b", "a")])
        finish(store, "a")
        add(another, "c")
        with no_trace(another), pytest.raises(AlreadyExists):
            restore(another, dump(store))

    @needs("transactions")
    def test_import_with_a_cycle_changes_nothing(self, another: Store) -> None:
        a, b = task(another, "a"), task(another, "b")
        kid = task(another, "b", parent="a")
        for records in (
            [a, b, Record(SCOPE, blocks("a", "b")), Record(SCOPE, feeds("b", "a"))],
            [a, kid, Record(SCOPE, blocks("b", "a"))],
            [a, Record(SCOPE, blocks("a", "a"))],
            [task(another, "a", parent="a")],
        ):
            with no_trace(another), pytest.raises(CycleDetected):
                restore(another, records)

    @needs("transactions")
    @pytest.mark.parametrize("closing", [blocks("a", "b"), feeds("a", "b")])
    def test_imported_links_that_close_a_cycle_are_refused(self, another: Store, closing: Link) -> None:
        add(another, "a", "b", links=[blocks("b", "a")])
        with no_trace(another), pytest.raises(CycleDetected):
            restore(another, [Record(SCOPE, closing)])

    @needs("transactions")
    def test_imported_links_to_existing_tasks_count(self, another: Store) -> None:
        add(another, "a", "b")
        restore(another, [Record(SCOPE, blocks("b", "a"))])
        assert blockers(another) == {"a": 0, "b": 1}
        assert peek_ids(another) == ["a"]

    @needs("transactions")
    @pytest.mark.parametrize("where", ["task", "on", "parent"])
    def test_import_with_an_unknown_id_changes_nothing(self, another: Store, where: str) -> None:
        ends = {"task": "a", "on": "a", where: "nowhere"}
        records = [task(another, "a", parent="nowhere")] if where == "parent" else [task(another, "a")]
        if where != "parent":
            records.append(Record(SCOPE, blocks(ends["task"], ends["on"])))
        with no_trace(another), pytest.raises((InvalidInput, NotFound)):
            restore(another, records)

    @needs("transactions")
    def test_a_parent_may_be_in_the_store_already_or_later_in_the_file(self, another: Store) -> None:
        add(another, "p")
        restore(another, [task(another, "a", parent="p"), task(another, "b", parent="c"), task(another, "c")])
        assert (get(another, "a").parent, get(another, "b").parent) == ("p", "c")

    @needs("transactions")
    def test_a_file_that_breaks_off_leaves_nothing_behind(self, store: Store, another: Store) -> None:
        add(store, "a", "b")
        records = dump(store)

        class BrokenOffError(Exception):
            pass

        def half() -> Sequence[Record]:
            raise BrokenOffError

        with no_trace(another), pytest.raises(BrokenOffError):
            restore(another, (record if record is not records[-1] else half() for record in records))  # type: ignore[misc]

    @needs("transactions")
    def test_restore_reports_progress_per_record(self, another: Store, full: list[Record]) -> None:
        steps: list[int] = []
        restore(another, full, progress=steps.append)
        assert sum(steps) == len(full)

    @needs("transactions")
    def test_restored_events_get_new_numbers(self, store: Store, another: Store) -> None:
        add(store, "a")
        finish(store, "a")
        add(another, "x", scope="elsewhere")
        restore(another, dump(store))
        told = events(another)
        assert [event.verb for event in told] == ["add", "claim", "done", "import"]
        assert [event.seq for event in told] == sorted({event.seq for event in told})

    @needs("replacement")
    def test_a_dump_in_place_of_everything_begins_a_new_generation(self, store: Store, beside: Store) -> None:
        assert isinstance(store, Replaceable)
        add(store, "held", "free", "next", links=[blocks("next", "held")])
        add(store, "other", scope="elsewhere")
        token = hold(store, "held")
        whole, then = list(store.dump()), store.describe()
        late = hold(beside, "free")
        add(beside, "new", scope="nowhere")
        move(beside, Verb.CANCEL, "other", scope="elsewhere")
        newest = max(event.seq for event in beside.events(EventQuery()))

        assert store.replace(whole, Actor("mover"), quiet) == 4

        assert state(beside) == [record for record in whole if not isinstance(record.item, Event)]
        assert min(event.seq for event in beside.events(EventQuery())) > newest
        with pytest.raises(DibsError):
            move(beside, Verb.DONE, "free", late)
        assert move(beside, Verb.DONE, "held", token).unblocked == ("next",)
        now = beside.describe()
        assert (now["id"], int(now["generation"])) == (then["id"], int(then["generation"]) + 1)

    @needs("replacement")
    @pytest.mark.parametrize("last", ["claim", "done", "add", "cancel"])
    def test_replacing_restores_the_dump_after_any_change(self, store: Store, last: str) -> None:
        assert isinstance(store, Replaceable)
        add(store, "a", "b")
        whole = list(store.dump())
        for _ in range(2):
            if last == "add":
                add(store, "c")
            elif last == "cancel":
                move(store, Verb.CANCEL, "a")
            else:
                token = hold(store, "a")
            if last == "done":
                move(store, Verb.DONE, "a", token)
            newest = last_seq(store)

            assert store.replace(whole, MAKER, quiet) == 2

            assert state(store) == [record for record in whole if not isinstance(record.item, Event)]
            assert store.check(fix=False) == []
            assert min(event.seq for event in store.events(EventQuery())) > newest

    @needs("replacement")
    def test_empty_dump_leaves_an_empty_store_with_rising_event_numbers(self, store: Store) -> None:
        assert isinstance(store, Replaceable)
        empty = list(store.dump())
        add(store, "a")
        hold(store, "a")
        newest = last_seq(store)
        assert store.replace(empty, MAKER, quiet) == 0
        assert (state(store), store.check(fix=False)) == ([], [])
        add(store, "b")
        assert last_seq(store) > newest

    @needs("replacement")
    def test_a_broken_dump_replaces_nothing(self, store: Store) -> None:
        assert isinstance(store, Replaceable)
        add(store, "a", "b", links=[blocks("b", "a")])
        generation = store.describe()["generation"]
        with no_trace(store), pytest.raises(InvalidInput):
            store.replace([task(store, "x"), Record(SCOPE, blocks("x", "nowhere"))], MAKER, quiet)
        assert store.describe()["generation"] == generation

    @needs("history")
    def test_dump_is_consistent_during_writes(self, store: Store, beside: Store) -> None:
        add(store, "a", "b")
        reading = store.dump()
        first = next(reading)
        add(beside, "c")
        finish(beside, "a")
        seen = [first, *reading]
        assert [r.item.id for r in seen if isinstance(r.item, Task)] == ["a", "b"]
        assert {r.item.verb for r in seen if isinstance(r.item, Event)} == {"add"}
        assert len(state(store)) == 3

    def test_a_dump_may_be_left_before_its_end(self, store: Store) -> None:
        add(store, "a", "b")
        reading = store.dump()
        next(reading)
        reading.close()  # type: ignore[attr-defined]
        with pytest.raises(DibsError):
            get(store, "c")
        add(store, "c")
