"""The checker: could one correct desk have given the workers the answers in their history? It reads nothing else."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dibs.lab.torture.history import ENDINGS, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

NEVER = float("inf")


class Assumptions(NamedTuple):
    """Tolerances of the checker.

    `early`, `late`: seconds by which a lease may end too early or too late on the worker's clock, which may drift or be
    set wrong. `unanswered`: seconds that an unanswered claim may hold its task beyond its lease. `fenced`: whether
    attempt numbers are promised. `patience`: seconds that a ready task may wait while workers get empty answers.
    `prolong`: a finish extends its lease while it runs, so an unanswered one may hold the task longer.
    """

    early: float = 0.05
    late: float = 0.25
    fenced: bool = True
    patience: float = 5.0
    unanswered: float = 0.0
    prolong: bool = False


class Violation(NamedTuple):
    """An answer that a correct desk cannot give. `proof` are the operations that show it."""

    rule: str
    task: str
    message: str
    proof: tuple[Operation, ...]


class Attempt(NamedTuple):
    """A claimed task. `words` are the writes with its token. Its lease certainly lasts until `leased`, and is certainly
    over at `lapsed`."""

    task: str
    number: int
    token: str
    claim: Operation
    words: tuple[Operation, ...] = ()
    leased: float = 0.0
    lapsed: float = 0.0

    @property
    def ended(self) -> float:
        """When its end was first requested."""
        return min((word.begin for word in self.words if word.verb in ENDINGS and word.possible), default=NEVER)


class Tie(NamedTuple):
    """One task waits for another: possibly `from_`, certainly from `since` to `until`, and no longer after `gone`."""

    task: str
    on: str
    from_: float
    since: float
    until: float
    gone: float
    made_by: Operation


class Story:
    """A history sorted by task: attempts with their writes, links, and the final state."""

    def __init__(self, operations: Sequence[Operation], assumptions: Assumptions) -> None:
        self.operations = operations
        self.assumptions = assumptions
        self.words: dict[str, list[Operation]] = defaultdict(list)  # the writes for each task
        for operation in operations:
            if operation.task:
                self.words[operation.task].append(operation)

    @cached_property
    def additions(self) -> dict[str, list[Operation]]:
        """The operations that may have added a task."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for operation in self.operations:
            for task in operation.made if operation.possible else ():
                found[task].append(operation)
        return found

    @cached_property
    def attempts(self) -> dict[str, list[Attempt]]:
        """The attempts at each task, in the order of their requests."""
        found: dict[str, list[Attempt]] = defaultdict(list)
        for claim in self.operations:
            for task, (number, token) in claim.given.items():
                words = tuple(word for word in self.words[task] if word.token == token)
                found[task].append(self._leased(Attempt(task, number, token, claim, words)))
        return found

    def _leased(self, attempt: Attempt) -> Attempt:
        """A lease or renewal begins between request and answer. A renewal that came too late does not count."""
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
        """Whether the write was accepted only because it repeats an earlier one. A retry by the store itself is not an
        echo."""
        return word.repeated and self.said_before(word)

    def said_before(self, word: Operation) -> bool:
        same = (other for other in self.words[word.task] if (other.verb, other.token) == (word.verb, word.token))
        return any(other.possible and other.begin < word.begin for other in same)

    @cached_property
    def finishes(self) -> dict[str, list[Operation]]:
        """The writes that may have finished each task."""
        found: dict[str, list[Operation]] = defaultdict(list)
        for task, words in self.words.items():
            found[task] = [word for word in words if word.verb in {"done", "cancel"} and word.possible]
        return found

    def maybe_finished(self, task: str) -> float:
        """When its end was first requested."""
        return min((word.begin for word in self.finishes.get(task, ())), default=NEVER)

    def surely_finished(self, task: str) -> float:
        """When the task was certainly finished."""
        return min((word.over for word in self.finishes.get(task, ()) if word.ok), default=NEVER)

    @cached_property
    def ties(self) -> dict[str, list[Tie]]:
        """The prerequisites of each task over time."""
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
        """The state after all workers have ended."""
        looks = [operation for operation in self.operations if operation.verb == "look" and operation.ok]
        return looks[-1] if looks else None


