"""Measure times, and describe the machine."""

from __future__ import annotations

import os
import platform
import sqlite3
import statistics
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Figure(NamedTuple):
    """One line of the results: the quantity, its value and the promise."""

    what: str
    value: str
    promise: str = ""
    kept: bool | None = None

    def row(self) -> str:
        verdict = {None: "", True: "yes", False: "**no**"}[self.kept]
        return f"| {self.what} | {self.value} | {self.promise} | {verdict} |"


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def today() -> str:
    return str(datetime.now(UTC).date())  # noqa: TID251 - the date of a measurement is the wall's


def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    return (
        f"{os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"load {os.getloadavg()[0]:.1f} at the start"
    )
