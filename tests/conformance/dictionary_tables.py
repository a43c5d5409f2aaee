"""The tables of the dictionary store, and its transactions. All rules come from `dibs.core`."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from dibs.core import events, fleet, lifecycle
from dibs.core.errors import AlreadyExists, CycleDetected, DibsError, InvalidInput, LostLock, NotFound
from dibs.core.events import Event
from dibs.core.graph import Graph, find_cycle
from dibs.core.lifecycle import ClaimRequest, Consequences, Move, Verb
from dibs.core.plan import REMOVED, diff
from dibs.core.policy import CanceledBlocker
from dibs.core.settings import Setting
from dibs.core.task import STRENGTH, Claimed, Holder, Input, Link, LinkKind, Status, Task, is_internal, order_key
from dibs.stores.port import Moved, insist
from dibs.stores.reports import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from datetime import datetime

    from dibs.core.fleet import Agent, Member
    from dibs.core.output import OutputPiece
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.search import Vector
    from dibs.core.task import Actor, Draft, Edit, Json

Key = tuple[str, str]  # a scope and the id of a task, or the name of a setting

_BITE = 1000


@dataclass
class Tables:
    """Everything the store holds. Values are never changed in place, so a copy of the dictionaries is a snapshot."""

    tasks: dict[Key, Task] = field(default_factory=dict)
    links: dict[Key, dict[str, Link]] = field(default_factory=dict)  # by the task that depends, then by the other
    events: list[Event] = field(default_factory=list)
    settings: dict[Key, Json] = field(default_factory=dict)
    vectors: dict[Key, Vector] = field(default_factory=dict)
    agents: dict[str, Agent] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    output: dict[tuple[str, str, int], tuple[tuple[datetime, OutputPiece], ...]] = field(
        default_factory=dict
    )  # by attempt

    def copy(self) -> Tables:
        return Tables(*(getattr(self, each.name).copy() for each in fields(self)))


class Turn:
    """One transaction: the tables at its start, and its changes."""

    def __init__(self, tables: Tables, now: datetime) -> None:
        self.tables = tables
        self.now = now

    # Reading

    def get(self, scope: str, task: str) -> Task:
        found = self.tables.tasks.get((scope, task))
        if found is None:
            raise NotFound(f"There is no task '{task}' in {scope}.")
        return found._replace(blockers=len(self._unfinished_prerequisites(scope, task)))

    def all(self, scope: str | None = None) -> Iterator[Task]:
        """The tasks of a scope or of all, in the order in which they were added."""
        for of, task in self.tables.tasks:
            if scope in {None, of}:
                yield self.get(of, task)

    def work(self, scope: str | None) -> Iterator[Task]:
        """The tasks of a scope, or of all scopes that hold work."""
        return (task for task in self.all(scope) if scope is not None or not is_internal(task.scope))

    def links_from(self, scope: str, task: str) -> list[Link]:
        return sorted(self.tables.links.get((scope, task), {}).values())

    def links_to(self, scope: str, task: str) -> list[Link]:
        return sorted(each[task] for (of, _), each in self.tables.links.items() if of == scope and task in each)

    def _unfinished_prerequisites(self, scope: str, task: str) -> list[str]:
        gates = [link.on for link in self.links_from(scope, task) if link.kind is LinkKind.BLOCKS]
        return [on for on in gates if not self.tables.tasks[scope, on].finished]

    def children(self, scope: str, task: str) -> list[Task]:
        return [child for child in self.tables.tasks.values() if (child.scope, child.parent) == (scope, task)]

    def claimable(self, task: Task) -> bool:
        """Whether it can be claimed now."""
        anyone = ClaimRequest(task.assigned_to or "", (), can=frozenset(task.requires))
        return lifecycle.refusal(task, anyone, self.now) is None and not lifecycle.exhausted(task, self.now)

    def inputs(self, task: Task) -> tuple[Input, ...]:
        links = [link for link in self.links_from(task.scope, task.id) if link.kind is not LinkKind.PARALLEL_OK]
        before = [self.tables.tasks[task.scope, on] for on in sorted(link.on for link in links)]
        return tuple(
            Input(each.id, each.title, each.result, each.artifacts) for each in before if each.status is Status.DONE
        )

    # Tasks

    def put(self, task: Task, event: Event | None) -> Task:
        self.tables.tasks[task.scope, task.id] = task
        if event is not None:
            self.record(event)
        return task

    def record(self, event: Event) -> None:
        last = self.tables.events[-1].seq if self.tables.events else 0
        self.tables.events.append(event._replace(seq=last + 1))

    def insert(self, task: Task, event: Event | None) -> None:
        if (task.scope, task.id) in self.tables.tasks:
            raise AlreadyExists(f"There is a task '{task.id}' in {task.scope} already; 'dibs edit' changes it.")
        self.put(task, event)

    def add(self, scope: str, draft: Draft, by: Actor) -> None:
        event = Event(self.now, scope, draft.id, "add", agent=by.agent, run=by.run, target=draft.status)
        stated = draft._asdict()
        self.insert(Task(scope=scope, created_at=self.now, updated_at=self.now, queued_at=self.now, **stated), event)

    def rewrite(self, scope: str, name: str, edit: Edit, by: Actor) -> Task:
        task = self.get(scope, name)
        changes: dict[str, Any] = edit.accepted(task)
        if not changes:
            return task
        event = events.edited(task, changes, by, self.now, edit.why)
        return self.put(task._replace(updated_at=self.now, **changes), event)

    # Links

    def link(self, scope: str, link: Link, by: Actor) -> bool:
        """Add a link; False if one at least as strong is there."""
        self.get(scope, link.task)
        self.get(scope, link.on)
        known = self.tables.links.get((scope, link.task), {}).get(link.on)
        if known is not None and STRENGTH[known.kind] >= STRENGTH[link.kind]:
            return False
        if link.kind is not LinkKind.PARALLEL_OK:
            self.refuse_cycle(scope, link.task, link.on)
        self.put_link(scope, link, by)
        return True

    def put_link(self, scope: str, link: Link, by: Actor) -> None:
        self.keep_link(scope, link)
        detail = {"on": link.on, "kind": link.kind.value, "detected_by": link.detected_by}
        self.record(Event(self.now, scope, link.task, "link", agent=by.agent, run=by.run, detail=detail))

    def keep_link(self, scope: str, link: Link) -> None:
        links = self.tables.links
        links[scope, link.task] = {**links.get((scope, link.task), {}), link.on: link}

    def drop_link(self, scope: str, link: Link) -> None:
        links = self.tables.links
        links[scope, link.task] = {on: each for on, each in links[scope, link.task].items() if on != link.on}

    def unlink(self, scope: str, link: Link, by: Actor) -> Link:
        self.get(scope, link.task)
        self.get(scope, link.on)
        known = self.tables.links.get((scope, link.task), {}).get(link.on)
        if known is None or known.kind is not link.kind:
            raise NotFound(f"There is no '{link.kind}' link from {link.task} to {link.on}.")
        self.drop_link(scope, known)
        detail = {"on": link.on, "kind": known.kind.value}
        self.record(Event(self.now, scope, link.task, "unlink", agent=by.agent, run=by.run, detail=detail))
        return known

    def refuse_cycle(self, scope: str, task: str, on: str) -> None:
        """Refuse to let a task wait for one that already waits for it."""
        trails, seen = [[task, on]], {on}
        while trails:
            trail = trails.pop()
            if trail[-1] == task:
                raise CycleDetected(trail)
            fresh = self._prerequisites(scope, trail[-1]) - seen
            trails += [[*trail, each] for each in fresh]
            seen |= fresh

    def refuse_any_cycle(self, scope: str) -> None:
        cycle = find_cycle(self.graph(scope).prerequisites())
        if cycle is not None:
            raise CycleDetected(cycle)

    def graph(self, scope: str) -> Graph:
        tasks = sorted(self.all(scope), key=lambda task: task.id)
        return Graph(tuple(tasks), tuple(link for task in tasks for link in self.links_from(scope, task.id)))

    def _prerequisites(self, scope: str, task: str) -> set[str]:
        """Its prerequisites and children."""
        links = self.links_from(scope, task)
        ordering = {link.on for link in links if link.kind is not LinkKind.PARALLEL_OK}
        return ordering | {child.id for child in self.children(scope, task)}

    # Claims

    def next_tasks(self, request: ClaimRequest, *, unable: bool = False) -> list[Task]:
        """What the request could claim, in order."""
        whose = {request.agent} if request.assigned else {None, request.agent}
        fitting = (
            task
            for task in self.all(request.scope)
            if task.assigned_to in whose
            and (unable or request.can.issuperset(task.requires))
            and request.only.matches(task)
            and self.claimable(task)
        )
        return sorted(fitting, key=order_key)

    def claim(self, request: ClaimRequest) -> list[Claimed] | DibsError:
        """A refusal is returned, not raised, so that its event is kept."""
        return self._claim_named(request) if request.ids else self._claim_next(request)

    def claim_after(self, outcomes: Sequence[Moved | DibsError], then: ClaimRequest) -> tuple[Claimed, ...]:
        """The claim after moves. A repeated request gets its first answer again; an agent at its limit gets none."""
        if any(isinstance(outcome, Moved) and outcome.repeated for outcome in outcomes):
            held = [task for task in self.all() if task.lease is not None and task.lease.token in then.tokens]
            if held:
                return tuple(Claimed(task, self.inputs(task)) for task in held)
        claimed = self._claim_next(then)
        return () if isinstance(claimed, DibsError) else tuple(claimed)

    def _claim_next(self, request: ClaimRequest) -> list[Claimed] | DibsError:
        within = self._bounded(request)
        if isinstance(within, DibsError):
            return within
        self._give_up()
        chosen = self.next_tasks(within)
        return [self._lease(task, within, token) for task, token in zip(chosen, within.tokens, strict=False)]

    def _claim_named(self, request: ClaimRequest) -> list[Claimed] | DibsError:
        scope = request.scope or ""
        within = request if request.holder is Holder.HUMAN else self._bounded(request)
        for name in request.ids:
            task = self.get(scope, name)
            refused = lifecycle.refusal(task, request, self.now)
            if refused is None and not request.takes_over and lifecycle.exhausted(task, self.now):
                self._give_up()
                task = self.get(scope, name)
                refused = lifecycle.refusal(task, request, self.now)
            if refused is None and isinstance(within, DibsError):
                refused = within
            if refused is not None:
                self.record(events.claim_refused(task, request, refused, self.now))
                return refused
        named = zip(request.ids, request.tokens, strict=True)
        return [self._lease(self.get(scope, name), request, token) for name, token in named]

    def _give_up(self) -> None:
        """Expired leases without a retry left go to a person."""
        for task in list(self.all()):
            given_up = lifecycle.exhausted(task, self.now)
            if given_up is not None:
                self.put(given_up, events.given_up(task, given_up))

    def _lease(self, task: Task, request: ClaimRequest, token: str) -> Claimed:
        held = lifecycle.claimed(task, request, token, self.now)
        return Claimed(self.put(held, events.claimed(task, held, request)), self.inputs(task))

    def _bounded(self, request: ClaimRequest) -> ClaimRequest | DibsError:
        """As much of a request as an enrolled agent may have; asking for work shows that it is there."""
        if request.agent not in self.tables.members:
            return request
        member = self.member(request.agent)
        if self.now - member.seen_at >= fleet.SEEN_EVERY:
            self.tables.members[member.agent] = member._replace(seen_at=self.now)
        return fleet.bounded(request, member.held, member.limit)

    def member(self, agent: str) -> Member:
        if agent not in self.tables.members:
            raise fleet.not_enrolled(agent)
        leased = [task for task in self.all() if task.held(self.now) and task.lease and task.lease.expires_at]
        waiting = [task for task in self.all() if task.assigned_to == agent and self.claimable(task)]
        held = sum(task.lease is not None and task.lease.agent == agent for task in leased)
        return self.tables.members[agent]._replace(held=held, waiting=len(waiting))

    # Moves

    def move(self, move: Move, on_cancel: CanceledBlocker) -> Moved | DibsError:
        """A refusal is returned, not raised, so that its event is kept."""
        try:
            task = self.get(move.scope, move.id)
        except NotFound as error:
            return error
        try:
            after = lifecycle.moved(task, move, self.now)
            if after.status is Status.DONE and after is not task:
                children = self.children(task.scope, task.id)
                lifecycle.refuse_unfinished(task, [child.id for child in children if not child.finished])
        except DibsError as error:
            if move.verb is not Verb.RENEW or isinstance(error, LostLock):
                self.record(events.move_refused(task, move, error, self.now))
            return error
        if after is task:
            return Moved(task, repeated=True)
        self.put(after, None if move.verb is Verb.RENEW else events.moved(task, after, move))
        done = self.draw_along(after, move.by, on_cancel)
        over = [after.id, *done.canceled] if after.finished else []
        freed = {link.task for gone in over for link in self.links_to(move.scope, gone) if link.kind is LinkKind.BLOCKS}
        done.unblocked += sorted(name for name in freed if self.claimable(self.get(move.scope, name)))
        done.settle()
        return Moved(after, tuple(done.unblocked), tuple(done.escalated), tuple(done.canceled))

    def draw_along(self, task: Task, by: Actor, on_cancel: CanceledBlocker) -> Consequences:
        """Escalate or cancel what waited for a canceled task, as the policy says."""
        done = Consequences()
        verb = lifecycle.pull(on_cancel)
        gone = [task] if task.status is Status.CANCELED else []
        while gone and verb is not None:
            canceled = gone.pop()
            for link in self.links_to(canceled.scope, canceled.id):
                waiting = self.get(canceled.scope, link.task)
                if link.kind is LinkKind.BLOCKS and lifecycle.goes_along(waiting, verb):
                    along = lifecycle.going_along(waiting.id, waiting.scope, verb, canceled.id, by)
                    after = lifecycle.moved(waiting, along, self.now)
                    self.put(after, events.moved(waiting, after, along))
                    done.drawn(verb, after.id)
                    gone += [after] if verb is Verb.CANCEL else []
        return done

    # Plans

    def apply_plan(
        self, scope: str, plan: Plan, on_cancel: CanceledBlocker, by: Actor, progress: Callable[[int], None]
    ) -> PlanChanges:
        """Old links go first, so that a plan may turn an order around; cycles are looked for at the end."""
        here = list(self.all(scope))
        own = [link for task in here for link in self.links_from(scope, task.id)]
        changes = diff(plan, here, own, {task.id for task in here}, self.now)
        for link in changes.unlink:
            self.unlink(scope, link, by)
        for planned in changes.insert:
            self.add(scope, planned.draft, by)
            progress(1)
        for name in changes.reopen:
            insist([self.move(Move(Verb.REOPEN, name, scope, by, force=True), CanceledBlocker.RESOLVES)])
        for name, edit in changes.edit:
            self.rewrite(scope, name, edit, by)
            progress(1)
        for link in changes.link:
            self.put_link(scope, link, by)
        self.refuse_any_cycle(scope)
        for name in changes.remove:
            removal = Move(Verb.CANCEL, name, scope, by, force=True, reason=REMOVED)
            insist([self.move(removal, CanceledBlocker.RESOLVES)])
            progress(1)
        for name in changes.remove:  # only now, so that tasks that are removed together do not draw each other along
            self.draw_along(self.get(scope, name), by, on_cancel)
        return changes

    # Transfer

    def dump(self) -> Iterator[Record]:
        tables = self.tables
        yield from (Record(task.scope, task) for task in self.all())
        for scope, task in tables.tasks:
            yield from (Record(scope, link) for link in self.links_from(scope, task))
        yield from (Record(scope, Setting(name, value)) for (scope, name), value in sorted(tables.settings.items()))
        yield from (Record(event.scope, event) for event in tables.events)

    def restore(self, scope: str, item: Task | Link | Setting | Event) -> None:
        match item:
            case Task():
                self.insert(item._replace(blockers=0), None)
            case Event():
                self.record(item)
            case Setting():
                if (scope, item.name) in self.tables.settings:
                    raise AlreadyExists(f"There is a setting '{item.name}' in {scope} already.")
                self.tables.settings[scope, item.name] = item.value
            case Link():
                if not {(scope, item.task), (scope, item.on)} <= self.tables.tasks.keys():
                    raise InvalidInput(f"A link leads from {item.task} to {item.on}, but not both are in {scope}.")
                self.keep_link(scope, item)

    def refuse_orphans(self, scope: str) -> None:
        for task in self.all(scope):
            if task.parent is not None and (scope, task.parent) not in self.tables.tasks:
                raise InvalidInput(f"{task.id} names the parent {task.parent}, which is not there.")

    def prune_events(self, before: datetime) -> int:
        """Drop some of the oldest events. The newest stays: its number is where numbering goes on."""
        old = [event for event in self.tables.events[:-1][:_BITE] if event.at < before]
        gone = {event.seq for event in old}
        self.tables.events = [event for event in self.tables.events if event.seq not in gone]
        for key, kept in self.tables.output.items():
            self.tables.output[key] = tuple(one for one in kept if one[0] >= before)
        return len(old)

    def prune_tasks(self, before: datetime) -> int:
        """Drop some tasks that finished long ago and that no unfinished task refers to, children before parents."""
        gone = 0
        for task in [task for task in self.tables.tasks.values() if task.finished_at and task.finished_at < before]:
            links = self.links_to(task.scope, task.id)
            needed = any(not self.tables.tasks[task.scope, link.task].finished for link in links)
            if not needed and not self.children(task.scope, task.id) and gone < _BITE:
                for link in [*links, *self.links_from(task.scope, task.id)]:
                    self.drop_link(task.scope, link)
                del self.tables.tasks[task.scope, task.id]
                self.tables.vectors.pop((task.scope, task.id), None)
                for key in [key for key in self.tables.output if key[:2] == (task.scope, task.id)]:
                    del self.tables.output[key]
                gone += 1
        return gone
