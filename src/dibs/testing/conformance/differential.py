"""Random operations on a store and on the oracle: after every step, both must give the same answer."""

from __future__ import annotations

import random
from datetime import timedelta
from difflib import ndiff
from itertools import count
from pprint import pformat
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dibs.core.errors import DibsError
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.plan import PlanChanges
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Claimed, Draft, Edit, Holder, Link, LinkKind, ServiceClass, Status, Task, order_key
from dibs.stores.port import EventQuery, Moved, Query
from dibs.stores.reports import Counts

from .builders import plan, quiet
from .oracle import HOPELESS, Told, verbs_from
from .oracle_plans import Planned, PlanningOracle
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.events import Event
    from dibs.stores.port import Store

    from .suite import Harness


EXAMPLES = settings().max_examples
STEPS = 40
WALK = 250

NAMES = [f"t{number}" for number in range(7)]
AGENTS = ["ann", "bob"]
SCOPES = ["x", "x", "x", "y"]
MINUTES = [1, 5, 10, 20, 60]
KINDS = [LinkKind.BLOCKS, LinkKind.BLOCKS, *LinkKind]
SKILLS = [frozenset[str](), frozenset({"gpu"})]
FINISHES = [Verb.DONE] * 4 + [Verb.FAIL, Verb.RELEASE, Verb.CANCEL, Verb.REVIEW, Verb.RENEW]

# The values a field may have; any may be left out.
STATED: dict[str, list[Any]] = {
    "status": [Status.READY, Status.BACKLOG, Status.REVIEW],
    "service_class": list(ServiceClass),
    "override": [False, True],
    "priority": [0, 1, 2.5],
    "parent": NAMES,
    "requires": [(), ("gpu",)],
    "assigned_to": AGENTS,
    "max_retries": [0, 1],
    "spec_ref": ["s"],
}
EDITED: dict[str, list[Any]] = {
    "title": ["Old", "New"],
    "priority": [0, 1, 2.5],
    "override": [False, True],
    "parent": [*NAMES, None],
    "requires": [(), ("gpu",)],
    "assigned_to": [*AGENTS, None],
    "max_retries": [0, 1, None],
    "extra": [{}, {"k": [1, None]}],
}
BROUGHT: dict[str, list[Any]] = {
    "reason": ["why", "because"],
    "result": [{"n": 1}, [], "text", False],
    "artifacts": [("file",)],
    "unblock_action": ["ask"],
    "lease": [timedelta(minutes=span) for span in MINUTES],
    "requeue": [True],
    "named": [True],
    "late_ok": [True],
}
PLANNED: dict[str, list[Any]] = {
    "p": [0, 1, 2],
    "spec": ["s"],
    "deps": [[], ["t0"], ["t1"], ["t0", "t2"], ["t3", "t1"], ["t5"]],
    "feeds_from": [["t0"], ["t2"], ["t4"]],
    "parent": NAMES,
    "max_retries": [0, 1],
}
FIRST: dict[str, list[Any]] = {name: STATED[name] for name in ("priority", "max_retries", "spec_ref", "service_class")}


