"""Desks for a server: a few threads, each with a desk of its own, that do what is asked of them one after another.

Whoever borrows a desk hands in a piece of work with everything it needs, and gets an answer that needs no desk any
more. So nobody's slow network ever holds a connection or a lock.
"""

from __future__ import annotations

import asyncio
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING, TypeVar

from dibs.core.errors import StoreBusy, StoreCorrupt, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk

    Job = tuple[Callable[[Desk], object], asyncio.AbstractEventLoop, asyncio.Future[object]]

T = TypeVar("T")

SIZE = 8  # threads
_WAITING = 256  # pieces of work that may wait for one; more are told to come again
_PAUSE_MS = 1000


class Desks:
    """Threads are started when they are needed, and desks opened by the thread that uses them."""

    def __init__(self, open_desk: Callable[[], Desk], size: int = SIZE, waiting: int = _WAITING) -> None:
        self._open_desk = open_desk
        self._size = size
        self._most = size + waiting
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._open = 0  # jobs handed in and not answered; touched by the event loop alone
        self._closed = False

    async def borrow(self, work: Callable[[Desk], T]) -> T:
        """What the work gives, done on a thread with a desk."""
        if self._closed or self._open >= self._most:
            raise StoreBusy("The server has more to do than it can. Try again in a moment.", retry_after_ms=_PAUSE_MS)
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
                _tell(loop, answer, None, error)
            else:
                _tell(loop, answer, given, None)
        if desk is not None:
            desk.close()

    def close(self) -> None:
        """What was handed in is still done."""
        self._closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()


def _tell(
    loop: asyncio.AbstractEventLoop, answer: asyncio.Future[object], given: object, error: BaseException | None
) -> None:
    def settle() -> None:
        if answer.cancelled():  # whoever asked has gone
            return
        if error is None:
            answer.set_result(given)
        else:
            answer.set_exception(error)

    loop.call_soon_threadsafe(settle)
