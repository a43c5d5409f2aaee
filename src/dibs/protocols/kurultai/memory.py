"""OperationalMemory: what kurultai's agents and programs do with tasks, each verb one call and one transaction.

Everything belongs to a sender: no call reaches a task of another one, and a dependency never leads to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from dibs.core.errors import AlreadyExists, InvalidInput, Unsupported
from dibs.core.fleet import TASK_LIMIT, Profile
from dibs.core.lifecycle import ClaimRequest, Verb, exhausted, refusal
from dibs.core.sender import sender_hash_of
from dibs.core.settings import checked
from dibs.core.task import UNSET, Actor, Draft, Edit, Holder, Link, LinkKind, Status
from dibs.protocols.kurultai import policy, records
from dibs.protocols.kurultai.errors import NoPendingTaskError, about, depending, racing, unproven
from dibs.protocols.kurultai.policy import (
    ESCALATION_LIMIT,
    FLEET,
    KURULTAI,
    LINK_WEIGHT,
    READY_LIMIT,
    agent_id,
    priority_of,
)
from dibs.protocols.kurultai.records import Change, claim_of, dependency_of, escalations_of, kept, record_of
from dibs.protocols.kurultai.settings import OPTIONS, config_of
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta
    from types import TracebackType

    from dibs.core.fleet import Member
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.protocols.kurultai.records import AgentRecord, ClaimRecord, Dependency, TaskRecord
    from dibs.protocols.kurultai.settings import UserConfig
    from dibs.stores.port import Moved


class OperationalMemory:
    """The tasks of all senders in one store. `by` is who speaks, for the record; it proves nothing."""

    def __init__(
        self,
        desk: Desk,
        *,
        by: str | None = None,
        on_abort: CanceledBlocker = KURULTAI.canceled_blocker,
        task_limit: int | None = None,
        escalation_limit: int = ESCALATION_LIMIT,
    ) -> None:
        _refuse_unfit(desk)
        self._desk = desk.at(desk.scope, policy=KURULTAI._replace(canceled_blocker=on_abort), by=Actor(by))
        self._fleet = Fleet(desk, task_limit)
        self._escalation_limit = escalation_limit

    # What there is to do

    def create_task(
        self,
        description: str,
        *,
        sender_hash: str,
        type: str | None = None,  # noqa: A002 - the document's name for it
        deliverable_type: str | None = None,
        assigned_to: str | None = None,
        delegated_by: str | None = None,
        priority_weight: float | None = None,
        user_priority_override: bool = False,
        depends_on: Sequence[str] = (),
        window_expires_at: datetime | None = None,
        max_retries: int | None = None,
        task_id: str | None = None,
    ) -> TaskRecord:
        """A new pending task, with what it has to wait for. Unless told, it goes to whom its deliverable is routed."""
        desk = self._desk_of(sender_hash)
        deliverable = None if deliverable_type is None else policy.deliverable_type(deliverable_type)
        delegated = ("delegated_by", None if delegated_by is None else agent_id(delegated_by))
        draft = Draft(
            records.title_of(description),
            id=task_id or records.new_id(),
            description=description.strip(),
            category=type or deliverable,
            deliverable=deliverable,
            assigned_to=records.assignee(assigned_to, deliverable),
            priority=priority_of(priority_weight),
            override=user_priority_override,
            max_retries=max_retries,
            origin=KURULTAI.name,
            extra=kept([delegated, ("window_expires_at", window_expires_at), ("escalation_count", 0)]),
        )
        links = [self._stated(desk, draft.id, each) for each in depends_on]
        (task,) = desk.add([draft], links)
        return record_of(task)

    def add_dependency(
        self,
        task_id: str,
        depends_on_id: str,
        dep_type: str = "blocks",
        *,
        sender_hash: str,
        weight: float = LINK_WEIGHT,
        detected_by: str = "explicit",
        confidence: float = 1.0,
    ) -> bool:
        """`task_id` has to come after `depends_on_id`. Looked at and written in one transaction, so never a cycle.

        False where it stood already, as strong or stronger.
        """
        link = Link(task_id, depends_on_id, records.link_kind(dep_type), weight, detected_by, confidence)
        desk = self._desk_of(sender_hash)
        with depending(desk, task_id, depends_on_id):
            return bool(desk.link([link]))

    def set_priority(
        self,
        task_id: str,
        priority_weight: float | None = None,
        *,
        sender_hash: str,
        user_priority_override: bool | None = None,
        reason: str | None = None,
    ) -> TaskRecord:
        """Weigh a task anew, or put it before all others (or no longer); old, new and why are on record."""
        edit = Edit(
            priority=UNSET if priority_weight is None else priority_of(priority_weight),
            override=UNSET if user_priority_override is None else user_priority_override,
            why=UNSET if reason is None else reason,
        )
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            return record_of(desk.edit(task_id, edit))

    # An agent and its task

    def claim_task(
        self,
        agent: str,
        *,
        sender_hash: str | None = None,
        task_id: str | None = None,
        lease: timedelta | None = None,
    ) -> ClaimRecord:
        """The next pending task for this agent, or the one named; of one sender, or of whoever comes first.

        Two processes under one name get two different tasks: what proves a claim is its claim_attempt_id. Together they
        get no more than the agent's limit.
        """
        known = agent_id(agent)
        self._fleet.enrol(known)
        if sender_hash is None:
            if task_id is not None:
                raise InvalidInput("Whose task is it? A task is claimed by name within a sender's tasks.")
            claimed = self._desk.claim(known, lease=lease, anywhere=True)
        else:
            desk = self._desk_of(sender_hash)
            with about(desk, task_id or ""), racing():
                claimed = desk.claim(known, refs=() if task_id is None else (task_id,), lease=lease)
        if not claimed:
            raise NoPendingTaskError(f"Nothing is pending for {known} now.")
        return claim_of(claimed[0])

    def renew_task(
        self, task_id: str, claim_attempt_id: str, *, sender_hash: str, lease: timedelta | None = None
    ) -> TaskRecord:
        """Still at it: the lease counts from now."""
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            return record_of(desk.renew(task_id, claim_attempt_id, lease=lease))

    def complete_task(
        self,
        task_id: str,
        claim_attempt_id: str,
        result_summary: str | None = None,
        *,
        sender_hash: str,
        quality_score: float | None = None,
    ) -> Change:
        """Finish a task under its proof. Who has lost the lease gets LostLock, and has changed nothing."""
        extra = records.quality(quality_score)
        result = result_summary or None
        return self._moved(Verb.DONE, task_id, sender_hash, claim_attempt_id, result=result, extra=extra)

    def fail_task(self, task_id: str, claim_attempt_id: str, reason: str, *, sender_hash: str) -> Change:
        """The attempt failed: pending again, or escalated where no retry is left."""
        return self._moved(Verb.FAIL, task_id, sender_hash, claim_attempt_id, reason=records.reason_of(reason))

    def block_task(
        self, task_id: str, claim_attempt_id: str | None = None, *, reason: str, sender_hash: str
    ) -> TaskRecord:
        """Set a task aside until something outside changes; in progress, that is for its holder."""
        why, extra = records.reason_of(reason), kept([("blocked_at", self._desk.now())])
        return self._moved(Verb.BLOCK, task_id, sender_hash, claim_attempt_id, reason=why, extra=extra).task

    # Steering

    def reassign_blocked_task(self, task_id: str, assigned_to: str | None = None, *, sender_hash: str) -> TaskRecord:
        """Back to pending, for the same agent or another; too often, and it is escalated to the user instead.

        An escalated task that is reassigned was decided about: it is counted from zero again.
        """
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            task = desk.get(task_id)
            count = 0 if task.status is Status.ESCALATED else escalations_of(task) + 1
            too_often = task.status is Status.BLOCKED and count >= self._escalation_limit
            why = f"reassigned {count} times, and blocked again: {task.reason}" if too_often else None
            moved = desk.move(
                Verb.ESCALATE if too_often else Verb.UNBLOCK,
                task.id,
                assigned_to=UNSET if assigned_to is None else records.assignee(assigned_to, task.deliverable),
                reason=why,
                extra={"escalation_count": count, "blocked_at": None},
            )
        return record_of(moved.task)

    def pause_task(
        self, task_id: str, claim_attempt_id: str | None = None, *, sender_hash: str, force: bool = False
    ) -> TaskRecord:
        """On hold until it is resumed. `force` is for the user, whose task it is, while an agent works on it."""
        return self._moved(Verb.PAUSE, task_id, sender_hash, claim_attempt_id, force=force).task

    def resume_task(self, task_id: str, *, sender_hash: str) -> TaskRecord:
        """As it was before it was paused."""
        return self._moved(Verb.RESUME, task_id, sender_hash, None).task

    def abort_task(
        self,
        task_id: str,
        claim_attempt_id: str | None = None,
        *,
        sender_hash: str,
        reason: str | None = None,
        force: bool = False,
    ) -> Change:
        """Call a task off. What waited for it is escalated, set free, or aborted too: the memory's `on_abort`."""
        return self._moved(Verb.CANCEL, task_id, sender_hash, claim_attempt_id, reason=reason, force=force)

    # Looking

    def get_task(self, task_id: str, *, sender_hash: str) -> TaskRecord:
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            return record_of(desk.get(task_id))

    def get_tasks(
        self, sender_hash: str, statuses: Iterable[Status] = tuple(Status), limit: int | None = None
    ) -> list[TaskRecord]:
        """A sender's tasks, in the order in which they would be picked up."""
        desk = self._desk_of(sender_hash)
        found = desk.find(Query(desk.scope, tuple(statuses), limit=limit))
        return [record_of(task) for task in found]

    def get_ready_tasks(self, sender_hash: str, limit: int = READY_LIMIT) -> list[TaskRecord]:
        """What could be started now, in order: pending, or left behind by a holder whose lease ran out, and nothing
        that blocks it unfinished. Whoever it is assigned to."""
        desk = self._desk_of(sender_hash)
        found = desk.find(Query(desk.scope, (Status.READY, Status.ACTIVE)))
        now = self._desk.now()
        return [record_of(task) for task in found if _ready(task, now)][:limit]

    def get_dependencies(self, task_id: str, *, sender_hash: str) -> list[Dependency]:
        """What a task depends on, and what depends on it."""
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            return [dependency_of(link) for link in desk.links(task_id)]

    # The fleet

    def get_current_load(self, agent: str) -> int:
        """How many tasks the agent is working on, whoever sent them. A lease that ran out is no work."""
        return self._fleet.load(agent_id(agent))

    def register_fleet(self) -> list[AgentRecord]:
        """The six agents, for people to see, each held to its limit; those that are there already stay as they are."""
        self._fleet.register()
        return self._fleet.agents()

    def get_agents(self) -> list[AgentRecord]:
        """The fleet: who does what, and how busy they are."""
        return self._fleet.agents()

    def describe(self) -> Mapping[str, str]:
        """What a person wants to know about the store."""
        return self._desk.describe()

    # What a sender has set

    def get_config(self, sender_hash: str) -> UserConfig:
        """Every option of the sender, set or not."""
        desk = self._desk_of(sender_hash)
        return config_of(desk.scope, desk.settings())

    def configure(self, sender_hash: str, changes: Mapping[str, Json]) -> UserConfig:
        """Set options, all or none; None puts one back to its default."""
        desk = self._desk_of(sender_hash)
        return config_of(desk.scope, desk.configure(checked(changes, OPTIONS)))

    # Underneath

    def _desk_of(self, sender_hash: str) -> Desk:
        return self._desk.at(sender_hash_of(sender_hash))

    def _stated(self, desk: Desk, task_id: str, depends_on: str) -> Link:
        with depending(desk, task_id, depends_on):
            return Link(task_id, desk.resolve(depends_on), LinkKind.BLOCKS, LINK_WEIGHT)

    def _moved(
        self,
        verb: Verb,
        task_id: str,
        sender_hash: str,
        proof: str | None,
        *,
        reason: str | None = None,
        result: Json = None,
        extra: dict[str, Json] | None = None,
        force: bool = False,
    ) -> Change:
        desk = self._desk_of(sender_hash)
        with about(desk, task_id), unproven(desk, task_id):
            return _change(
                desk.move(verb, task_id, token=proof, reason=reason, result=result, extra=extra, force=force)
            )

    def close(self) -> None:
        self._desk.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _refuse_unfit(desk: Desk) -> None:
    can = desk.capabilities
    needed = (
        can.exclusive == "strict",
        can.transactions,
        can.links,
        can.scopes,
        can.history,
        desk.has_settings,
        desk.has_fleet,
    )
    if not all(needed):
        kind = desk.describe()["kind"]
        raise Unsupported(
            f"kurultai needs transactions, dependencies and a set of tasks for each sender; a {kind} store lacks some. "
            "Use one of neo4j://…, postgresql://… and sqlite:///…"
        )


