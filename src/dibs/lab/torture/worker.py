"""One worker process: it claims, works, renews, dawdles, ends attempts in every way there is, and changes the plan.

    python -m dibs.lab.torture.worker < job.json

Its seed and the tasks it is given determine what it does. It records every request and every answer in a log; the
checker judges them.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections import deque
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dibs.core.errors import DibsError, StoreError
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Link, LinkKind
from dibs.desk import Desk
from dibs.lab.torture.checker import signature
from dibs.lab.torture.history import Log, read
from dibs.stores.opening import open_store
from dibs.stores.port import Query, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.task import Claimed
    from dibs.lab.torture.experiments import Planned
    from dibs.stores.port import Moved


Answer = TypeVar("Answer")


class Hold(NamedTuple):
    """A claimed task. Its lease is certainly over at `over`."""

    task: str
    token: str
    over: float

    def __repr__(self) -> str:
        return f"Hold({self.task})"


class Recorder:
    """The verbs that a worker uses. Refusals and store errors are logged, not raised."""

    def __init__(self, desk: Desk, log: Log, *, worker: str, agent: str, lease: float) -> None:
        self._desk, self._log, self._worker, self._agent = desk, log, worker, agent
        self._lease = lease
        self._span = timedelta(seconds=lease)

    def claim(self, count: int = 1, refs: Sequence[str] = ()) -> list[Hold]:
        number = self._log.asked("claim", lease=self._lease, named=bool(refs))
        claimed = self._try(
            number, lambda: self._desk.claim(self._agent, refs=refs, count=count, lease=self._span), self._given
        )
        return self._holds(claimed or ())

    def finish(self, verb: Verb, hold: Hold, *, go_on: bool = False) -> tuple[bool, list[Hold]]:
        """End an attempt, optionally claiming the next task. Returns whether the store accepted it."""
        number = self._log.asked(verb.value, task=hold.task, token=hold.token)
        then = self._log.asked("claim", lease=self._lease) if go_on else 0
        request = self._desk.next_request(self._agent, lease=self._span) if go_on else None
        result = {"by": signature(self._worker, number)} if verb is Verb.DONE else None
        try:
            moved = self._desk.move(
                verb, hold.task, token=hold.token, result=result, on_cancel=CanceledBlocker.RESOLVES, then=request
            )
        except DibsError as error:
            for asked in filter(None, (number, then)):
                self._log.failed(asked, error)
            return False, []
        self._log.answered(number, "ok", repeated=moved.repeated)
        if then:
            self._log.answered(then, "ok", **self._given(moved.next))
        return True, self._holds(moved.next)

    def renew(self, hold: Hold) -> Hold:
        number = self._log.asked("renew", task=hold.task, token=hold.token, lease=self._lease)
        renewed = self._try(number, lambda: self._desk.renew(hold.task, hold.token, lease=self._span))
        return hold if renewed is None else hold._replace(over=self._log.now() + self._lease)

    def cancel(self, task: str) -> None:
        self._say(Verb.CANCEL, task)

    def unblock(self, task: str) -> None:
        self._say(Verb.UNBLOCK, task)

    def _say(self, verb: Verb, task: str) -> Moved | None:
        number = self._log.asked(verb.value, task=task)
        return self._try(number, lambda: self._desk.move(verb, task, on_cancel=CanceledBlocker.RESOLVES))

    def link(self, task: str, on: str) -> None:
        number = self._log.asked("link", task=task, on=on)
        self._try(number, lambda: self._desk.link([Link(task, on)]))

    def unlink(self, task: str, on: str) -> None:
        number = self._log.asked("unlink", task=task, on=on)
        self._try(number, lambda: self._desk.unlink([Link(task, on)]))

    def lay(self, wave: Sequence[Planned], prefix: str) -> None:
        """Add a plan in one call, without links if the store has none."""
        links = self._desk.capabilities.links
        ids = [f"{prefix}-{place}" for place in range(len(wave))]
        after = {ids[place]: [ids[one] for one in planned.after] if links else [] for place, planned in enumerate(wave)}
        drafts = [Draft(each.title, id_, priority=each.priority) for id_, each in zip(ids, wave, strict=True)]
        self._add(drafts, after)

    def add(self, task: str, priority: float, after: Sequence[str]) -> None:
        self._add([Draft(f"follow-up {task}", task, priority=priority)], {task: list(after)})

    def _add(self, drafts: Sequence[Draft], after: dict[str, list[str]]) -> None:
        made = {draft.id: (draft.priority, after[draft.id]) for draft in drafts}
        number = self._log.asked("add", made=made)
        links = [Link(task, on) for task, before in after.items() for on in before]
        self._try(number, lambda: self._desk.add(drafts, links))

    def ready(self, limit: int) -> list[str]:
        """Read tasks; no rule checks the answer."""
        try:
            return [task.id for task in self._desk.ready(limit=limit, agent=self._agent)]
        except DibsError:
            return []

    def look(self) -> bool:
        """Log the final state. Returns whether it could be read."""
        number = self._log.asked("look")
        seen = self._try(number, self._everything, lambda seen: {"seen": seen})
        return seen is not None

    def _everything(self) -> dict[str, object]:
        desk = self._desk
        graph = desk.graph(finished=True) if desk.capabilities.links else None
        tasks = desk.find(Query(desk.scope)) if graph is None else graph.tasks
        links = () if graph is None else graph.links
        return {
            "tasks": [
                {"id": each.id, "status": each.status, "attempt": each.attempt, "blockers": each.blockers,
                 "result": each.result}
                for each in tasks
            ],
            "links": [(link.task, link.on) for link in links if link.kind is LinkKind.BLOCKS],
            "counts": dict(self._desk.counts().by_status),
        }  # fmt: skip

    def _holds(self, claimed: Sequence[Claimed]) -> list[Hold]:
        over = self._log.now() + self._lease
        return [Hold(each.task.id, each.task.lease.token, over) for each in claimed if each.task.lease is not None]

    def _given(self, claimed: Sequence[Claimed]) -> dict[str, object]:
        leases = {each.task.id: each.task.lease for each in claimed}
        return {"given": {task: (lease.attempt, lease.token) for task, lease in leases.items() if lease is not None}}

    def _try(
        self,
        number: int,
        ask: Callable[[], Answer],
        told: Callable[[Answer], dict[str, object]] = lambda _answer: {},
    ) -> Answer | None:
        try:
            answer = ask()
        except DibsError as error:
            self._log.failed(number, error)
            return None
        self._log.answered(number, "ok", **told(answer))
        return answer


HABITS = ("plain", "chain", "batch", "picker")
SCOPE = "default"

_MARGIN = 0.3  # seconds after which a lease that is over is over for sure
_DAWDLES_FOR = 10.0  # the longest sleep past a lease
_REMEMBERED = 40
_PR_SET_PDEATHSIG = 1
_LAST_WORDS = {Verb.DONE: 80, Verb.FAIL: 6, Verb.RELEASE: 6, Verb.BLOCK: 5, Verb.CANCEL: 3}


class Job(NamedTuple):
    """The job of a worker. The conductor signals by files in `folder`: `drain` and `stop`."""

    url: str
    folder: str
    log: str
    worker: str
    agent: str
    habit: str
    seed: str
    lease: float
    work: float  # seconds that a task takes at most
    parent: int
    skew: float = 0.0  # seconds by which its clock is wrong
    rule: str = ""  # module:function that takes the store and gives another in its place
    ghosts: tuple[str, ...] = ()  # logs of killed workers, whose tokens it tries
    mischief: float = 1.0


class Worker:
    def __init__(self, job: Job, log: Log | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
        self._job = job
        self._sleep = sleep
        self._dice = random.Random(job.seed)  # noqa: S311 - an experiment that can be repeated, no secret
        self._log = log or Log(job.log, job.worker, job.agent)
        self._held: list[Hold] = []
        self._lost = deque((hold for path in job.ghosts for hold in _claims_of_killed(path)), _REMEMBERED)
        self._known: deque[str] = deque(maxlen=_REMEMBERED)
        self._set_aside: list[str] = []
        self._tied: list[tuple[str, str]] = []
        self._made = 0

    def run(self) -> None:
        with self._opened() as store:
            self._links = store.capabilities.links
            desk = Desk(store, scope=SCOPE, by=Actor(self._job.agent))
            self._desk = Recorder(
                desk, self._log, worker=self._job.worker, agent=self._job.agent, lease=self._job.lease
            )
            while not self._told("stop") and not self._log.full and os.getppid() == self._job.parent:
                self._turn()

    def _told(self, word: str) -> bool:
        return os.path.exists(os.path.join(self._job.folder, word))

    def _opened(self) -> Store:
        """Keep trying while the store is unavailable."""
        while True:
            try:
                store = open_store(self._job.url, clock=_skewed(self._job.skew) if self._job.skew else None)
            except StoreError:
                if self._told("stop") or os.getppid() != self._job.parent:
                    raise
                self._sleep(0.2)
            else:
                return _under_rule(store, self._job.rule)

    # Work

    def _turn(self) -> None:
        draining = self._told("drain")
        if self._held:
            self._work(self._held.pop(0), draining=draining)
        else:
            self._take()
        if not self._held:
            self._unblock(draining=draining)
        if not draining:
            self._meddle()
            self._haunt()

    def _take(self) -> None:
        refs = self._desk.ready(5) if self._job.habit == "picker" else []
        count = 3 if self._job.habit == "batch" else 1
        self._got(self._desk.claim(count, refs=[self._dice.choice(refs)] if refs else ()))
        if not self._held:
            self._sleep(self._dice.uniform(0.01, 0.06))

    def _got(self, holds: list[Hold]) -> None:
        self._held += holds
        self._known.extend(hold.task for hold in holds)

    def _work(self, hold: Hold, *, draining: bool) -> None:
        self._sleep(self._dice.uniform(0, self._job.work))
        if draining:
            self._finish(Verb.DONE, hold)
        elif self._now_and_then(0.10):
            self._held.append(self._desk.renew(hold))
        elif self._now_and_then(0.03) and self._job.lease <= _DAWDLES_FOR:
            self._dawdle(hold)
        else:
            self._finish(self._dice.choices(list(_LAST_WORDS), list(_LAST_WORDS.values()))[0], hold)

    def _finish(self, verb: Verb, hold: Hold) -> None:
        counted, following = self._desk.finish(verb, hold, go_on=self._job.habit == "chain")
        self._got(following)
        self._lost.append(hold)
        if counted and verb is Verb.BLOCK:
            self._set_aside.append(hold.task)

    def _unblock(self, *, draining: bool) -> None:
        if self._set_aside and (draining or self._now_and_then(0.3)):
            self._desk.unblock(self._set_aside.pop(0))

    # Mischief

    def _now_and_then(self, chance: float) -> bool:
        return self._dice.random() < chance * self._job.mischief

    def _dawdle(self, hold: Hold) -> None:
        """Sleep past the lease, then finish anyway."""
        self._sleep(max(0.0, hold.over - self._log.now()) + _MARGIN)
        self._finish(Verb.DONE, hold)

    def _meddle(self) -> None:
        """Change tasks and links that others are working on."""
        if self._now_and_then(0.05):
            self._add()
        if self._links and self._now_and_then(0.10):
            self._relink()
        if self._now_and_then(0.01) and (waiting := self._desk.ready(5)):
            self._desk.cancel(self._dice.choice(waiting))
        if self._now_and_then(0.15):
            self._known.extend(self._desk.ready(8))

    def _add(self) -> None:
        self._made += 1
        name = f"{self._job.worker.replace('.', '-')}-f{self._made}"
        self._desk.add(name, self._dice.choice((1, 2, 3)), self._some(2) if self._links else [])
        self._known.append(name)

    def _relink(self) -> None:
        """Add a link, or remove one that this worker added."""
        if self._tied and self._dice.random() < 0.5:  # noqa: PLR2004 - one time of two
            self._desk.unlink(*self._tied.pop(self._dice.randrange(len(self._tied))))
            return
        pair = self._some(2)
        if len(pair) > 1:
            self._desk.link(*pair)
            self._tied.append((pair[0], pair[1]))

    def _some(self, number: int) -> list[str]:
        known = sorted(set(self._known))
        return self._dice.sample(known, min(number, len(known)))

    def _haunt(self) -> None:
        """Use a spent or lost token, or one of another task."""
        if self._lost and self._now_and_then(0.12):
            hold = self._dice.choice(self._lost)
            verb = self._dice.choice((Verb.DONE, Verb.DONE, Verb.RELEASE, Verb.FAIL, None))
            if verb is None:
                self._desk.renew(hold)
            else:
                self._desk.finish(verb, hold)
        if self._held and self._lost and self._now_and_then(0.03):
            other = self._dice.choice(self._lost)
            if other.task != self._held[0].task:
                self._desk.finish(Verb.DONE, Hold(self._held[0].task, other.token, 0.0))


def _claims_of_killed(path: str) -> list[Hold]:
    """The claims of a killed worker."""
    return [Hold(task, token, 0.0) for each in read([path]) for task, (_, token) in each.given.items()]


def _skewed(seconds: float) -> Callable[[], datetime]:
    from dibs.stores.sqlite.database import host_clock

    return lambda: host_clock() + timedelta(seconds=seconds)


def _under_rule(store: Store, rule: str) -> Store:
    if not rule:
        return store
    module, _, name = rule.partition(":")
    ruled: Store = getattr(import_module(module), name)(store)
    return ruled


def _die_with_the_conductor() -> None:
    """End with the conductor, even while this process is stopped."""
    import ctypes

    system = ctypes.CDLL(None)
    if hasattr(system, "prctl"):
        system.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def main() -> None:
    _die_with_the_conductor()
    told = json.load(sys.stdin)
    Worker(Job(**{**told, "ghosts": tuple(told["ghosts"])})).run()


if __name__ == "__main__":
    main()