def _ties_made(operation: Operation) -> Iterator[tuple[str, str]]:
    if operation.verb == "link":
        yield operation.task, operation.on
    for task, (_, before) in operation.made.items():
        for on in before:
            yield task, on


def one_holder(story: Story) -> Iterator[Violation]:
    """When it was certainly held: from the claim's answer to the earliest end of the lease or a request to end it."""
    for task, attempts in story.attempts.items():
        longest: Attempt | None = None
        for attempt in sorted(attempts, key=lambda attempt: attempt.claim.over):
            if longest is not None and attempt.claim.over < _until(longest) and attempt.claim.over < _until(attempt):
                message = f"{task} was held twice, by {_who(longest)} and by {_who(attempt)}"
                yield Violation("one holder", task, message, (*_hold(longest), attempt.claim))
            if longest is None or _until(attempt) > _until(longest):
                longest = attempt


def _until(attempt: Attempt) -> float:
    return min(attempt.leased, attempt.ended)


def _hold(attempt: Attempt) -> list[Operation]:
    """The claim, and the renewal that determines the end of its lease."""
    renewals = [word for word in attempt.words if word.verb == "renew" and word.ok]
    return [attempt.claim, *renewals[-1:]]


def _who(attempt: Attempt) -> str:
    return f"{attempt.claim.worker} (attempt {attempt.number})"


def rising_attempts(story: Story) -> Iterator[Violation]:
    for task, attempts in story.attempts.items() if story.assumptions.fenced else ():
        for place, attempt in enumerate(attempts):
            for earlier in attempts[:place]:
                if earlier.number == attempt.number:
                    message = f"attempt {attempt.number} of {task} was given out twice"
                elif earlier.number > attempt.number and earlier.claim.over < attempt.claim.begin:
                    message = f"attempt {attempt.number} of {task} was given out after attempt {earlier.number}"
                else:
                    continue
                yield Violation("rising attempts", task, message, (earlier.claim, attempt.claim))


def proof(story: Story) -> Iterator[Violation]:
    """A write is accepted only with a token of an attempt at the same task."""
    for task, words in story.words.items():
        known = {attempt.token for attempt in story.attempts.get(task, ())}
        for word in words:
            if word.token and word.ok and word.token not in known:
                yield Violation(
                    "proof", task, f"{task}: '{word.verb}' was accepted with a token of another task", (word,)
                )


def latest_attempt(story: Story) -> Iterator[Violation]:
    """After a later claim, writes of earlier attempts are rejected."""
    for task, attempts in story.attempts.items():
        for attempt in attempts:
            for word in attempt.words:
                later = next((other for other in attempts if word.ok and _overtaken(attempt, other, word)), None)
                if later is not None:
                    message = f"{task}: '{word.verb}' by {_who(attempt)} was accepted after {_who(later)} had taken it"
                    yield Violation("latest attempt", task, message, (attempt.claim, later.claim, word))


def _overtaken(attempt: Attempt, other: Attempt, word: Operation) -> bool:
    """`other` was answered before this write, and its claim came later."""
    came_later = other.number > attempt.number or other.claim.begin > attempt.claim.over
    return other.token != attempt.token and other.claim.over < word.begin and came_later


def in_time(story: Story) -> Iterator[Violation]:
    """Writes with an expired lease are rejected, even if the task is free. A repetition may get its first answer."""
    for task, attempts in story.attempts.items():
        for attempt in attempts:
            for word in attempt.words:
                late = word.begin - attempt.lapsed
                if word.ok and late > 0 and not (word.verb in ENDINGS and story.said_before(word)):
                    message = f"{task}: '{word.verb}' by {_who(attempt)} was accepted {late:.2f} s after its lease"
                    yield Violation("in time", task, message, (*_hold(attempt), word))


def finished_once(story: Story) -> Iterator[Violation]:
    """A done or canceled task stays so, and is not claimed again."""
    for task, finishes in story.finishes.items():
        accepted = [word for word in finishes if word.ok]
        for word in accepted:
            again = next((each for each in story.attempts.get(task, ()) if each.claim.begin > word.over), None)
            if again is not None:
                message = f"{task} was given to {_who(again)} after it had been finished"
                yield Violation("finished once", task, message, (word, again.claim))
        first = accepted[0] if accepted else None
        for word in accepted[1:]:
            if first is not None and (word.token, word.verb) != (first.token, first.verb):
                yield Violation("finished once", task, f"{task} was finished by two attempts", (first, word))


