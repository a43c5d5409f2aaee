"""The members of the fleet, the limits they are held to, and giving them tasks. Nobody else is writing meanwhile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core import fleet, telling
from dibs.core.errors import DibsError, NotFound
from dibs.core.fleet import SEEN_EVERY, Member
from dibs.stores.sqlite.rows import from_micros, task_from, to_json
from dibs.stores.sqlite.tasks import write_edited

if TYPE_CHECKING:
    from dibs.core.fleet import Assignment, Profile
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Actor, Task
    from dibs.stores.sqlite.database import Transaction
    from dibs.stores.sqlite.rows import Row


def enrol(tx: Transaction, profile: Profile) -> Member:
    said = (profile.agent, profile.role, to_json(profile.can), profile.limit)
    tx.run("put_member", (*said, tx.micros, tx.micros))
    return _member(tx, profile.agent)


def dismiss(tx: Transaction, agent: str) -> Member:
    member = _member(tx, agent)
    tx.run("drop_member", (agent,))
    return member


def everyone(tx: Transaction) -> list[Member]:
    return [_member_from(row) for row in tx.all("members", {"agent": None, "now": tx.micros})]


def _member(tx: Transaction, agent: str) -> Member:
    row = tx.one("members", {"agent": agent, "now": tx.micros})
    if row is None:
        raise fleet.not_enrolled(agent)
    return _member_from(row)


def _member_from(row: Row) -> Member:
    import json

    agent, role, can, limit, enrolled_at, seen_at, held, waiting = row
    times = (from_micros(enrolled_at), from_micros(seen_at))
    return Member(agent, role, tuple(json.loads(can)), limit, *times, held, waiting)


def bounded(tx: Transaction, request: ClaimRequest, limit: int, seen_at: int, held: int) -> ClaimRequest | DibsError:
    """As much of a request as a member may have that has so many; and who asks is seen."""
    if tx.now - from_micros(seen_at) >= SEEN_EVERY:
        tx.run("see_member", (tx.micros, request.agent))
    return fleet.bounded(request, held, limit)


def assign(tx: Transaction, asked: Assignment, by: Actor) -> list[Task | DibsError]:
    member = None if asked.agent is None else _member(tx, asked.agent)
    return fleet.given_out(asked, member, lambda scope, task: _assigned(tx, scope, task, asked, by))


def _assigned(tx: Transaction, scope: str, task_id: str, asked: Assignment, by: Actor) -> Task:
    row = tx.one("task_by_id", (scope, task_id))
    if row is None:
        raise NotFound(f"There is no task '{task_id}' in {scope}.")
    task = task_from(row)
    after = fleet.assigned(task, asked, tx.now)
    write_edited(tx, row, after, telling.assigned(task, after, by))
    return after
