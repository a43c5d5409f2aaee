"""One worker of a race: claims and finishes tasks, and logs the times: python race.py STORE_URL NAME FILE"""

from __future__ import annotations

import os
import sys
import time

from dibs.core.errors import DibsError, StoreError
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Status
from dibs.stores.opening import open_store


def main(url: str, name: str, path: str) -> None:
    witness = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with open_store(url) as store:
        while True:
            token = os.urandom(16).hex()
            try:
                claimed = store.claim(ClaimRequest(name, (token,), "default"))
                if not claimed:
                    counts = store.counts(None).by_status
                    if not counts[Status.READY] + counts[Status.ACTIVE]:
                        return
                    time.sleep(0.05)
            except StoreError:
                continue
            for one in claimed:
                os.write(witness, f"begin {one.task.id} {name}\n".encode())
                time.sleep(0.01)
                os.write(witness, f"end {one.task.id} {name}\n".encode())
                finish(store, one.task.id, token)


def finish(store: object, task: str, token: str) -> None:
    """Finish, and retry until it is confirmed."""
    for _ in range(20):
        try:
            store.move(Move(Verb.DONE, task, "default", token=token), CanceledBlocker.RESOLVES)  # type: ignore[attr-defined]
        except StoreError:
            continue
        except DibsError:
            pass  # done by an earlier try with a lost answer
        return


if __name__ == "__main__":
    main(*sys.argv[1:])
