"""One worker of the fleet test: it claims as many tasks of its agent as it can, and finishes them."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from datetime import timedelta

from dibs.core.errors import OverLimit, Waiting
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Task
from dibs.desk import mint_token
from dibs.stores.opening import open_store

LEASE = timedelta(seconds=300)  # no worker dies here, so none renews


def main(url: str, agent: str, greed: int, work: float) -> None:
    """`greed` is the number of tasks that it tries to hold, regardless of its agent's limit."""
    dice = random.Random(f"{agent} {os.getpid()}")
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: stopped.append(number))
    held: list[Task] = []
    with open_store(url) as store:
        while not stopped:
            try:
                tokens = tuple(mint_token() for _ in range(dice.randint(1, greed)))
                held += [one.task for one in store.claim(ClaimRequest(agent, tokens, lease=LEASE, assigned=True))]
            except OverLimit:
                pass
            if not held:
                store.wait(0.3)
                continue
            time.sleep(dice.uniform(0, work))
            task = held.pop(0)
            token = task.lease.token if task.lease else None
            verb = Verb.FAIL if dice.random() < 0.03 and task.retries == 0 else Verb.DONE
            try:
                move = Move(verb, task.id, task.scope, Actor(agent), token=token)
                store.move(move, CanceledBlocker.ESCALATES)
            except Waiting:
                held.append(task)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
