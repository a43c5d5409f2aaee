"""The suite itself: all its tests are in one class, and which of them a store is spared."""

from __future__ import annotations

from collections import Counter

from dibs.testing import StoreConformance
from dibs.testing.conformance.suite import needed


class WithoutFleet(StoreConformance):
    lacks = frozenset({"fleet"})


def names_in(suite: type) -> set[str]:
    return {name for name in dir(suite) if name.startswith("test_") and getattr(suite, name) is not None}


def test_no_test_hides_another_of_its_name() -> None:
    names = Counter(name for subject in StoreConformance.__mro__ for name in vars(subject) if name.startswith("test_"))
    assert [name for name, times in names.items() if times > 1] == []


def test_suite_omits_tests_of_missing_features() -> None:
    left_out = names_in(StoreConformance) - names_in(WithoutFleet)
    assert left_out == {
        name for name in names_in(StoreConformance) if "fleet" in needed(getattr(StoreConformance, name))
    }
    assert "test_a_new_store_has_no_members" in left_out
