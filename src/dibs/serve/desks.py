"""Desks for a server: a pool of threads with a desk each, and paged listings of tasks.

A job carries everything it needs, and its answer needs no desk. So a client on a slow network never holds a connection
or a lock.
"""

from __future__ import annotations

import asyncio
import json
import threading
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from queue import SimpleQueue
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dibs.core import checks
from dibs.core.errors import InvalidInput, StoreBusy, StoreCorrupt, StoreReplaced, StoreUnavailable
from dibs.core.task import CLASS_RANK, order_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.core.task import OrderKey, Task
    from dibs.desk import Desk
    from dibs.stores.port import Query

    Job = tuple[Callable[[Desk], object], asyncio.AbstractEventLoop, asyncio.Future[object]]

T = TypeVar("T")

SIZE = 16  # threads: so many requests can share a commit
_WAITING = 256  # waiting jobs; more are refused with StoreBusy
_PAUSE_MS = 1000


class SameStore:
    """Opens one store as often as asked, and never another one that has taken its place."""

    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._open_desk = open_desk
        self._lock = threading.Lock()
        self._id: str | None = None

    def __call__(self) -> Desk:
        desk = self._open_desk()
        try:
            self._recognise(desk.describe().get("id"))
        except BaseException:
            desk.close()
            raise
        return desk

    def _recognise(self, found: str | None) -> None:
        with self._lock:
            self._id = self._id or found
            if found != self._id:
                raise StoreReplaced(
                    "Another store has taken the place of the one that this server opened. Nothing was written. "
                    "Start the server again to serve the new one."
                )


class Desks:
    """A pool of threads. Each starts when it is needed, and opens its own desk."""

    def __init__(self, open_desk: Callable[[], Desk], size: int = SIZE, waiting: int = _WAITING) -> None:
        self._open_desk = open_desk
        self._size = size
        self._most = size + waiting
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0  # jobs handed in and not answered; touched by the event loop alone
        self._closed = False

    async def borrow(self, work: Callable[[Desk], T]) -> T:
        """Run `work` on a thread with a desk and return its result. Raise StoreBusy if too many jobs wait."""
        if self._closed or self._open >= self._most:
            raise StoreBusy("The server is overloaded. Try again in a moment.", retry_after_ms=_PAUSE_MS)
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._open += 1
        self._jobs.put((work, loop, answer))  # type: ignore[arg-type]  # a future of what the work gives
        if len(self._threads) < min(self._size, self._open):
            self._threads.append(threading.Thread(target=self._serve, name=f"desk-{len(self._threads)}", daemon=True))
            self._threads[-1].start()
        try:
            return await answer
        finally:
            self._open -= 1

    def _serve(self) -> None:
        desk: Desk | None = None
        while (job := self._jobs.get()) is not None:
            work, loop, answer = job
            if answer.cancelled():
                continue
            try:
                desk = desk or self._open_desk()
                given: object = work(desk)
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is awaited
                if desk is not None and isinstance(error, StoreUnavailable | StoreCorrupt):
                    desk.close()
                    desk = None
                _settle(loop, answer, None, error)
            else:
                _settle(loop, answer, given, None)
        if desk is not None:
            desk.close()

    def close(self) -> None:
        """Finish the jobs handed in, then end the threads."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()


def _settle(
    loop: asyncio.AbstractEventLoop, answer: asyncio.Future[object], given: object, error: BaseException | None
) -> None:
    def settle() -> None:
        if answer.cancelled():  # the client has left
            return
        if error is None:
            answer.set_result(given)
        else:
            answer.set_exception(error)

    loop.call_soon_threadsafe(settle)


# Pages

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RANKS = {rank: rank for rank in CLASS_RANK.values()}


class Page(NamedTuple):
    """Tasks, and the cursor of the next page if there is one."""

    tasks: list[Task]
    next: str | None


def page_of(desk: Desk, query: Query, limit: int, cursor: str | None) -> Page:
    after = None if cursor is None else _place(cursor)
    found = desk.find(query._replace(limit=limit + 1, after=after))
    return Page(found[:limit], _cursor(found[limit - 1]) if len(found) > limit else None)


def _cursor(task: Task) -> str:
    rank, behind, priority, queued_at, task_id, scope = order_key(task)
    place = [rank, int(behind), priority, (queued_at - _EPOCH) // _MICROSECOND, task_id, scope]
    return urlsafe_b64encode(json.dumps(place, ensure_ascii=False, separators=(",", ":")).encode()).decode().rstrip("=")


def _place(cursor: str) -> OrderKey:
    try:
        rank, behind, priority, queued, task_id, scope = json.loads(
            urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        )
        queued_at = _EPOCH + timedelta(microseconds=int(queued))
        place = (_RANKS[rank], bool(behind), checks.priority(priority), queued_at)
        return (*place, checks.identifier(task_id), checks.name_of("scope", scope))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, InvalidInput):
        raise InvalidInput("cursor: send 'next' of the previous page unchanged.") from None
