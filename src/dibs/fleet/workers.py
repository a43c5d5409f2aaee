"""What the slots of one worker share: who looks out for work, how many are at it, and whether to go on."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import OverLimit, StoreError
from dibs.core.fields import EVERY, Filter
from dibs.fleet.supervisor.client import Supervisor, SupervisorLost
from dibs.fleet.supervisor.protocol import clock

if TYPE_CHECKING:
    from dibs.core.task import Claimed, Task
    from dibs.desk import Desk

_LOOK = 1.0  # seconds of waiting after which we see whether to leave
_ASK_EVERY = 20.0  # seconds after which we ask for work without having heard of any
_SHORT_BREATH, _LONG_BREATH = 0.02, 0.2  # seconds between two looks, where others are busy and there is nothing for us
_TRY_AGAIN, _TRY_AGAIN_LATEST = 1.0, 30.0  # seconds until a store that gave no answer is asked again


class Duty(NamedTuple):
    """Who works, on what, and on which terms. `until_empty` and `once` say when to leave, else a signal does."""

    agent: str
    run: str
    words: tuple[str, ...]
    environment: dict[str, str]
    slots: int = 1
    can: tuple[str, ...] = ()
    anywhere: bool = False
    assigned: bool = False
    once: bool = False
    until_empty: bool = False
    lease: timedelta = timedelta(minutes=20)
    limit: timedelta | None = None
    grace: timedelta = timedelta(seconds=5)
    retry_in: timedelta = timedelta(seconds=10)
    only: Filter = EVERY


class What(StrEnum):
    """What a worker has to tell. `ended`: a command has ended its task by itself."""

    AT_WORK = "at work"
    TOOK = "took"
    DONE = "done"
    FAILED = "failed"
    RELEASED = "released"
    ENDED = "ended"
    LOST = "lost"
    TROUBLE = "trouble"
    LEAVING = "leaving"


ENDS = (What.DONE, What.FAILED, What.ENDED, What.RELEASED, What.LOST)  # how an attempt can end


class Told(NamedTuple):
    what: What
    task: "Task | None" = None
    why: str | None = None
    seconds: float | None = None


class Taken(NamedTuple):
    """A task that was claimed, and when that was asked for by our own clock."""

    claimed: "Claimed"
    asked_at: float


class Crew:
    """One of the idle slots looks out for work; the others wait for their turn at that, so that waiting costs once."""

    def __init__(self, duty: Duty, tell: Callable[[Told], None]) -> None:
        self.duty = duty
        self.leaving = False  # no more claims
        self.stopping = False  # end what is running, too
        self.counts: Counter[What] = Counter()
        self._tell = tell
        self._lookout = threading.Lock()
        self._lock = threading.RLock()  # a signal may come while the main thread tells of another
        self._busy = 0
        self._breath = 0.0
        self._supervisors: list[Supervisor] = []

    def tell(
        self, what: What, task: "Task | None" = None, why: str | None = None, seconds: float | None = None
    ) -> None:
        with self._lock:
            self.counts[what] += 1
            self._tell(Told(what, task, why, seconds))

    def arrive(self) -> None:
        """A slot has its store open; the first to arrive says so for all."""
        with self._lock:
            if not self.counts[What.AT_WORK]:
                self.tell(What.AT_WORK)

    # When to leave

    def leave(self) -> None:
        """Finish what is running, and claim no more."""
        self.leaving = True
        if self._busy:
            self.tell(What.LEAVING, why=f"{self._busy} still running; a second signal ends that")

    def stop(self) -> None:
        """End what is running. Who starts something at this moment finds the flag set."""
        self.leaving = self.stopping = True
        for supervisor in self._supervisors[:]:
            try:
                supervisor.stop()
            except SupervisorLost:
                continue  # and so is what it ran

    def supervisor(self) -> Supervisor:
        """A new one, for a slot that has none."""
        self._supervisors.append(Supervisor())
        return self._supervisors[-1]

    def dismiss(self, supervisor: Supervisor) -> None:
        self._supervisors.remove(supervisor)
        supervisor.close()

    # Getting work

    def take(self, desk: "Desk") -> Taken | None:
        """The next task, as soon as there is one; None: leave."""
        with self._lookout:
            pause = _TRY_AGAIN
            while not self.leaving:
                try:
                    taken = self._claim(desk)
                    if taken is not None or self._nothing_left():
                        return taken
                    self._rest(desk)
                    pause = _TRY_AGAIN
                except StoreError as error:
                    if self.duty.once or self.duty.until_empty:
                        raise
                    self.tell(What.TROUBLE, why=f"{error.message} Trying again in {pause:.0f} s.")
                    self._sleep(pause)
                    pause = min(2 * pause, _TRY_AGAIN_LATEST)
            return None

    def _claim(self, desk: "Desk") -> Taken | None:
        asked_at = clock()
        found = self._claimed(desk)
        if not found:
            return None
        with self._lock:
            self._busy += 1
        self._breath = 0.0
        return Taken(found[0], asked_at)

    def _claimed(self, desk: "Desk") -> "list[Claimed]":
        duty = self.duty
        try:
            return desk.claim(
                duty.agent,
                lease=duty.lease,
                run=duty.run,
                can=duty.can,
                anywhere=duty.anywhere,
                assigned=duty.assigned,
                only=duty.only,
            )
        except OverLimit:
            if duty.once:
                raise
            return []  # until one of those is finished that others do in our name

    def idle(self) -> None:
        """One of us has finished, and has nothing to go on with."""
        with self._lock:
            self._busy -= 1

    def _nothing_left(self) -> bool:
        """Whether to leave because there is nothing to claim. What we work on may yet make something ready."""
        if self.duty.once:
            return True
        if self.duty.until_empty and not self._busy:
            self.leaving = True
        return self.leaving

    def _rest(self, desk: "Desk") -> None:
        """Until something may have become ready, and a while longer if that keeps being so and nothing is for us.

        We ask now and then without a sign, too: whoever asks is known to be there.
        """
        began = clock()
        while not desk.wait(_LOOK):
            self._breath = 0.0
            if self.leaving or clock() > began + _ASK_EVERY or (self.duty.until_empty and not self._busy):
                return
        time.sleep(max(0.0, began + self._breath - clock()))
        self._breath = min(max(_SHORT_BREATH, 2 * self._breath), _LONG_BREATH)

    def _sleep(self, seconds: float) -> None:
        until = clock() + seconds
        while not self.leaving and (left := until - clock()) > 0:
            time.sleep(min(left, _LOOK))
