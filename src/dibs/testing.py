"""For tests of programs that use dibs: a desk in memory, by a clock that the test moves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs import api
from dibs import desk as private
from dibs.core.task import Actor
from dibs.stores.opening import MEMORY, file_url, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from dibs.stores.port import Store


def memory_desk(
    clock: Callable[[], datetime] | None = None, *, scope: str = "default", agent: str = "tester"
) -> api.Desk:
    """A desk on a store in memory. `clock` returns the time that decides about leases; else it is the machine's."""
    return api.Desk(private.Desk(open_store(MEMORY, clock=clock), scope=scope, by=Actor(agent)))


def sqlite_store(folder: str | os.PathLike[str], clock: Callable[[], datetime] | None = None) -> Store:
    """A SQLite store in a folder, made if it does not exist."""
    return open_store(file_url(os.path.join(folder, "dibs.db")), create=True, clock=clock)
