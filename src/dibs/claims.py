"""Claims of the public API: a task in the hands of a program, and the thread that renews its lease."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias, TypeVar

from dibs.core.errors import DibsError, InvalidInput, LostLock, StoreError
from dibs.core.fields import EVERY, Filter
from dibs.core.lifecycle import Verb
from dibs.core.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from dibs import desk as private
    from dibs.core.task import Claimed, Json
    from dibs.stores.port import Moved

Answer = TypeVar("Answer")
Span: TypeAlias = "timedelta | float | str"  # "20m", seconds, or a timedelta

_RENEWALS = 3  # in a lease
_CHECKS = 6  # for due renewals, in the shortest lease
_LONGEST_REASON = 2000  # characters


def listed(name: str, values: Iterable[str]) -> tuple[str, ...]:
    """A list as an argument. One text in its place is refused: each of its characters would count as an item."""
    if isinstance(values, str):
        raise InvalidInput(f"'{name}' is a list; write {name}=[{values[:40]!r}].")
    items: tuple[object, ...] = tuple(values) if hasattr(values, "__iter__") else (values,)
    for item in items:
        if not isinstance(item, str):
            raise InvalidInput(f"'{name}' is a list of texts; {str(item)[:40]} is not a text.")
    return tuple(map(str, items))


class Session:
    """One store for all threads of a program: calls take turns, and one thread renews the claims."""

    def __init__(self, desk: private.Desk) -> None:
        self.desk = desk
        self.lock = threading.RLock()  # a store serves one thread at a time
        self.keeper = Keeper()

    def later(self, span: Span | None) -> datetime | None:
        """The store's time after so long."""
        if span is None:
            return None
        with self.lock:
            return self.desk.now() + span_of(span)

    def close(self) -> None:
        self.keeper.close()
        with self.lock:
            self.desk.close()


class Terms(NamedTuple):
    """How tasks are claimed: for how long, with which capabilities, and which ones."""

    lease: timedelta
    can: tuple[str, ...] = ()
    only: Filter = EVERY


