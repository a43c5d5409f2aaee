"""`python actor.py FOLDER WHAT STEP TOKEN`: do one thing to a vault, and die before one of its steps."""

from __future__ import annotations

import os
import signal
import sys
from datetime import datetime

from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Edit, Link
from dibs.stores.vault.store import VaultStore
from stores.vault.steps import CHANGES, SteppedDisk

SCOPE = "default"
SURVIVED = 7


def main(folder: str, what: str, step: str, token: str, now: str) -> int:
    disk = SteppedDisk(lambda: os.kill(os.getpid(), signal.SIGKILL), int(step), durable=True, steps=CHANGES)
    moment = datetime.fromisoformat(now)
    with VaultStore(folder, disk=disk, clock=lambda: moment) as store:
        disk.arm()
        match what:
            case "claim" | "claim another's":
                store.claim(ClaimRequest("bob", ("token-of-bob",), SCOPE))
            case "claim by name":
                store.claim(ClaimRequest("bob", ("token-of-bob",), SCOPE, ("a",)))
            case "add":
                store.add(SCOPE, [Draft("New", "new", "The text.")], [], Actor())
            case "edit":
                store.amend(SCOPE, "a", Edit(priority=1), Actor())
            case "link":
                store.link(SCOPE, [Link("a", "b")], Actor())
            case _:
                asked = Move(Verb(what), "a", SCOPE, Actor("ann"), token=token or None, result={"n": 1})
                store.move(asked, CanceledBlocker.ESCALATES)
    return SURVIVED


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
