"""A store and the oracle side by side: whatever is asked is asked of both, and both must answer the same."""

from __future__ import annotations

from datetime import timedelta
from difflib import ndiff
from itertools import count
from pprint import pformat
from typing import TYPE_CHECKING, Any

from dibs.core.errors import DibsError
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.plan import PlanChanges
from dibs.core.task import Actor, Claimed, Draft, Edit, Holder, Link, LinkKind, Status, Task, order_key
from dibs.stores.port import EventQuery, Moved, Query
from dibs.stores.reports import Counts

from .builders import plan, quiet
from .oracle import HOPELESS, Told, verbs_from
from .oracle_plans import Planned, PlanningOracle

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.events import Event
    from dibs.core.policy import CanceledBlocker
    from dibs.stores.port import Store

    from .harness import Harness

# Few names: what matters is that they meet. All but the last are there from the start.
NAMES = [f"t{number}" for number in range(7)]


class Pair:
    """The operations of the differential tests. Numbers pick among what is there; what they mean never matters."""

    def __init__(self, harness: Harness[Store]) -> None:
        self.harness = harness
        self.store = harness.open()
        self.oracle = PlanningOracle(harness.clock)
        self.numbers = count(1)
        self.issued: list[str] = []
        self.seen_events = 0
        self.seen_told = 0

    # What can be done

    def start(self, given: Sequence[dict[str, Any]], waits: Sequence[tuple[int, int]]) -> None:
        """Six tasks here and three there, some of which wait for others."""
        names = [*NAMES[:6], *NAMES[:3]]
        drafts = [Draft("Task", name, **fields) for name, fields in zip(names, given, strict=True)]
        links = [Link(NAMES[max(pair)], NAMES[min(pair)]) for pair in waits if pair[0] != pair[1]]
        self.add("x", drafts[:6], links, Actor())
        self.add("y", drafts[6:], [], Actor())

    def add(self, scope: str, drafts: list[Draft], links: list[Link], by: Actor) -> None:
        self.both(lambda: self.store.add(scope, drafts, links, by), lambda: self.oracle.add(scope, drafts, links, by))

    def add_one(self, scope: str, name: str, fields: dict[str, Any], links: list[Link], kind: int, by: Actor) -> None:
        """Mostly a new task with links of its own, sometimes with a child."""
        if kind:
            name = f"n{next(self.numbers)}"
            links = [link._replace(task=name) for link in links]
        drafts = [Draft(f"Task {name}", name, **fields)]
        if kind == 1:
            drafts.append(Draft("Child", f"{name}-1", parent=name))
        self.add(scope, drafts, links, by)

    def claim_next(self, agent: str, scope: str | None, number: int, span: int, can: frozenset[str]) -> None:
        self.claim(ClaimRequest(agent, self.tokens(number), scope, lease=timedelta(minutes=span), can=can))

    def claim_named(
        self, agent: str, scope: str, ids: Sequence[str], span: int, can: frozenset[str], human: bool, force: bool
    ) -> None:
        holder = Holder.HUMAN if human else Holder.AGENT
        tokens, lease = self.tokens(len(ids)), timedelta(minutes=span)
        self.claim(ClaimRequest(agent, tokens, scope, tuple(ids), "run", holder, lease, can, force))

    def claim(self, request: ClaimRequest) -> None:
        self.both(lambda: self.store.claim(request), lambda: self.oracle.claim(request))

    def move(
        self,
        task: tuple[str, str],
        pick: int,
        which: int,
        by: Actor,
        force: bool,
        more: dict[str, Any],
        on_cancel: CanceledBlocker,
    ) -> None:
        """Mostly something that the task's status allows, mostly with the right token."""
        known = self.oracle.tasks.get(task)
        legal = verbs_from(known.status) if known is not None else []
        verb = legal[pick % len(legal)] if legal and pick > 5 else list(Verb)[pick % len(Verb)]
        later = self.harness.clock() + timedelta(minutes=10) if pick % 2 else None
        token = self.token(known, which)
        asked = Move(verb, task[1], task[0], by, token=token, force=force, not_before=later, **more)
        self.ask(asked, on_cancel, None)

    def finish(
        self,
        pick: int,
        verb: Verb,
        by: Actor,
        on_cancel: CanceledBlocker,
        more: dict[str, Any],
        then: str | None,
        again: bool,
    ) -> None:
        """The usual thing: a holder ends its work, and maybe goes on as `then`, or asks twice."""
        held = [task for task in self.oracle.all() if task.lease is not None]
        if held:
            task = held[pick % len(held)]
            asked = Move(verb, task.id, task.scope, by, token=task.lease and task.lease.token, **more)
            going_on = ClaimRequest(then, self.tokens(1), None) if then else None
            for _ in range(2 if again else 1):
                self.ask(asked, on_cancel, going_on)

    def work(self, agent: str, verb: Verb, on_cancel: CanceledBlocker, more: dict[str, Any]) -> None:
        """Claim whatever comes first and end it at once."""
        (token,) = self.tokens(1)
        self.claim(ClaimRequest(agent, (token,), None, can=frozenset({"gpu"})))
        for task in self.oracle.all():
            if task.lease is not None and task.lease.token == token:
                self.ask(Move(verb, task.id, task.scope, Actor(agent), token=token, **more), on_cancel, None)

    def ask(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None) -> None:
        self.both(
            lambda: self.store.move(move, on_cancel, then),
            lambda: self.oracle.move(move, on_cancel, then),
            moved=f"{move.scope}/{move.id}",
        )

    def time_passes(self, span: int) -> None:
        self.harness.clock.advance(minutes=span)

    def link(self, scope: str, links: list[Link], by: Actor) -> None:
        links = [link for link in links if link.task != link.on or link.kind is not LinkKind.PARALLEL_OK]
        self.both(lambda: self.store.link(scope, links, by), lambda: self.oracle.link(scope, links, by))

    def unlink(self, pick: int, scope: str, links: list[Link], by: Actor) -> None:
        """Mostly a link that is there."""
        known = sorted(self.oracle.edges.items())
        if known and pick:
            (scope, *_), link = known[pick % len(known)]
            links = [link]
        self.both(lambda: self.store.unlink(scope, links, by), lambda: self.oracle.unlink(scope, links, by))

    def amend(self, task: tuple[str, str], fields: dict[str, Any], put_off: int, by: Actor) -> None:
        edit = Edit(**fields)
        if put_off < 2:
            edit = edit._replace(not_before=self.harness.clock() + timedelta(minutes=10) if put_off else None)
        self.both(lambda: self.store.amend(*task, edit, by), lambda: self.oracle.amend(*task, edit, by))

    def apply_plan(
        self, scope: str, entries: list[dict[str, Any]], on_cancel: CanceledBlocker, by: Actor, empty: bool
    ) -> None:
        if not self.store.capabilities.transactions:
            return
        entries = [entry for entry in entries if entry["id"] not in entry.get("deps", []) + entry.get("feeds_from", [])]
        wanted = plan(*entries)
        if empty:
            wanted = wanted._replace(specs=frozenset({"s"}))
        self.both(
            lambda: self.store.apply_plan(scope, wanted, on_cancel, by, dry_run=False, progress=quiet),
            lambda: self.oracle.apply_plan(scope, wanted, on_cancel, by),
        )

    def reopen(self) -> None:
        self.store = self.harness.reopen(self.store)

    # What must be the same

    def both(self, ours: Callable[[], object], theirs: Callable[[], object], moved: str | None = None) -> None:
        """What the store gave up on its way, the oracle gives up first; but a task that was moved is given up only by
        the claim that follows."""
        answer = outcome(ours)
        for event in self.store.events(EventQuery(after=self.seen_events)):
            if event.verb == Verb.EXHAUST and event.reason == HOPELESS and f"{event.scope}/{event.task}" != moved:
                self.oracle.give_up(event.scope, event.task)
        same("answer", answer, outcome(theirs))

    def compare(self) -> None:
        self.tasks_and_links_are_the_same()
        self.the_next_tasks_are_the_same()
        self.the_record_is_the_same()
        self.what_is_derived_is_right()

    def tasks_and_links_are_the_same(self) -> None:
        everything = self.oracle.all()
        same("tasks", [plain(task) for task in self.store.find(Query())], [plain(task) for task in everything])
        for middle in everything[len(everything) // 2 :][:1]:
            behind = [task for task in everything if task.scope == middle.scope and order_key(task) > order_key(middle)]
            page = self.store.find(Query(middle.scope, limit=3, after=order_key(middle)))
            same("page", [plain(task) for task in page], [plain(task) for task in behind[:3]])
        for scope in self.store.scopes():
            edges = [link for (of, _, _), link in self.oracle.edges.items() if of == scope]
            same("links", sorted(self.store.graph(scope, finished=True).links), sorted(edges))

    def the_next_tasks_are_the_same(self) -> None:
        for request in (ClaimRequest("ann", (), "x"), ClaimRequest("bob", (), None, can=frozenset({"gpu"}))):
            for unable in (False, True):
                ours, theirs = self.store.peek(request, 999, unable=unable), self.oracle.peek(request, unable=unable)
                same("next tasks", [plain(task) for task in ours], [plain(task) for task in theirs])

    def the_record_is_the_same(self) -> None:
        fresh = self.store.events(EventQuery(after=self.seen_events))
        told = [one._replace(reason=unnamed(one.reason)) for one in self.oracle.told[self.seen_told :]]
        self.seen_events = max([self.seen_events, *(event.seq for event in fresh)])
        self.seen_told = len(self.oracle.told)
        same("events", sorted(map(as_told, fresh), key=in_words), sorted(told, key=in_words))

    def what_is_derived_is_right(self) -> None:
        same("findings", self.store.check(fix=False), [])
        everything = self.oracle.all()
        ready = [task for task in everything if task.status is Status.READY]
        expected = Counts(
            {status: sum(task.status is status for task in everything) for status in Status},
            waiting=sum(task.blockers > 0 for task in ready),
            claimable=sum(self.oracle.up_for_work(task) for task in everything),
            expired=sum(self.oracle.up_for_work(task) for task in everything if task.status is Status.ACTIVE),
            later=sum(self.oracle.early(task) and not task.blockers for task in ready),
            next_due=self.oracle.next_due(),
        )
        same("counts", self.store.counts(None), expected)

    # Tokens

    def tokens(self, number: int) -> tuple[str, ...]:
        fresh = tuple(f"token-{next(self.numbers)}" for _ in range(number))
        self.issued += fresh
        return fresh

    def token(self, task: Task | None, which: int) -> str | None:
        """The right one, the spent one, one that was given to someone some time, or none."""
        if task is not None and task.lease is not None and which < 3:
            return task.lease.token
        if task is not None and which == 3:
            return task.spent_token
        if which == 4 and self.issued:
            return self.issued[len(self.oracle.told) % len(self.issued)]
        return None


def same(what: str, ours: object, theirs: object) -> None:
    """Fail with the difference alone; a whole store would hide it."""
    if ours != theirs:
        lines = ndiff(pformat(theirs, width=160).splitlines(), pformat(ours, width=160).splitlines())
        differences = "\n".join(line.rstrip() for line in lines if line[0] in "-+")
        raise AssertionError(f"the {what} of the oracle (-) and of the store (+) differ:\n{differences}")


def outcome(ask: Callable[[], object]) -> object:
    try:
        return comparable(ask())
    except DibsError as error:
        return error.code


def comparable(answer: object) -> object:
    match answer:
        case Task():
            return plain(answer)
        case Claimed():
            return plain(answer.task), answer.inputs
        case Moved():
            drawn = [sorted(answer.unblocked), sorted(answer.escalated), sorted(answer.canceled)]
            return plain(answer.task), drawn, [comparable(claimed) for claimed in answer.next], answer.repeated
        case PlanChanges():
            return comparable(by_name(answer))
        case Planned():
            return {name: sorted(getattr(answer, name)) for name in answer._fields}
        case list():
            return [comparable(one) for one in answer]
    return answer


def by_name(changes: PlanChanges) -> Planned:
    return Planned(
        insert=[planned.draft.id for planned in changes.insert],
        edit=[name for name, _ in changes.edit],
        reopen=list(changes.reopen),
        remove=list(changes.remove),
        link=[(link.task, link.on, link.kind) for link in changes.link],
        unlink=[(link.task, link.on, link.kind) for link in changes.unlink],
        skipped_done=list(changes.skipped_done),
        skipped_active=list(changes.skipped_active),
        skipped_canceled=list(changes.skipped_canceled),
    )


def plain(task: Task) -> dict[str, Any]:
    return task._replace(reason=unnamed(task.reason))._asdict()


def unnamed(reason: str | None) -> str | None:
    """Where several canceled prerequisites draw a task along, a store may name any of them."""
    return "prerequisite … was canceled" if reason and reason.startswith("prerequisite ") else reason


def in_words(told: Told) -> tuple[str, ...]:
    """Sorts alike whether a store answers with a verb or with its name."""
    return tuple(map(str, told))


def as_told(event: Event) -> Told:
    return Told(
        event.scope, event.task, event.verb, event.outcome, event.agent, event.run, event.attempt or None,
        event.source, event.target, unnamed(event.reason),
    )  # fmt: skip
