"""A claimed task while it is worked on: kept by renewing its lease, and given up when a person overrules."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, LostLock, StoreError
from dibs.fleet.supervisor.protocol import clock
from dibs.protocols.vault.files import name_of, path_of
from dibs.stores.vault.disk import Stamp
from dibs.stores.vault.reading import sealed

if TYPE_CHECKING:
    from datetime import timedelta

    from dibs.core.task import Task
    from dibs.desk import Desk


class Holding:
    """One attempt at one task. The token never leaves it but for the command that does the work."""

    def __init__(self, desk: Desk, task: Task, lease: timedelta, root: str) -> None:
        assert task.lease is not None
        self.desk = desk
        self.task = task
        self.token = task.lease.token
        self.lease = lease
        self.name = name_of(task)
        self.path = os.path.join(root, path_of(task))
        self.ended = False  # by the command itself, under the token it was given
        self._began = clock() - (desk.now() - task.lease.claimed_at).total_seconds()
        self._stamp = self._look()

    @property
    def until(self) -> float:
        """When the lease is over, by our own clock."""
        return self._began + self.lease.total_seconds()

    @property
    def renew_in(self) -> float:
        """Seconds; there is time for two more tries."""
        return self._began + self.lease.total_seconds() / 3 - clock()

    def keep(self, *, touched: bool) -> bool:
        """Renew when it is time, or when the file is not what it was. True: it was time, and it is renewed.

        LostLock says what has become of the task. While the vault gives no answer, the lease goes on to its end.
        """
        due = self.renew_in <= 0
        if self.ended or not (due or (touched and self._look() != self._stamp)):
            return False
        asked_at = clock()
        try:
            self.desk.renew(self.task.id, self.token, lease=self.lease)
        except LostLock:
            if self._ended_by_command():
                return False
            raise
        except StoreError as error:
            if clock() < self.until:
                return False
            raise LostLock(f"The lease on {self.task.id} has ended and cannot be renewed: {error.message}") from error
        self._began = asked_at
        self._stamp = self._look()
        return due

    def _ended_by_command(self) -> bool:
        """The command may finish, review or release by itself what it was given to do."""
        try:
            task = self.desk.get(self.task.id)
        except DibsError:
            return False
        self.ended = task.lease is None and task.spent_token == sealed(self.token)
        return self.ended

    def ended_as(self) -> Task | None:
        """The task, if the command has ended the attempt by itself."""
        return self.desk.get(self.task.id) if self.ended or self._ended_by_command() else None

    def _look(self) -> Stamp | None:
        try:
            return Stamp.of(os.lstat(self.path))
        except (FileNotFoundError, NotADirectoryError):
            return None
