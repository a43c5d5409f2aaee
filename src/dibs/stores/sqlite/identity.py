"""Check that a file is a store of dibs, and that the file of an open store is still the opened one.

Device and inode reveal a deleted, moved or replaced file. The modification time reveals a file that was overwritten in
place: while a store is open, only checkpoints write to the file, and each one changes the shared memory beside the log.
"""

from __future__ import annotations

import os
from _thread import allocate_lock
from contextlib import suppress
from typing import TYPE_CHECKING

from dibs.core.errors import NoStore, SchemaTooNew, StoreCorrupt, StoreReplaced
from dibs.stores.sqlite import migrate

if TYPE_CHECKING:
    import sqlite3

# In the shared memory: salts, which change when the log restarts; the number of frames that checkpoints have copied
# into the file; and the number that the latest checkpoint started to copy.
_SALTS, _COPIED, _ATTEMPTED = slice(32, 40), slice(96, 100), slice(128, 132)
_READ = 132
_LAST_SALTS, _LAST_COPIED, _LAST_ATTEMPTED = slice(8), slice(8, 12), slice(12, 16)
_NO_SALTS, _NONE = bytes(8), bytes(4)
_MARK = "-replaced"

# Closing any descriptor of a file gives up all locks that this process has on it, SQLite's too. So the stores of a
# process share one descriptor of each shared memory, which stays open while any of them is.
_shared: dict[tuple[int, int], list[int]] = {}
_guard = allocate_lock()


class StoreFile:
    """The known state of an open store's file."""

    def __init__(self, path: str) -> None:
        self._path = path
        found = os.stat(path)
        self._key = (found.st_dev, found.st_ino)
        self._memory = _share(f"{path}-shm")
        self._note(self._look())
        self._changed = os.stat(path).st_mtime_ns
        self.overwritten = False

    def check(self) -> None:
        """Raise StoreReplaced if the opened file was replaced or overwritten."""
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            raise StoreReplaced(
                f"{self._path} is gone: it was deleted or moved while it was open. Nothing was written. "
                "Put it back or make a new store, then start again."
            ) from None
        if found.st_mtime_ns != self._changed or found.st_ino != self._key[1] or not self._settled:
            self._judge(found)

    def _judge(self, found: os.stat_result) -> None:
        if (found.st_dev, found.st_ino) != self._key:
            self._put_log_aside()
            raise StoreReplaced(
                f"{self._path} is another file than the one that was opened. Nothing was written. "
                "Start again to work with the new file."
            )
        if self.overwritten or (found.st_mtime_ns != self._changed and not self._explained(found)):
            self._mark()
            raise StoreReplaced(_overwritten(self._path))
        if not self._settled:
            now = self._look()  # before reading the time, so that a later change is noticed
            if os.stat(self._path).st_mtime_ns == self._changed:
                self._note(now)

    def _note(self, checkpoints: bytes | None) -> None:
        """Without a log there are no salts yet: look again at the next transaction."""
        self._checkpoints = checkpoints
        self._settled = checkpoints is not None and checkpoints[_LAST_SALTS] != _NO_SALTS

    def _explained(self, found: os.stat_result) -> bool:
        """Whether checkpoints account for a change of the file. They leave their mark before they write, and after."""
        before, now = self._checkpoints, self._look()
        if now is None or now[_LAST_COPIED] != now[_LAST_ATTEMPTED]:
            explained = True  # one is running
        elif before is None or before[_LAST_SALTS] == _NO_SALTS:
            explained = now[_LAST_ATTEMPTED] != _NONE or self._log_is_newer(found)
        else:
            explained = now != before
        if explained:
            self._note(now)
            self._changed = os.stat(self._path).st_mtime_ns
        return explained

    def _log_is_newer(self, found: os.stat_result) -> bool:
        """A log that was begun since may have followed one that a checkpoint has emptied."""
        try:
            return os.stat(f"{self._path}-wal").st_mtime_ns >= found.st_mtime_ns
        except FileNotFoundError:
            return True

    def _look(self) -> bytes | None:
        """How far checkpoints have come."""
        if self._memory is None:
            return None
        raw = os.pread(self._memory[1], _READ, 0)
        if len(raw) < _READ:
            return None
        return raw[_SALTS] + raw[_COPIED] + raw[_ATTEMPTED]

    def _mark(self) -> None:
        """Keep others from opening the file together with the log of its old content."""
        self.overwritten, self._settled = True, False
        with suppress(OSError):
            os.close(os.open(f"{self._path}{_MARK}", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def _put_log_aside(self) -> None:
        """The log beside a new file belongs to the old one: it must not be replayed into the new one."""
        with suppress(OSError):
            there = os.stat(f"{self._path}-shm")
            if self._memory is not None and (there.st_dev, there.st_ino) == self._memory[0]:
                os.rename(f"{self._path}-shm", f"{self._path}-shm.old")
                os.rename(f"{self._path}-wal", f"{self._path}-wal.old")

    def close(self) -> None:
        """After the connection: see `_shared`."""
        if self._memory is not None:
            _release(self._memory[0])
            self._memory = None


def needs_migration(connection: sqlite3.Connection, path: str, *, create: bool) -> bool:
    """Whether there is anything to migrate; refuses what is not ours to open."""
    # Read the tables before the mark: dibs commits both together, so tables without a mark belong to another program.
    has_tables = connection.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != migrate.APPLICATION_ID:
        if has_tables:
            raise StoreCorrupt(f"{path} is another program's database. Choose another file for the store.")
        if not create:
            raise NoStore(f"{path} is empty: there is no store in it. 'dibs init' makes one.")
    if version > migrate.NEWEST:
        raise SchemaTooNew(
            f"{path} was written by a newer dibs (schema {version}, this one knows {migrate.NEWEST}). Upgrade dibs."
        )
    return bool(version < migrate.NEWEST)


def refuse_marked(path: str) -> None:
    """Refuse to open a file that was overwritten while it was open, until a person has decided about its log."""
    if os.path.exists(f"{path}{_MARK}"):
        raise StoreReplaced(_overwritten(path))


def _overwritten(path: str) -> str:
    return (
        f"{path} was written by another program while it was open, and {path}-wal belongs to the content before that. "
        f"Nothing was written since. Stop all dibs processes. To keep what {path} holds now, delete {path}-wal, "
        f"{path}-shm and {path}{_MARK}. If the content was not replaced, delete only {path}{_MARK}. "
        "'dibs restore' replaces the content of a store that is in use."
    )


def _share(path: str) -> tuple[tuple[int, int], int] | None:
    """This process's descriptor of a shared memory, or None where a store has none."""
    with _guard:
        try:
            found = os.stat(path)
            key = (found.st_dev, found.st_ino)
            if key not in _shared:
                _shared[key] = [os.open(path, os.O_RDONLY | os.O_CLOEXEC), 0]
        except OSError:
            return None
        _shared[key][1] += 1
        return key, _shared[key][0]


def _release(key: tuple[int, int]) -> None:
    with _guard:
        shared = _shared[key]
        shared[1] -= 1
        if not shared[1]:
            os.close(_shared.pop(key)[0])
