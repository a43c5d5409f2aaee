"""Workers: each takes tasks and runs a command on each, one per slot at a time, until it is told to leave."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import Counter
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError, LostLock, NothingReady, OverLimit, StoreError, StoreReplaced
from dibs.core.fields import EVERY, Filter
from dibs.core.task import Status
from dibs.core.wire import inputs_json, task_json
from dibs.fleet.attempt import Attempt, earlier_failures, reason_of, result_of
from dibs.fleet.instructions import prompt
from dibs.fleet.supervisor.client import Supervisor, SupervisorLost
from dibs.fleet.supervisor.protocol import Ending, Order, Report, clock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dibs.core.fields import Filter
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Claimed, Task
    from dibs.desk import Desk
    from dibs.stores.port import Moved
    from dibs.stores.reports import Counts

_SET_ASIDE = (Status.BLOCKED, Status.PAUSED, Status.REVIEW, Status.ESCALATED, Status.BACKLOG)


def nothing_ready(counts: Counts, now: datetime, only: Filter = EVERY) -> NothingReady:
    """Say why there is nothing, and when to ask again."""
    if counts.claimable and only is not EVERY:
        return NothingReady(f"None of the tasks that you could claim now has {only}.")
    if counts.claimable:
        return NothingReady("What is ready asks for capabilities you did not name (--can), or is not assigned to you.")
    held = counts.by_status[Status.ACTIVE] - counts.expired
    reasons = [
        f"{number} {why}"
        for number, why in (
            (held, "being worked on"),
            (counts.waiting, "waiting for others"),
            (counts.later, "not due yet"),
            *((counts.by_status[status], status.value) for status in _SET_ASIDE),
        )
        if number
    ]
    if not reasons:
        return NothingReady("There is nothing to do; 'dibs list' shows what there is.")
    wait = None
    if counts.next_due is not None:
        wait = max(0, (counts.next_due - now) // timedelta(milliseconds=1))
    return NothingReady(f"Nothing can be claimed now: {', '.join(reasons)}.", retry_after_ms=wait)


_LOOK = 1.0  # seconds of waiting after which we see whether to leave
_ASK_EVERY = 20.0  # seconds after which we ask for work without having heard of any
_SHORT_BREATH, _LONG_BREATH = 0.02, 0.2  # seconds between two looks, where others are busy and there is nothing for us
_TRY_AGAIN, _TRY_AGAIN_LATEST = 1.0, 30.0  # seconds until a store that gave no answer is asked again


class WorkerOptions(NamedTuple):
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


class WorkerEventKind(StrEnum):
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


ENDS = (
    WorkerEventKind.DONE,
    WorkerEventKind.FAILED,
    WorkerEventKind.ENDED,
    WorkerEventKind.RELEASED,
    WorkerEventKind.LOST,
)  # how an attempt can end


class WorkerEvent(NamedTuple):
    what: WorkerEventKind
    task: Task | None = None
    why: str | None = None
    seconds: float | None = None


class Taken(NamedTuple):
    """A task that was claimed, and when that was asked for by our own clock."""

    claimed: Claimed
    asked_at: float


class SlotPool:
    """One of the idle slots looks out for work; the others wait for their turn at that, so that waiting costs once."""

    def __init__(self, options: WorkerOptions, tell: Callable[[WorkerEvent], None]) -> None:
        self.options = options
        self.leaving = False  # no more claims
        self.stopping = False  # end what is running, too
        self.counts: Counter[WorkerEventKind] = Counter()
        self._tell = tell
        self._lookout = threading.Lock()
        self._lock = threading.RLock()  # a signal may come while the main thread tells of another
        self._busy = 0
        self._breath = 0.0
        self._supervisors: list[Supervisor] = []

    def tell(
        self, what: WorkerEventKind, task: Task | None = None, why: str | None = None, seconds: float | None = None
    ) -> None:
        with self._lock:
            self.counts[what] += 1
            self._tell(WorkerEvent(what, task, why, seconds))

    def arrive(self) -> None:
        """A slot has its store open; the first to arrive says so for all."""
        with self._lock:
            if not self.counts[WorkerEventKind.AT_WORK]:
                self.tell(WorkerEventKind.AT_WORK)

    # When to leave

    def leave(self) -> None:
        """Finish what is running, and claim no more."""
        self.leaving = True
        if self._busy:
            self.tell(WorkerEventKind.LEAVING, why=f"{self._busy} still running; a second signal ends that")

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

    def take(self, desk: Desk) -> Taken | None:
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
                    if self.options.once or self.options.until_empty or isinstance(error, StoreReplaced):
                        raise
                    self.tell(WorkerEventKind.TROUBLE, why=f"{error.message} Trying again in {pause:.0f} s.")
                    self._sleep(pause)
                    pause = min(2 * pause, _TRY_AGAIN_LATEST)
            return None

    def _claim(self, desk: Desk) -> Taken | None:
        asked_at = clock()
        found = self._claimed(desk)
        if not found:
            return None
        with self._lock:
            self._busy += 1
        self._breath = 0.0
        return Taken(found[0], asked_at)

    def _claimed(self, desk: Desk) -> list[Claimed]:
        options = self.options
        try:
            return desk.claim(
                options.agent,
                lease=options.lease,
                run=options.run,
                can=options.can,
                anywhere=options.anywhere,
                assigned=options.assigned,
                only=options.only,
            )
        except OverLimit:
            if options.once:
                raise
            return []  # until one of those is finished that others do in our name

    def idle(self) -> None:
        """One of us has finished, and has nothing to go on with."""
        with self._lock:
            self._busy -= 1

    def _nothing_left(self) -> bool:
        """Whether to leave because there is nothing to claim. What we work on may yet make something ready."""
        if self.options.once:
            return True
        if self.options.until_empty and not self._busy:
            self.leaving = True
        return self.leaving

    def _rest(self, desk: Desk) -> None:
        """Until something may have become ready, and a while longer if that keeps being so and nothing is for us.

        We ask now and then without a sign, too: whoever asks is known to be there.
        """
        began = clock()
        while not desk.wait(_LOOK):
            self._breath = 0.0
            if self.leaving or clock() > began + _ASK_EVERY or (self.options.until_empty and not self._busy):
                return
        time.sleep(max(0.0, began + self._breath - clock()))
        self._breath = min(max(_SHORT_BREATH, 2 * self._breath), _LONG_BREATH)

    def _sleep(self, seconds: float) -> None:
        until = clock() + seconds
        while not self.leaving and (left := until - clock()) > 0:
            time.sleep(min(left, _LOOK))


_LONGEST_WAIT = 3600.0  # seconds without a word from a supervisor
_NOTICE = 4  # the part of a lease, at most, that a command has to end before the lease does


class Slot:
    """It has a store and a supervisor of its own."""

    def __init__(self, pool: SlotPool, desk: Desk) -> None:
        self._pool = pool
        self._options = pool.options
        self._desk = desk
        self._supervisor: Supervisor | None = None

    def run(self) -> None:
        try:
            taken = self._pool.take(self._desk)
            while taken is not None:
                taken = self._do(taken)
                if taken is None:
                    self._pool.idle()
                    taken = None if self._options.once else self._pool.take(self._desk)
        finally:
            if self._supervisor is not None:
                self._pool.dismiss(self._supervisor)

    def _do(self, taken: Taken) -> Taken | None:
        """Work on a task to its end; what was claimed in the same step as that end is what comes next."""
        task = taken.claimed.task
        attempt = Attempt(self._at(task.scope), task, self._options.lease, taken.asked_at)
        self._pool.tell(WorkerEventKind.TOOK, task)
        try:
            report = self._run(taken.claimed, attempt)
        except SupervisorLost:
            report = self._supervisor_lost(clock() - taken.asked_at)
        except LostLock as lost:
            self._lost(attempt, lost, clock() - taken.asked_at)
            return None
        except StoreReplaced as replaced:
            self._pool.tell(WorkerEventKind.LOST, task, replaced.message, clock() - taken.asked_at)
            raise
        if report.left:
            self._pool.tell(WorkerEventKind.TROUBLE, task, f"{report.left} process(es) of its command cannot be ended.")
        return self._end(attempt, report)

    def _at(self, scope: str) -> Desk:
        return self._desk if scope == self._desk.scope else self._desk.at(scope)

    # While its command runs

    def _run(self, claimed: Claimed, attempt: Attempt) -> Report:
        """LostLock: it was taken from us meanwhile, StoreReplaced: so was its store. The command has been ended."""
        supervisor = self._supervisor = self._supervisor or self._pool.supervisor()
        supervisor.run(self._order(claimed, attempt))
        if self._pool.stopping:
            supervisor.stop()
        lost: LostLock | StoreReplaced | None = None
        while (report := supervisor.report(min(attempt.renew_in, _LONGEST_WAIT))) is None:
            try:
                if attempt.keep():
                    supervisor.extend(attempt.until)
            except (LostLock, StoreReplaced) as error:
                lost = error
                supervisor.stop()
        if lost is not None:
            raise lost
        if report.ending is Ending.LEASE and attempt.ended_as is None:
            raise LostLock("its lease could not be renewed in time")
        return report

    def _supervisor_lost(self, seconds: float) -> Report:
        assert self._supervisor is not None
        self._pool.dismiss(self._supervisor)
        self._supervisor = None
        return Report(
            -signal.SIGKILL, Ending.ITSELF, seconds, errors="the process that minds it was ended, and it with that"
        )

    def _order(self, claimed: Claimed, attempt: Attempt) -> Order:
        task, options = claimed.task, self._options
        said = json.dumps(task_json(task), ensure_ascii=False)
        grace = options.grace.total_seconds()
        return Order(
            list(options.words),
            {
                **options.environment,
                "DIBS_SCOPE": task.scope,
                "DIBS_TASK_ID": task.id,
                "DIBS_TOKEN": attempt.token,
                "DIBS_ATTEMPT": str(task.attempt),
            },
            said,
            {
                "DIBS_TASK_FILE": ("task.json", said),
                "DIBS_INPUTS_FILE": ("inputs.json", json.dumps(inputs_json(claimed), ensure_ascii=False)),
                "DIBS_PROMPT_FILE": ("prompt.md", prompt(claimed, earlier_failures(self._at(task.scope), task))),
            },
            attempt.until,
            min(grace, options.lease.total_seconds() / _NOTICE),
            grace,
            None if options.limit is None else options.limit.total_seconds(),
        )

    # How it ends

    def _end(self, attempt: Attempt, report: Report) -> Taken | None:
        then, asked_at = self._then(), clock()
        try:
            moved = self._say(attempt, report, then)
        except LostLock as lost:
            self._lost(attempt, lost, report.seconds)
            return None
        except StoreError as error:
            self._pool.tell(
                WorkerEventKind.LOST, attempt.task, f"its end could not be told: {error.message}", report.seconds
            )
            if isinstance(error, StoreReplaced):
                raise
            return None
        return Taken(moved.next[0], asked_at) if moved.next else None

    def _then(self) -> ClaimRequest | None:
        """What to go on with in the same step."""
        options = self._options
        if self._pool.leaving or options.once or options.anywhere:
            return None
        request = self._desk.next_request(
            options.agent, lease=options.lease, run=options.run, can=options.can, only=options.only
        )
        return request._replace(assigned=True) if options.assigned else request

    def _say(self, attempt: Attempt, report: Report, then: ClaimRequest | None) -> Moved:
        if report.ending is Ending.TOLD:
            why = "the worker was told to leave"
            moved = attempt.release(why)
            self._pool.tell(WorkerEventKind.RELEASED, moved.task, why, report.seconds)
            return moved
        if report.status or report.ending is not Ending.ITSELF:
            return self._fail(attempt, reason_of(report, attempt.token), report.seconds, then)
        try:
            moved = attempt.done(result_of(report, attempt.token), then)
        except (LostLock, StoreError):
            raise
        except DibsError as refused:
            return self._fail(attempt, f"it could not be finished: {refused.message}", report.seconds, then)
        if moved.repeated:
            self._ended_itself(moved.task, report.seconds)
        else:
            self._pool.tell(WorkerEventKind.DONE, moved.task, seconds=report.seconds)
        return moved

    def _fail(self, attempt: Attempt, reason: str, seconds: float, then: ClaimRequest | None) -> Moved:
        moved = attempt.fail(reason, self._options.retry_in, then)
        self._pool.tell(WorkerEventKind.FAILED, moved.task, reason, seconds)
        return moved

    def _lost(self, attempt: Attempt, lost: LostLock, seconds: float) -> None:
        if attempt.ended_as is not None:
            self._ended_itself(attempt.ended_as, seconds)
        else:
            self._pool.tell(WorkerEventKind.LOST, attempt.task, lost.message, seconds)

    def _ended_itself(self, task: Task, seconds: float) -> None:
        self._pool.tell(WorkerEventKind.ENDED, task, f"its command left it {task.status}", seconds)


class Worker:
    """Runs its slots as threads and waits for them. `leave` and `stop` may be called from a signal handler."""

    def __init__(
        self, open_desk: Callable[[], Desk], options: WorkerOptions, tell: Callable[[WorkerEvent], None]
    ) -> None:
        self._open = open_desk
        self._pool = SlotPool(options, tell)
        self._errors: list[BaseException] = []

    @property
    def counts(self) -> Counter[WorkerEventKind]:
        return self._pool.counts

    def run(self) -> None:
        """Work until it is time to leave, and raise the first error of a slot."""
        slots = [
            threading.Thread(target=self._slot, name=f"dibs-slot-{number}")
            for number in range(self._pool.options.slots)
        ]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join()
        if self._errors:
            raise self._errors[0]

    def leave(self) -> None:
        """Claim no more, and finish the tasks that are being worked on."""
        self._pool.leave()

    def stop(self) -> None:
        """End the running commands, and release their tasks."""
        self._pool.stop()

    def _slot(self) -> None:
        try:
            with self._open() as desk:
                self._pool.arrive()
                Slot(self._pool, desk).run()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._errors.append(error)
            self._pool.stop()
