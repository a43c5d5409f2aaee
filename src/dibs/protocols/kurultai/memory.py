"""OperationalMemory: kurultai's calls for agents and programs, each one transaction.

Every task belongs to a sender. No call or dependency reaches another sender's task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import (
    AlreadyExists,
    Held,
    IllegalMove,
    InvalidInput,
    NotForYou,
    NotFound,
    Unsupported,
    Waiting,
)
from dibs.core.fleet import ROLE_FIELD, TASK_LIMIT, Profile
from dibs.core.lifecycle import ClaimRequest, Verb, exhausted, refusal
from dibs.core.sender import sender_hash_of
from dibs.core.settings import checked
from dibs.core.task import UNSET, Actor, Draft, Edit, Holder, Link, LinkKind, Status, is_internal
from dibs.fleet.routing import covers, role_of
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
from dibs.stores.port import Closing, Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from dibs.core.fleet import Member
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Claimed, Json, Task
    from dibs.desk import Desk
    from dibs.protocols.kurultai.records import AgentRecord, ClaimRecord, Dependency, TaskRecord
    from dibs.protocols.kurultai.settings import UserConfig
    from dibs.stores.port import Moved
    from dibs.sync.notion.report import Report


_FIRST_LOOK, _WIDER = 64, 8  # tasks that a claim reads, and the factor if none is for the agent


class OperationalMemory(Closing):
    """The tasks of all senders in one store. `by` is the name for the events; it proves nothing."""

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

    # Tasks and dependencies

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
        """Add a pending task with its prerequisites. By default, its deliverable decides the agent."""
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
            extra=kept(
                [
                    delegated,
                    ("window_expires_at", window_expires_at),
                    ("escalation_count", 0),
                    (ROLE_FIELD, records.role_said(assigned_to)),
                    (
                        "external_priority_source",
                        "auto" if priority_weight is None and not user_priority_override else "user",
                    ),
                ]
            ),
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
        """Make `task_id` wait for `depends_on_id`. False if an equal or stronger dependency exists.

        Raise CycleDetectedError instead of closing a cycle, also with concurrent writers.
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
        """Set the weight or the override. The event records the old value, the new value and the reason."""
        edit = Edit(
            priority=UNSET if priority_weight is None else priority_of(priority_weight),
            override=UNSET if user_priority_override is None else user_priority_override,
            why=UNSET if reason is None else reason,
            keep={"external_priority_source": "user"},
        )
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            return record_of(desk.edit(task_id, edit))

    # Attempts

    def claim_task(
        self,
        agent: str,
        *,
        sender_hash: str | None = None,
        task_id: str | None = None,
        lease: timedelta | None = None,
    ) -> ClaimRecord:
        """Claim the named task or the agent's next one, of one sender or of all.

        An agent gets tasks assigned to it, and unassigned tasks that its role covers, up to its limit. Two processes
        with one name never get the same task: only the claim_attempt_id proves a claim.
        """
        known = agent_id(agent)
        self._fleet.enrol(known)
        if task_id is None:
            desk = self._desk if sender_hash is None else self._desk_of(sender_hash)
            claimed = self._next(desk, known, lease, anywhere=sender_hash is None)
            if claimed is None:
                raise NoPendingTaskError(f"No task is pending for {known} now.")
            return claim_of(claimed)
        if sender_hash is None:
            raise InvalidInput("A claim by task id needs the sender.")
        desk = self._desk_of(sender_hash)
        with about(desk, task_id), racing():
            self._refuse_uncovered(desk.get(task_id), known)
            return claim_of(desk.claim(known, refs=(task_id,), lease=lease)[0])

    def _next(self, desk: Desk, agent: str, lease: timedelta | None, *, anywhere: bool) -> Claimed | None:
        """Claim the first task that the agent may have, or the next one if another agent was faster."""
        limit = _FIRST_LOOK
        while True:
            found = desk.ready(limit=limit, agent=agent, anywhere=anywhere)
            for task in found:
                if is_internal(task.scope) or not self._fleet.may_have(agent, task):
                    continue
                try:
                    return desk.at(task.scope).claim(agent, refs=(task.id,), lease=lease)[0]
                except (Held, Waiting, NotForYou, IllegalMove, NotFound):
                    continue  # it changed after the read
            if len(found) < limit:
                break
            limit *= _WIDER
        # A task assigned since then. The claim also shows a dispatcher that the agent is alive.
        return next(iter(desk.claim(agent, lease=lease, anywhere=anywhere, assigned=True)), None)

    def _refuse_uncovered(self, task: Task, agent: str) -> None:
        if task.assigned_to is None and not task.finished and not self._fleet.may_have(agent, task):
            raise NotForYou(
                f"'{task.title[:40]}' ({task.id[:8]}) is for the role '{role_of(task)}', which {agent} does not have. "
                f"'dibs kurultai claim' without an id takes what is for {agent}."
            )

    def renew_task(
        self, task_id: str, claim_attempt_id: str, *, sender_hash: str, lease: timedelta | None = None
    ) -> TaskRecord:
        """Renew the lease."""
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
        """Finish a task. Raise LostLock if the lease is lost; nothing is changed then."""
        extra = records.quality(quality_score)
        result = result_summary or None
        return self._moved(Verb.DONE, task_id, sender_hash, claim_attempt_id, result=result, extra=extra)

    def fail_task(self, task_id: str, claim_attempt_id: str, reason: str, *, sender_hash: str) -> Change:
        """Report a failed attempt. The task is pending again, or escalated if no retry is left."""
        return self._moved(Verb.FAIL, task_id, sender_hash, claim_attempt_id, reason=records.reason_of(reason))

    def block_task(
        self, task_id: str, claim_attempt_id: str | None = None, *, reason: str, sender_hash: str
    ) -> TaskRecord:
        """Block a task. If it is in progress, only its holder may."""
        why, extra = records.reason_of(reason), kept([("blocked_at", self._desk.now())])
        return self._moved(Verb.BLOCK, task_id, sender_hash, claim_attempt_id, reason=why, extra=extra).task

    # Steering

    def reassign_blocked_task(self, task_id: str, assigned_to: str | None = None, *, sender_hash: str) -> TaskRecord:
        """Make a task pending again, for the same agent or another. Too many reassignments escalate it instead.

        A decision about an escalated task resets the count.
        """
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            task = desk.get(task_id)
            count = 0 if task.status is Status.ESCALATED else escalations_of(task) + 1
            too_often = task.status is Status.BLOCKED and count >= self._escalation_limit
            why = f"reassigned {count} times, and blocked again: {task.reason}" if too_often else None
            told: dict[str, Json] = {"escalation_count": count, "blocked_at": None}
            if assigned_to is not None:
                told[ROLE_FIELD] = records.role_said(assigned_to)
            moved = desk.move(
                Verb.ESCALATE if too_often else Verb.UNBLOCK,
                task.id,
                assigned_to=UNSET if assigned_to is None else records.assignee(assigned_to, task.deliverable),
                reason=why,
                extra=told,
            )
        return record_of(moved.task)

    def pause_task(
        self, task_id: str, claim_attempt_id: str | None = None, *, sender_hash: str, force: bool = False
    ) -> TaskRecord:
        """Pause a task. With `force`, the user may pause a task in progress."""
        return self._moved(Verb.PAUSE, task_id, sender_hash, claim_attempt_id, force=force).task

    def resume_task(self, task_id: str, *, sender_hash: str) -> TaskRecord:
        """Restore the state before the pause."""
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
        """Abort a task. `on_abort` decides about its dependents."""
        return self._moved(Verb.CANCEL, task_id, sender_hash, claim_attempt_id, reason=reason, force=force)

    # Reading

    def get_task(self, task_id: str, *, sender_hash: str) -> TaskRecord:
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            return record_of(desk.get(task_id))

    def get_tasks(
        self, sender_hash: str, statuses: Iterable[Status] = tuple(Status), limit: int | None = None
    ) -> list[TaskRecord]:
        """A sender's tasks, in the order of work."""
        desk = self._desk_of(sender_hash)
        found = desk.find(Query(desk.scope, tuple(statuses), limit=limit))
        return [record_of(task) for task in found]

    def get_ready_tasks(self, sender_hash: str, limit: int = READY_LIMIT) -> list[TaskRecord]:
        """Tasks that can start now, in order: pending or expired, without unfinished blockers, for any agent."""
        desk = self._desk_of(sender_hash)
        found = desk.find(Query(desk.scope, (Status.READY, Status.ACTIVE)))
        now = self._desk.now()
        return [record_of(task) for task in found if _ready(task, now)][:limit]

    def get_dependencies(self, task_id: str, *, sender_hash: str) -> list[Dependency]:
        """The dependencies of a task, in both directions."""
        desk = self._desk_of(sender_hash)
        with about(desk, task_id):
            return [dependency_of(link) for link in desk.links(task_id)]

    # Notion

    def sync_from_notion(self, sender_hash: str) -> Report:
        """Sync a sender's tasks with the Notion database. Raise NotionSyncError if it fails."""
        from dibs.protocols.kurultai.notion import sync_for

        desk = self._desk_of(sender_hash)
        with sync_for(desk, desk.scope) as sync:
            return sync.run()

    # The fleet

    def get_current_load(self, agent: str) -> int:
        """The number of the agent's live leases, over all senders."""
        return self._fleet.load(agent_id(agent))

    def register_fleet(self) -> list[AgentRecord]:
        """Register the six agents. Known agents stay unchanged."""
        self._fleet.register()
        return self._fleet.agents()

    def get_agents(self) -> list[AgentRecord]:
        """The six agents, with their load."""
        return self._fleet.agents()

    def describe(self) -> Mapping[str, str]:
        """Facts about the store."""
        return self._desk.describe()

    # Settings

    def get_config(self, sender_hash: str) -> UserConfig:
        """All settings of the sender, with defaults."""
        desk = self._desk_of(sender_hash)
        return config_of(desk.scope, desk.settings())

    def configure(self, sender_hash: str, changes: Mapping[str, Json]) -> UserConfig:
        """Set settings atomically. None restores a default."""
        desk = self._desk_of(sender_hash)
        return config_of(desk.scope, desk.configure(checked(changes, OPTIONS)))

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
            f"kurultai needs transactions, dependencies and scopes, which a {kind} store lacks. "
            "Use one of neo4j://…, postgresql://… and sqlite:///…"
        )


