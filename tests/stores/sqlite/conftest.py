"""The players and the stage of the forced schedules serve here too."""

from __future__ import annotations

from interleave.conftest import players, pool
from interleave.conftest import sqlite_stage as stage

__all__ = ["players", "pool", "stage"]
