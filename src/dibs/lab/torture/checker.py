"""All rules, and the verdict on a history."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from dibs.lab.torture.checking import holders, keeping, order, starving
from dibs.lab.torture.checking.story import Assumptions, Story, Violation
from dibs.lab.torture.history import Operation

RULES: tuple[Callable[[Story], Iterator[Violation]], ...] = (
    holders.one_holder,
    holders.rising_attempts,
    holders.proof,
    holders.latest_attempt,
    holders.in_time,
    holders.finished_once,
    holders.set_aside,
    order.blockers_first,
    order.no_cycle,
    keeping.nothing_lost,
    keeping.as_said,
    keeping.links_kept,
    keeping.counters_true,
    starving.no_starvation,
)


class Figures(NamedTuple):
    """How it went."""

    operations: int
    seconds: float
    claims: int
    finishes: int  # tasks that were done
    unknown: int
    lost_locks: int  # words of late holders and impostors, refused
    slowest: float
    outcomes: Mapping[str, int]


def violations(operations: Sequence[Operation], assumptions: Assumptions) -> list[Violation]:
    """Everything in a history that a desk with one holder for each task could not have said."""
    story = Story(operations, assumptions)
    return [violation for rule in RULES for violation in rule(story)]


def figures(operations: Sequence[Operation]) -> Figures:
    asked = [operation for operation in operations if operation.verb != "look"]
    spans = [operation.end - operation.begin for operation in asked if operation.end is not None]
    last = max((operation.end or operation.begin for operation in asked), default=0.0)
    return Figures(
        operations=len(asked),
        seconds=last - asked[0].begin if asked else 0.0,
        claims=sum(len(operation.given) for operation in asked),
        finishes=len({operation.task for operation in asked if operation.verb == "done" and operation.ok}),
        unknown=sum(operation.outcome == "unknown" for operation in asked),
        lost_locks=sum(operation.code == "LOST_LOCK" for operation in asked),
        slowest=max(spans, default=0.0),
        outcomes=dict(sorted(Counter(f"{each.verb} {each.code or each.outcome}" for each in asked).items())),
    )
