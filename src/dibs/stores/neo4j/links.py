"""Links between tasks, and why they never form a cycle.

Whoever adds one holds the lock of the scope, so looking for a way back and then adding the link cannot be overtaken by
another writer, whichever tasks are at its ends. The server looks from both ends at once.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

from dibs.core.errors import CycleDetected, NotFound
from dibs.core.events import Event
from dibs.core.graph import find_cycle
from dibs.core.task import STRENGTH, Link, LinkKind
from dibs.stores.neo4j import tasks
from dibs.stores.neo4j.rows import link_from, link_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.core.task import Actor
    from dibs.stores.neo4j.transaction import Transaction

# Up to so many new edges are walked one by one; more, and reading the whole graph once is cheaper.
_WALKED_EDGES = 8


def link(tx: Transaction, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    """Add links, the stronger of two between the same tasks; those that changed anything are returned.

    A link to nowhere is refused as if they came one by one: after a cycle that an earlier one would close.
    """
    if not asked:
        return []
    missing = tasks.missing(tx, scope, [end for each in asked for end in (each.task, each.on)])
    sound = list(takewhile(lambda each: not missing.intersection((each.task, each.on)), asked))
    known = {pair: each.kind for pair, each in _between(tx, scope, sound).items()}
    changed = []
    for each in sound:
        pair = each.task, each.on
        if pair not in known or STRENGTH[known[pair]] < STRENGTH[each.kind]:
            known[pair] = each.kind
            changed.append(each)
    put(tx, scope, changed, by)
    refuse_cycles(tx, scope, [(each.task, each.on) for each in changed if each.kind is not LinkKind.PARALLEL_OK])
    if len(sound) < len(asked):
        first = asked[len(sound)]
        raise tasks.not_found(scope, first.task if first.task in missing else first.on)
    return changed


def put(tx: Transaction, scope: str, new: Sequence[Link], by: Actor) -> None:
    """Write links, whatever was there before, and keep the counts of blockers true. Cycles are the caller's care."""
    if not new:
        return
    tx.all("put_links", scope=scope, now=tx.now, links=[link_values(each) for each in new])
    _recount(tx, scope, new)
    for each in new:
        detail = {"on": each.on, "kind": str(each.kind), "detected_by": each.detected_by}
        tx.record(Event(tx.now, scope, each.task, "link", agent=by.agent, run=by.run, detail=detail))


def unlink(tx: Transaction, scope: str, asked: Sequence[Link], by: Actor) -> list[Link]:
    tasks.require(tx, scope, [end for each in asked for end in (each.task, each.on)])
    known = _between(tx, scope, asked)
    dropped = []
    for each in asked:
        there = known.pop((each.task, each.on), None)
        if there is None or there.kind is not each.kind:
            raise NotFound(
                f"There is no '{each.kind}' link from {each.task} to {each.on}; 'dibs show' lists its links."
            )
        dropped.append(there)
        detail = {"on": each.on, "kind": str(there.kind)}
        tx.record(Event(tx.now, scope, each.task, "unlink", agent=by.agent, run=by.run, detail=detail))
    tx.all("drop_links", scope=scope, pairs=_pairs(dropped))
    _recount(tx, scope, dropped)
    return dropped


def _recount(tx: Transaction, scope: str, changed: Iterable[Link]) -> None:
    tx.all("recount", scope=scope, ids=sorted({each.task for each in changed}))


def _between(tx: Transaction, scope: str, asked: Iterable[Link]) -> dict[tuple[str, str], Link]:
    found = [link_from(row) for row in tx.all("links_between", scope=scope, pairs=_pairs(asked))]
    return {(each.task, each.on): each for each in found}


def _pairs(links: Iterable[Link]) -> list[list[str]]:
    return [[each.task, each.on] for each in links]


def refuse_cycles(tx: Transaction, scope: str, edges: Sequence[tuple[str, str]]) -> None:
    """Raise CycleDetected, naming the way round, if one of these edges, which are there by now, closes a ring."""
    if len(edges) > _WALKED_EDGES:
        refuse_any_cycle(tx, scope)
        return
    for after, before in edges:
        if after == before:
            raise CycleDetected([after, after])
        row = tx.one("way_back", scope=scope, start=before, goal=after)
        if row is not None:
            raise CycleDetected([after, *row["ids"]])


def refuse_any_cycle(tx: Transaction, scope: str) -> None:
    """The same for a whole scope at once: cheaper than a walk per link when a plan brings thousands."""
    before: dict[str, list[str]] = {}
    for row in tx.all("edges_in_scope", scope=scope):
        before.setdefault(row["task"], []).append(row["on"])
        before.setdefault(row["on"], [])
    cycle = find_cycle(before)
    if cycle is not None:
        raise CycleDetected(cycle)
