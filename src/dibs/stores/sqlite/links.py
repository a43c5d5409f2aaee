"""Links between tasks, and why they never form a cycle.

Every write transaction is alone from its first statement on (BEGIN IMMEDIATE), so looking for a way back and then
adding the link cannot be overtaken by another writer. The walk goes from both ends in step, a layer at a time, always
on the side with fewer tasks: it ends when the smaller side is exhausted, whichever that is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import CycleDetected, NotFound
from dibs.core.events import Event
from dibs.core.task import STRENGTH, TERMINAL, Link, LinkKind, Status
from dibs.stores.sqlite.rows import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.task import Actor
    from dibs.stores.sqlite.database import Transaction


def link(tx: Transaction, scope: str, links: Sequence[Link], by: Actor) -> list[Link]:
    """Add links one by one, each checked against all before it."""
    return [asked for asked in links if _link_one(tx, scope, asked, by)]


def _link_one(tx: Transaction, scope: str, asked: Link, by: Actor) -> bool:
    task, on = key_of(tx, scope, asked.task), key_of(tx, scope, asked.on)
    known = tx.value("link_between", (task, on))
    if known is not None and STRENGTH[LinkKind(known)] >= STRENGTH[asked.kind]:
        return False
    if asked.kind is not LinkKind.PARALLEL_OK:
        refuse_cycle(tx, task, on)
    put(tx, scope, asked, by)
    return True


def put(tx: Transaction, scope: str, asked: Link, by: Actor) -> None:
    """Add or replace a link and update the count of blockers. The caller checks for cycles."""
    task, on = key_of(tx, scope, asked.task), key_of(tx, scope, asked.on)
    gated_before = tx.value("link_between", (task, on)) == LinkKind.BLOCKS
    gates_now = asked.kind is LinkKind.BLOCKS
    tx.run("put_link", (task, on, asked.kind.value, asked.weight, asked.detected_by, asked.confidence))
    if gates_now != gated_before and not _is_finished(tx, on):
        tx.run("gate" if gates_now else "ungate", (task,))
    detail = {"on": asked.on, "kind": asked.kind.value, "detected_by": asked.detected_by}
    tx.record(Event(tx.now, scope, asked.task, "link", agent=by.agent, run=by.run, detail=detail))


def unlink(tx: Transaction, scope: str, asked: Link, by: Actor) -> Link:
    task, on = key_of(tx, scope, asked.task), key_of(tx, scope, asked.on)
    row = tx.one("drop_link", (task, on, str(asked.kind)))
    if row is None:
        raise NotFound(f"There is no '{asked.kind}' link from {asked.task} to {asked.on}; 'dibs show' lists its links.")
    kind, weight, detected_by, confidence = row
    if kind == LinkKind.BLOCKS and not _is_finished(tx, on):
        tx.run("ungate", (task,))
    detail = {"on": asked.on, "kind": kind}
    tx.record(Event(tx.now, scope, asked.task, "unlink", agent=by.agent, run=by.run, detail=detail))
    return Link(asked.task, asked.on, LinkKind(kind), weight, detected_by, confidence)


def refuse_cycle(tx: Transaction, task: int, on: int) -> None:
    """Raise CycleDetected with the cycle if `on` already comes after `task`."""
    if task == on:
        raise CycleDetected(_names(tx, [task, task]))
    upstream: dict[int, int | None] = {on: None}  # tasks before `on`, each with the one it was reached from
    downstream: dict[int, int | None] = {task: None}  # the same for tasks after `task`
    front_up, front_down = [on], [task]
    while front_up and front_down:
        if len(front_up) <= len(front_down):
            front_up = _step(tx, "step_before", front_up, upstream)
        else:
            front_down = _step(tx, "step_after", front_down, downstream)
        met = upstream.keys() & downstream.keys()
        if met:
            meeting = min(met)
            there = _trail(upstream, meeting)[::-1]
            back = _trail(downstream, meeting)[1:]
            raise CycleDetected(_names(tx, [task, *there, *back]))


def refuse_any_cycle(tx: Transaction, scope: str) -> None:
    """The same for a whole scope at once: cheaper than a walk per link when a plan brings thousands."""
    from dibs.core.graph import cycle_among

    cycle: list[int] | None = cycle_among(tx.all("edges_in_scope", {"scope": scope}))
    if cycle is not None:
        raise CycleDetected(_names(tx, cycle))


def key_of(tx: Transaction, scope: str, task_id: str) -> int:
    key: int | None = tx.value("key_of", (scope, task_id))
    if key is None:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    return key


def _step(tx: Transaction, query: str, front: list[int], seen: dict[int, int | None]) -> list[int]:
    fresh = []
    for here, there in tx.all(query, {"keys": to_json(front)}):
        if there not in seen:
            seen[there] = here
            fresh.append(there)
    return fresh


def _trail(came_from: dict[int, int | None], start: int) -> list[int]:
    trail = []
    step: int | None = start
    while step is not None:
        trail.append(step)
        step = came_from[step]
    return trail


def _names(tx: Transaction, keys: list[int]) -> list[str]:
    names: dict[int, str] = dict(tx.all("ids_of", (to_json(keys),)))
    return [names[key] for key in keys]


def _is_finished(tx: Transaction, key: int) -> bool:
    row = tx.one("status_of", (key,))
    return row is not None and Status(row[0]) in TERMINAL
