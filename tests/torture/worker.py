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
from dibs.lab.torture.checker import signature
from dibs.lab.torture.history import Log, now, read
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.task import Claimed
    from dibs.stores.port import Moved, Store

Answered = TypeVar("Answered")

MARGIN = 0.25  # seconds after which a lease that is over is over for sure
LAST_WORDS = 2.0  # seconds for which a server may still be at what a killed worker had asked for
GAVE_UP = 3


class Job(NamedTuple):
    """The command line of a worker."""

    url: str
    scope: str
    log: str
    plan: str  # a file; it says what each task waits for
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
        with open(job.plan, encoding="utf-8") as file:
            self.plan: dict[str, list[str]] = json.load(file)
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
        number = self.log.asked("claim", lease=self.job.lease, named=bool(ids))
        claimed = self._try(lambda: self.store.claim(request), number)
        return not isinstance(claimed, DibsError) and self._took(number, claimed)

    def _picked(self) -> tuple[str, ...]:
        """By name, which others may snatch away."""
        ready = self._try(lambda: self.store.peek(self._request(1, ()), 5))
        return () if isinstance(ready, DibsError) or not ready else (self.dice.choice(ready).id,)

    def _request(self, count: int, ids: tuple[str, ...]) -> ClaimRequest:
        tokens = tuple(mint_token() for _ in range(count))
        return ClaimRequest(self.job.agent, tokens, self.job.scope, ids, lease=timedelta(seconds=self.job.lease))

    def _took(self, number: int, claimed: Sequence[Claimed]) -> bool:
        """Whether there was anything. Every prerequisite hands its result on, or this worker breaks down."""
        over = now() + self.job.lease + MARGIN
        leases = {each.task.id: each.task.lease for each in claimed}
        given = {task: (lease.attempt, lease.token) for task, lease in leases.items() if lease}
        self.log.answered(number, "ok", given=given)
        for each in claimed:
            handed = sorted(given.id for given in each.inputs)
            if handed != self.plan[each.task.id]:
                sys.exit(f"{each.task.id} was given the results of {handed} instead of {self.plan[each.task.id]}")
        self.held += [Hold(task, token, over) for task, (_, token) in given.items()]
        return bool(claimed)

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
        number = self.log.asked(Verb.DONE.value, task=hold.task, token=hold.token)
        claim = self.log.asked("claim", lease=self.job.lease) if following else 0
        moved = self._try(lambda: self._move(Verb.DONE, hold, number, following), number, claim)
        if not isinstance(moved, DibsError):
            self.log.answered(number, "ok", repeated=moved.repeated)
            if following:
                self._took(claim, moved.next)
        elif isinstance(moved, StoreError):
            self._pause()
            self.held.insert(0, hold)  # the token shows whether it was executed, so it can be repeated
        else:
            self.lost.append(hold)

    def _renew(self, hold: Hold) -> Hold:
        renewed = self._say(Verb.RENEW, hold)
        prolonged = not isinstance(renewed, DibsError) or isinstance(renewed, StoreError)
        return hold._replace(over=now() + self.job.lease + MARGIN) if prolonged else hold

    def _let_go(self, hold: Hold) -> None:
        let_go = self._say(self.dice.choice([Verb.RELEASE, Verb.FAIL]), hold)
        self.lost.append(hold if isinstance(let_go, StoreError) else hold._replace(over=now()))

    def _say(self, verb: Verb, hold: Hold) -> Moved | DibsError:
        number = self.log.asked(verb.value, task=hold.task, token=hold.token, lease=self.job.lease)
        moved = self._try(lambda: self._move(verb, hold, number), number)
        if not isinstance(moved, DibsError):
            self.log.answered(number, "ok", repeated=moved.repeated)
        return moved

    def _move(self, verb: Verb, hold: Hold, number: int, then: ClaimRequest | None = None) -> Moved:
        move = Move(
            verb,
            hold.task,
            self.job.scope,
            Actor(self.job.agent),
            token=hold.token,
            result={"by": signature(self.job.worker, number)} if verb is Verb.DONE else None,
            lease=timedelta(seconds=self.job.lease),
        )
        return self.store.move(move, CanceledBlocker.ESCALATES, then)

    # Mischief

    def _now_and_then(self, times: float = 1) -> bool:
        return self.dice.random() < times * self.job.mischief

    def _dawdle(self, hold: Hold) -> None:
        """Sleep past the lease, if it is a short one; what one then says counts no more."""
        if self.job.lease <= 2:  # otherwise the drain would never end
            time.sleep(max(0, hold.over - now()))
            self.lost.append(hold)
            self._say(Verb.DONE, hold)
        else:
            self.held.append(hold)

    def _haunt(self) -> None:
        """Come back with a token that is over, or with one that belongs to another task."""
        if self.lost and self._now_and_then(20):
            hold = self.dice.choice(self.lost)
            if hold.over < now():
                self._say(Verb.DONE, hold)
        if len(self.held) > 1 and self._now_and_then(5):
            self._say(Verb.DONE, Hold(self.held[0].task, self.held[1].token, 0))

    def _idle(self) -> bool:
        """Nothing is ready: go, if all is done; else look again in a moment."""
        counts = self._try(lambda: self.store.counts(self.job.scope))
        if not isinstance(counts, DibsError) and counts.by_status[Status.DONE] == self.job.total:
            return False
        self._pause()
        return True

    def _pause(self) -> None:
        time.sleep(self.dice.uniform(0.002, 0.02))

    def _try(self, ask: Callable[[], Answered], *numbers: int) -> Answered | DibsError:
        """An error is an answer too, to the questions with these numbers."""
        try:
            return ask()
        except DibsError as error:
            for number in filter(None, numbers):
                self.log.failed(number, error)
            return error


def _left_behind(path: str, lease: float) -> list[Hold]:
    """The claims of a killed worker, and when their leases are over."""
    operations = read([path])
    last = max((operation.end or operation.begin for operation in operations), default=0.0)
    return [
        Hold(task, token, last + lease + LAST_WORDS)
        for operation in operations
        for task, (_, token) in operation.given.items()
    ]


def main() -> None:
    job = json.loads(sys.argv[1])
    sys.exit(Worker(Job(**job)).run())
