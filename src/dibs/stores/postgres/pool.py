"""Stores for many threads: each is used by one at a time, and there are no more of them than allowed."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.core.errors import StoreBusy, StoreUnavailable
from dibs.stores.postgres.store import PostgresStore

if TYPE_CHECKING:
    from collections.abc import Iterator


class PostgresPool:
    """Opens stores when they are needed, up to `size`, and hands them out again. What broke is not handed out again."""

    def __init__(self, url: str, *, size: int, schema: str | None = None, timeout: float = 30.0) -> None:
        self._url = url
        self._schema = schema
        self._timeout = timeout
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[PostgresStore] = []
        self._lock = threading.Lock()

    @contextmanager
    def store(self) -> Iterator[PostgresStore]:
        """A store of one's own for the length of a `with`."""
        if not self._free.acquire(timeout=self._timeout):
            raise StoreBusy("All connections to the store are in use. Try again in a moment.", retry_after_ms=1000)
        try:
            with self._lock:
                store = self._idle.pop() if self._idle else None
            store = store or PostgresStore(self._url, schema=self._schema)
            try:
                yield store
            except StoreUnavailable:
                store.close()
                raise
            with self._lock:
                self._idle.append(store)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close what is idle; what is in use is closed by whoever returns it last."""
        with self._lock:
            idle, self._idle = self._idle, []
        for store in idle:
            store.close()
