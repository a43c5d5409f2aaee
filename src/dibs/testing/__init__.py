"""For tests: a desk in memory with a clock that the test moves, and the suite that every store has to pass.

class TestMine(dibs.testing.StoreConformance):
    def make_store(self, folder, clock):
        return MyStore(folder, clock)
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from dibs import api
from dibs import desk as private
from dibs.core.errors import Misconfigured
from dibs.core.task import Actor
from dibs.stores.opening import MEMORY, file_url, open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store

    from .conformance.complete import StoreConformance

__all__ = ["Clock", "StoreConformance", "memory_desk", "sqlite_store"]


class Clock:
    """A clock that stops until a test advances it."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.time

    def advance(self, **span: float) -> None:
        """`advance(minutes=5)`"""
        self.time += timedelta(**span)


def memory_desk(
    clock: Callable[[], datetime] | None = None, *, scope: str = "default", agent: str = "tester"
) -> api.Desk:
    """A desk on a store in memory. `clock` returns the time for leases and timestamps (default: the machine's time)."""
    return api.Desk(private.Desk(open_store(MEMORY, clock=clock), scope=scope, by=Actor(agent)))


def sqlite_store(folder: str | os.PathLike[str], clock: Callable[[], datetime] | None = None) -> Store:
    """A SQLite store in a folder, made if it does not exist."""
    return open_store(file_url(os.path.join(folder, "dibs.db")), create=True, clock=clock)


def __getattr__(name: str) -> object:
    """Load the suite when it is first used: pytest and hypothesis are optional."""
    if name != "StoreConformance":
        raise AttributeError(f"module 'dibs.testing' has no attribute '{name}'")
    try:
        from .conformance import complete
    except ModuleNotFoundError as error:
        if error.name not in {"hypothesis", "pytest"}:
            raise
        raise Misconfigured("The store conformance suite needs pytest: pip install 'dibs[testing]'.") from None
    globals()[name] = complete.StoreConformance
    return complete.StoreConformance