_ANYBODY = ClaimRequest("", (), holder=Holder.HUMAN)  # ignores assignments


def _ready(task: Task, now: datetime) -> bool:
    return refusal(task, _ANYBODY, now) is None and exhausted(task, now) is None


def _change(moved: Moved) -> Change:
    return Change(record_of(moved.task), moved.unblocked, moved.escalated, moved.canceled)


class Fleet:
    """The six agents as members of the store. `limit` is for new members, and for all six when they register.

    With None, members keep their limits, and new ones get the default.
    """

    def __init__(self, desk: Desk, limit: int | None) -> None:
        self._desk = desk
        self._limit = limit
        self._known: set[str] = set()
        self._roles: dict[str, str] = {}

    def enrol(self, agent: str) -> None:
        """Enrol the agent, so that the store enforces its limit."""
        if agent in self._known:
            return
        if agent not in self._members():
            self._desk.enrol(Profile(agent, agent, (), self._limit or TASK_LIMIT))
        self._known.add(agent)

    def may_have(self, agent: str, task: Task) -> bool:
        """Whether the task is assigned to the agent, or unassigned and covered by its role."""
        return task.assigned_to == agent or (task.assigned_to is None and covers(self._role(agent), task))

    def _role(self, agent: str) -> str:
        if agent not in self._roles:
            members = self._members()
            self._roles[agent] = members[agent].role if agent in members else agent
        return self._roles[agent]

    def register(self) -> None:
        """Register all six. Known agents only get a new limit, if one was given."""
        for profile in FLEET:
            self.enrol(profile.id)
            if self._limit is not None:
                self._desk.enrol(Profile(profile.id, profile.id, (), self._limit))
            try:
                self._desk.register(profile.id)
            except AlreadyExists:
                continue

    def agents(self) -> list[AgentRecord]:
        """The six agents, with their load."""
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
