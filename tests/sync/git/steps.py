"""A git whose every command can be interfered with: something is done, or everything ends, just before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.sync.git.repository import Git, Ran

from .clones import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable


class SteppedGit(Git):
    """Before command number `at`, counted from when it is armed, `act` is called."""

    def __init__(self, root: str, act: Callable[[], None], at: int) -> None:
        super().__init__(root, PATIENCE)
        self.act: Callable[[], None] | None = act
        self._at = at
        self.taken = -1  # not armed

    def arm(self) -> None:
        self.taken = 0

    def run(self, *words: str, given: bytes = b"", index: str | None = None) -> Ran:
        if self.taken >= 0:
            self.taken += 1
        if 0 < self.taken == self._at and self.act is not None:
            self.act()
        return super().run(*words, given=given, index=index)


class PromptedGit(Git):
    """Calls `act` once, before its next command of this kind."""

    def __init__(self, root: str, verb: str, act: Callable[[], None]) -> None:
        super().__init__(root, PATIENCE)
        self._verb = verb
        self._act: Callable[[], None] | None = act

    def run(self, *words: str, given: bytes = b"", index: str | None = None) -> Ran:
        if words[0] == self._verb and self._act is not None:
            act, self._act = self._act, None
            act()
        return super().run(*words, given=given, index=index)


class DeafGit(Git):
    """Runs a kind of command and loses its answer, so many times."""

    def __init__(self, root: str, verb: str, times: int = 1) -> None:
        super().__init__(root, PATIENCE)
        self._verb = verb
        self.left = times

    def run(self, *words: str, given: bytes = b"", index: str | None = None) -> Ran:
        ran = super().run(*words, given=given, index=index)
        if words[0] == self._verb and self.left:
            self.left -= 1
            return Ran(None, b"", "no answer within 1 s")
        return ran


class HurriedGit(Git):
    """Has no patience with the remote, and all with this machine."""

    def __init__(self, root: str, seconds: float) -> None:
        super().__init__(root, PATIENCE)
        self._seconds = seconds

    def run(self, *words: str, given: bytes = b"", index: str | None = None) -> Ran:
        self.timeout = self._seconds if words[0] in {"fetch", "push", "ls-remote"} else PATIENCE
        return super().run(*words, given=given, index=index)