def set_aside(story: Story) -> Iterator[Violation]:
    """A blocked task is not claimed before a request to unblock it."""
    for task, words in story.words.items():
        for block in words:
            if block.verb != "block" or not block.ok or story.echoes(block):
                continue
            back = [
                word.begin for word in words if word.verb == "unblock" and word.possible and word.over > block.begin
            ]
            for attempt in story.attempts.get(task, ()):
                if attempt.claim.begin > block.over and attempt.claim.over < min(back, default=NEVER):
                    message = f"{task} was given to {_who(attempt)} while it was set aside"
                    yield Violation("set aside", task, message, (block, attempt.claim))
                    break


def blockers_first(story: Story) -> Iterator[Violation]:
    """The task was claimed while it certainly waited for a task without a request to finish it."""
    for task, attempts in story.attempts.items():
        for attempt in attempts:
            claim = attempt.claim
            for tie in story.ties.get(task, ()):
                waits = tie.since < claim.begin and claim.over < tie.until
                if waits and claim.over < story.maybe_finished(tie.on):
                    message = f"{task} was given to {claim.worker} before {tie.on}, which it waits for, was finished"
                    yield Violation("blockers first", task, message, (tie.made_by, claim))


def no_cycle(story: Story) -> Iterator[Violation]:
    """There is no cycle among links that existed at the same time, nor in the final state."""
    there: dict[str, list[Tie]] = defaultdict(list)
    for tie in sorted(_suspects(story), key=lambda tie: tie.since):
        if tie.since >= tie.until:
            continue  # it may have been taken back before its answer was there
        there[tie.task].append(tie)
        if way := _way(there, tie.on, tie.task, tie.since):
            made = {each.made_by.key: each.made_by for each in (tie, *way)}
            message = f"{tie.task} waits for itself, by way of {tie.on}"
            yield Violation("no cycle", tie.task, message, tuple(made.values()))
    look = story.last_look
    found: dict[str, list[str]] = defaultdict(list)
    for task, on in look.seen["links"] if look else ():
        found[task].append(on)
    for task in _circular(found):
        yield Violation("no cycle", task, f"{task} was found to wait for itself", (look,) if look else ())


def _suspects(story: Story) -> list[Tie]:
    """The ties that would form a cycle if all had existed together."""
    sure = [tie for each in story.ties.values() for tie in each if tie.since < NEVER]
    links: dict[str, list[str]] = defaultdict(list)
    for tie in sure:
        links[tie.task].append(tie.on)
    circular = set(_circular(links))
    return [tie for tie in sure if tie.task in circular and tie.on in circular]


def _way(there: Mapping[str, Sequence[Tie]], start: str, goal: str, moment: float) -> list[Tie]:
    """Ties from one task to another that all existed at one moment."""
    reached: dict[str, list[Tie]] = {start: []}
    ahead = [start]
    while ahead:
        task = ahead.pop()
        for tie in there.get(task, ()):
            if tie.since <= moment < tie.until and tie.on not in reached:
                reached[tie.on] = [*reached[task], tie]
                if tie.on == goal:
                    return reached[goal]
                ahead.append(tie.on)
    return []


def _circular(links: Mapping[str, Sequence[str]]) -> list[str]:
    """The ties that remain after repeatedly removing tasks without prerequisites."""
    waiting = {task: set(before) for task, before in links.items()}
    freed = {on for before in links.values() for on in before} - waiting.keys()
    behind: dict[str, list[str]] = defaultdict(list)
    for task, before in links.items():
        for on in before:
            behind[on].append(task)
    while freed:
        done = freed.pop()
        for task in behind[done]:
            waiting[task].discard(done)
            if not waiting[task]:
                freed.add(task)
    return sorted(task for task, before in waiting.items() if before)


_LEADS_TO = {
    "add": "ready",
    "claim": "active",
    "renew": "active",
    "done": "done",
    "fail": "ready",
    "release": "ready",
    "block": "blocked",
    "unblock": "ready",
    "cancel": "canceled",
}
_FINISHED = frozenset({"done", "canceled"})


