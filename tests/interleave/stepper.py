"""Real processes on one SQLite file, advanced one SQL statement at a time.

A `Player` is a child process that runs one operation and pauses before every SQL statement until the test resumes it.
So a test can build an exact schedule: "A pauses before its COMMIT, B starts and has to wait, A resumes". The stops use
SQLite's own trace callback, set from here: production code does not know them.
"""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dibs.core.errors import DibsError
from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from datetime import datetime
    from types import TracebackType

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PATIENCE = 120.0  # seconds after which a test gives up on a child; never reached in a passing run
_MOMENT = 0.25  # without /proc, a child that is silent for so long counts as waiting

Act = Callable[[Desk], object]
Mutant = Callable[[], None]


def child_environment() -> dict[str, str]:
    """An environment in which a child finds the tests' modules as pytest does."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (TESTS, os.environ.get("PYTHONPATH"))))}


class Order(NamedTuple):
    """An operation for a player. Without an act, opening (and creating) the store is the operation."""

    path: str
    act: Act | None
    clock: Callable[[], datetime]
    timeout: float = PATIENCE
    durable: bool = False
    create: bool = False
    mutant: Mutant | None = None  # adds a defect to the store, in that child only
    die_before: int | None = None  # the statement before which the child kills itself
    stepwise: bool = True  # False: run without pauses
    expendable: bool = False  # the test may kill it


class Started(NamedTuple):
    pid: int


class Paused(NamedTuple):
    """The player is paused before its n-th statement."""

    statement: int
    sql: str


class Answer(NamedTuple):
    """The value that the operation returned, or its error: one of our codes, or the class name of another exception."""

    value: object = None
    code: str | None = None
    message: str = ""
    retry_after_ms: int | None = None


class Died(NamedTuple):
    signal: int


class _Go(NamedTuple):
    stop_again: bool


class Waiting(NamedTuple):
    """The player waits in the queue of writers."""


Sign = Paused | Answer | Died | Waiting


class Player:
    """A child process that takes one order after another, and runs each that could leave state behind in a fork."""

    def __init__(self) -> None:
        self._wire, far_end = Pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from interleave.stepper import serve; serve({far_end.fileno()})"],
            pass_fds=[far_end.fileno()],
            env=child_environment(),
        )
        far_end.close()
        self._order: Order | None = None
        self.pid = 0
        self.sign: Sign = Answer()

    def start(self, order: Order) -> Sign:
        """Begin, and return the first sign: a pause, a wait, or the end."""
        self.send(order)
        return self.look()

    def send(self, order: Order) -> None:
        """Begin, without waiting for a sign."""
        self._wire.send(order)
        self._order = order
        self.sign = Waiting()
        self.pid = 0

    def begun(self) -> bool:
        """Whether the process id is known, for an order that was sent and will pause later."""
        if not self.pid and self._wire.poll(0):
            started = self._receive()
            assert isinstance(started, Started), started
            self.pid = started.pid
        return self.pid != 0

    @property
    def idle(self) -> bool:
        return isinstance(self.sign, Answer | Died)

    def look(self) -> Sign:
        """The next sign, or Waiting as soon as the kernel lists the process as waiting for a lock."""
        deadline = time.monotonic() + PATIENCE
        quiet_until = time.monotonic() + _MOMENT
        while isinstance(self.sign, Waiting):
            if self._wire.poll(0.001):
                received = self._receive()
                if isinstance(received, Started):
                    self.pid = received.pid
                else:
                    self.sign = received
            elif self.pid and waits_for_a_lock(self.pid, quiet=time.monotonic() > quiet_until):
                return self.sign
            assert time.monotonic() < deadline, "the player neither answers nor waits"
        return self.sign

    def step(self) -> Sign:
        """Run to the next statement."""
        assert isinstance(self.sign, Paused), self.sign
        self._wire.send(_Go(stop_again=True))
        self.sign = Waiting()
        return self.look()

    def run_on(self) -> None:
        """Run on without pauses."""
        if isinstance(self.sign, Paused):
            self._wire.send(_Go(stop_again=False))
            self.sign = Waiting()

    def run_to(self, statement: int) -> Sign:
        """Run up to the n-th statement, or until it waits or ends."""
        while isinstance(self.sign, Paused) and self.sign.statement < statement:
            self.step()
        return self.sign

    def finish(self) -> Answer:
        """Run to the end, and return the answer."""
        sign = self.settle()
        assert isinstance(sign, Answer), sign
        return sign

    def settle(self) -> Answer | Died:
        """Run to the end, also that of a killed process."""
        return settle(self)[0]

    def run(self, order: Order) -> Answer:
        self.start(order)
        return self.finish()

    def kill(self) -> None:
        """Kill the process at its pause, like a power failure."""
        assert self._order is not None
        assert self._order.expendable
        os.kill(self.pid, signal.SIGKILL)
        self.sign = Waiting()
        assert isinstance(self.look(), Died)

    def close(self) -> None:
        """Close the connection, and end a player that is paused or waits."""
        self._wire.close()
        if isinstance(self.sign, Paused | Waiting) and self.pid:
            os.kill(self.pid, signal.SIGKILL)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(PATIENCE)
            raise

    def _receive(self) -> Started | Paused | Answer | Died:
        if not self._wire.poll(PATIENCE):
            raise TimeoutError("the player is silent")
        received: Started | Paused | Answer | Died = self._wire.recv()
        return received

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def settle(*players: Player) -> list[Answer | Died]:
    """Run all to their ends; each runs as far as it can before the next one."""
    deadline = time.monotonic() + PATIENCE
    while True:
        for player in players:
            player.run_on()
            player.look()
        ends = [player.sign for player in players if isinstance(player.sign, Answer | Died)]
        if len(ends) == len(players):
            return ends
        assert time.monotonic() < deadline, [player.sign for player in players]


def waits_for_a_lock(pid: int, *, quiet: bool) -> bool:
    """Whether the process waits for a file lock, or SQLite sleeps for one, according to the kernel."""
    try:
        with open("/proc/locks", encoding="ascii") as file:
            queues = any(words[1] == "->" and words[5] == str(pid) for words in map(str.split, file))
        with open(f"/proc/{pid}/wchan", encoding="ascii") as file:
            return queues or "nanosleep" in file.read()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return quiet


# The child's side


def serve(descriptor: int) -> None:
    """Take orders until the parent closes the connection."""
    wire: Connection = Connection(descriptor)
    for name in ("threading", "dibs.stores.sqlite.plans", "dibs.stores.sqlite.maintenance"):
        importlib.import_module(name)  # once, not in every fork
    gc.freeze()
    while True:
        try:
            order: Order = wire.recv()
        except EOFError:
            return
        if order.mutant is None and order.die_before is None and not order.expendable:
            _perform(wire, order)
        else:
            _perform_in_a_fork(wire, order)


def _perform_in_a_fork(wire: Connection, order: Order) -> None:
    pid = os.fork()
    if pid == 0:
        _perform(wire, order)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        wire.send(Died(os.WTERMSIG(status)))


def _perform(wire: Connection, order: Order) -> None:
    wire.send(Started(os.getpid()))
    if order.mutant is not None:
        order.mutant()
    connect = sqlite3.connect
    try:
        wire.send(_answer(_Tracer(wire, order), order))
    finally:
        sqlite3.connect = connect


class _Tracer:
    """SQLite calls this before each statement."""

    def __init__(self, wire: Connection, order: Order) -> None:
        self._wire = wire
        self._order = order
        self._count = 0
        self._stops = order.stepwise
        self.armed = order.act is None
        _trace_every_connection(self)

    def __call__(self, sql: str) -> None:
        if not self.armed:
            return
        self._count += 1
        if self._count == self._order.die_before:
            os.kill(os.getpid(), signal.SIGKILL)
        if self._stops:
            self._wire.send(Paused(self._count, sql))
            try:
                self._stops = self._wire.recv().stop_again
            except EOFError:
                os._exit(1)

    def end(self) -> None:
        """End the operation; a child that has to die after its last statement dies here."""
        if self.armed and self._order.die_before is not None and self._order.die_before > self._count:
            os.kill(os.getpid(), signal.SIGKILL)
        self.armed = False


def _trace_every_connection(tracer: Callable[[str], None]) -> None:
    connect = sqlite3.connect

    def traced(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_trace_callback(tracer)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]  # all its overloads in one


def _answer(tracer: _Tracer, order: Order) -> Answer:
    try:
        store = SqliteStore(
            order.path, create=order.create, durable=order.durable, timeout=order.timeout, clock=order.clock
        )
        with Desk(store, scope="s", by=Actor("tester")) as desk:
            try:
                if order.act is None:
                    value = None
                else:
                    tracer.armed = True
                    value = order.act(desk)
            finally:
                tracer.end()
        return Answer(value)
    except DibsError as error:
        return Answer(None, error.code, error.message, error.retry_after_ms)
    except Exception as error:  # noqa: BLE001 - the test checks the error
        return Answer(None, f"{type(error).__module__}.{type(error).__name__}", str(error))
