"""The graph's algorithms against the simplest ones that could be right."""

from __future__ import annotations

from itertools import pairwise, permutations
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from dibs.core.graph import (
    Graph,
    critical_path,
    find_cycle,
    layers,
    path_between,
    reversed_edges,
)
from dibs.core.task import Link, LinkKind

from .samples import make_task

Before: TypeAlias = "dict[str, set[str]]"

NAMES = "abcdefgh"
LONG = 50_000


def _dag(size: int, bits: list[bool]) -> Before:
    """Edges only from later to earlier names: never a cycle."""
    pairs = [(one, other) for at, one in enumerate(NAMES[:size]) for other in NAMES[:at]]
    before: Before = {name: set() for name in NAMES[:size]}
    for (one, other), there in zip(pairs, bits, strict=False):
        if there:
            before[one].add(other)
    return before


DAGS = st.builds(_dag, st.integers(0, 6), st.lists(st.booleans(), min_size=15, max_size=15))
# Names that are not keys are unknown prerequisites.
DIGRAPHS = st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), max_size=3), max_size=7)
CHAIN: dict[str, list[str]] = {str(n): [str(n - 1)] if n else [] for n in range(LONG)}


def reachable(before: Before, start: str) -> set[str]:
    """All tasks reachable in one step or more, by brute force."""
    found: set[str] = set()
    while True:
        more = set().union(*(before.get(node, set()) for node in found | {start})) | found
        if more == found:
            return found
        found = more


def chains(before: Before) -> list[tuple[str, ...]]:
    """Every path, by trying every sequence of distinct tasks."""
    return [
        tried
        for length in range(1, len(before) + 1)
        for tried in permutations(before, length)
        if all(first in before[then] for first, then in pairwise(tried))
    ]


def is_cyclic(before: Before) -> bool:
    return any(node in reachable(before, node) for node in before)


# Layers


@given(DAGS)
def test_layers_hold_every_task_once_each_as_early_as_can_be(before: Before) -> None:
    found = layers(before)
    at = {node: number for number, layer in enumerate(found) for node in layer}
    assert sorted(node for layer in found for node in layer) == sorted(before)
    for node, nodes in before.items():
        assert at[node] == max((at[p] + 1 for p in nodes), default=0)


@given(DIGRAPHS)
def test_layers_omit_cycles_and_their_dependents(before: Before) -> None:
    on_cycle = {node for node in before if node in reachable(before, node)}
    stuck = {node for node in before if node in on_cycle or reachable(before, node) & on_cycle}
    assert {node for layer in layers(before) for node in layer} == set(before) - stuck


@given(DIGRAPHS)
def test_layers_are_sorted_and_none_is_empty(before: Before) -> None:
    for layer in layers(before):
        assert layer
        assert layer == sorted(layer)


def test_a_prerequisite_named_twice_or_unknown_holds_nothing_up() -> None:
    assert layers({"a": ["x"], "b": ["a", "a", "y"]}) == [["a"], ["b"]]


# Cycles


@given(DIGRAPHS)
def test_a_cycle_is_found_if_and_only_if_there_is_one(before: Before) -> None:
    cycle = find_cycle(before)
    assert (cycle is not None) == is_cyclic(before)
    if cycle is not None:
        assert cycle[0] == cycle[-1]
        assert len(set(cycle[1:])) == len(cycle) - 1 >= 1
        assert all(then in before[first] for first, then in pairwise(cycle))


def test_a_task_that_waits_for_itself_is_a_cycle() -> None:
    assert find_cycle({"a": ["a"]}) == ["a", "a"]


def test_a_cycle_reads_as_each_waiting_for_the_next() -> None:
    assert find_cycle({"x": ["a"], "a": ["b"], "b": ["c"], "c": ["a"], "y": []}) == ["a", "b", "c", "a"]


# The longest chain