def some_of(fields: dict[str, list[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in fields.items()})


names = st.sampled_from(NAMES)
scopes = st.sampled_from(SCOPES)
tasks = st.tuples(scopes, names)
agents = st.sampled_from(AGENTS)
actors = st.tuples(st.sampled_from([*AGENTS, None]), st.sampled_from(["run", None])).map(lambda who: Actor(*who))
minutes = st.sampled_from(MINUTES)
rules = st.sampled_from(CanceledBlocker)
skills = st.sampled_from(SKILLS)
links = st.tuples(names, names, st.sampled_from(KINDS)).map(lambda ends: Link(*ends))
rarely = st.sampled_from([False] * 5 + [True])
picks = st.integers(0, 30)
entries = st.tuples(names, some_of(PLANNED)).map(lambda pair: {"id": pair[0], **pair[1]})


class Machine(RuleBasedStateMachine):
    """Hypothesis chooses the operations of a Pair."""

    def __init__(self, harness: Harness[Store]) -> None:
        super().__init__()
        self.pair = Pair(harness)

    @initialize(
        given=st.lists(some_of(FIRST), min_size=9, max_size=9),
        waits=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=8),
    )
    def start(self, **drawn: Any) -> None:
        self.pair.start(**drawn)

    @rule(scope=scopes, name=names, fields=some_of(STATED), links=st.lists(links, max_size=2), kind=picks, by=actors)
    def add_one(self, **drawn: Any) -> None:
        self.pair.add_one(**drawn)

    @rule(agent=agents, scope=scopes | st.none(), number=st.integers(1, 3), span=minutes, can=skills)
    def claim_next(self, **drawn: Any) -> None:
        self.pair.claim_next(**drawn)

    @rule(
        agent=agents,
        scope=scopes,
        ids=st.lists(names, min_size=1, max_size=2, unique=True),
        span=minutes,
        can=skills,
        human=rarely,
        force=rarely,
    )
    def claim_named(self, **drawn: Any) -> None:
        self.pair.claim_named(**drawn)

    @rule(task=tasks, pick=picks, which=picks, by=actors, force=rarely, more=some_of(BROUGHT), on_cancel=rules)
    def move(self, **drawn: Any) -> None:
        self.pair.move(**drawn | {"which": drawn["which"] % 7})

    @rule(
        pick=picks,
        verb=st.sampled_from(FINISHES),
        by=actors,
        on_cancel=rules,
        more=some_of(BROUGHT),
        then=agents | st.none(),
        again=rarely,
    )
    def finish(self, **drawn: Any) -> None:
        self.pair.finish(**drawn)

    @rule(agent=agents, verb=st.sampled_from(FINISHES), on_cancel=rules, more=some_of(BROUGHT))
    def work(self, **drawn: Any) -> None:
        self.pair.work(**drawn)

    @rule(span=minutes)
    def time_passes(self, **drawn: Any) -> None:
        self.pair.time_passes(**drawn)

    @rule(scope=scopes, links=st.lists(links, min_size=1, max_size=3), by=actors)
    def link(self, **drawn: Any) -> None:
        self.pair.link(**drawn)

    @rule(pick=picks, scope=scopes, links=st.lists(links, min_size=1, max_size=2), by=actors)
    def unlink(self, **drawn: Any) -> None:
        self.pair.unlink(**drawn)

    @rule(task=tasks, fields=some_of(EDITED), put_off=st.integers(0, 3), by=actors)
    def amend(self, **drawn: Any) -> None:
        self.pair.amend(**drawn)

    @rule(
        scope=scopes,
        entries=st.lists(entries, max_size=5, unique_by=lambda entry: str(entry["id"])),
        on_cancel=rules,
        by=actors,
        empty=st.booleans(),
    )
    def apply_plan(self, **drawn: Any) -> None:
        self.pair.apply_plan(**drawn)

    @rule()
    def reopen(self) -> None:
        self.pair.reopen()

    @invariant()
    def both_are_the_same(self) -> None:
        self.pair.compare()

    def teardown(self) -> None:
        self.pair.store.close()