def nothing_lost(story: Story) -> Iterator[Violation]:
    """The store has each added task once, and no others."""
    look = story.last_look
    if look is None:
        return
    found = Counter(str(row["id"]) for row in look.seen["tasks"])
    for task, additions in story.additions.items():
        sure = [each for each in additions if each.ok]
        if sure and not found[task]:
            yield Violation("nothing lost", task, f"{task} is gone", (sure[0], look))
    for task, times in found.items():
        if times > 1:
            yield Violation("nothing lost", task, f"{task} is there {times} times", (*story.additions[task], look))
        elif not story.additions.get(task):
            yield Violation("nothing lost", task, f"{task} is in the store, and no worker added it", (look,))


def states_kept(story: Story) -> Iterator[Violation]:
    """The status of each task is that of one of its last writes."""
    look = story.last_look
    anybody = [each for each in story.operations if each.verb == "claim" and each.outcome == "unknown"]
    for row in look.seen["tasks"] if look else ():
        task = str(row["id"])
        said = _operations_of(story, task)
        latest = max((each.begin for each in said if each.ok), default=0.0)
        last = [each for each in said if each.over >= latest]
        allowed = {_LEADS_TO[each.verb] for each in last}
        if any(claim.over >= latest for claim in anybody):
            allowed.add("active")  # a claim whose answer was lost may have taken any of them
        if said and row["status"] not in allowed and look:
            message = f"{task} is {row['status']}, but its last writes make it {' or '.join(sorted(allowed))}"
            yield Violation("states kept", task, message, (*last[-3:], look))
        yield from _result(story, task, row.get("result"))


def _operations_of(story: Story, task: str) -> list[Operation]:
    claims = [attempt.claim for attempt in story.attempts.get(task, ())]
    words = [word for word in story.words[task] if word.verb in _LEADS_TO]
    said = [*story.additions.get(task, ()), *claims, *words]
    return sorted((each for each in said if each.possible and not story.echoes(each)), key=lambda each: each.begin)


def _result(story: Story, task: str, result: object) -> Iterator[Violation]:
    """A stored result belongs to an attempt whose finish was accepted, or may have been."""
    if not isinstance(result, dict) or "by" not in result:
        return
    words = [word for word in story.finishes.get(task, ()) if word.verb == "done"]
    accepted = [word for word in words if word.ok] or words
    if result["by"] not in {signature(word.worker, word.number) for word in words} and story.last_look:
        message = f"the result of {task} is that of an attempt that did not finish it"
        yield Violation("states kept", task, message, (*accepted, story.last_look))


def signature(worker: str, number: int) -> str:
    """The result that a worker stores, which identifies the operation."""
    return f"{worker}/{number}"


def links_kept(story: Story) -> Iterator[Violation]:
    """The store has every link that was certainly made and not removed, and no others."""
    look = story.last_look
    if look is None:
        return
    found = {(task, on) for task, on in look.seen["links"]}
    ties = [tie for each in story.ties.values() for tie in each]
    possible = {(tie.task, tie.on) for tie in ties if tie.gone == NEVER}
    for tie in ties:
        if tie.since < NEVER and tie.until == NEVER and (tie.task, tie.on) not in found:
            message = f"the link of {tie.task} to {tie.on} is gone"
            yield Violation("links kept", tie.task, message, (tie.made_by, look))
    for task, on in found - possible:
        yield Violation("links kept", task, f"{task} is linked to {on}, and no worker added that link", (look,))


def counters_true(story: Story) -> Iterator[Violation]:
    """The counts of the store agree with its tasks."""
    look = story.last_look
    if look is None:
        return
    rows = {str(row["id"]): row for row in look.seen["tasks"]}
    tally = Counter(str(row["status"]) for row in look.seen["tasks"])
    told = {status: number for status, number in look.seen["counts"].items() if number}
    if told != dict(tally):
        yield Violation("counters true", "", f"the store counts {told}, and there are {dict(tally)}", (look,))
    waiting = Counter(
        str(task) for task, on in look.seen["links"] if on in rows and rows[on]["status"] not in _FINISHED
    )
    for task, row in rows.items():
        if row["status"] not in _FINISHED and row["blockers"] != waiting[task]:
            message = f"{task} has {row['blockers']} prerequisites by its counter, and {waiting[task]}"
            yield Violation("counters true", task, message, (look,))


