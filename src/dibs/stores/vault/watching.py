"""Hear of files that come, go or change: by Linux's inotify where it works, by looking now and then elsewhere.

inotify is called through ctypes, which a vault has loaded anyway for its renames: a package for it takes ten times as
long to import, and waits for events to settle before it reports them.
"""

from __future__ import annotations

import os
import select
import struct
import time
from typing import TYPE_CHECKING, Any, Self

from dibs.stores.vault.places import DONE, NEEDS_ACTION, REJECTED

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dibs.stores.vault.vault import Vault

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x8, 0x40, 0x80, 0x100, 0x200
_OVERFLOW, _GONE, _IS_FOLDER = 0x4000, 0x8000, 0x40000000
_ONLY_FOLDERS, _NO_LINKS = 0x1000000, 0x2000000
_WANTED = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_FOLDERS | _NO_LINKS
_HEAD = struct.Struct("iIII")  # which watch, what happened, a cookie, the length of the name that follows
_AT_ONCE = 1 << 16


class Watcher:
    """Watch folders and their sub-folders for changes of task files."""

    def __init__(self, root: str, folders: Iterable[str]) -> None:
        """OSError if the system has no watches left, NotImplementedError if it has no inotify."""
        self._tops = [os.path.join(root, folder) for folder in folders]
        self._add = _call("inotify_add_watch")
        self._fd = _checked(_call("inotify_init1")(os.O_NONBLOCK | os.O_CLOEXEC))
        self._folders: dict[int, str] = {}
        try:
            self._watch_all()
        except OSError:
            self.close()
            raise

    @classmethod
    def over(cls, root: str, folders: Iterable[str]) -> Self | None:
        """A watcher, or None where only polling is possible."""
        try:
            return cls(root, folders)
        except (OSError, NotImplementedError):
            return None

    def fileno(self) -> int:
        return self._fd

    def heard(self) -> bool:
        """Read all pending events without waiting. OSError if there are more folders than watches."""
        any_task = False
        while True:
            try:
                data = os.read(self._fd, _AT_ONCE)
            except BlockingIOError:
                return any_task
            for watch, what, name in _events(data):
                any_task |= self._matters(watch, what, name)

    def _matters(self, watch: int, what: int, name: bytes) -> bool:
        if what & _OVERFLOW:
            return True
        if what & _GONE:
            self._folders.pop(watch, None)
            self._watch_all()  # a top folder may be back already, with another inode
            return True
        if what & _IS_FOLDER:
            folder = self._folders.get(watch)
            if what & (_CREATE | _MOVED_TO) and folder is not None and not name.startswith(b"."):
                self._watch(os.path.join(folder, os.fsdecode(name)))
            return True
        return name.endswith(b".md") and not name.startswith(b".")

    def _watch_all(self) -> None:
        for top in self._tops:
            self._watch(top)

    def _watch(self, top: str) -> None:
        """Watch before listing the sub-folders, so that none is missed."""
        try:
            watch = _checked(self._add(self._fd, os.fsencode(top), _WANTED))
            below = [found.path for found in os.scandir(top) if found.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            return
        self._folders[watch] = top
        for folder in below:
            if not os.path.basename(folder).startswith("."):
                self._watch(folder)

    def close(self) -> None:
        os.close(self._fd)


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    at = 0
    while at < len(data):
        watch, what, _, length = _HEAD.unpack_from(data, at)
        at += _HEAD.size + length
        yield watch, what, data[at - length : at].rstrip(b"\0")


def _call(name: str) -> Any:
    import ctypes

    found = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if found is None:
        raise NotImplementedError
    return found


def _checked(answer: int) -> int:
    if answer >= 0:
        return answer
    import ctypes

    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


_DECISIVE = (NEEDS_ACTION, DONE, REJECTED)  # arrivals and departures here change which tasks are claimable
_LOOK_AT_CLOCK = 1.0  # seconds, with inotify
_LOOK_EVERY = 0.1  # seconds, without inotify


class Waiting:
    """One store's wait. A change between two waits ends the second at once."""

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
        """Whether files have changed since the last call. The first call says yes: earlier changes are unknown."""
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
        poll = select.poll()
        poll.register(self._watcher, select.POLLIN)
        poll.poll(1000 * min(left, _LOOK_AT_CLOCK))

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.close()
            self._watcher = None
