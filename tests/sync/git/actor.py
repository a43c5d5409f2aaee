"""`python actor.py CLONE WHAT KIND STEP NOW`: do one thing in a clone, and die before one of its steps.

KIND is the kind of step: `git` for git commands, `disk` for changes of files in the folder.
"""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime
from pathlib import Path

from dibs.stores.vault.disk import Disk
from stores.vault.steps import CHANGES, SteppedDisk
from sync.git.clones import Machine
from sync.git.steps import SteppedGit

SURVIVED = 7


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(path: str, what: str, kind: str, step: str, now: str) -> int:
    moment = datetime.fromisoformat(now)
    git = SteppedGit(os.path.realpath(path), die, int(step) if kind == "git" else -1)
    disk = SteppedDisk(die, int(step), steps=CHANGES) if kind == "disk" else Disk(durable=False)
    machine = Machine(Path(path), clock=lambda: moment, git=git, disk=disk)
    claimed = machine.hold("ann", "a") if what == "done" else None
    git.arm()
    if isinstance(disk, SteppedDisk):
        disk.arm()
    match what:
        case "claim" | "lose":
            machine.claim("ann", "a")
        case "done":
            assert claimed is not None
            machine.finish(claimed)
        case "pull":
            machine.clone.pull()
        case "settle":
            machine.clone.settle()
    return SURVIVED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
