"""A disk whose every step can be interfered with: something is done, or everything ends, just before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.stores.vault.disk import Disk

if TYPE_CHECKING:
    from collections.abc import Callable

LOOKS = ("read", "read_top", "look")
CHANGES = ("write", "write_over", "move", "swap", "put_by", "remove", "append", "settle", "replace")


class SteppedDisk(Disk):
    """Before step number `at`, counted from when it is armed, `act` is called."""

    def __init__(
        self, act: Callable[[], None], at: int, *, durable: bool = False, steps: tuple[str, ...] = LOOKS + CHANGES
    ) -> None:
        super().__init__(durable=durable)
        self._steps = steps
        self._act = act
        self._at = at
        self.taken = -1  # not armed

    def arm(self) -> None:
        self.taken = 0

    def __getattribute__(self, name: str) -> Any:
        step = super().__getattribute__(name)
        if name not in LOOKS + CHANGES or name not in self._steps:
            return step

        def taken(*args: Any) -> Any:
            self._count()
            return step(*args)

        return taken

    def _count(self) -> None:
        if self.taken < 0:
            return
        self.taken += 1
        if self.taken == self._at:
            self._act()
