"""Settings of a scope, and vectors of tasks: parts that a store may lack."""

from __future__ import annotations

import math
import random
import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dibs.core.errors import AlreadyExists, InvalidInput, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.search import unit
from dibs.core.settings import Setting
from dibs.core.task import Actor, Edit, Status
from dibs.stores.reports import Neighbours, Record

from .builders import (
    MAKER,
    SCOPE,
    UNFINISHED,
    add,
    amend,
    blocks,
    bring,
    dump,
    events,
    finish,
    get,
    hold,
    move,
    no_trace,
    quiet,
    restore,
    settings_of,
    vectors_of,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dibs.core.task import Json
    from dibs.stores.port import Store
    from dibs.testing import Clock

    from .suite import Harness


ODD: dict[str, Json] = {
    "yes": True,
    "one": 1,
    "one_point_zero": 1.0,
    "text": 'naïve ☕ "quoted" \\ $name `x`',
    "empty": "",
    "none_in_it": [None],
    "nothing_in_it": [],
    "words": ["a", "b"],
    "mixed": [1, 1.0, True, "a", None, {"deep": []}],
    "object": {"a": None},
    "large": 2**80,
    "time": "2026-11-15T12:00:00.000000Z",
    "desk": "a name that a store may need for itself",
    "scope": "too",
    "sender_hash": "too",
    "extra": {"as": "well"},
    "mark": "too",
    "id": 7,
    "name": "n",
    "Ä name with ` and spaces": 1,
    "a.b": 2,
}


def configure(store: Store, changes: Mapping[str, Json], scope: str = SCOPE) -> Mapping[str, Json]:
    return settings_of(store).change(scope, changes, MAKER)


def exact(value: Json) -> object:
    """Distinguishes 1, 1.0 and true, which are equal in Python."""
    if isinstance(value, dict):
        return {name: exact(inner) for name, inner in value.items()}
    return [exact(inner) for inner in value] if isinstance(value, list | tuple) else (type(value), value)


NAMES = st.text(st.characters(blacklist_categories=("Cs", "Cc", "Zl", "Zp", "Zs")), min_size=1, max_size=20)
VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner | st.none(), max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
).filter(lambda value: "\\u0000" not in repr(value) and "\\x00" not in repr(value) and "\\ud" not in repr(value))


