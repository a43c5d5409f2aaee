"""A worker: takes tasks and runs a command on each, as many at a time as it has slots, until it is told to leave."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dibs.fleet.slot import Slot
from dibs.fleet.workers import Crew

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable

    from dibs.desk import Desk
    from dibs.fleet.workers import Duty, Told, What


class Worker:
    """Runs its slots as threads and waits for them. `leave` and `stop` may be called from a signal handler."""

    def __init__(self, open_desk: Callable[[], Desk], duty: Duty, tell: Callable[[Told], None]) -> None:
        self._open = open_desk
        self._crew = Crew(duty, tell)
        self._errors: list[BaseException] = []

    @property
    def counts(self) -> Counter[What]:
        return self._crew.counts

    def run(self) -> None:
        """Work until it is time to leave, and raise the first error of a slot."""
        slots = [
            threading.Thread(target=self._slot, name=f"dibs-slot-{number}") for number in range(self._crew.duty.slots)
        ]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join()
        if self._errors:
            raise self._errors[0]

    def leave(self) -> None:
        """Claim no more, and finish the tasks that are being worked on."""
        self._crew.leave()

    def stop(self) -> None:
        """End the running commands, and release their tasks."""
        self._crew.stop()

    def _slot(self) -> None:
        try:
            with self._open() as desk:
                self._crew.arrive()
                Slot(self._crew, desk).run()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._errors.append(error)
            self._crew.stop()
