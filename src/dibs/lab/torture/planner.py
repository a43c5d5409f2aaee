"""Lays one plan after the other, sees to it that in the end all can be finished, and looks at what has become of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError
from dibs.core.task import Actor, Status
from dibs.desk import Desk
from dibs.lab.torture.history import Log, new_log
from dibs.lab.torture.plan import waves
from dibs.lab.torture.recorder import Recorder
from dibs.lab.torture.worker import SCOPE
from dibs.stores.opening import open_store
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.stores.port import Finding

NAME = "planner"
_LOOK_EVERY = 0.3
_FINISHED = (Status.DONE, Status.CANCELED)


class Planner(threading.Thread):
    """It goes straight to the store, so that what befalls the network does not keep it from its work."""

    def __init__(self, url: str, log: str, *, seed: int, size: int, enough: int) -> None:
        super().__init__(daemon=True)
        self._url, self._enough = url, enough
        self._log = Log(new_log(log), NAME, NAME)
        self._waves = waves(seed, size)
        self._laid = 0
        self._closing = threading.Event()
        self._over = threading.Event()
        self.counts: Mapping[str, int] = {}
        self.unfinished = 0
        self.laid = threading.Event()
        self.drained = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                with open_store(self._url) as store:
                    self._plan(Desk(store, scope=SCOPE, by=Actor(NAME)))
            except DibsError:
                self._over.wait(_LOOK_EVERY)  # the store is away; it will be back

    def drain(self) -> None:
        """From now on nothing more is planned, and what was set aside is put up again."""
        self._closing.set()

    def end(self) -> None:
        self._over.set()
        self.join()

    def look(self) -> tuple[bool, list[Finding]]:
        """When everybody has gone: what is there, and what the store itself finds wrong with it."""
        with open_store(self._url) as store:
            desk = Desk(store, scope=SCOPE, by=Actor(NAME))
            return self._recorder(desk).look(), desk.check()

    def _recorder(self, desk: Desk) -> Recorder:
        return Recorder(desk, self._log, worker=NAME, agent=NAME, lease=0.0)

    def _plan(self, desk: Desk) -> None:
        recorder = self._recorder(desk)
        while not self._over.is_set():
            counts = desk.counts()
            self.counts = {status.value: number for status, number in counts.by_status.items() if number}
            self.unfinished = sum(counts.by_status[status] for status in Status if status not in _FINISHED)
            if self._closing.is_set():
                self._put_up_again(desk, recorder)
                if not self.unfinished:
                    self.drained.set()
            elif self.unfinished < self._enough or not counts.claimable:
                self._laid += 1
                recorder.lay(next(self._waves), f"p{self._laid}")
                self.laid.set()
            self._over.wait(_LOOK_EVERY)

    def _put_up_again(self, desk: Desk, recorder: Recorder) -> None:
        for task in desk.find(Query(SCOPE, statuses=(Status.BLOCKED,))):
            recorder.unblock(task.id)
