"""An agent in its own process: `worker.py STORE-URL NAME WITNESS SEED WORK [--naive] [--until=FILE]`.

It claims, logs the begin to the witness file, works for a moment, logs the end, and finishes or releases, until no task
is left. It never reads the log. With --until it works until FILE exists.
"""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, LostLock
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor
from dibs.desk import mint_token
from dibs.stores.notion import guard
from dibs.stores.opening import open_store
from interleave.notion import unguarded

if TYPE_CHECKING:
    from dibs.stores.port import Store

PATIENCE = 4  # consecutive empty claims before the worker exits


class Witness:
    """Append lines to a file that other processes append to as well."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)

    def note(self, what: str, task: str, name: str) -> None:
        os.write(self._file, f"{time.monotonic():.6f} {what} {task} {name}\n".encode())


def main() -> None:
    url, name, path, seed, work = sys.argv[1:6]
    if "--naive" in sys.argv:
        guard.claim = unguarded.naive
    random.seed(int(seed))
    witness = Witness(path)
    until = next((word.partition("=")[2] for word in sys.argv if word.startswith("--until=")), None)
    with open_store(url) as store:
        idle = 0
        while idle < PATIENCE:
            idle = 0 if _turn(store, name, witness, float(work), until) else idle + 1


def _turn(store: Store, name: str, witness: Witness, work: float, until: str | None) -> bool:
    """Claim a task and work on it; False if there was none, or the claim failed."""
    token = mint_token()
    try:
        claimed = store.claim(ClaimRequest(name, (token,), "default", lease=timedelta(minutes=20)))
    except DibsError as error:
        witness.note(error.code, "-", name)
        return False
    if not claimed:
        time.sleep(random.uniform(0.1, 0.3))
        return False
    task = claimed[0].task.id
    witness.note("begin", task, name)
    time.sleep(random.uniform(work / 5, work))
    while until is not None and not os.path.exists(until):
        time.sleep(0.02)
    witness.note("end", task, name)
    verb = Verb.RELEASE if random.random() < 0.3 else Verb.DONE
    try:
        store.move(Move(verb, task, "default", Actor(name), token), CanceledBlocker.RESOLVES)
    except LostLock:
        witness.note("lost", task, name)
    except DibsError as error:
        witness.note(error.code, task, name)
    return True


if __name__ == "__main__":
    main()
