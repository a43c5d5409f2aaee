"""Work on one claimed task: run the command, renew the lease, end the attempt; wait for files and signals."""

from __future__ import annotations

import os
import select
import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from dibs.core import checks
from dibs.core.errors import DibsError, LostLock, StoreError
from dibs.core.lifecycle import Verb
from dibs.core.task import Status, Task
from dibs.core.times import backoff
from dibs.fleet.supervisor.client import Supervisor, SupervisorLost
from dibs.fleet.supervisor.protocol import Ending, Order, Report, clock
from dibs.protocols.vault import claiming, drafts
from dibs.protocols.vault.publishing import AttemptEnd
from dibs.protocols.vault.settings import APPROVAL, APPROVED, DRAFT_ID, Handling, action_of
from dibs.protocols.vault.workplace import name_of, path_of
from dibs.stores.vault.disk import Stamp
from dibs.stores.vault.places import TASK_FOLDERS
from dibs.stores.vault.reading import sealed
from dibs.stores.vault.watching import Watcher

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from dibs.console.stopping import Stop
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.protocols.vault.publishing import Publisher
    from dibs.protocols.vault.workplace import Workplace

_AGAIN = 1.0  # seconds until a failed renewal is tried again
_LOOK_EVERY = 1.0  # seconds, without inotify


class Waiter:
    """Waits for changes of files and for signals, so that an idle agent uses no CPU. For the main thread."""

    def __init__(self, root: str, stop: Stop) -> None:
        self._watcher = Watcher.over(root, TASK_FOLDERS)
        self._stop = stop
        self._pipe = os.pipe()
        for fd in self._pipe:
            os.set_blocking(fd, False)

    @property
    def watching(self) -> bool:
        return self._watcher is not None

    @property
    def stopped_by(self) -> int | None:
        """The signal that requested the stop."""
        return self._stop.by

    @property
    def leaving(self) -> bool:
        return self._stop.requested

    def wait(self, seconds: float, supervisor: Supervisor | None = None) -> bool:
        """Sleep until a file changes, a signal arrives or the command ends. True if files may have changed."""
        span = seconds if self.watching else min(seconds, _LOOK_EVERY)
        ears = select.poll()
        ears.register(self._pipe[0], select.POLLIN)
        ears.register(self._stop, select.POLLIN)
        if supervisor is not None:
            ears.register(supervisor, select.POLLIN)
        if self._watcher is not None:
            ears.register(self._watcher, select.POLLIN)
        if not self.leaving:
            ears.poll(max(0.0, 1000 * span))
        self._drain()
        return self._notified()

    def nap(self, seconds: float) -> None:
        """Sleep, unless the agent is stopped."""
        until = time.monotonic() + seconds
        while not self.leaving and (left := until - time.monotonic()) > 0:
            self._stop.wait(left)

    def _notified(self) -> bool:
        if self._watcher is None:
            return True
        try:
            return self._watcher.heard()
        except OSError:  # more folders than watches: poll from now on
            self._watcher.close()
            self._watcher = None
            return True

    def _drain(self) -> None:
        try:
            os.read(self._pipe[0], 512)
        except BlockingIOError:
            return

    def __enter__(self) -> Self:
        self._wakeup = signal.set_wakeup_fd(self._pipe[1], warn_on_full_buffer=False)
        self._before = signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # so that it is written to the pipe
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGCHLD, self._before)
        signal.set_wakeup_fd(self._wakeup)
        for fd in self._pipe:
            os.close(fd)
        if self._watcher is not None:
            self._watcher.close()