class Walker:
    """A random generator chooses the operations of a Pair: mostly claims and finishes, sometimes interference."""

    def __init__(self, pair: Pair, seed: int) -> None:
        self.pair = pair
        self.chance = random.Random(seed)
        self.pair.start([self.some_of(FIRST) for _ in range(9)], [self.two(range(6)) for _ in range(6)])

    def walk(self, steps: int) -> None:
        ways: dict[Callable[[], None], int] = {
            self.add: 12, self.claim_next: 12, self.claim_named: 8, self.move: 20, self.finish: 16, self.work: 16,
            self.time_passes: 10, self.link: 10, self.unlink: 3, self.amend: 6, self.apply_plan: 5,
        }  # fmt: skip
        for way in self.chance.choices(list(ways), list(ways.values()), k=steps):
            way()
            self.pair.compare()

    def some_of(self, fields: dict[str, list[Any]]) -> dict[str, Any]:
        return {name: self.chance.choice(values) for name, values in fields.items() if self.chance.random() < 0.3}

    def two(self, numbers: range) -> tuple[int, int]:
        return self.chance.choice(numbers), self.chance.choice(numbers)

    @property
    def task(self) -> tuple[str, str]:
        """Usually an unfinished task."""
        tasks = sorted(self.pair.oracle.tasks)
        unfinished = [key for key in tasks if not self.pair.oracle.tasks[key].finished]
        return self.chance.choice(tasks if self.rarely or not unfinished else unfinished)

    @property
    def by(self) -> Actor:
        return Actor(self.chance.choice([*AGENTS, None]), self.chance.choice(["run", None]))

    @property
    def rule(self) -> CanceledBlocker:
        return self.chance.choice(list(CanceledBlocker))

    @property
    def rarely(self) -> bool:
        return self.chance.random() < 0.15

    def links(self, scope: str, number: int) -> list[Link]:
        here = sorted(name for of, name in self.pair.oracle.tasks if of == scope)
        return [
            Link(self.chance.choice(here), self.chance.choice(here), self.chance.choice(KINDS)) for _ in range(number)
        ]

    def add(self) -> None:
        scope = self.chance.choice(SCOPES)
        links = self.links(scope, self.chance.choice([0, 1, 1, 2, 3]))
        fields = self.some_of(STATED)
        self.pair.add_one(scope, self.chance.choice(NAMES), fields, links, self.chance.randrange(6), self.by)

    def claim_next(self) -> None:
        scope, number = self.chance.choice([*SCOPES, None]), self.chance.randrange(1, 4)
        self.pair.claim_next(
            self.chance.choice(AGENTS), scope, number, self.chance.choice(MINUTES), self.chance.choice(SKILLS)
        )

    def claim_named(self) -> None:
        scope, name = self.task
        ids = list(dict.fromkeys([name, self.chance.choice([name, self.task[1]])]))
        span, can = self.chance.choice(MINUTES), self.chance.choice(SKILLS)
        self.pair.claim_named(self.chance.choice(AGENTS), scope, ids, span, can, self.rarely, self.rarely)

    def move(self) -> None:
        more = self.some_of(BROUGHT)
        pick, which = self.chance.randrange(31), self.chance.randrange(7)
        self.pair.move(self.task, pick, which, self.by, self.rarely, more, self.rule)

    def finish(self) -> None:
        verb, then = self.chance.choice(FINISHES), self.chance.choice([*AGENTS, None])
        more = self.some_of(BROUGHT)
        self.pair.finish(self.chance.randrange(31), verb, self.by, self.rule, more, then, self.rarely)

    def work(self) -> None:
        verb = self.chance.choice(FINISHES)
        self.pair.work(self.chance.choice(AGENTS), verb, self.rule, self.some_of(BROUGHT))

    def time_passes(self) -> None:
        self.pair.time_passes(self.chance.choice(MINUTES))

    def link(self) -> None:
        scope = self.chance.choice(SCOPES)
        self.pair.link(scope, self.links(scope, self.chance.choice([1, 1, 2, 3])), self.by)

    def unlink(self) -> None:
        self.pair.unlink(self.chance.randrange(9), "x", self.links("x", 2), self.by)

    def amend(self) -> None:
        self.pair.amend(self.task, self.some_of(EDITED), self.chance.randrange(4), self.by)

    def apply_plan(self) -> None:
        scope = self.chance.choice(SCOPES)
        chosen = self.chance.sample(NAMES, self.chance.randrange(6))
        entries = [{"id": name, **self.some_of(PLANNED)} for name in chosen]
        self.pair.apply_plan(scope, entries, self.rule, self.by, self.rarely)


