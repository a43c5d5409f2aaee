"""Workers: each claims tasks and runs a command on each, one per slot, until it is stopped."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import (
    DibsError,
    InvalidInput,
    LostLock,
    OverLimit,
    StoreError,
    StoreReplaced,
    Unsupported,
)
from dibs.core.fields import EVERY, Filter
from dibs.core.task import Edit
from dibs.core.wire import GIT, inputs_json, task_json
from dibs.fleet.attempt import Attempt, earlier_failures, reason_of, result_of
from dibs.fleet.instructions import prompt
from dibs.fleet.output import Mask, OutputRecorder, secrets_in
from dibs.fleet.routing import Unserved
from dibs.fleet.supervisor.client import Supervisor, SupervisorLost
from dibs.fleet.supervisor.protocol import Ending, Order, Report, clock
from dibs.fleet.worktrees import MergeRefused, TaskTrees

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.fields import Filter
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Claimed, Json, Task
    from dibs.desk import Desk
    from dibs.fleet.attempt import Extra
    from dibs.fleet.worktrees import Worktree, WorktreeOptions
    from dibs.stores.port import Moved

_LOOK = 1.0  # seconds of waiting between two checks whether to leave
_ASK_EVERY = 20.0  # seconds after which a worker asks for work without a notification
_SHORT_BREATH, _LONG_BREATH = 0.02, 0.2  # seconds between two looks while other workers take all tasks
_TRY_AGAIN, _TRY_AGAIN_LATEST = 1.0, 30.0  # seconds until a failed store is asked again


class WorkerOptions(NamedTuple):
    """A worker's agent, command and settings. `until_empty` and `once` end it; otherwise a signal does."""

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
    trees: WorktreeOptions | None = None
    prompted: bool = False  # the command reads the prompt on stdin, not the task as JSON


class WorkerEventKind(StrEnum):
    """The events of a worker. `ended`: the command has ended its task."""

    AT_WORK = "at work"
    TOOK = "took"
    DONE = "done"
    FAILED = "failed"
    BLOCKED = "blocked"
    RELEASED = "released"
    ENDED = "ended"
    LOST = "lost"
    TROUBLE = "trouble"
    LEAVING = "leaving"


ENDS = (
    WorkerEventKind.DONE,
    WorkerEventKind.FAILED,
    WorkerEventKind.BLOCKED,
    WorkerEventKind.ENDED,
    WorkerEventKind.RELEASED,
    WorkerEventKind.LOST,
)  # the ends of an attempt


class WorkerEvent(NamedTuple):
    what: WorkerEventKind
    task: Task | None = None
    why: str | None = None
    seconds: float | None = None


class TimedClaim(NamedTuple):
    """A claimed task, and the time of the request by the local clock."""

    claimed: Claimed
    asked_at: float


