"""Agents: who is registered or enrolled, how many tasks each may hold or add, and when one may be assigned a task.

A member is an enrolled agent, with a role, capabilities and a limit. The store enforces the limit on every claim under
its name. Agents that are not enrolled have no limit, and are assigned no tasks.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from dibs.core.errors import DibsError, Held, IllegalMove, NotForYou, NotFound, OverLimit, OverQuota, Refused
from dibs.core.lifecycle import ClaimRequest, exhausted, refusal
from dibs.core.messages import command
from dibs.core.task import Task
from dibs.core.times import in_words

TASK_LIMIT = 2  # at a time, unless it was enrolled with another
DISPATCHED_TO = "dispatched_to"  # the extra field of a task that a dispatcher assigned, and may reassign
ROLE_FIELD = "role"  # the extra field that reserves a task for a role
ANY_ROLE = "any"  # in that field: any agent may claim the task
PRESENCE = timedelta(seconds=60)  # an agent counts as present for this long after a request for work or its enrolment
SEEN_EVERY = timedelta(seconds=15)  # requests for work are recorded at most this often


# The agents of kurultai's document, by the names that people know them under.
NAMES = {
    "main": "Kublai",
    "researcher": "Möngke",
    "writer": "Chagatai",
    "developer": "Temüjin",
    "analyst": "Jochi",
    "ops": "Ögedei",
}


def display_name(agent: str) -> str:
    return NAMES.get(agent, agent)


class Profile(NamedTuple):
    """The settings of a member at enrolment."""

    agent: str
    role: str
    can: tuple[str, ...] = ()
    limit: int = TASK_LIMIT


class Member(NamedTuple):
    """A profile with the agent's last request for work. `waiting` counts claimable tasks that are assigned to it."""

    agent: str
    role: str
    can: tuple[str, ...]
    limit: int
    enrolled_at: datetime
    seen_at: datetime
    held: int = 0
    waiting: int = 0

    @property
    def load(self) -> int:
        return self.held + self.waiting

    def present(self, now: datetime) -> bool:
        """Whether the agent holds a task or has asked for work recently."""
        return self.held > 0 or now - self.seen_at < PRESENCE


class Assignment(NamedTuple):
    """Assign tasks, as (scope, id), to `agent`, or unassign them. `taken_from` is their current assignee.

    `retries` is the retry limit for tasks that set none.
    """

    tasks: tuple[tuple[str, str], ...]
    agent: str | None
    taken_from: str | None = None
    retries: int | None = None


def assigned(task: Task, asked: Assignment, now: datetime) -> Task:
    """The task with its new assignee. Raises unless the task is claimable."""
    if task.assigned_to != asked.taken_from:
        whose = "nobody's" if task.assigned_to is None else f"{task.assigned_to}'s"
        raise NotForYou(f"{task.id} is {whose} by now.")
    if asked.agent is None:
        _refuse_busy(task, now)
    else:
        _refuse_unready(task, now)
    kept = {name: value for name, value in task.extra.items() if name != DISPATCHED_TO}
    return task._replace(
        assigned_to=asked.agent,
        extra=kept if asked.agent is None else {**kept, DISPATCHED_TO: asked.agent},
        max_retries=asked.retries if task.max_retries is None else task.max_retries,
        updated_at=now,
    )


def _refuse_unready(task: Task, now: datetime) -> None:
    """Capabilities are not checked here: the dispatcher has chosen an agent that has them."""
    refused = refusal(task, ClaimRequest(task.assigned_to or "", (), can=frozenset(task.requires)), now)
    if refused is not None:
        raise refused
    if exhausted(task, now):
        raise IllegalMove(f"The lease of {task.id} expired, and no retry is left.")


def _refuse_busy(task: Task, now: datetime) -> None:
    if task.finished:
        raise IllegalMove(f"{task.id} is {task.status}: there is nothing left to take back.")
    if task.held(now):
        raise Held(f"{task.id} is being worked on; it cannot be taken back.")


def given_out(asked: Assignment, member: Member | None, give: Callable[[str, str], Task]) -> list[Task | DibsError]:
    """The task or the error for each request. Calls `give` until the member has reached its limit."""
    room = len(asked.tasks) if member is None else member.limit - member.load
    outcomes: list[Task | DibsError] = []
    for scope, task in asked.tasks:
        try:
            outcomes.append(give(scope, task) if room > 0 or member is None else _over_load(member))
        except (NotFound, Refused) as error:
            outcomes.append(error)
        room -= not isinstance(outcomes[-1], DibsError)
    return outcomes


def _over_load(member: Member) -> OverLimit:
    many = f"{member.limit} tasks that it may have at a time, counting those that wait for it"
    return OverLimit(f"{member.agent} has the {many}.")


def dispatched(task: Task) -> bool:
    """Whether its assignee was given it, rather than named by its author."""
    return task.assigned_to is not None and task.extra.get(DISPATCHED_TO) == task.assigned_to


def bounded(request: ClaimRequest, held: int, limit: int) -> ClaimRequest | OverLimit:
    """As much of a request as a member may have that holds so many: the named ones all or none."""
    room = limit - held
    if room < max(1, len(request.ids)):
        few = f" ({len(request.ids)} more were asked for)" if len(request.ids) > 1 else ""
        return OverLimit(f"{request.agent} holds {held} of at most {limit} tasks{few}; finish or release one first.")
    return request._replace(tokens=request.tokens[:room])


def not_enrolled(agent: str) -> NotFound:
    enrol = command("dibs", "agent", "add", agent, "--role", "ROLE")
    return NotFound(f"No agent '{agent}' is enrolled; '{enrol}' enrols it.")


class AgentStatus(StrEnum):
    ACTIVE = "active"
    GONE = "gone"


class Agent(NamedTuple):
    """One registered agent. `id` is unique within a store; `pid` and `host` say where it runs."""

    id: str
    host: str | None
    pid: int | None
    started_at: datetime
    status: AgentStatus = AgentStatus.ACTIVE
    ended_at: datetime | None = None


class Quota(NamedTuple):
    """So many new tasks in any such span, and no more."""

    most: int
    within: timedelta


def refuse_more(quota: Quota, added: Sequence[datetime], wanted: int, now: datetime) -> None:
    """`added` are the times at which tasks were taken in during the last span, oldest first."""
    room = max(0, quota.most - len(added))
    if wanted <= room:
        return
    left = max(timedelta(0), added[0] + quota.within - now) if added else quota.within
    raise OverQuota(
        f"The limit is {quota.most} new tasks per {in_words(quota.within)}: {room} more now, and others in "
        f"{in_words(left)}.",
        room=room,
        retry_after_ms=left // timedelta(milliseconds=1) + 1,
    )