@needs("links", "scopes", "history")
class DifferentialTests(Suite):
    """Hypothesis tries short sequences and shrinks failures; long walks reach states that short ones do not."""

    def test_store_agrees_with_the_oracle(self, harness: Harness[Store]) -> None:
        class OnThisStore(Machine):
            def __init__(self) -> None:
                super().__init__(harness)

        run_state_machine_as_test(
            OnThisStore,
            settings=settings(
                max_examples=max(1, EXAMPLES // self.pace),
                stateful_step_count=STEPS,
                report_multiple_bugs=False,
                deadline=None,
                suppress_health_check=[HealthCheck.too_slow],
            ),
        )

    @pytest.mark.parametrize("seed", range(max(1, EXAMPLES // 25)))
    def test_store_agrees_with_the_oracle_on_a_long_walk(self, harness: Harness[Store], seed: int) -> None:
        pair = Pair(harness)
        with pair.store:
            Walker(pair, seed).walk(WALK // max(1, self.pace // 5))


class Pair:
    """The operations of the differential tests. Numbers select one of the existing tasks, links or verbs."""

    def __init__(self, harness: Harness[Store]) -> None:
        self.harness = harness
        self.store = harness.open()
        self.oracle = PlanningOracle(harness.clock)
        self.numbers = count(1)
        self.issued: list[str] = []
        self.seen_events = 0
        self.seen_told = 0

    def start(self, given: Sequence[dict[str, Any]], waits: Sequence[tuple[int, int]]) -> None:
        names = [*NAMES[:6], *NAMES[:3]]
        drafts = [Draft("Task", name, **fields) for name, fields in zip(names, given, strict=True)]
        links = [Link(NAMES[max(pair)], NAMES[min(pair)]) for pair in waits if pair[0] != pair[1]]
        self.add("x", drafts[:6], links, Actor())
        self.add("y", drafts[6:], [], Actor())

    def add(self, scope: str, drafts: list[Draft], links: list[Link], by: Actor) -> None:
        self.both(lambda: self.store.add(scope, drafts, links, by), lambda: self.oracle.add(scope, drafts, links, by))

    def add_one(self, scope: str, name: str, fields: dict[str, Any], links: list[Link], kind: int, by: Actor) -> None:
        """Add a task, usually new with its own links, sometimes with a child."""
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
        """Make a move, usually one that the status allows, with the right token."""
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
        """Finish a held task; optionally claim the next one for `then`, or send the request twice."""
        held = [task for task in self.oracle.all() if task.lease is not None]
        if held:
            task = held[pick % len(held)]
            asked = Move(verb, task.id, task.scope, by, token=task.lease and task.lease.token, **more)
            going_on = ClaimRequest(then, self.tokens(1), None) if then else None
            for _ in range(2 if again else 1):
                self.ask(asked, on_cancel, going_on)

    def work(self, agent: str, verb: Verb, on_cancel: CanceledBlocker, more: dict[str, Any]) -> None:
        """Claim the next task and finish it immediately."""
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

    def both(self, ours: Callable[[], object], theirs: Callable[[], object], moved: str | None = None) -> None:
        """Tasks that the store exhausted during its call are exhausted in the oracle first, except the moved task."""
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

    def tokens(self, number: int) -> tuple[str, ...]:
        fresh = tuple(f"token-{next(self.numbers)}" for _ in range(number))
        self.issued += fresh
        return fresh

    def token(self, task: Task | None, which: int) -> str | None:
        """The current token, the spent one, an earlier one of any task, or none."""
        if task is not None and task.lease is not None and which < 3:
            return task.lease.token
        if task is not None and which == 3:
            return task.spent_token
        if which == 4 and self.issued:
            return self.issued[len(self.oracle.told) % len(self.issued)]
        return None


def same(what: str, ours: object, theirs: object) -> None:
    """Fail with only the differing lines."""
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
    """If several canceled prerequisites cancel a task, a store may name any of them."""
    return "prerequisite … was canceled" if reason and reason.startswith("prerequisite ") else reason


def in_words(told: Told) -> tuple[str, ...]:
    """A sort key that is equal for a verb and its name."""
    return tuple(map(str, told))


def as_told(event: Event) -> Told:
    return Told(
        event.scope, event.task, event.verb, event.outcome, event.agent, event.run, event.attempt or None,
        event.source, event.target, unnamed(event.reason),
    )  # fmt: skip
