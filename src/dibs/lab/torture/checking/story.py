"""The history, sorted by task: attempts, what was said about them, links, and what was found in the end."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from dibs.lab.torture.history import ENDINGS, Operation

NEVER = float("inf")


class Assumptions(NamedTuple):
    """What a history is judged by.

    A lease may end so many seconds `early` or `late` by the workers' own clock: clocks drift, and some are set wrong on
    purpose. A claim that was not answered may hold its task for `unanswered` seconds more than its lease. Where
    `fenced` is false the store promises one holder, by time, and nothing about numbers. Nobody has to wait for longer
    than `patience` while others are told that there is nothing to do. Where last words `prolong` a lease, so that it
    lasts while they are said, one that was not answered leaves its holder the task for some time more.
    """

    early: float = 0.05
    late: float = 0.25
    fenced: bool = True
    patience: float = 5.0
    unanswered: float = 0.0
    prolong: bool = False


class Violation(NamedTuple):
    """Something that no truthful desk says. `proof` are the few operations that show it."""

    rule: str
    task: str
    message: str
    proof: tuple[Operation, ...]


class Attempt(NamedTuple):
    """A task in someone's hands. `words` are what was said with its token, `leased` the surest end of its lease, and
    `lapsed` when that is over whatever happened."""

    task: str
    number: int
    token: str
    claim: Operation
    words: tuple[Operation, ...] = ()
    leased: float = 0.0
    lapsed: float = 0.0

    @property
    def ended(self) -> float:
        """Before this moment nobody asked for its end."""
        return min((word.begin for word in self.words if word.verb in ENDINGS and word.possible), default=NEVER)


class Tie(NamedTuple):
    """One task waits for another: maybe `from_`, surely from `since` until `until`, and not at all after `gone`."""

    task: str
    on: str
    from_: float
    since: float
    until: float
    gone: float
    made_by: Operation


class Story:
    def __init__(self, operations: Sequence[Operation], assumptions: Assumptions) -> None:
        self.operations = operations
        self.assumptions = assumptions
        self.words: dict[str, list[Operation]] = defaultdict(list)  # all that was said about a task, by its name
        for operation in operations:
            if operation.task:
                self.words[operation.task].append(operation)

    @cached_property
    def additions(self) -> dict[str, list[Operation]]:
        """Who may have added a task."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            for task in operation.made if operation.possible else ():
                found[task].append(operation)
        return found

    @cached_property
    def attempts(self) -> dict[str, list[Attempt]]:
        """Each task's, in the order in which they were asked for."""
        found: dict[str, list[Attempt]] = defaultdict(list)
        for claim in self.operations:
            for task, (number, token) in claim.given.items():
                words = tuple(word for word in self.words[task] if word.token == token)
                found[task].append(self._leased(Attempt(task, number, token, claim, words)))
        return found

    def _leased(self, attempt: Attempt) -> Attempt:
        """A lease begins somewhere between question and answer, and so does each renewal. One that came too late is
        none."""
        claim, early, late = attempt.claim, self.assumptions.early, self.assumptions.late
        renewals = [word for word in attempt.words if word.possible and (word.verb == "renew" or self._prolongs(word))]
        sure = [claim, *(word for word in renewals if word.ok)]
        lapsed = claim.over + claim.lease + late
        for renewal in renewals:
            if renewal.begin <= lapsed:
                lapsed = max(lapsed, renewal.over + renewal.lease + late)
        return attempt._replace(leased=max(each.begin + each.lease for each in sure) - early, lapsed=lapsed)

    def _prolongs(self, word: Operation) -> bool:
        return self.assumptions.prolong and word.outcome == "unknown" and word.verb in ENDINGS

    def echoes(self, word: Operation) -> bool:
        """It was accepted for the sake of the same word, said before. One that a store has said twice by itself, as the
        answer to the first was lost, is no echo."""
        return word.repeated and self.said_before(word)

    def said_before(self, word: Operation) -> bool:
        same = (other for other in self.words[word.task] if (other.verb, other.token) == (word.verb, word.token))
        return any(other.possible and other.begin < word.begin for other in same)

    @cached_property
    def finishes(self) -> dict[str, list[Operation]]:
        """What may have finished each task, for good."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for task, words in self.words.items():
            found[task] = [word for word in words if word.verb in {"done", "cancel"} and word.possible]
        return found

    def maybe_finished(self, task: str) -> float:
        """Before this moment nobody asked for its end."""
        return min((word.begin for word in self.finishes.get(task, ())), default=NEVER)

    def surely_finished(self, task: str) -> float:
        """From this moment on it is finished."""
        return min((word.over for word in self.finishes.get(task, ()) if word.ok), default=NEVER)

    @cached_property
    def ties(self) -> dict[str, list[Tie]]:
        """What each task waited for, and when."""
        found: dict[str, list[Tie]] = defaultdict(list)
        for operation in self.operations:
            for task, on in _ties_made(operation) if operation.possible else ():
                cuts = [
                    word
                    for word in self.words[task]
                    if word.verb == "unlink" and word.on == on and word.possible and word.over > operation.begin
                ]
                since = operation.over if operation.ok else NEVER
                until = min((cut.begin for cut in cuts), default=NEVER)
                gone = min((cut.over for cut in cuts if cut.ok and cut.begin > operation.over), default=NEVER)
                found[task].append(Tie(task, on, operation.begin, since, until, gone, operation))
        return found

    @cached_property
    def last_look(self) -> Operation | None:
        """What was found when everybody had gone."""
        looks = [operation for operation in self.operations if operation.verb == "look" and operation.ok]
        return looks[-1] if looks else None


def _ties_made(operation: Operation) -> Iterator[tuple[str, str]]:
    if operation.verb == "link":
        yield operation.task, operation.on
    for task, (_, before) in operation.made.items():
        for on in before:
            yield task, on
