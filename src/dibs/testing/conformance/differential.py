"""Random operations on a store and on the oracle: after every step both must answer the same."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Link, LinkKind, ServiceClass, Status

from .pair import NAMES, Pair
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store

    from .harness import Harness


EXAMPLES = settings().max_examples
STEPS = 40
WALK = 250

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
    """Hypothesis at the wheel of a Pair."""

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
    """Chance at the wheel of a Pair: work goes on and on, and now and then someone interferes."""

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
        """Mostly one that is not finished."""
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
    """Hypothesis tries short sequences and shrinks its findings; long walks reach states that short ones do not."""

    def test_a_store_does_what_the_oracle_does(self, harness: Harness[Store]) -> None:
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
    def test_a_store_goes_with_the_oracle_on_a_long_walk(self, harness: Harness[Store], seed: int) -> None:
        pair = Pair(harness)
        with pair.store:
            Walker(pair, seed).walk(WALK // max(1, self.pace // 5))
