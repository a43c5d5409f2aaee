"""How quickly the nearest of many tasks are found, without numpy and without an index."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from dibs.core import search
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from pathlib import Path


def test_comparing_two_thousand_tasks_is_fast(tmp_path: Path) -> None:
    dice = random.Random(1)
    with Desk(SqliteStore(str(tmp_path / "dibs.db"), create=True, durable=False)) as desk:
        names = [f"t{number:04}" for number in range(2000)]
        desk.add([Draft(name, name) for name in names])
        desk.keep_vectors({name: [dice.random() - 0.5 for _ in range(384)] for name in names})
        asked = [dice.random() - 0.5 for _ in range(384)]
        assert len(names) < search._MANY  # so in plain Python
        took = []
        for _ in range(9):
            started = time.process_time()  # other processes' load does not count
            found = desk.similar(asked).found
            took.append(time.process_time() - started)
        assert len(found) == 10
        assert min(took) < 0.1, took