class HeldTask:
    """One attempt at one task. Only the command that does the work gets its token."""

    def __init__(self, desk: Desk, task: Task, lease: timedelta, root: str, publisher: Publisher) -> None:
        assert task.lease is not None
        self._publisher = publisher
        self.desk = desk
        self.task = task
        self.token = task.lease.token
        self.lease = lease
        self.name = name_of(task)
        self.path = os.path.join(root, path_of(task))
        self.ended = False  # by the command, with the token it was given
        self._until = clock() + self._left(task)
        self._next_try = float("-inf")
        self._stamp = self._look()

    @property
    def until(self) -> float:
        """When the lease expires, by this machine's monotonic clock."""
        return self._until

    def _left(self, task: Task) -> float:
        ends = task.lease.expires_at if task.lease else None
        return (ends - self.desk.now()).total_seconds() if ends else self.lease.total_seconds()

    @property
    def renew_in(self) -> float:
        """Seconds until the renewal, which leaves time for two more tries."""
        return max(self._until - 2 * self.lease.total_seconds() / 3, self._next_try) - clock()

    def keep(self, *, touched: bool) -> bool:
        """Renew the lease if it is due, or check the task if its file has changed. True if the lease was renewed.

        LostLock if the task was lost. While the vault does not answer, the lease runs on until it expires.
        """
        due = self.renew_in <= 0
        if self.ended or not (due or (touched and self._look() != self._stamp)):
            return False
        lease = self.lease if due else max(timedelta(seconds=self.until - clock()), checks.LEASE_MIN)
        asked_at = clock()
        try:
            if due:
                self._publisher.renew(self.task, self.token, self.desk.now() + lease)
            self.desk.renew(self.task.id, self.token, lease=lease)
        except LostLock:
            if self._ended_by_command():
                return False
            raise
        except StoreError as error:
            if clock() < self.until:
                self._next_try = clock() + _AGAIN
                return False
            raise LostLock(f"The lease on {self.task.id} has ended and cannot be renewed: {error.message}") from error
        if due:
            self._until = asked_at + lease.total_seconds()
        self._stamp = self._look()
        return due

    def _ended_by_command(self) -> bool:
        """Whether the command has finished, reviewed or released the task."""
        try:
            task = self.desk.get(self.task.id)
        except DibsError:
            return False
        self.ended = task.lease is None and task.spent_token == sealed(self.token)
        return self.ended

    def ended_as(self) -> Task | None:
        """The task if the command has ended the attempt, else None."""
        return self.desk.get(self.task.id) if self.ended or self._ended_by_command() else None

    def _look(self) -> Stamp | None:
        try:
            return Stamp.of(os.lstat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return None


_GRACE = 5.0  # seconds between SIGTERM and SIGKILL
_SHORTEST = 0.05  # least seconds of one wait

# Called while a command runs, with whether the lease was just renewed. Returns the seconds until the next call;
# LostLock stops the command.
Meanwhile: TypeAlias = "Callable[[bool], float]"


class CommandEnd(NamedTuple):
    """The end of a command. `lost` is set if the task was lost, `left` if the agent was stopped."""

    status: int
    output: str = ""
    errors: str = ""
    late: bool = False
    lost: LostLock | None = None
    left: bool = False


class Command:
    """Runs the command on one task after the other, under a supervisor that ends all its processes."""

    def __init__(self, words: Sequence[str], timeout: timedelta | None = None) -> None:
        self._words = words
        self._limit = None if timeout is None else timeout.total_seconds()
        self._supervisor: Supervisor | None = None

    def run(
        self, held: HeldTask, waiter: Waiter, task: str, env: Mapping[str, str], meanwhile: Meanwhile
    ) -> CommandEnd:
        """Run the command with the task on stdin, and renew the lease until it ends."""
        supervisor = self._supervisor = self._supervisor or Supervisor()
        variables = {name: value.replace("\0", "") for name, value in env.items()}
        grace = min(_GRACE, held.lease.total_seconds() / 4)
        try:
            supervisor.run(Order(list(self._words), variables, task, {}, held.until, grace, _GRACE, self._limit))
            return self._attend(supervisor, held, waiter, meanwhile)
        except SupervisorLost:
            self.close()
            return CommandEnd(-1, errors="the supervisor died, so the command was killed")
        except BaseException:
            self.close()  # ends the command, too
            raise

    def _attend(self, supervisor: Supervisor, held: HeldTask, waiter: Waiter, meanwhile: Meanwhile) -> CommandEnd:
        touched, until = True, held.until
        while (report := supervisor.report(0)) is None:
            if waiter.leaving:
                return _ended(supervisor.ended(), held, left=True)
            try:
                again_in = meanwhile(held.keep(touched=touched))
            except LostLock as lost:
                return _ended(supervisor.ended(), held, lost=lost)
            if held.until != until:
                until = held.until
                supervisor.extend(until)
            touched = waiter.wait(max(_SHORTEST, min(held.renew_in, again_in)), supervisor)
        if report.ending is Ending.LEASE:
            why = LostLock(f"The lease on {held.task.id} has ended; it could not be renewed in time.")
            return _ended(report, held, lost=why)
        return _ended(report, held)

    def close(self) -> None:
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None


def _ended(report: Report, held: HeldTask, *, lost: LostLock | None = None, left: bool = False) -> CommandEnd:
    output, errors = (said.replace(held.token, "(token)") for said in (report.output, report.errors))
    late = report.ending is Ending.LIMIT
    return CommandEnd(report.status, f"…{output}" if report.dropped else output, errors, late, lost, left)


_SAID = 300  # characters of a command's error output in the reason


class RetryPolicy(NamedTuple):
    """The lease of a claim, and the number and first pause of retries."""

    lease: timedelta
    max_retries: int
    retry_in: timedelta


class TaskRunner:
    """Works on claimed tasks. The publisher reports the end of an attempt once the remote has accepted it."""

    def __init__(
        self, workplace: Workplace, command: Command, patience: RetryPolicy, environment: dict[str, str]
    ) -> None:
        self._workplace = workplace
        self._tracked = workplace.tracked
        self._journal = workplace.journal
        self._publisher = workplace.publisher
        self._command = command
        self._patience = patience
        self._environment = environment
        self._reported = False  # whether the attempt's end was reported, so that the counters add up

    def do(self, task: Task, way: Handling, *, lapsed: bool) -> None:
        """Work on a claimed task until the attempt ends.

        `lapsed`: the lease of the attempt before expired. After too many of these the task is rejected.
        """
        desk = self._tracked.desk.at(task.scope)
        held = HeldTask(desk, task, self._patience.lease, self._workplace.root, self._publisher)
        self._tracked.take_touched()  # left by an error
        self._reported = False
        try:
            if way is Handling.LEAVE:
                self._release(held, f"this agent may not do '{action_of(task)}'")
                return
            if lapsed and task.retries > self._limit(task):
                self._reject(held, f"given up after {task.retries} attempts that did not end")
                return
            claiming.verify(held.desk, task.id, self._workplace.agent, held.token)
            self._end(held, way, self._run(held, way))
        except LostLock as lost:
            self._tracked.take_touched()
            itself = held.ended_as()
            if itself is None:
                self._lost(held, lost)
            else:
                self._ended_itself(held, itself)
        except DibsError:
            raise  # the vault failed; the lease expires
        except Exception:
            self._fail(held, "the agent had an error; see its log")
            raise
        finally:
            if not self._reported:
                self._end_unwritten(held)

    def _run(self, held: HeldTask, way: Handling) -> CommandEnd:
        task = held.task
        approved = way is Handling.ACT and task.extra.get(APPROVAL) == APPROVED
        draft = drafts.draft_of(self._tracked, task) if approved else None
        text = _as_read(task) if draft is None else drafts.text_of(draft)
        lease = task.lease
        variables = {
            **self._environment,
            "DIBS_SCOPE": task.scope,
            "DIBS_TASK_ID": task.id,
            "DIBS_TOKEN": held.token,
            "DIBS_RUN": (lease.run if lease else None) or "",
            "DIBS_FILE": held.path,
            "DIBS_TITLE": task.title,
            "DIBS_ACTION": action_of(task),
            "DIBS_WAY": way.value,
            "DIBS_ATTEMPT": str(task.attempt),
            "DIBS_DRAFT": "" if draft is None else os.path.join(self._workplace.root, path_of(draft)),
        }
        return self._command.run(
            held, self._workplace.waiter, text, variables, lambda renewed: self._share(held, renewed=renewed)
        )

    def _share(self, held: HeldTask, *, renewed: bool) -> float:
        """While a command runs, pull changes of its task and publish renewals."""
        try:
            self._publisher.pull()
            if renewed:
                self._share_renewal(held)
        except LostLock:
            raise
        except DibsError as error:
            self._journal.say(f"error {error.code} {held.name}: {error.message}")
        return self._publisher.due_in

    def _share_renewal(self, held: HeldTask) -> None:
        """Publish a renewal on the branch, where people see it."""
        with self._publisher.turn():
            self._publisher.post([path_of(held.task)], f"{self._workplace.agent} renews {held.task.id}")

    # The end of an attempt

    def _end(self, held: HeldTask, way: Handling, ended: CommandEnd) -> None:
        if ended.lost is not None:
            raise ended.lost
        if ended.left:
            self._release(held, "the agent was stopped")
            return
        if ended.errors.strip():
            self._journal.note(f"{held.name} said:\n{ended.errors.rstrip()}")
        if ended.late or ended.status:
            self._fail(held, _reason(ended))
        elif way is Handling.DRAFT:
            self._draft(held, ended.output)
        else:
            self._finish(held, ended.output)

    def _finish(self, held: HeldTask, output: str) -> None:
        with self._publisher.turn():
            self._move(held, Verb.DONE, result=output.strip() or None)
            drafts.finish(self._tracked, held.task, Verb.APPROVE)
            self._publish(held, "done", f"done {held.name}", "done")

    def _draft(self, held: HeldTask, output: str) -> None:
        with self._publisher.turn():
            draft = drafts.make(self._tracked, held.task, output, self._tracked.desk.now())
            try:
                self._move(held, Verb.REVIEW, result={DRAFT_ID: draft.id}, reason=f"{draft.id} waits for approval")
            except LostLock:
                self._tracked.move(draft, Verb.CANCEL, reason=f"{held.task.id} was taken away")
                self._publisher.post(self._tracked.take_touched(), f"{self._workplace.agent}: no use for {draft.id}")
                raise
            self._publish(held, "drafted", f"drafted {held.name}: {path_of(draft)} waits for approval", "done")

    def _fail(self, held: HeldTask, why: str) -> None:
        task = held.task
        if task.retries >= self._limit(task):
            self._reject(held, f"failed {task.retries + 1} times, last: {why}")
            return
        pause = backoff(task.retries, self._patience.retry_in)
        with self._publisher.turn():
            self._move(held, Verb.FAIL, reason=why, not_before=self._tracked.desk.now() + pause)
            line = f"failed {held.name}: {why} (again in {pause.total_seconds():g} s)"
            self._publish(held, "failed", line, "failed")

    def _reject(self, held: HeldTask, why: str) -> None:
        with self._publisher.turn():
            self._move(held, Verb.CANCEL, reason=why)
            drafts.finish(self._tracked, held.task, Verb.CANCEL, why)
            self._publish(held, "rejected", f"rejected {held.name}: {why}", "failed")

    def _release(self, held: HeldTask, why: str) -> None:
        with self._publisher.turn():
            self._move(held, Verb.RELEASE, reason=why)
            self._publish(held, "released", f"released {held.name}: {why}", "released")

    def _ended_itself(self, held: HeldTask, task: Task) -> None:
        """Report a task that the command has ended itself."""
        with self._publisher.turn():
            self._tracked.touched += [path_of(held.task), path_of(task)]
            if task.finished:
                verb = Verb.APPROVE if task.status is Status.DONE else Verb.CANCEL
                drafts.finish(self._tracked, held.task, verb)
            counter = "done" if task.status in {Status.DONE, Status.REVIEW} else "released"
            self._publish(held, "ended", f"ended {held.name}: its command left it {task.status}", counter)

    def _lost(self, held: HeldTask, lost: LostLock) -> None:
        self._reported = True
        ending = AttemptEnd(held.name, "lost", f"LOST_LOCK {held.name}: {lost.message}", "lost_leases")
        self._publisher.post((), "", ending)
        self._publisher.give_up(held.token)

    def _end_unwritten(self, held: HeldTask) -> None:
        line = f"gave up {held.name}: the result could not be written; the claim ends with its lease"
        self._reported = True
        self._publisher.post((), "", AttemptEnd(held.name, "lost", line, "lost_leases"))

    def _move(self, held: HeldTask, verb: Verb, **brings: object) -> None:
        self._tracked.move(held.task, verb, token=held.token, **brings)

    def _publish(self, held: HeldTask, how: str, line: str, counter: str) -> None:
        message = f"{self._workplace.agent}: {how} {held.task.id}"
        self._reported = True
        self._publisher.post(self._tracked.take_touched(), message, AttemptEnd(held.name, how, line, counter))

    def _limit(self, task: Task) -> int:
        return self._patience.max_retries if task.max_retries is None else task.max_retries


def _as_read(task: Task) -> str:
    """The text that a command reads: the title as a heading, unless the text begins with one, and the text."""
    text = task.description.strip("\n")
    return f"{text}\n" if text.startswith("# ") else f"# {task.title}\n\n{text}\n"


def _reason(ended: CommandEnd) -> str:
    if ended.late:
        return "it took too long"
    said = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    how = f"exit status {ended.status}" if ended.status >= 0 else f"ended by signal {-ended.status}"
    return f"{how}: {said[-1][:_SAID]}" if said else how