class SlotPool:
    """The slots of a worker. One idle slot asks for work while the others wait, so that only one polls the store."""

    def __init__(self, options: WorkerOptions, tell: Callable[[WorkerEvent], None]) -> None:
        self.options = options
        self.leaving = False  # no more claims
        self.stopping = False  # end running commands, too
        self.counts: Counter[WorkerEventKind] = Counter()
        self._tell = tell
        self._lookout = threading.Lock()
        self._lock = threading.RLock()  # a signal may arrive while the main thread handles another
        self._busy = 0
        self._breath = 0.0
        self._supervisors: list[Supervisor] = []
        self._unserved: Unserved | None = None

    def report(
        self, what: WorkerEventKind, task: Task | None = None, why: str | None = None, seconds: float | None = None
    ) -> None:
        with self._lock:
            self.counts[what] += 1
            self._tell(WorkerEvent(what, task, why, seconds))

    def arrive(self) -> None:
        """Report once, for the first slot with an open store, that the worker runs."""
        with self._lock:
            if not self.counts[WorkerEventKind.AT_WORK]:
                self.report(WorkerEventKind.AT_WORK)

    # When to leave

    def leave(self) -> None:
        """Finish running commands, and claim no more."""
        self.leaving = True
        if self._busy:
            self.report(WorkerEventKind.LEAVING, why=f"{self._busy} still running; a second signal ends that")

    def stop(self) -> None:
        """End running commands. A slot that starts one at this moment reads the flag."""
        self.leaving = self.stopping = True
        for supervisor in self._supervisors[:]:
            try:
                supervisor.stop()
            except SupervisorLost:
                continue  # its command has ended too

    def supervisor(self) -> Supervisor:
        """A new supervisor for a slot without one."""
        self._supervisors.append(Supervisor())
        return self._supervisors[-1]

    def dismiss(self, supervisor: Supervisor) -> None:
        self._supervisors.remove(supervisor)
        supervisor.close()

    # Getting work

    def take(self, desk: Desk) -> TimedClaim | None:
        """The next task, when there is one; None: leave."""
        with self._lookout:
            pause = _TRY_AGAIN
            while not self.leaving:
                try:
                    taken = self._claim(desk)
                    if taken is not None or self._nothing_left():
                        return taken
                    self._name_unserved(desk)
                    self._rest(desk)
                    pause = _TRY_AGAIN
                except StoreError as error:
                    if self.options.once or self.options.until_empty or isinstance(error, StoreReplaced):
                        raise
                    self.report(WorkerEventKind.TROUBLE, why=f"{error.message} Trying again in {pause:.0f} s.")
                    self._sleep(pause)
                    pause = min(2 * pause, _TRY_AGAIN_LATEST)
            return None

    def _name_unserved(self, desk: Desk) -> None:
        """Report scopes with work that this worker, which serves one scope, cannot claim."""
        if self.options.anywhere:
            return
        if self._unserved is None:
            self._unserved = Unserved(desk, lambda why: self.report(WorkerEventKind.TROUBLE, why=why))
        self._unserved.look()

    def _claim(self, desk: Desk) -> TimedClaim | None:
        asked_at = clock()
        found = self._claimed(desk)
        if not found:
            return None
        with self._lock:
            self._busy += 1
        self._breath = 0.0
        return TimedClaim(found[0], asked_at)

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
            return []  # until another worker of this agent has finished a task

    def idle(self) -> None:
        """A slot has finished, without a next task."""
        with self._lock:
            self._busy -= 1

    def _nothing_left(self) -> bool:
        """Whether to leave because no task can be claimed. A task in progress may unblock others."""
        if self.options.once:
            return True
        if self.options.until_empty and not self._busy:
            self.leaving = True
        return self.leaving

    def _rest(self, desk: Desk) -> None:
        """Wait until a task may be ready; longer, if other workers took it several times.

        Every _ASK_EVERY seconds it returns without a notification, as a sign of presence.
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


_LONGEST_WAIT = 3600.0  # seconds without a message from a supervisor
_CHECK_SAID = 2000  # characters of the output of a failed check
_NOTICE = 4  # a command has at most a quarter of the lease to end in, before the lease ends


class Slot:
    """A slot, with its own store and supervisor."""

    def __init__(self, pool: SlotPool, desk: Desk) -> None:
        self._pool = pool
        self._options = pool.options
        self._desk = desk
        self._supervisor: Supervisor | None = None
        self._trees = None if pool.options.trees is None else TaskTrees(pool.options.trees)

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

    def _do(self, taken: TimedClaim) -> TimedClaim | None:
        """Work on a task to its end, then on the task claimed in the same transaction."""
        task = taken.claimed.task
        attempt = Attempt(self._at(task.scope), task, self._options.lease, taken.asked_at)
        mask = Mask((attempt.token, *secrets_in({**os.environ, **self._options.environment})))
        self._begin(attempt, mask)
        self._pool.report(WorkerEventKind.TOOK, task)
        try:
            report = self._run(self._order(taken.claimed, attempt, self._opened(taken.claimed)), attempt)
            report = self._merged(attempt, report)
        except SupervisorLost:
            report = self._supervisor_lost(clock() - taken.asked_at)
        except LostLock as lost:
            self._lost(attempt, lost, clock() - taken.asked_at)
            return None
        except StoreReplaced as replaced:
            self._pool.report(WorkerEventKind.LOST, task, replaced.message, clock() - taken.asked_at)
            raise
        except MergeRefused as refused:
            report = Report(1, Ending.ITSELF, clock() - taken.asked_at, errors=refused.reason, action=refused.action)
        except DibsError as trouble:  # of git: no worktree, or none that can be read
            report = Report(1, Ending.ITSELF, clock() - taken.asked_at, errors=trouble.message)
        if report.left:
            self._pool.report(
                WorkerEventKind.TROUBLE, task, f"{report.left} process(es) of its command cannot be ended."
            )
        return self._end(attempt, report)

    def _at(self, scope: str) -> Desk:
        return self._desk if scope == self._desk.scope else self._desk.at(scope)

    def _begin(self, attempt: Attempt, mask: Mask) -> None:
        task = attempt.task
        self._mask = mask
        self._tree: Worktree | None = None
        self._recorder = OutputRecorder(
            self._at(task.scope).exact,
            task.id,
            attempt.token,
            mask,
            lambda why: self._pool.report(WorkerEventKind.TROUBLE, task, why),
        )

    # Its worktree, if any

    def _opened(self, claimed: Claimed) -> Worktree | None:
        if self._trees is not None:
            task = claimed.task
            self._tree = self._trees.open(self._at(task.scope), claimed)
            if GIT not in task.extra:
                with suppress(DibsError):  # only additional information
                    self._at(task.scope).edit(task.id, Edit(keep=self._record(), why="its worktree was made"))
        return self._tree

    def _merged(self, attempt: Attempt, report: Report) -> Report:
        """After a successful command: commit its changes if asked to, and merge its branch, unless the command ended
        its task.
        """
        options, failed = self._options.trees, report.status or report.ending is not Ending.ITSELF
        if options is None or self._trees is None or self._tree is None or failed:
            return report
        if options.commit:
            self._trees.commit(self._tree, attempt.task)
        if options.merge is None or attempt.has_ended():
            return report

        def check() -> str | None:
            assert options.check is not None
            found = self._run(self._check_order(attempt, options.check), attempt)
            if not found.status and found.ending is Ending.ITSELF:
                return None
            return f"the check '{options.check}' failed: {(found.errors or found.output)[-_CHECK_SAID:]}"

        refused = self._trees.merge(self._tree, attempt.task, attempt.keep, None if options.check is None else check)
        if refused is not None and self._pool.stopping:
            return report._replace(ending=Ending.TOLD)
        return report if refused is None else report._replace(status=1, errors=refused)

    def _record(self) -> dict[str, Json]:
        """The extra field with the task's branch and its changes."""
        if self._trees is None or self._tree is None:
            return {}
        try:
            return {GIT: self._trees.record(self._tree)}
        except DibsError as error:
            self._pool.report(WorkerEventKind.TROUBLE, why=error.message)
            return {}

    # While its command runs

    def _run(self, order: Order, attempt: Attempt) -> Report:
        """LostLock: another agent has the task. StoreReplaced: the store is gone. The command has ended."""
        supervisor = self._supervisor = self._supervisor or self._pool.supervisor()
        supervisor.run(order)
        if self._pool.stopping:
            supervisor.stop()
        lost: LostLock | StoreReplaced | None = None
        try:
            while (report := supervisor.report(min(attempt.renew_in, _LONGEST_WAIT), self._recorder.add)) is None:
                try:
                    if attempt.keep():
                        supervisor.extend(attempt.until)
                except (LostLock, StoreReplaced) as error:
                    lost = error
                    supervisor.stop()
        finally:
            self._recorder.flush()
        if lost is not None:
            raise lost
        if report.ending is Ending.LEASE and attempt.ended_as is None:
            raise LostLock("its lease could not be renewed in time")
        return report

    def _supervisor_lost(self, seconds: float) -> Report:
        assert self._supervisor is not None
        self._pool.dismiss(self._supervisor)
        self._supervisor = None
        return Report(-signal.SIGKILL, Ending.ITSELF, seconds, errors="the supervisor died, so the command was killed")

    def _order(self, claimed: Claimed, attempt: Attempt, tree: Worktree | None) -> Order:
        task, options = claimed.task, self._options
        said = json.dumps(task_json(task), ensure_ascii=False)
        grace = options.grace.total_seconds()
        branch = None if tree is None else tree.branch
        written = prompt(claimed, earlier_failures(self._at(task.scope), task), branch)
        return Order(
            list(options.words),
            {
                **options.environment,
                "DIBS_SCOPE": task.scope,
                "DIBS_TASK_ID": task.id,
                "DIBS_TOKEN": attempt.token,
                "DIBS_ATTEMPT": str(task.attempt),
                **({} if tree is None else {"DIBS_WORKTREE": tree.path, "DIBS_BRANCH": tree.branch}),
            },
            written if options.prompted else said,
            {
                "DIBS_TASK_FILE": ("task.json", said),
                "DIBS_INPUTS_FILE": ("inputs.json", json.dumps(inputs_json(claimed), ensure_ascii=False)),
                "DIBS_PROMPT_FILE": ("prompt.md", written),
            },
            attempt.until,
            min(grace, options.lease.total_seconds() / _NOTICE),
            grace,
            None if options.limit is None else options.limit.total_seconds(),
            heard=self._desk.has_output,
            place=None if tree is None else tree.path,
        )

    def _check_order(self, attempt: Attempt, check: str) -> Order:
        assert self._tree is not None
        grace = self._options.grace.total_seconds()
        notice = min(grace, self._options.lease.total_seconds() / _NOTICE)
        environment = {"DIBS_WORKTREE": self._tree.path, "DIBS_BRANCH": self._tree.branch}
        limit = None if self._options.limit is None else self._options.limit.total_seconds()
        heard, place = self._desk.has_output, self._tree.path
        return Order(["sh", "-c", check], environment, "", {}, attempt.until, notice, grace, limit, heard, place)

    # Its end

    def _end(self, attempt: Attempt, report: Report) -> TimedClaim | None:
        then, asked_at = self._then(), clock()
        try:
            moved = self._say(attempt, report, then)
        except LostLock as lost:
            self._lost(attempt, lost, report.seconds)
            return None
        except StoreError as error:
            self._pool.report(
                WorkerEventKind.LOST, attempt.task, f"could not report its result: {error.message}", report.seconds
            )
            if isinstance(error, StoreReplaced):
                raise
            return None
        return TimedClaim(moved.next[0], asked_at) if moved.next else None

    def _then(self) -> ClaimRequest | None:
        """The request for the next task, made in the same transaction."""
        options = self._options
        if self._pool.leaving or options.once or options.anywhere:
            return None
        request = self._desk.next_request(
            options.agent, lease=options.lease, run=options.run, can=options.can, only=options.only
        )
        return request._replace(assigned=True) if options.assigned else request

    def _say(self, attempt: Attempt, report: Report, then: ClaimRequest | None) -> Moved:
        extra = self._record()
        try:
            return self._say_with(attempt, report, then, extra)
        except (InvalidInput, Unsupported):
            if not extra:
                raise
            return self._say_with(attempt, report, then, {})  # this store has no extra fields

    def _say_with(self, attempt: Attempt, report: Report, then: ClaimRequest | None, extra: Extra) -> Moved:
        if report.ending is Ending.TOLD:
            why = "the worker was stopped"
            moved = attempt.release(why, extra)
            self._pool.report(WorkerEventKind.RELEASED, moved.task, why, report.seconds)
            return moved
        if report.action is not None:
            moved = attempt.block(report.errors, report.action, extra)
            self._pool.report(WorkerEventKind.BLOCKED, moved.task, f"{report.errors}. {report.action}", report.seconds)
            return moved
        if report.status or report.ending is not Ending.ITSELF:
            return self._fail(attempt, reason_of(report, attempt.token, self._mask), report.seconds, then, extra)
        try:
            moved = attempt.done(result_of(report, attempt.token, self._mask), then, extra)
        except (LostLock, StoreError):
            raise
        except DibsError as refused:
            return self._fail(attempt, f"it could not be finished: {refused.message}", report.seconds, then, extra)
        if moved.repeated:
            self._ended_itself(moved.task, report.seconds)
        else:
            self._pool.report(WorkerEventKind.DONE, moved.task, self._pull_request(moved.task), report.seconds)
        return moved

    def _pull_request(self, task: Task) -> str | None:
        if self._trees is None or self._tree is None or not self._trees.options.pull_request:
            return None
        return self._trees.pull_request(self._tree, task)

    def _fail(self, attempt: Attempt, reason: str, seconds: float, then: ClaimRequest | None, extra: Extra) -> Moved:
        moved = attempt.fail(reason, self._options.retry_in, then, extra)
        self._pool.report(WorkerEventKind.FAILED, moved.task, reason, seconds)
        return moved

    def _lost(self, attempt: Attempt, lost: LostLock, seconds: float) -> None:
        if attempt.ended_as is not None:
            self._ended_itself(attempt.ended_as, seconds)
        else:
            self._pool.report(WorkerEventKind.LOST, attempt.task, lost.message, seconds)

    def _ended_itself(self, task: Task, seconds: float) -> None:
        if record := self._record():
            with suppress(DibsError):
                self._at(task.scope).edit(task.id, Edit(keep=record, why="its command ended it"))
        self._pool.report(WorkerEventKind.ENDED, task, f"its command left it {task.status}", seconds)


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