_ANYBODY = ClaimRequest("", (), holder=Holder.HUMAN)  # whom no assignment keeps from looking


def _ready(task: Task, now: datetime) -> bool:
    return refusal(task, _ANYBODY, now) is None and exhausted(task, now) is None


def _change(moved: Moved) -> Change:
    return Change(record_of(moved.task), moved.unblocked, moved.escalated, moved.canceled)


class Fleet:
    """`limit` is for those who are no members yet, and for all six when they register; else the store's word holds.

    None leaves everybody as they are, and newcomers get the usual limit.
    """

    def __init__(self, desk: Desk, limit: int | None) -> None:
        self._desk = desk
        self._limit = limit
        self._known: set[str] = set()

    def enrol(self, agent: str) -> None:
        """Whoever claims under this name from now on gets no more than the limit."""
        if agent in self._known:
            return
        if agent not in self._members():
            self._desk.enrol(Profile(agent, agent, (), self._limit or TASK_LIMIT))
        self._known.add(agent)

    def register(self) -> None:
        """All six, for people to see; but for a limit that was given, those that are there already stay as they are."""
        for profile in FLEET:
            self.enrol(profile.id)
            if self._limit is not None:
                self._desk.enrol(Profile(profile.id, profile.id, (), self._limit))
            try:
                self._desk.register(profile.id)
            except AlreadyExists:
                continue

    def agents(self) -> list[AgentRecord]:
        """Who does what, and how busy they are."""
        registered = {agent.id for agent in self._desk.agents() if agent.ended_at is None}
        members = self._members()
        return [
            {
                "id": profile.id,
                "name": profile.name,
                "role": profile.role,
                "does": profile.does,
                "failover_for": profile.failover_for,
                "load": members[profile.id].held if profile.id in members else 0,
                "limit": members[profile.id].limit if profile.id in members else self._limit or TASK_LIMIT,
                "registered": profile.id in registered,
            }
            for profile in FLEET
        ]

    def load(self, agent: str) -> int:
        members = self._members()
        return members[agent].held if agent in members else 0

    def _members(self) -> dict[str, Member]:
        return {member.agent: member for member in self._desk.members()}
