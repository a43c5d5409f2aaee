"""Waiting for work: told by the system where it can, and looking now and then where it cannot."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING

from dibs.stores.vault.places import DONE, NEEDS_ACTION, REJECTED
from dibs.stores.vault.watching import Watcher

if TYPE_CHECKING:
    from dibs.stores.vault.vault import Vault

_DECISIVE = (NEEDS_ACTION, DONE, REJECTED)  # what can be claimed depends on what comes into these or leaves them
_LOOK_AT_CLOCK = 1.0  # seconds; of files we are told
_LOOK_EVERY = 0.1  # seconds, where we are told nothing


class Waiting:
    """One store's wait. What happens between two waits ends the second at once."""

    def __init__(self, vault: Vault) -> None:
        self._vault = vault
        self._watcher = Watcher.over(vault.root, _DECISIVE)
        self._pulse: list[tuple[str, int]] = []
        self._listening = False

    def wait(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while True:
            if self._news() or self._vault.index.anything_due(self._vault.clock()):
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            self._sleep(left)

    def _news(self) -> bool:
        """Of what happened before we listened nobody tells, so the first wait is none."""
        if self._watcher is None:
            seen, self._pulse = self._pulse, self._vault.pulse()
            return seen != self._pulse
        before, self._listening = self._listening, True
        try:
            return self._watcher.heard() or not before
        except OSError:
            self.close()
            return True

    def _sleep(self, left: float) -> None:
        if self._watcher is None:
            time.sleep(min(left, _LOOK_EVERY))
            return
        told = select.poll()
        told.register(self._watcher, select.POLLIN)
        told.poll(1000 * min(left, _LOOK_AT_CLOCK))

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
