"""Races of writes of vectors and settings: all vectors have one length, and no change is lost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dibs.core.task import Draft
from dibs.desk import Desk
from interleave import acts

if TYPE_CHECKING:
    from interleave.conftest import StageMaker


REFUSED = "INVALID_INPUT"


def in_two_scopes(desk: Desk) -> None:
    desk.add([Draft("A", "a")])
    Desk(desk._store, scope="elsewhere").add([Draft("B", "b")])


def a_has_one(desk: Desk) -> None:
    in_two_scopes(desk)
    acts.keep(desk, "a", 2)


def some_settings(desk: Desk) -> None:
    desk.configure({"x": 0, "w": 0})


CHANGES = (partial(acts.configure, x=1, y=1, w=None), partial(acts.configure, x=2, z=2, w=None))
keep_a = partial(acts.keep, task="a", length=2)
keep_b = partial(acts.keep, task="b", length=3, scope="elsewhere")


def test_first_vectors_of_two_lengths_keep_one_length(stage: StageMaker) -> None:
    first, second = stage(in_two_scopes).always_serial(keep_a, keep_b)
    assert (first.first.code, first.second.code) == (None, REFUSED)
    assert (second.first.code, second.second.code) == (REFUSED, None)


def test_new_vector_length_needs_all_old_vectors_removed(stage: StageMaker) -> None:
    first, second = stage(a_has_one).always_serial(partial(acts.keep, task="a", length=0), keep_b)
    assert (first.first.code, first.second.code) == (None, None)
    assert (second.first.code, second.second.code) == (None, REFUSED)


def test_concurrent_settings_match_a_serial_order(stage: StageMaker) -> None:
    first, second = stage(some_settings).always_serial(*CHANGES)
    assert first.second.value == {"x": 2, "y": 1, "z": 2}
    assert second.first.value == {"x": 1, "y": 1, "z": 2}
