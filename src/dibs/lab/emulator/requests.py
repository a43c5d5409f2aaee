"""What was asked, for those who count it."""

import threading
from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple


class Served(NamedTuple):
    """A request and how it ended. `template` is the path with its ids left out; status 0 is no answer at all."""

    method: str
    template: str
    path: str
    status: int
    at: datetime
    bot_id: str | None
    version: str | None


class Requests:
    """Those of the API, in the order of their answers."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._served: list[Served] = []

    def add(self, served: Served) -> None:
        with self._lock:
            self._served.append(served)

    def clear(self) -> None:
        with self._lock:
            self._served.clear()

    def count(self, method: str | None = None, template: str | None = None, status: int | None = None) -> int:
        return sum(
            method in {None, one.method} and template in {None, one.template} and status in {None, one.status}
            for one in self
        )

    def __iter__(self) -> Iterator[Served]:
        with self._lock:
            return iter(list(self._served))

    def __len__(self) -> int:
        return len(self._served)
