"""Settings of a scope."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dibs.core.errors import AlreadyExists
from dibs.core.settings import Setting
from dibs.core.task import Actor
from dibs.stores.reports import Record

from .builders import MAKER, SCOPE, add, dump, events, no_trace, restore, settings_of
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.core.task import Json
    from dibs.stores.port import Store

    from .harness import Harness


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
    """1, 1.0 and true apart, which Python calls equal."""
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
    """Settings of a scope: kept with the store, changed together or not at all, told of by name only."""

    def test_a_scope_has_no_settings_at_first(self, store: Store) -> None:
        assert settings_of(store).read(SCOPE) == {}

    def test_what_was_set_is_there_also_for_others_and_later(
        self, store: Store, beside: Store, reopen: Callable[[], Store]
    ) -> None:
        assert configure(store, {"interval": 60, "on": True}) == {"interval": 60, "on": True}
        assert settings_of(beside).read(SCOPE) == {"interval": 60, "on": True}
        assert settings_of(reopen()).read(SCOPE) == {"interval": 60, "on": True}

    def test_a_change_leaves_the_others_as_they_are_and_none_removes(self, store: Store) -> None:
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

    def test_values_come_back_exactly_whatever_they_are_called(self, store: Store, reopen: Callable[[], Store]) -> None:
        assert exact(dict(configure(store, ODD))) == exact(ODD)
        assert exact(dict(settings_of(reopen()).read(SCOPE))) == exact(ODD)

    @pytest.mark.parametrize(("before", "after"), [(1, 1.0), (1, True), (0, False), ([], ""), (["1"], [1]), ("1", 1)])
    def test_values_that_are_alike_to_python_are_told_apart(self, store: Store, before: Json, after: Json) -> None:
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

    def test_the_event_names_what_was_changed_and_tells_no_value(self, store: Store) -> None:
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

    def test_those_who_change_settings_at_once_lose_nothing(self, store: Store, harness: Harness[Store]) -> None:
        failed: list[BaseException] = []

        def work(name: str) -> None:
            try:
                with harness.join(store) as mine:
                    for number in range(6):
                        configure(mine, {name: number, f"{name}{number}": True, "shared": [name, number]})
            except BaseException as error:  # noqa: BLE001 - told to the main thread
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
