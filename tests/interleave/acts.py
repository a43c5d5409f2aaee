"""Operations for a player: plain functions of a desk, sent by name, with fixed tokens.

partial(acts.claim, agent="ann", proof="t1")
"""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError
from dibs.core.fleet import Assignment, Profile
from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.plan import parse_jsonl
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Claimed, Draft, Edit, Link, LinkKind, Task
from dibs.desk import Desk
from dibs.stores.port import Query
from dibs.stores.sqlite import maintenance
from dibs.testing.conformance.builders import fleet_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dibs.core.fleet import Member
    from dibs.stores.port import Moved
    from dibs.stores.reports import Record

LEASE = timedelta(minutes=20)


def claim(
    desk: Desk, agent: str, proof: str, *, ids: tuple[str, ...] = (), count: int = 1, anywhere: bool = False
) -> list[Claimed]:
    """Claim the next or the named tasks; the tokens are `proof`, `proof-2`, `proof-3` and so on."""
    tokens = tuple(proof if number == 1 else f"{proof}-{number}" for number in range(1, 1 + (len(ids) or count)))
    return desk._store.claim(ClaimRequest(agent, tokens, None if anywhere else "s", ids, lease=LEASE))


def finish(desk: Desk, task: str, proof: str, *, then: tuple[str, str] | None = None, own: bool = False) -> Moved:
    """Finish a task, and claim the next one with the agent and token in `then`; `own` limits it to its own tasks."""
    following = None if then is None else ClaimRequest(then[0], then[1:], "s", lease=LEASE, assigned=own)
    return desk.move(Verb.DONE, task, token=proof, result=f"result of {task}", then=following)


def move(desk: Desk, verb: Verb, task: str, proof: str | None = None) -> Moved:
    return desk.move(verb, task, token=proof, reason="because")


def renew(desk: Desk, task: str, proof: str) -> Task:
    return desk.renew(task, proof, lease=LEASE)


def cancel(desk: Desk, task: str, rule: CanceledBlocker = CanceledBlocker.ESCALATES) -> Moved:
    """Cancel a task as a person, even while an agent holds it."""
    return desk.move(Verb.CANCEL, task, force=True, on_cancel=rule, reason="no longer wanted")


def link(desk: Desk, task: str, on: str, kind: LinkKind = LinkKind.BLOCKS) -> list[Link]:
    return desk._store.link("s", [Link(task, on, kind)], desk.by)


def unlink(desk: Desk, task: str, on: str) -> list[Link]:
    return desk._store.unlink("s", [Link(task, on)], desk.by)


def put_under(desk: Desk, child: str, parent: str) -> Task:
    """Make one task the parent of another, so that it depends on its child."""
    return desk._store.amend("s", child, Edit(parent=parent), desk.by)


def add(desk: Desk, *ids: str, links: tuple[tuple[str, str], ...] = ()) -> list[Task]:
    return desk.add([Draft(f"Task {each}", each) for each in ids], [Link(task, on) for task, on in links])


def add_one(desk: Desk, task: str, on: tuple[str, ...] = (), parent: str | None = None) -> list[Task]:
    return desk.add([Draft(f"Task {task}", task, parent=parent)], [Link(task, each) for each in on])


def plan(desk: Desk, text: str) -> dict[str, tuple[str, ...]]:
    """Apply a plan; the changes by name, since an Edit's UNSET does not survive pickling."""
    changes = desk.apply_plan(parse_jsonl(text))
    return {
        "insert": tuple(planned.draft.id for planned in changes.insert),
        "updated": changes.updated,
        "removed": changes.remove,
        "reopened": changes.reopen,
        "skipped": (*changes.skipped_active, *changes.skipped_done, *changes.skipped_canceled),
    }


def keep(desk: Desk, task: str, length: int, scope: str = "s") -> None:
    """Store a vector of `length` numbers, or remove it if `length` is 0."""
    Desk(desk._store, scope=scope).keep_vectors({task: [1.0] * length or None})


def enrol(desk: Desk, agent: str, limit: int) -> Member:
    return fleet_of(desk._store).enrol(Profile(agent, "writer", (), limit))


def claim_in(desk: Desk, scope: str, agent: str, proof: str, *, own: bool = False) -> list[str]:
    """Claim the next task of a scope, or the agent's own next one, and return its id."""
    request = ClaimRequest(agent, (proof,), scope, lease=LEASE, assigned=own)
    return [claimed.task.id for claimed in desk._store.claim(request)]


def assign(desk: Desk, agent: str, task: str, scope: str = "s", taken_from: str | None = None) -> str:
    """Assign a task, and return the new assignee or the error's code."""
    (outcome,) = fleet_of(desk._store).assign(Assignment(((scope, task),), agent, taken_from), desk.by)
    return outcome.code if isinstance(outcome, DibsError) else str(outcome.assigned_to)


def configure(desk: Desk, **changes: int | None) -> dict[str, object]:
    return dict(desk.configure(changes))


def look(desk: Desk) -> list[Task]:
    return desk.find(Query("s"))


def restore(desk: Desk, records: tuple[Record, ...]) -> int:
    return desk.restore(records)


def prune(desk: Desk, before: datetime, bite: int) -> tuple[int, int]:
    """Prune all old events and tasks in small batches, and so in several transactions."""
    usual, maintenance._BITE = maintenance._BITE, bite
    try:
        return desk.prune(events_before=before, tasks_before=before)
    finally:
        maintenance._BITE = usual


def oversleep(desk: Desk, task: str, proof: str) -> list[str]:
    """Claim for a second, stop by a real signal, and return the code of each write after the stop."""
    desk._store.claim(ClaimRequest("sleeper", (proof,), "s", (task,), lease=timedelta(seconds=1)))
    os.kill(os.getpid(), signal.SIGSTOP)
    tries: list[Callable[[], object]] = [
        lambda: renew(desk, task, proof),
        *(partial(move, desk, verb, task, proof) for verb in (Verb.DONE, Verb.FAIL, Verb.BLOCK, Verb.REVIEW)),
        *(partial(move, desk, verb, task, proof) for verb in (Verb.RELEASE, Verb.PAUSE, Verb.CANCEL)),
    ]
    return [_code_of(attempt) for attempt in tries]


def _code_of(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except DibsError as error:
        return error.code
    return "ok"
