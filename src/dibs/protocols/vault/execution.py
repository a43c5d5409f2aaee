"""What an agent runs and waits for: its command, the lease of the task meanwhile, files and signals."""

from __future__ import annotations

import os
import select
import signal
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from dibs.core import checks
from dibs.core.errors import DibsError, LostLock, StoreError
from dibs.fleet.supervisor.client import Supervisor, SupervisorLost
from dibs.fleet.supervisor.protocol import Ending, Order, Report, clock
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

_AGAIN = 1.0  # seconds until a renewal that failed is tried again
_LOOK_EVERY = 1.0  # seconds, where the system does not tell of files


class Waiter:
    """Rings for files and signals alike, so that an agent with nothing to do does nothing. For the main thread."""

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
        """Sleep until something rings, a command has ended or the time is over. True: files may have changed."""
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
        return self._heard()

    def nap(self, seconds: float) -> None:
        """Sleep, whatever happens to files; only being told to leave ends it."""
        until = time.monotonic() + seconds
        while not self.leaving and (left := until - time.monotonic()) > 0:
            self._stop.wait(left)

    def _heard(self) -> bool:
        if self._watcher is None:
            return True
        try:
            return self._watcher.heard()
        except OSError:  # more folders than can be watched: from now on we look
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
    """One attempt at one task. The token never leaves it but for the command that does the work."""

    def __init__(self, desk: Desk, task: Task, lease: timedelta, root: str, publisher: Publisher) -> None:
        assert task.lease is not None
        self._publisher = publisher
        self.desk = desk
        self.task = task
        self.token = task.lease.token
        self.lease = lease
        self.name = name_of(task)
        self.path = os.path.join(root, path_of(task))
        self.ended = False  # by the command itself, under the token it was given
        self._until = clock() + self._left(task)
        self._next_try = float("-inf")
        self._stamp = self._look()

    @property
    def until(self) -> float:
        """When the lease is over, by our own clock."""
        return self._until

    def _left(self, task: Task) -> float:
        ends = task.lease.expires_at if task.lease else None
        return (ends - self.desk.now()).total_seconds() if ends else self.lease.total_seconds()

    @property
    def renew_in(self) -> float:
        """Seconds; there is time for two more tries."""
        return max(self._until - 2 * self.lease.total_seconds() / 3, self._next_try) - clock()

    def keep(self, *, touched: bool) -> bool:
        """Renew when it is time, or when the file is not what it was. True: it was time, and it is renewed.

        LostLock says what has become of the task. While the vault gives no answer, the lease goes on to its end.
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
        """The command may finish, review or release by itself what it was given to do."""
        try:
            task = self.desk.get(self.task.id)
        except DibsError:
            return False
        self.ended = task.lease is None and task.spent_token == sealed(self.token)
        return self.ended

    def ended_as(self) -> Task | None:
        """The task, if the command has ended the attempt by itself."""
        return self.desk.get(self.task.id) if self.ended or self._ended_by_command() else None

    def _look(self) -> Stamp | None:
        try:
            return Stamp.of(os.lstat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return None


_GRACE = 5.0  # seconds between asking a command to end and ending it
_SHORTEST = 0.05  # seconds between two looks at the clock

# What else is to be done while a command runs, told whether the lease was renewed just now: it answers in how many
# seconds it wants to be asked again, or ends the command by LostLock.
Meanwhile: TypeAlias = "Callable[[bool], float]"


class Ended(NamedTuple):
    """How a command ended. `lost` is why the task is not ours any more; `left` that the agent was told to leave."""

    status: int
    output: str = ""
    errors: str = ""
    late: bool = False
    lost: LostLock | None = None
    left: bool = False


class Command:
    """Runs the words on one task after the other. A supervisor sees to it that nothing is left of them."""

    def __init__(self, words: Sequence[str], timeout: timedelta | None = None) -> None:
        self._words = words
        self._limit = None if timeout is None else timeout.total_seconds()
        self._supervisor: Supervisor | None = None

    def run(self, held: HeldTask, waiter: Waiter, task: str, env: Mapping[str, str], meanwhile: Meanwhile) -> Ended:
        """Let it work on the task, which it gets on stdin, and keep the task meanwhile."""
        supervisor = self._supervisor = self._supervisor or Supervisor()
        told = {name: value.replace("\0", "") for name, value in env.items()}
        grace = min(_GRACE, held.lease.total_seconds() / 4)
        try:
            supervisor.run(Order(list(self._words), told, task, {}, held.until, grace, _GRACE, self._limit))
            return self._attend(supervisor, held, waiter, meanwhile)
        except SupervisorLost:
            self.close()
            return Ended(-1, errors="the process that minds it was ended, and it with that")
        except BaseException:
            self.close()  # and with that what it runs
            raise

    def _attend(self, supervisor: Supervisor, held: HeldTask, waiter: Waiter, meanwhile: Meanwhile) -> Ended:
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


def _ended(report: Report, held: HeldTask, *, lost: LostLock | None = None, left: bool = False) -> Ended:
    output, errors = (said.replace(held.token, "(token)") for said in (report.output, report.errors))
    late = report.ending is Ending.LIMIT
    return Ended(report.status, f"…{output}" if report.dropped else output, errors, late, lost, left)