@needs("settings")
class SettingsTests(Suite):
    """Settings are kept with the store and changed atomically; events name them without their values."""

    def test_a_scope_has_no_settings_at_first(self, store: Store) -> None:
        assert settings_of(store).read(SCOPE) == {}

    def test_settings_are_visible_to_others_and_after_reopening(
        self, store: Store, beside: Store, reopen: Callable[[], Store]
    ) -> None:
        assert configure(store, {"interval": 60, "on": True}) == {"interval": 60, "on": True}
        assert settings_of(beside).read(SCOPE) == {"interval": 60, "on": True}
        assert settings_of(reopen()).read(SCOPE) == {"interval": 60, "on": True}

    def test_setting_change_keeps_the_others_and_none_removes(self, store: Store) -> None:
        configure(store, {"a": 1, "b": 2, "c": 3})
        assert configure(store, {"b": "two", "c": None, "never there": None}) == {"a": 1, "b": "two"}
        assert settings_of(store).read(SCOPE) == {"a": 1, "b": "two"}

    def test_scopes_have_their_own(self, store: Store) -> None:
        configure(store, {"a": 1})
        configure(store, {"a": 2, "b": 2}, scope="elsewhere")
        assert settings_of(store).read(SCOPE) == {"a": 1}
        assert settings_of(store).read("elsewhere") == {"a": 2, "b": 2}
        assert settings_of(store).read("nowhere") == {}

    def test_a_scope_with_settings_alone_has_no_tasks(self, store: Store) -> None:
        configure(store, {"a": 1})
        assert store.scopes() == []
        add(store, "t")
        assert store.scopes() == [SCOPE]

    def test_setting_values_round_trip_with_any_name(self, store: Store, reopen: Callable[[], Store]) -> None:
        assert exact(dict(configure(store, ODD))) == exact(ODD)
        assert exact(dict(settings_of(reopen()).read(SCOPE))) == exact(ODD)

    @pytest.mark.parametrize(("before", "after"), [(1, 1.0), (1, True), (0, False), ([], ""), (["1"], [1]), ("1", 1)])
    def test_values_that_python_calls_equal_stay_distinct(self, store: Store, before: Json, after: Json) -> None:
        for value in (before, after, before):
            assert exact(dict(configure(store, {"a": value}))) == exact({"a": value})
            assert exact(dict(settings_of(store).read(SCOPE))) == exact({"a": value})

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(changes=st.lists(st.dictionaries(NAMES, VALUES | st.none(), max_size=4), max_size=3))
    def test_any_changes_add_up(self, store: Store, changes: list[dict[str, Json]]) -> None:
        known: dict[str, Json] = {}
        configure(store, dict.fromkeys(settings_of(store).read(SCOPE)))
        for change in changes:
            known = {name: value for name, value in {**known, **change}.items() if value is not None}
            assert exact(dict(configure(store, change))) == exact(known)
        assert exact(dict(settings_of(store).read(SCOPE))) == exact(known)

    def test_event_names_changed_settings_without_values(self, store: Store) -> None:
        settings_of(store).change(SCOPE, {"key": "hush-hush", "kept": 1, "gone": 2}, MAKER)
        settings_of(store).change(SCOPE, {"key": "hush-again", "kept": 1, "gone": None}, Actor("ann", "run-9"))
        first, second = events(store)
        assert (first.verb, first.task, first.scope, first.at) == ("configure", "", SCOPE, store.now())
        assert first.detail == {"set": ["gone", "kept", "key"]}
        assert second.detail == {"set": ["key"], "removed": ["gone"]}
        assert (second.agent, second.run) == ("ann", "run-9")
        assert "hush" not in repr(events(store))

    def test_changes_that_change_nothing_leave_no_trace(self, store: Store) -> None:
        configure(store, {"a": {"x": 1, "y": [2]}})
        with no_trace(store):
            assert configure(store, {"a": {"y": [2], "x": 1}, "b": None}) == {"a": {"x": 1, "y": [2]}}
            configure(store, {})

    def test_settings_are_part_of_a_dump_after_the_links_and_before_the_events(self, store: Store) -> None:
        add(store, "t")
        configure(store, {"b": [1], "a": 1})
        configure(store, {"a": 2}, scope="elsewhere")
        records = dump(store)
        assert [type(record.item).__name__ for record in records] == ["Task", *["Setting"] * 3, *["Event"] * 3]
        assert [record for record in records if isinstance(record.item, Setting)] == [
            Record("elsewhere", Setting("a", 2)),
            Record(SCOPE, Setting("a", 1)),
            Record(SCOPE, Setting("b", [1])),
        ]

    def test_a_restored_store_has_the_same_settings(self, store: Store, another: Store) -> None:
        configure(store, ODD)
        configure(store, {"a": 2}, scope="elsewhere")
        restore(another, dump(store))
        assert exact(dict(settings_of(another).read(SCOPE))) == exact(ODD)
        assert settings_of(another).read("elsewhere") == {"a": 2}

    def test_settings_that_are_there_already_are_refused_and_nothing_is_taken(self, store: Store) -> None:
        configure(store, {"a": 1, "b": 2})
        with no_trace(store), pytest.raises(AlreadyExists) as refused:
            restore(
                store, [Record("new", Setting("a", 1)), Record(SCOPE, Setting("c", 3)), Record(SCOPE, Setting("b", 2))]
            )
        assert "'b'" in refused.value.message

    def test_an_import_adds_to_the_settings_of_a_scope(self, store: Store) -> None:
        configure(store, {"a": 1})
        restore(store, [Record(SCOPE, Setting("b", 2))])
        assert settings_of(store).read(SCOPE) == {"a": 1, "b": 2}

    def test_concurrent_setting_changes_are_all_kept(self, store: Store, harness: Harness[Store]) -> None:
        failed: list[BaseException] = []

        def work(name: str) -> None:
            try:
                with harness.join(store) as mine:
                    for number in range(6):
                        configure(mine, {name: number, f"{name}{number}": True, "shared": [name, number]})
            except BaseException as error:  # noqa: BLE001 - the main thread raises it
                failed.append(error)

        threads = [threading.Thread(target=work, args=(name,)) for name in "xyz"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        kept = dict(settings_of(store).read(SCOPE))
        assert kept.pop("shared") in [[name, 5] for name in "xyz"]
        assert kept == dict.fromkeys("xyz", 5) | {f"{name}{number}": True for name in "xyz" for number in range(6)}
        told = [event.detail["set"] for event in events(store)]
        assert sorted(map(str, told)) == sorted(str(sorted([n, f"{n}{k}", "shared"])) for n in "xyz" for k in range(6))


EAST, NORTH, WEST = (1.0, 0.0, 0.0), (0.0, 2.0, 0.0), (-3.0, 0.0, 0.0)


def keep(store: Store, vectors: Mapping[str, Sequence[float] | None], scope: str = SCOPE) -> None:
    vectors_of(store).keep(scope, {task: None if vector is None else unit(vector) for task, vector in vectors.items()})


def similar(
    store: Store,
    vector: Sequence[float],
    *,
    limit: int = 100,
    least: float = -1.0,
    finished: bool = False,
    scope: str = SCOPE,
) -> Neighbours:
    return vectors_of(store).similar(scope, unit(vector), "", limit, least, finished=finished)


def near(store: Store, vector: Sequence[float] = EAST, **more: object) -> list[tuple[str, float | None]]:
    found = similar(store, vector, **more)  # type: ignore[arg-type]  # the options of `similar`
    assert found.by == "vector"
    return [(neighbour.task.id, neighbour.score) for neighbour in found.found]


def ids(store: Store, vector: Sequence[float] = EAST, **more: object) -> list[str]:
    return [task for task, _ in near(store, vector, **more)]


def cosine(one: Sequence[float], other: Sequence[float]) -> float:
    return math.fsum(a * b for a, b in zip(one, other, strict=True)) / (math.hypot(*one) * math.hypot(*other))


@needs("vectors")
class VectorsTests(Suite):
    """Similar tasks are found by the cosine of their vectors, within one scope."""

    def test_nothing_is_like_anything_where_no_vector_is_kept(self, store: Store) -> None:
        assert similar(store, EAST) == Neighbours((), "vector")
        add(store, "a")
        assert similar(store, EAST) == Neighbours((), "vector")

    def test_similarity_is_the_cosine_for_any_vector_length(self, store: Store) -> None:
        add(store, "east", "north", "west", "between")
        keep(store, {"west": WEST, "north": NORTH, "between": (5.0, 5.0, 0.0), "east": EAST})
        assert near(store, (7.0, 0.0, 0.0)) == [
            ("east", 1.0),
            ("between", pytest.approx(math.sqrt(0.5), abs=1e-5)),
            ("north", pytest.approx(0.0, abs=1e-5)),
            ("west", -1.0),
        ]

    def test_found_task_is_current(self, store: Store) -> None:
        add(store, "a", "b", links=[blocks("b", "a")], extra={"k": [1]}, description="text")
        hold(store, "a")
        keep(store, {"a": EAST, "b": NORTH})
        assert [one.task for one in similar(store, EAST).found] == [get(store, "a"), get(store, "b")]

    def test_the_neighbours_are_those_of_a_plain_comparison_of_all(self, store: Store) -> None:
        dice = random.Random(7)
        vectors = {f"t{number:02}": [dice.gauss(0, 1) for _ in range(12)] for number in range(40)}
        add(store, *vectors)
        keep(store, vectors)
        for _ in range(5):
            asked = [dice.gauss(0, 1) for _ in range(12)]
            scores = {task: cosine(asked, vector) for task, vector in vectors.items()}
            expected = sorted(scores, key=lambda task: -scores[task])
            assert ids(store, asked) == expected
            assert ids(store, asked, limit=7) == expected[:7]
            assert dict(near(store, asked)) == {task: pytest.approx(score, abs=1e-5) for task, score in scores.items()}

    def test_equally_similar_tasks_are_sorted_by_id(self, store: Store) -> None:
        names = ["m", "a", "z", "ä", "B", "10", "9"]
        add(store, *names, "first")
        keep(store, dict.fromkeys(names, (1.0, 1.0, 0.5)) | {"first": EAST})
        assert ids(store) == ["first", *sorted(names)]
        assert ids(store, limit=3) == ["first", *sorted(names)[:2]]

    def test_only_those_at_least_so_close_are_found_the_bound_included(self, store: Store) -> None:
        add(store, "a", "b", "c")
        keep(store, {"a": EAST, "b": (3.0, 4.0, 0.0), "c": WEST})
        assert near(store, least=0.6) == [("a", 1.0), ("b", 0.6)]
        assert ids(store, least=0.61) == ["a"]
        assert ids(store, least=1.0) == ["a"]
        assert ids(store, (0.0, 0.0, 1.0), least=0.1) == []
        assert ids(store, least=-1.0) == ["a", "b", "c"]

    def test_finished_tasks_are_found_only_on_request(self, store: Store) -> None:
        for status in Status:
            bring(store, status.value, status)
            keep(store, {status.value: EAST})
        assert ids(store) == sorted(status.value for status in UNFINISHED)
        assert ids(store, finished=True) == sorted(status.value for status in Status)

    def test_finished_tasks_do_not_use_up_the_limit(self, store: Store) -> None:
        add(store, "open", *(f"d{number}" for number in range(5)))
        keep(store, {"open": NORTH} | {f"d{number}": EAST for number in range(5)})
        finish(store, *(f"d{number}" for number in range(5)))
        assert ids(store, limit=1) == ["open"]

    def test_tasks_of_other_scopes_are_never_found(self, store: Store) -> None:
        add(store, "a", "b")
        add(store, "a", "z", scope="elsewhere")
        keep(store, {"a": WEST, "b": NORTH})
        keep(store, {"a": EAST, "z": EAST}, scope="elsewhere")
        assert ids(store) == ["b", "a"]
        assert near(store, scope="elsewhere") == [("a", 1.0), ("z", 1.0)]
        assert ids(store, scope="nowhere") == []
        assert {one.task.scope for one in similar(store, EAST).found} == {SCOPE}

    def test_tasks_without_a_vector_are_not_found(self, store: Store) -> None:
        add(store, "a", "b")
        keep(store, {"b": WEST})
        assert ids(store) == ["b"]

    def test_vectors_of_a_scope_are_returned_as_stored(self, store: Store) -> None:
        add(store, "a", "b", "c", "d")
        add(store, "a", scope="elsewhere")
        assert vectors_of(store).kept(SCOPE, finished=True) == {}
        keep(store, {"a": (3.0, 4.0, 0.1), "b": NORTH, "d": WEST})
        keep(store, {"a": EAST}, scope="elsewhere")
        finish(store, "d")
        kept = {"a": unit((3.0, 4.0, 0.1)), "b": unit(NORTH)}
        assert vectors_of(store).kept(SCOPE, finished=False) == kept
        assert vectors_of(store).kept(SCOPE, finished=True) == kept | {"d": unit(WEST)}

    def test_a_new_vector_takes_the_place_of_the_old_one_and_none_leaves_none(self, store: Store) -> None:
        add(store, "a", "b")
        keep(store, {"a": EAST, "b": NORTH})
        keep(store, {"a": WEST})
        assert near(store) == [("b", 0.0), ("a", -1.0)]
        keep(store, {"b": None})
        keep(store, {"b": None})
        assert near(store) == [("a", -1.0)]
        keep(store, {})

    def test_vectors_are_kept_for_all_or_for_none(self, store: Store) -> None:
        add(store, "a", "b")
        keep(store, {"b": NORTH})
        with pytest.raises(NotFound) as missing:
            keep(store, {"a": EAST, "b": None, "ghost": EAST})
        assert "ghost" in missing.value.message
        with pytest.raises(NotFound):
            keep(store, {"ghost": None})
        with pytest.raises(NotFound):
            keep(store, {"a": EAST}, scope="elsewhere")
        with pytest.raises(InvalidInput):
            keep(store, {"a": EAST, "b": (1.0,)})
        assert near(store, NORTH) == [("b", 1.0)]

    def test_all_vectors_of_a_store_have_one_length(self, store: Store) -> None:
        add(store, "a", "b")
        add(store, "z", scope="elsewhere")
        keep(store, {"a": EAST})
        for wrong in ([1.0, 2.0], [1.0] * 384):
            for refused in (
                lambda wrong=wrong: keep(store, {"b": wrong}),
                lambda wrong=wrong: keep(store, {"a": wrong}),
                lambda wrong=wrong: keep(store, {"z": wrong}, scope="elsewhere"),
                lambda wrong=wrong: similar(store, wrong),
            ):
                with pytest.raises(InvalidInput) as error:
                    refused()
                assert f"{len(wrong)} numbers" in error.value.message
                assert "have 3" in error.value.message
        assert near(store) == [("a", 1.0)]

    def test_first_vectors_of_two_lengths_are_refused(self, store: Store) -> None:
        add(store, "a", "b")
        with pytest.raises(InvalidInput):
            keep(store, {"a": (1.0, 2.0), "b": (1.0,)})
        assert ids(store, (1.0,)) == []

    def test_new_vector_length_needs_all_old_vectors_removed(self, store: Store) -> None:
        add(store, "a", "b")
        keep(store, {"a": EAST, "b": EAST})
        keep(store, {"a": None})
        with pytest.raises(InvalidInput):
            keep(store, {"a": (1.0, 0.0)})
        keep(store, {"b": None})
        keep(store, {"a": (1.0, 0.0)})
        assert near(store, (0.0, 1.0)) == [("a", 0.0)]
        with pytest.raises(InvalidInput):
            similar(store, EAST)
        keep(store, {"b": (1.0,), "a": None})
        assert ids(store, (1.0,)) == ["b"]

    def test_a_vector_is_no_change_of_the_task_and_writes_no_event(self, store: Store, clock: Clock) -> None:
        add(store, "a")
        clock.advance(minutes=1)
        with no_trace(store):
            keep(store, {"a": EAST})
            similar(store, EAST)
            keep(store, {"a": None})

    def test_vector_stays_with_its_task_through_all_moves(self, store: Store, reopen: Callable[[], Store]) -> None:
        add(store, "a")
        keep(store, {"a": EAST})
        token = hold(store, "a")
        assert ids(store) == ["a"]
        amend(store, "a", Edit(title="Another"))
        move(store, Verb.FAIL, "a", token, reason="oops")
        assert near(reopen()) == [("a", 1.0)]

    def test_a_task_that_is_gone_took_its_vector_along(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b")
        keep(store, {"a": EAST, "b": NORTH})
        finish(store, "a")
        clock.advance(hours=1)
        store.prune(events_before=None, tasks_before=store.now(), progress=quiet)
        add(store, "a")
        assert ids(store, finished=True) == ["b"]
        keep(store, {"b": None})
        keep(store, {"a": (1.0,)})
        assert ids(store, (1.0,)) == ["a"]

    def test_vectors_do_not_ride_along_with_an_export(self, store: Store, another: Store) -> None:
        add(store, "a")
        keep(store, {"a": EAST})
        restore(another, store.dump())
        assert ids(another) == []
        keep(another, {"a": (1.0,)})

    def test_concurrent_first_vectors_agree_on_a_length(self, store: Store, harness: Harness[Store]) -> None:
        add(store, "a", "b", "c")
        outcomes: list[object] = []
        start = threading.Barrier(3)

        def work(task: str, length: int) -> None:
            with harness.join(store) as mine:
                start.wait()
                try:
                    keep(mine, {task: [1.0] * length})
                    outcomes.append(length)
                except InvalidInput as error:
                    outcomes.append(error.code)

        threads = [
            threading.Thread(target=work, args=(task, length)) for task, length in (("a", 2), ("b", 3), ("c", 4))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (length,) = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert len(outcomes) == 3
        assert len(ids(store, [1.0] * length)) == 1
