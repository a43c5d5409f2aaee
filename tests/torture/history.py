"""What the workers themselves saw, and whether one truthful desk can have told them so.

Each worker writes a line before it asks and a line after it was answered, both with the machine's monotonic time. The
checker reads nothing but these lines and the plan: the store's own idea of what happened plays no part in it. An
operation whose answer is missing (its worker was killed) or who was told that the store is out of reach may or may not
have taken place.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# The machine's clock decides about leases, its monotonic clock is in the histories: they may drift apart a little.
_DRIFT = 0.05


class Operation(NamedTuple):
    """One question and its answer. `tasks` maps each task that a claim gave to its attempt."""

    worker: str
    agent: str
    verb: str
    asked: float
    answered: float | None = None
    outcome: str = "unknown"
    task: str = ""
    token: str = ""
    tasks: Mapping[str, int] = {}
    tokens: Mapping[str, str] = {}
    handoffs: Mapping[str, Sequence[str]] = {}
    lease: float = 0.0


def is_unknown(outcome: str) -> bool:
    """Whether such an answer leaves open what became of it."""
    return outcome == "unknown" or outcome.startswith("STORE_")


class Log:
    """One worker's lines, each written at once: what a killed worker wrote is there."""

    def __init__(self, path: str, worker: str, agent: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self._worker = worker
        self._agent = agent
        self._number = 0

    def asked(self, verb: str, **said: object) -> int:
        self._number += 1
        self._write(number=self._number, worker=self._worker, agent=self._agent, verb=verb, asked=now(), **said)
        return self._number

    def answered(self, number: int, outcome: str, **heard: object) -> None:
        self._write(number=number, answered=now(), outcome=outcome, **heard)

    def _write(self, **fields: object) -> None:
        os.write(self._file, json.dumps(fields).encode() + b"\n")


def now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def read(paths: Iterable[str]) -> list[Operation]:
    """All histories as one, in the order in which the questions were asked."""
    found: list[Operation] = []
    for path in paths:
        asked: dict[int, dict[str, object]] = {}
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.endswith("\n"):  # else the writer died in the middle of it
                    fields = json.loads(line)
                    asked.setdefault(fields.pop("number"), {}).update(fields)
        found += [Operation(**fields) for fields in asked.values()]  # type: ignore[arg-type]  # as the log wrote them
    return sorted(found, key=lambda operation: operation.asked)


class _Hold(NamedTuple):
    """A task in someone's hands: it surely is his from `since` until `until`."""

    task: str
    attempt: int
    token: str
    asked: float
    since: float
    until: float


def violations(operations: Sequence[Operation], plan: Mapping[str, Sequence[str]]) -> list[str]:
    """Everything in the histories that a desk with one holder per task could not have said."""
    claims = [operation for operation in operations if operation.verb == "claim" and operation.outcome == "ok"]
    finishes = _finishes(operations)
    return [
        *_not_finished_once(operations, plan),
        *_attempts_not_rising(claims),
        *_finished_by_an_earlier_attempt(claims, finishes),
        *_started_before_prerequisites(claims, finishes, operations, plan),
        *_overlapping(_holds(operations)),
        *_wrong_handoffs(claims, plan),
        *_believed_without_proof(operations),
    ]


def _finishes(operations: Sequence[Operation]) -> dict[str, Operation]:
    """The first accepted finish of each task."""
    found: dict[str, Operation] = {}
    for operation in operations:
        if operation.verb == "done" and operation.outcome == "ok":
            found.setdefault(operation.task, operation)
    return found


def _not_finished_once(operations: Sequence[Operation], plan: Mapping[str, Sequence[str]]) -> list[str]:
    """Once per task, by one token. Where the answer got lost, at most once."""
    accepted = defaultdict(set)
    unknown = defaultdict(set)
    for operation in operations:
        if operation.verb in {"done", "replay"}:
            if operation.outcome == "ok":
                accepted[operation.task].add(operation.token)
            elif is_unknown(operation.outcome):
                unknown[operation.task].add(operation.token)
    times = Counter(
        operation.task for operation in operations if operation.verb == "done" and operation.outcome == "ok"
    )
    found = [f"{task} was never finished" for task in plan if not accepted[task] and not unknown[task]]
    found += [f"{task} was finished {number} times" for task, number in times.items() if number > 1]
    found += [f"{task} was finished by two attempts" for task, tokens in accepted.items() if len(tokens) > 1]
    return found


def _attempts_not_rising(claims: Sequence[Operation]) -> list[str]:
    found = []
    seen: dict[str, list[tuple[int, Operation]]] = defaultdict(list)
    for claim in claims:
        for task, attempt in claim.tasks.items():
            for earlier, by in seen[task]:
                if earlier == attempt:
                    found.append(f"{task}: attempt {attempt} was given twice, to {by.worker} and {claim.worker}")
                elif earlier > attempt and (by.answered or 0) < claim.asked:
                    found.append(f"{task}: attempt {attempt} was given after attempt {earlier}")
            seen[task].append((attempt, claim))
    return found


def _finished_by_an_earlier_attempt(claims: Sequence[Operation], finishes: Mapping[str, Operation]) -> list[str]:
    latest: dict[str, int] = {}
    attempt_of: dict[str, int] = {}
    for claim in claims:
        for task, attempt in claim.tasks.items():
            latest[task] = max(attempt, latest.get(task, 0))
            attempt_of[claim.tokens[task]] = attempt
    return [
        f"{task} was finished by attempt {attempt_of.get(finish.token)}, but attempt {latest.get(task)} was the latest"
        for task, finish in finishes.items()
        if attempt_of.get(finish.token) != latest.get(task)
    ]


def _started_before_prerequisites(
    claims: Sequence[Operation],
    finishes: Mapping[str, Operation],
    operations: Sequence[Operation],
    plan: Mapping[str, Sequence[str]],
) -> list[str]:
    """A claim answered before anyone had so much as asked to finish what it waits for."""
    first_asked: dict[str, float] = {task: finish.asked for task, finish in finishes.items()}
    for operation in operations:
        if operation.verb in {"done", "replay"} and is_unknown(operation.outcome):
            first_asked[operation.task] = min(operation.asked, first_asked.get(operation.task, operation.asked))
    never = float("inf")
    return [
        f"{task} was claimed before {before} was finished"
        for claim in claims
        for task in claim.tasks
        for before in plan[task]
        if (claim.answered or 0) < first_asked.get(before, never)
    ]


def _holds(operations: Sequence[Operation]) -> dict[str, list[_Hold]]:
    """For each task, when it was surely held: from a claim's answer to the asking of its end, or of its last lease."""
    ended: dict[str, float] = {}
    extended: dict[str, float] = {}
    for operation in operations:
        accepted = operation.outcome == "ok" or is_unknown(operation.outcome)
        if operation.verb in {"done", "replay", "release"} and accepted:
            ended[operation.token] = min(operation.asked, ended.get(operation.token, operation.asked))
        elif operation.verb == "renew" and operation.outcome == "ok":
            until = operation.asked + operation.lease
            extended[operation.token] = max(until, extended.get(operation.token, until))
    found: dict[str, list[_Hold]] = defaultdict(list)
    for claim in operations:
        if claim.verb == "claim" and claim.outcome == "ok" and claim.answered is not None:
            for task, attempt in claim.tasks.items():
                token = claim.tokens[task]
                leased = max(claim.asked + claim.lease, extended.get(token, 0.0)) - _DRIFT
                until = min(leased, ended.get(token, leased))
                found[task].append(_Hold(task, attempt, token, claim.asked, claim.answered, until))
    return found


def _overlapping(holds: Mapping[str, Sequence[_Hold]]) -> list[str]:
    found = []
    for task, each in holds.items():
        longest: _Hold | None = None
        for hold in sorted((hold for hold in each if hold.since < hold.until), key=lambda hold: hold.since):
            if longest is not None and hold.since < longest.until:
                found.append(f"{task} was held twice: attempt {longest.attempt} and attempt {hold.attempt}")
            if longest is None or hold.until > longest.until:
                longest = hold
    return found


def _wrong_handoffs(claims: Sequence[Operation], plan: Mapping[str, Sequence[str]]) -> list[str]:
    """Every prerequisite hands its result on."""
    return [
        f"{task} was given the results of {sorted(claim.handoffs[task])} instead of {sorted(plan[task])}"
        for claim in claims
        for task in claim.tasks
        if sorted(claim.handoffs[task]) != sorted(plan[task])
    ]


def _believed_without_proof(operations: Sequence[Operation]) -> list[str]:
    """A token of another task is never accepted, nor one whose lease is over, unless it repeats its own finish."""
    own = {
        (operation.task, operation.token)
        for operation in operations
        if operation.verb == "done" and (operation.outcome == "ok" or is_unknown(operation.outcome))
    }
    found = []
    for operation in operations:
        if operation.outcome == "LOST_LOCK" or is_unknown(operation.outcome):
            continue
        if operation.verb == "imposture":
            found.append(f"{operation.task}: a token of another task got {operation.outcome}")
        elif operation.verb == "replay" and operation.outcome == "ok":
            if (operation.task, operation.token) not in own:
                found.append(f"{operation.task}: a token whose lease was over was accepted")
        elif operation.verb == "replay":
            found.append(f"{operation.task}: a late holder got {operation.outcome}")
    return found


class Figures(NamedTuple):
    """How it went."""

    operations: int
    finishes: int
    seconds: float
    slowest: float
    per_worker: Mapping[str, int]
    outcomes: Mapping[str, int]

    @property
    def per_second(self) -> float:
        return self.finishes / self.seconds


def figures(operations: Sequence[Operation]) -> Figures:
    answered = [operation for operation in operations if operation.answered is not None]
    finishes = [operation for operation in answered if operation.verb == "done" and operation.outcome == "ok"]
    last = max(finish.answered or 0 for finish in finishes)
    return Figures(
        operations=len(operations),
        finishes=len(finishes),
        seconds=last - operations[0].asked,
        slowest=max((operation.answered or 0) - operation.asked for operation in answered),
        per_worker=dict(sorted(Counter(finish.worker for finish in finishes).items())),
        outcomes=dict(sorted(Counter(f"{each.verb} {each.outcome}" for each in operations).items())),
    )
