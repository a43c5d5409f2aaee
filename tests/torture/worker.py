"""One worker process of the drain: it claims, works, renews, finishes, and now and then misbehaves on purpose."""

from __future__ import annotations

import json
import os
import random
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dibs.core.errors import DibsError, StoreError
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Status
from dibs.desk import mint_token
from dibs.stores.opening import open_store
from torture.history import Log, is_unknown, now, read

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.task import Claimed
    from dibs.stores.port import Moved, Store

Answered = TypeVar("Answered")

MARGIN = 0.25  # seconds after which a lease that is over is over for sure
LAST_WORDS = 2.0  # seconds for which a server may still be at what a killed worker had asked for
GAVE_UP = 3


class Job(NamedTuple):
    """What a worker is told on its command line."""

    url: str
    scope: str
    log: str
    start: str  # a file; the work begins when it is there
    worker: str
    agent: str
    habit: str  # chain: finish and go on in one; plain; batch: three at a time; picker: looks, then claims by name
    seed: str
    total: int
    lease: float
    deadline: float  # by the monotonic clock
    work: float  # seconds a task takes at most
    mischief: float  # how often it dawdles, lets go, replays, poses
    ghosts: Sequence[str]  # histories of killed workers, whose tokens it tries once they are over


class Hold(NamedTuple):
    task: str
    token: str
    over: float  # when its lease is over for sure


