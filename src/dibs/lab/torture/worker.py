"""One worker process: it claims, works, renews, dawdles, ends attempts in every way there is, and changes the plan.

    python -m dibs.lab.torture.worker < job.json

What it does follows from its seed and from what it is given. Whether it was right to be given it, others decide.
"""

import json
import os
import random
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from typing import NamedTuple

from dibs.core.errors import StoreError
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.lab.torture.history import Log, now, read
from dibs.lab.torture.recorder import Hold, Recorder
from dibs.stores.opening import open_store
from dibs.stores.port import Store

HABITS = ("plain", "chain", "batch", "picker")
SCOPE = "default"

_MARGIN = 0.3  # seconds after which a lease that is over is over for sure
_DAWDLES_FOR = 10.0  # no longer than this does anybody sleep on a lease
_REMEMBERED = 40
_PR_SET_PDEATHSIG = 1
_LAST_WORDS = {Verb.DONE: 80, Verb.FAIL: 6, Verb.RELEASE: 6, Verb.BLOCK: 5, Verb.CANCEL: 3}


class Job(NamedTuple):
    """What a worker is told. `folder` is where the conductor leaves word: a file `drain`, a file `stop`."""

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
    def __init__(self, job: Job) -> None:
        self._job = job
        self._dice = random.Random(job.seed)  # noqa: S311 - an experiment that can be repeated, no secret
        self._log = Log(job.log, job.worker, job.agent)
        self._held: list[Hold] = []
        self._lost = deque((hold for path in job.ghosts for hold in _left_behind(path)), _REMEMBERED)
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
        """A store that is away for a while is no reason to go home."""
        while True:
            try:
                store = open_store(self._job.url, clock=_skewed(self._job.skew) if self._job.skew else None)
            except StoreError:
                if self._told("stop") or os.getppid() != self._job.parent:
                    raise
                time.sleep(0.2)
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
            time.sleep(self._dice.uniform(0.01, 0.06))

    def _got(self, holds: list[Hold]) -> None:
        self._held += holds
        self._known.extend(hold.task for hold in holds)

    def _work(self, hold: Hold, *, draining: bool) -> None:
        time.sleep(self._dice.uniform(0, self._job.work))
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
        """Sleep past the lease, and finish as if nothing had been."""
        time.sleep(max(0.0, hold.over - now()) + _MARGIN)
        self._finish(Verb.DONE, hold)

    def _meddle(self) -> None:
        """Change the plan that others are working on."""
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
        """Make a link, or take one back that it has made."""
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
        """Come back with a token that was used or lost, or with one that belongs to another task."""
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


def _left_behind(path: str) -> list[Hold]:
    """What a killed worker had been given."""
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
    """Also while it stands still, and cannot see for itself that the conductor is gone."""
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
