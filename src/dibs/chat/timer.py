"""Reads what is due and tells what came of it, for all senders, again and again. Any number may be at it, anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.chat.room import senders_waiting
from dibs.core.errors import LostLock, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.chat.conversation.reader import Outcome, Reader
    from dibs.chat.outbox import Deliverer, Told
    from dibs.desk import Desk

EVERY = 1.0  # seconds between looks: a window is read about so late
_TROUBLE = 5.0  # the same while the store cannot be asked


def read_due(desk: Desk, reader: Reader, trouble: Callable[[str], None]) -> Iterator[Outcome]:
    """What came of each window that is closed. Trouble with one sender's messages keeps no other's waiting."""
    for sender in senders_waiting(desk):
        try:
            outcome = reader.read(sender)
        except LostLock:  # somebody else has read it
            continue
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - it is told, and the messages are tried again when the lease is over
            trouble(f"The messages of {sender[:12]}… could not be read ({type(error).__name__}: {error}).")
            continue
        if outcome is not None:
            yield outcome


def watch(
    desk: Desk,
    reader: Reader,
    deliverer: Deliverer,
    show: Callable[[Outcome | Told], None],
    trouble: Callable[[str], None],
    stopped_within: Callable[[float], bool],
) -> None:
    """Repeat until stopped; `stopped_within` waits so many seconds. A store that cannot be reached is asked again."""
    pause = 0.0
    while not stopped_within(pause):
        pause = EVERY
        try:
            for outcome in read_due(desk, reader, trouble):
                show(outcome)
            for told in deliverer.round(trouble):
                show(told)
        except StoreError as error:
            trouble(error.message)
            pause = _TROUBLE
