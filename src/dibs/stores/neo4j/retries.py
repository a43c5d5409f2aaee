"""How often and for how long the same transaction is tried again."""

from __future__ import annotations

import random
import time

from dibs.stores.neo4j.errors import gives_way, is_away

_TURNS = 12  # so often a transaction gives way before we call the store busy
_PATIENCE = 5.0  # for so long a server that cannot be reached is asked again


class Retries:
    """Those of one transaction that may take `timeout` seconds."""

    def __init__(self, timeout: float) -> None:
        self._turns = 0
        self._busy_until = time.monotonic() + timeout
        self._away_until = 0.0

    def again(self, error: Exception) -> bool:
        """Whether to try again; if so, the moment to wait is over. It is random: a fleet must not come back in step."""
        now = time.monotonic()
        if is_away(error):
            self._away_until = self._away_until or now + _PATIENCE
            return now < self._away_until and _pause(0.05, 0.2)
        self._turns += 1
        if not gives_way(error) or self._turns >= _TURNS or now > self._busy_until:
            return False
        return _pause(0, 0.005 * 2 ** min(self._turns, 6))


def _pause(shortest: float, longest: float) -> bool:
    time.sleep(random.uniform(shortest, longest))  # noqa: S311 - not a secret
    return True
