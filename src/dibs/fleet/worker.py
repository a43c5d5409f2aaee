"""A worker: takes tasks and runs a command on each, as many at a time as it has slots, until it is told to leave."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.fleet.crew import Crew
from dibs.fleet.slot import Slot

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from types import FrameType

    from dibs.desk import Desk
    from dibs.fleet.crew import Duty, Told, What

_LEAVING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Worker:
    """For the main thread. A first signal lets what is running finish; a second ends it and gives the tasks back."""

    def __init__(self, open_desk: Callable[[], Desk], duty: Duty, tell: Callable[[Told], None]) -> None:
        self._open = open_desk
        self._crew = Crew(duty, tell)
        self._errors: list[BaseException] = []
        self.left_by: int | None = None

    @property
    def counts(self) -> Counter[What]:
        return self._crew.counts

    def run(self) -> None:
        """Work, and come back when it is time to leave; whatever went wrong in a slot is raised here."""
        with self._heeding_signals():
            self._work()
        if self._errors:
            raise self._errors[0]

    def _work(self) -> None:
        slots = [
            threading.Thread(target=self._slot, name=f"dibs-slot-{number}") for number in range(self._crew.duty.slots)
        ]
        for slot in slots:
            slot.start()
        for slot in slots:
            slot.join()

    def _slot(self) -> None:
        try:
            with self._open() as desk:
                self._crew.arrive()
                Slot(self._crew, desk).run()
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            self._errors.append(error)
            self._crew.stop()

    @contextmanager
    def _heeding_signals(self) -> Iterator[None]:
        before = {number: signal.getsignal(number) for number in _LEAVING}
        for number, how in before.items():
            if how is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._told_to_leave)
        try:
            yield
        finally:
            for number, how in before.items():
                signal.signal(number, how)

    def _told_to_leave(self, number: int, _frame: FrameType | None) -> None:
        self.left_by = number
        if self._crew.leaving:
            self._crew.stop()
        else:
            self._crew.leave()