_TIMES = 5
_LAST_WORDS = 5.0  # seconds for which a server may still execute the request of a killed worker
_FREE = frozenset({"fail", "release"})


class Span(NamedTuple):
    begin: float
    end: float


def no_starvation(story: Story) -> Iterator[Violation]:
    empty = [each for each in story.operations if each.verb == "claim" and each.ok and not (each.given or each.named)]
    begins = [each.begin for each in empty]
    anybody = _by_anybody(story)
    for task, additions in story.additions.items():
        if not any(addition.ok for addition in additions):
            continue
        taken = list(_taken(story, task))
        if not any(_too_long(story, _within(empty, begins, span)) for span in _gaps(taken)):
            continue
        for span in _gaps([*taken, *anybody]):
            passed = _within(empty, begins, span)
            if _too_long(story, passed):
                long = passed[-1].begin - passed[0].begin
                message = f"{task} lay ready for {long:.1f} s, and {len(passed)} claims got no task"
                held = [each.claim for each in story.attempts.get(task, ()) if each.claim.begin < span.begin]
                yield Violation("no starvation", task, message, ((held or additions)[-1], passed[0], passed[-1]))
                break


def _too_long(story: Story, passed: Sequence[Operation]) -> bool:
    return len(passed) >= _TIMES and passed[-1].begin - passed[0].begin > story.assumptions.patience


def _within(empty: Sequence[Operation], begins: Sequence[float], span: Span) -> list[Operation]:
    found = empty[bisect_left(begins, span.begin) : bisect_left(begins, span.end)]
    return [each for each in found if each.over < span.end]


def _by_anybody(story: Story) -> list[Span]:
    """A claim whose answer was lost may have taken any task."""
    unknown = [each for each in story.operations if each.verb == "claim" and each.outcome == "unknown"]
    late = story.assumptions.late + story.assumptions.unanswered
    spans = [Span(each.begin, (each.end or each.begin) + _LAST_WORDS + each.lease + late) for each in unknown]
    return _merged(spans)


def _taken(story: Story, task: str) -> Iterator[Span]:
    """When the task may not have been claimable: not yet added, held, blocked, finished or waiting."""
    yield Span(-NEVER, min(each.over for each in story.additions[task]))
    for attempt in story.attempts.get(task, ()):
        freed = (word.over for word in attempt.words if word.ok and word.verb in _FREE and not story.echoes(word))
        yield Span(attempt.claim.begin, min([attempt.lapsed, *freed]))
    yield Span(story.maybe_finished(task), NEVER)
    for word in story.words[task]:
        if word.verb == "block" and word.possible:
            back = [each.over for each in story.words[task] if each.verb == "unblock" and each.ok]
            yield Span(word.begin, min((over for over in back if over > word.begin), default=NEVER))
        elif word.outcome == "unknown" and word.verb in ENDINGS:
            yield Span(word.begin, word.begin + story.assumptions.patience)
    for tie in story.ties.get(task, ()):
        yield Span(tie.from_, min(tie.gone, story.surely_finished(tie.on)))


def _merged(spans: Sequence[Span]) -> list[Span]:
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.begin <= found[-1].end:
            found[-1] = Span(found[-1].begin, max(found[-1].end, span.end))
        else:
            found.append(span)
    return found


def _gaps(spans: Sequence[Span]) -> Iterator[Span]:
    before = -NEVER
    for span in _merged(spans):
        if span.begin > before:
            yield Span(before, span.begin)
        before = max(before, span.end)
    if before < NEVER:
        yield Span(before, NEVER)


RULES: tuple[Callable[[Story], Iterator[Violation]], ...] = (
    one_holder,
    rising_attempts,
    proof,
    latest_attempt,
    in_time,
    finished_once,
    set_aside,
    blockers_first,
    no_cycle,
    nothing_lost,
    states_kept,
    links_kept,
    counters_true,
    no_starvation,
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
    """All violations in a history."""
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
