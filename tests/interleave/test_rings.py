"""Races of links that would close a cycle, from any number of sides.

In each link the first task depends on the second.
"""

from __future__ import annotations

from functools import partial
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import LinkKind
from interleave import acts

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.conftest import StageMaker
    from interleave.stepper import Act


def edge(kind: str, after: str, before: str) -> Act:
    match kind:
        case "blocks":
            return partial(acts.link, task=after, on=before)
        case "feeds":
            return partial(acts.link, task=after, on=before, kind=LinkKind.FEEDS_INTO)
        case "parent":
            return partial(acts.put_under, child=before, parent=after)
        case _:
            return partial(acts.plan, text=f'{{"id": "{after}", "title": "{after}", "deps": ["{before}"]}}')


RINGS = [
    ("blocks", "blocks", "blocks"),
    ("feeds", "blocks", "parent"),
    ("parent", "parent", "parent"),
    ("plan", "feeds", "blocks"),
    ("blocks", "blocks", "blocks", "blocks"),
    ("parent", "blocks", "feeds", "plan"),
    ("feeds", "parent", "feeds", "parent"),
]


def two_tasks(desk: Desk) -> None:
    acts.add(desk, "a", "b")


@pytest.mark.parametrize(
    ("one", "other"), list(combinations_with_replacement(["blocks", "feeds", "parent", "plan"], 2))
)
def test_later_of_two_links_that_close_a_cycle_is_refused(stage: StageMaker, one: str, other: str) -> None:
    first, second = stage(two_tasks).always_serial(edge(one, "a", "b"), edge(other, "b", "a"))
    assert (first.first.code, first.second.code) == (None, "CYCLE")
    assert (second.first.code, second.second.code) == ("CYCLE", None)


def half_a_ring(desk: Desk) -> None:
    acts.add(desk, "a", "b", "c", "d", links=(("b", "a"), ("d", "c")))


@pytest.mark.parametrize(
    ("one", "other"), [("blocks", "blocks"), ("blocks", "parent"), ("plan", "blocks"), ("parent", "feeds")]
)
def test_disjoint_links_cannot_close_a_cycle(stage: StageMaker, one: str, other: str) -> None:
    """b depends on a and d on c. Now link c to b and a to d."""
    first, second = stage(half_a_ring).always_serial(edge(one, "c", "b"), edge(other, "a", "d"))
    assert (first.first.code, first.second.code) == (None, "CYCLE")
    assert (second.first.code, second.second.code) == ("CYCLE", None)


@pytest.mark.parametrize("kinds", RINGS, ids="-".join)
def test_longer_cycle_is_refused_in_every_order(stage: StageMaker, kinds: tuple[str, ...]) -> None:
    names = "abcd"[: len(kinds)]
    scene = stage(lambda desk: acts.add(desk, *names))
    edges = [edge(kind, names[at], names[(at + 1) % len(names)]) for at, kind in enumerate(kinds)]
    for at in range(1, len(scene.places(edges[0])) + 1):
        codes = [answer.code for answer in scene.crowd(at, *edges)]
        assert sorted(codes, key=str) == ["CYCLE", *[None] * (len(edges) - 1)], at
        with scene.left() as desk:
            assert desk.check() == [], at


def test_cycle_through_uncommitted_tasks_is_refused(stage: StageMaker) -> None:
    """One transaction adds b → new → a while another adds a → b."""
    text = '{"id": "new", "title": "new", "deps": ["a"]}\n{"id": "b", "title": "b", "deps": ["new"]}'
    first, second = stage(two_tasks).always_serial(partial(acts.plan, text=text), partial(acts.link, task="a", on="b"))
    assert (first.first.code, first.second.code) == (None, "CYCLE")
    assert (second.first.code, second.second.code) == ("CYCLE", None)
