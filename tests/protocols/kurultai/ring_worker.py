"""A process that adds dependencies from stdin and prints each outcome.

python ring_worker.py URL SENDER_HASH
"""

from __future__ import annotations

import sys

from dibs.desk import open_desk
from dibs.protocols.kurultai.errors import CycleDetectedError
from dibs.protocols.kurultai.memory import OperationalMemory


def say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def main(url: str, sender: str) -> None:
    with OperationalMemory(open_desk(url)) as memory:
        say("ready")
        for line in sys.stdin:
            task, on, kind = line.split()
            try:
                memory.add_dependency(task, on, kind, sender_hash=sender)
            except CycleDetectedError:
                say("cycle")
            else:
                say("added")


main(*sys.argv[1:])