class Claim:
    """A task held under a lease: the right to work on it until it is finished or the lease expires.

    In a `with` block it is renewed in the background. Leaving the block finishes the task with `result`; an exception
    fails it with its message and is raised again. Once the lease is lost, the next step raises LostLock.
    """

    def __init__(self, session: Session, claimed: Claimed, terms: Terms, asked_at: float) -> None:
        assert claimed.task.lease is not None
        self.task = claimed.task
        self.inputs: Mapping[str, Json] = {one.id: one.result for one in claimed.inputs}
        """The results of the finished prerequisites, by id."""
        self.token: str = claimed.task.lease.token
        self.attempt: int = claimed.task.attempt
        self.result: Json = None
        self.artifacts: Sequence[str] = ()
        self.unblocked: Sequence[str] = ()
        """After `done`: the tasks that waited for this one and can be claimed now."""
        self._session = session
        self._agent = claimed.task.lease.agent
        self._terms = terms
        self._renew_at = asked_at + terms.lease.total_seconds() / _RENEWALS
        self._ended = False
        self._lost: DibsError | None = None
        self._loop: Loop | None = None

    def __repr__(self) -> str:
        return f"<Claim {self.task.id} attempt {self.attempt}{' (ended)' if self._ended else ''}>"

    @property
    def id(self) -> str:
        return self.task.id

    @property
    def ended(self) -> bool:
        """Whether the attempt is over: finished, given back, or lost."""
        return self._ended or self._lost is not None

    def renew(self, lease: Span | None = None) -> None:
        """Extend the lease, from now."""
        self._refuse_lost()
        span, asked_at = self._terms.lease if lease is None else span_of(lease), time.monotonic()
        self.task = self._at(lambda desk: desk.renew(self.id, self.token, lease=span))
        self._terms = self._terms._replace(lease=span)
        self._renew_at = asked_at + span.total_seconds() / _RENEWALS

    def done(self, result: Json = None, *, artifacts: Iterable[str] = (), next: bool = False) -> Claim | None:
        """Finish the task and, with `next`, claim the next one in the same step; None if there is none."""
        return self._end(
            Verb.DONE,
            result=self.result if result is None else result,
            artifacts=listed("artifacts", artifacts) or listed("artifacts", self.artifacts),
            next_too=next,
        )

    def fail(self, reason: str, *, retry_in: Span | None = None) -> None:
        """Report that the attempt failed. The task can be claimed again after `retry_in`, if retries are left."""
        self._end(Verb.FAIL, reason=reason, not_before=self._session.later(retry_in))

    def block(self, reason: str, *, unblock_action: str | None = None, next_check_at: datetime | None = None) -> None:
        """Set the task aside until something outside changes."""
        self._end(Verb.BLOCK, reason=reason, unblock_action=unblock_action, next_check_at=next_check_at)

    def review(self, result: Json = None, *, reason: str | None = None) -> None:
        """Hand the task over for review."""
        self._end(Verb.REVIEW, result=self.result if result is None else result, reason=reason)

    def cancel(self, reason: str | None = None) -> None:
        self._end(Verb.CANCEL, reason=reason)

    def release(self, reason: str | None = None) -> None:
        """Give the task back unfinished, without counting a retry."""
        self._end(Verb.RELEASE, reason=reason)

    def _end(self, verb: Verb, *, next_too: bool = False, **said: object) -> Claim | None:
        self._refuse_lost()
        asked_at = time.monotonic()

        def move(desk: private.Desk) -> Moved:
            then = None
            if next_too:
                then = desk.next_request(self._agent, run=desk.by.run, **self._terms._asdict())
            moved = desk.move(verb, self.id, token=self.token, then=then, **said)  # type: ignore[arg-type]
            self._ended = True
            return moved

        moved = self._at(move)
        self._session.keeper.forget(self)
        self.task, self.unblocked = moved.task, moved.unblocked
        if not moved.next:
            return None
        return Claim(self._session, moved.next[0], self._terms, asked_at)

    def _at(self, ask: Callable[[private.Desk], Answer]) -> Answer:
        try:
            with self._session.lock:
                return ask(self._session.desk)
        except LostLock as lost:
            self._lost = lost
            self._session.keeper.forget(self)
            raise

    def _refuse_lost(self) -> None:
        if self._lost is not None:
            raise self._lost
        if self._ended:
            raise LostLock(f"{self.id} is no longer yours: this attempt has ended. Claim it again to go on.")

    # In a `with` block

    def __enter__(self) -> Self:
        self._refuse_lost()
        self._session.keeper.keep(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        interrupted = isinstance(error, KeyboardInterrupt) and self._loop is not None
        if interrupted and self._loop is not None:
            self._loop.interrupted = True
        return self._exit(error, forgiving=self._loop is not None and self._loop.forgiving) or interrupted

    def _exit(self, error: BaseException | None, *, forgiving: bool) -> bool:
        """End a `with` block; True if its exception is dealt with. `dibs.aio` calls it too."""
        try:
            if error is None:
                if not self._ended:
                    self.done()
                return False
            if not self.ended:
                self._give_up(error)
        except LostLock as lost:
            if error is None and not forgiving:
                raise
            if error is not None:
                error.add_note(f"The failure is not recorded: {lost.message}")
        finally:
            self._session.keeper.forget(self)
        return forgiving and isinstance(error, Exception)

    def _give_up(self, error: BaseException) -> None:
        if isinstance(error, LostLock):
            self._lost = error
        elif isinstance(error, Exception):
            self.fail((str(error).strip() or type(error).__name__)[:_LONGEST_REASON])
        else:
            self.release("the worker was stopped")

    # In a worker's loop, and in the keeper's thread

    def _in(self, loop: Loop) -> Claim:
        self._loop = loop
        self._session.keeper.keep(self)
        return self

    def _leave(self) -> None:
        """The loop goes on: release the task if it is unfinished."""
        self._session.keeper.forget(self)
        if not self.ended:
            self.release("its worker went on without finishing it")

    def _keep(self) -> None:
        with self._session.lock:
            if self.ended:
                return
            try:
                self.renew()
            except StoreError:
                return  # the next check tries again
            except DibsError as lost:
                self._lost = lost
                self._session.keeper.forget(self)


class Loop:
    """What the claims of one `work` loop share."""

    def __init__(self, forgiving: bool) -> None:
        self.forgiving = forgiving
        self.interrupted = False
        self.claims = 0


class Keeper:
    """Renews the claims of a desk from one thread, so that a claim costs neither a thread nor a wake-up."""

    def __init__(self) -> None:
        self._claims: set[Claim] = set()  # changed without a lock: each change is one step of the interpreter
        self._pause = float("inf")
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._closed = False

    def keep(self, claim: Claim) -> None:
        self._claims.add(claim)
        pause = claim._terms.lease.total_seconds() / _CHECKS
        if pause < self._pause:
            self._check_every(pause)

    def forget(self, claim: Claim) -> None:
        self._claims.discard(claim)

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _check_every(self, seconds: float) -> None:
        with self._changed:
            self._pause = seconds
            self._changed.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="dibs-renewals", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._closed:
                    self._changed.wait(self._pause)
                if self._closed:
                    return
            now = time.monotonic()
            for claim in self._claims.copy():
                if claim._renew_at <= now:
                    claim._keep()


def is_forgiving(on_error: str) -> bool:
    if on_error not in {"raise", "continue"}:
        raise InvalidInput(f"on_error is 'raise' or 'continue', not '{on_error[:40]}'.")
    return on_error == "continue"


def span_of(span: Span) -> timedelta:
    if isinstance(span, timedelta):
        return span
    return parse_duration(span) if isinstance(span, str) else timedelta(seconds=span)