class Worker:
    def __init__(self, job: Job) -> None:
        self.job = job
        self.dice = random.Random(job.seed)
        self.log = Log(job.log, job.worker, job.agent)
        self.store = self._open()
        self.held: list[Hold] = []
        self.lost: list[Hold] = [hold for path in job.ghosts for hold in _left_behind(path, job.lease)]

    def _open(self) -> Store:
        """A store that is away for a while is no reason to go home."""
        while True:
            try:
                return open_store(self.job.url)
            except StoreError:
                if now() > self.job.deadline:
                    raise
                self._pause()

    def run(self) -> int:
        """From the starting signal until every task is done; how it ended."""
        open(f"{self.job.log}.ready", "wb").close()
        while not os.path.exists(self.job.start) and now() < self.job.deadline:
            time.sleep(0.005)
        while now() < self.job.deadline:
            if self.held:
                self._work(self.held.pop(0))
            elif not self._claim() and not self._idle():
                return 0
            self._haunt()
        return GAVE_UP

    # Work

    def _claim(self) -> bool:
        count = 3 if self.job.habit == "batch" else 1
        ids = self._picked() if self.job.habit == "picker" else ()
        request = self._request(count, ids)
        number = self.log.asked("claim", lease=self.job.lease)
        outcome, claimed = _try(lambda: self.store.claim(request))
        self._took(number, outcome, claimed or ())
        return bool(claimed)

    def _picked(self) -> tuple[str, ...]:
        """By name, which others may snatch away."""
        _, ready = _try(lambda: self.store.peek(self._request(1, ()), 5))
        return (self.dice.choice(ready).id,) if ready else ()

    def _request(self, count: int, ids: tuple[str, ...]) -> ClaimRequest:
        tokens = tuple(mint_token() for _ in range(count))
        return ClaimRequest(self.job.agent, tokens, self.job.scope, ids, lease=timedelta(seconds=self.job.lease))

    def _took(self, number: int, outcome: str, claimed: Sequence[Claimed]) -> None:
        over = now() + self.job.lease + MARGIN
        leases = [each.task.lease for each in claimed]
        tokens = {each.task.id: lease.token for each, lease in zip(claimed, leases, strict=True) if lease}
        self.log.answered(
            number,
            outcome if claimed or outcome != "ok" else "nothing",
            tasks={each.task.id: each.task.attempt for each in claimed},
            tokens=tokens,
            handoffs={each.task.id: [handoff.id for handoff in each.handoffs] for each in claimed},
        )
        self.held += [Hold(task, token, over) for task, token in tokens.items()]

    def _work(self, hold: Hold) -> None:
        if self.job.work:
            time.sleep(self.dice.uniform(0, self.job.work))
        if self._now_and_then():
            self._dawdle(hold)
        elif self._now_and_then():
            self._let_go(hold)
        else:
            if self._now_and_then(10):
                hold = self._renew(hold)
            self._finish(hold)

    def _finish(self, hold: Hold) -> None:
        following = self._request(1, ()) if self.job.habit == "chain" else None
        number = self.log.asked("done", task=hold.task, token=hold.token)
        claim = self.log.asked("claim", lease=self.job.lease) if following else 0
        outcome, moved = _try(lambda: self._move(Verb.DONE, hold, following))
        self.log.answered(number, outcome)
        if following:
            self._took(claim, outcome, moved.next if moved else ())
        if is_unknown(outcome):
            self._pause()
            self.held.insert(0, hold)  # its token tells whether it counted, so it may simply be said again
        elif outcome != "ok":
            self.lost.append(hold)

    def _renew(self, hold: Hold) -> Hold:
        number = self.log.asked("renew", task=hold.task, token=hold.token, lease=self.job.lease)
        outcome, _ = _try(lambda: self._move(Verb.RENEW, hold))
        self.log.answered(number, outcome)
        prolonged = outcome == "ok" or is_unknown(outcome)
        return hold._replace(over=now() + self.job.lease + MARGIN) if prolonged else hold

    def _let_go(self, hold: Hold) -> None:
        verb = self.dice.choice([Verb.RELEASE, Verb.FAIL])
        number = self.log.asked("release", task=hold.task, token=hold.token)
        outcome, _ = _try(lambda: self._move(verb, hold))
        self.log.answered(number, outcome)
        self.lost.append(hold if is_unknown(outcome) else hold._replace(over=now()))

    def _move(self, verb: Verb, hold: Hold, then: ClaimRequest | None = None) -> Moved:
        move = Move(
            verb,
            hold.task,
            self.job.scope,
            Actor(self.job.agent),
            token=hold.token,
            result=hold.task if verb is Verb.DONE else None,
            lease=timedelta(seconds=self.job.lease),
        )
        return self.store.move(move, CanceledBlocker.ESCALATES, then)

    # Mischief

    def _now_and_then(self, times: float = 1) -> bool:
        return self.dice.random() < times * self.job.mischief

    def _dawdle(self, hold: Hold) -> None:
        """Sleep past the lease, if it is a short one; what one then says counts no more."""
        if self.job.lease <= 2:  # else the drain would take for ever
            time.sleep(max(0, hold.over - now()))
            self.lost.append(hold)
            self._replay(hold)
        else:
            self.held.append(hold)

    def _haunt(self) -> None:
        """Come back with a token that is over, or with one that belongs to another task."""
        if self.lost and self._now_and_then(20):
            hold = self.dice.choice(self.lost)
            if hold.over < now():
                self._replay(hold)
        if len(self.held) > 1 and self._now_and_then(5):
            self._ask("imposture", Hold(self.held[0].task, self.held[1].token, 0))

    def _replay(self, hold: Hold) -> None:
        self._ask("replay", hold)

    def _ask(self, verb: str, hold: Hold) -> None:
        number = self.log.asked(verb, task=hold.task, token=hold.token)
        outcome, _ = _try(lambda: self._move(Verb.DONE, hold))
        self.log.answered(number, outcome)

    def _idle(self) -> bool:
        """Nothing is ready: go, if all is done; else look again in a moment."""
        _, counts = _try(lambda: self.store.counts(self.job.scope))
        if counts is not None and counts.by_status[Status.DONE] == self.job.total:
            return False
        self._pause()
        return True

    def _pause(self) -> None:
        time.sleep(self.dice.uniform(0.002, 0.02))


def _try(ask: Callable[[], Answered]) -> tuple[str, Answered | None]:
    try:
        return "ok", ask()
    except DibsError as error:
        return error.code, None


def _left_behind(path: str, lease: float) -> list[Hold]:
    """What a killed worker had in its hands, and from when on nobody may believe it any more."""
    operations = read([path])
    last = max((operation.answered or operation.asked for operation in operations), default=0.0)
    return [
        Hold(task, token, last + lease + LAST_WORDS)
        for operation in operations
        if operation.verb == "claim" and operation.outcome == "ok"
        for task, token in operation.tokens.items()
    ]


def main() -> None:
    job = json.loads(sys.argv[1])
    sys.exit(Worker(Job(**job)).run())
