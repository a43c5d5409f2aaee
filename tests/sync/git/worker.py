"""`python worker.py CLONE AGENT RECORDS LEASE AHEAD`: an agent that claims, works and finishes until nothing is left.

The work is a line in a file outside of the vault. The test restarts a killed worker.
"""

from __future__ import annotations

import os
import random
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.core.errors import LostLock, StoreBusy
from dibs.core.task import Status
from dibs.stores.port import Query
from dibs.stores.vault.reading import sealed
from dibs.sync.git import Published, history
from sync.git.ahead import Ahead
from sync.git.clones import Machine

if TYPE_CHECKING:
    from dibs.core.task import Claimed

OPEN = (Status.READY, Status.ACTIVE)


def main(clone: str, agent: str, records: str, lease: str, ahead: str) -> None:
    history._STALE = 15.0  # the test kills git as well, and has no minute to wait
    machine = Machine(Path(clone), clock=Ahead(Path(ahead)))
    machine.clone.settle()
    while True:
        try:
            if not work(machine, agent, records, timedelta(seconds=float(lease))):
                return
        except (LostLock, StoreBusy) as error:
            print(agent, error, file=sys.stderr, flush=True)  # noqa: T201 - shown when the test fails


def work(machine: Machine, agent: str, records: str, lease: timedelta) -> bool:
    with machine.clone.turn():
        machine.clone.pull()
        published, claimed = machine.claim(agent, lease=lease)
    if claimed is None:
        with machine.desk() as desk:
            left = desk.find(Query(statuses=OPEN, limit=1))
        time.sleep(0.2)
        return bool(left)
    if published is Published.ACCEPTED:
        record(records, "works", agent, claimed)
        time.sleep(random.random() * 0.1)
        outcome = machine.finish(claimed, result={"by": agent})
        record(records, str(outcome), agent, claimed)
    return True


def record(records: str, what: str, agent: str, claimed: Claimed) -> None:
    """One write, so that a killed process leaves a whole line or none."""
    task = claimed.task
    assert task.lease is not None
    line = f"{what} {task.id} {task.attempt} {sealed(task.lease.token)} {agent} {os.getpid()}\n"
    fd = os.open(records, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, line.encode())
    os.close(fd)


if __name__ == "__main__":
    main(*sys.argv[1:])