@given(DAGS)
def test_the_critical_path_is_a_longest_path(before: Before) -> None:
    found = critical_path(before)
    assert all(first in before[then] for first, then in pairwise(found))
    assert len(found) == max(map(len, chains(before)), default=0)


@given(DAGS, st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_the_critical_path_takes_longest_by_cost(before: Before, costs: list[int]) -> None:
    cost = dict(zip(before, map(float, costs), strict=False))
    found = critical_path(before, cost)
    assert all(first in before[then] for first, then in pairwise(found))
    longest = max((sum(cost[node] for node in chain) for chain in chains(before)), default=0)
    assert sum(cost[node] for node in found) == longest


@given(DIGRAPHS)
def test_the_critical_path_knows_its_way_around_cycles(before: Before) -> None:
    found = critical_path(before)
    free = {node for layer in layers(before) for node in layer}
    assert set(found) <= free
    assert bool(found) == bool(free)


def test_ties_go_to_the_smaller_id() -> None:
    assert critical_path({"b": [], "a": [], "aa": []}) == ["a"]
    assert critical_path({"z": ["b", "a"], "y": ["b", "a"], "b": [], "a": []}) == ["a", "y"]


def test_a_task_without_a_cost_costs_one() -> None:
    assert critical_path({"a": [], "b": [], "c": ["b"]}, {"a": 1.5}) == ["b", "c"]


# Ways


@given(DIGRAPHS, st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_shortest_path_is_found(before: Before, start: str, goal: str) -> None:
    found = path_between(before, start, goal)
    if start == goal:
        assert found == [start]
        return
    assert (found is not None) == (goal in reachable(before, start))
    if found is not None:
        assert (found[0], found[-1]) == (start, goal)
        assert all(then in before[first] for first, then in pairwise(found))
        assert len(found) - 1 == _distance(before, start, goal)


def _distance(before: Before, start: str, goal: str) -> int:
    front, steps = {start}, 0
    while goal not in front:
        front, steps = set().union(*(before.get(node, set()) for node in front)), steps + 1
    return steps


@given(DIGRAPHS)
def test_reversing_turns_every_edge_and_adds_none(before: Before) -> None:
    after = reversed_edges(before)
    edges = {(first, then) for then, nodes in before.items() for first in nodes}
    assert {(first, then) for first, nodes in after.items() for then in nodes} == edges
    assert set(before) <= set(after)


# Long chains


def test_a_long_chain_is_no_deeper_than_the_stack() -> None:
    first, last = "0", str(LONG - 1)
    assert len(layers(CHAIN)) == LONG
    assert find_cycle(CHAIN) is None
    assert len(critical_path(CHAIN)) == LONG
    assert len(path_between(CHAIN, last, first) or ()) == LONG


def test_a_long_cycle_is_found() -> None:
    cycle = find_cycle({**CHAIN, "0": [str(LONG - 1)]})
    assert cycle is not None
    assert len(cycle) == LONG + 1


# The graph of tasks


def test_blocks_and_feeds_order_and_parallel_does_not() -> None:
    tasks = tuple(map(make_task, "abcd"))
    kinds = (LinkKind.BLOCKS, LinkKind.FEEDS_INTO, LinkKind.PARALLEL_OK)
    links = tuple(Link("d", on, kind) for on, kind in zip("abc", kinds, strict=True))
    assert Graph(tasks, links).prerequisites() == {"a": set(), "b": set(), "c": set(), "d": {"a", "b"}}


def test_a_parent_comes_after_its_children() -> None:
    tasks = (make_task("p"), make_task("x", parent="p"), make_task("y", parent="p"))
    assert Graph(tasks, ()).prerequisites() == {"p": {"x", "y"}, "x": set(), "y": set()}


def test_unknown_nodes_are_ignored() -> None:
    tasks = (make_task("a", parent="gone"),)
    assert Graph(tasks, (Link("a", "gone"), Link("gone", "a"))).prerequisites() == {"a": set()}
