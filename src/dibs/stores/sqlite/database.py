"""The SQLite file: opening it, taking turns to write, and speaking our errors instead of the driver's."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

from dibs.core.errors import (
    NoStore,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from dibs.stores.sql import Queries
from dibs.stores.sqlite import commits
from dibs.stores.sqlite.commits import FairLock, LogSync, NoLock, Unsynced, on_read_only_file_system
from dibs.stores.sqlite.identity import StoreFile, needs_migration, refuse_marked
from dibs.stores.sqlite.migrate import migrate
from dibs.stores.sqlite.rows import (
    BEYOND,
    EVENT_COLUMNS,
    FITS,
    MOVING_COLUMNS,
    OPEN,
    ORDER,
    STATED_COLUMNS,
    TASK_COLUMNS,
    event_values,
    from_micros,
    matches,
    to_micros,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from types import TracebackType

    from dibs.core.events import Event
    from dibs.stores.sqlite.rows import Row

    Clock = Callable[[], datetime]
    Parameters = Sequence[object] | Mapping[str, object]

T = TypeVar("T")


def _parameters(columns: str) -> str:
    return ", ".join("?" for _ in columns.split(", "))


_LISTS = {
    "{task}": ", ".join(f"task.{column}" for column in TASK_COLUMNS.split(", ")),
    "{event}": EVENT_COLUMNS,
    "{moving}": MOVING_COLUMNS,
    "{moving?}": _parameters(MOVING_COLUMNS),
    "{stated}": STATED_COLUMNS,
    "{stated?}": _parameters(STATED_COLUMNS),
    "{open}": str(OPEN),
    "{fits}": f"{FITS} AND {matches(':only')}",
    "{matches}": matches(":only"),
    "{matches?}": matches("?7"),
    "{order}": ORDER,
    "{beyond}": BEYOND,
}

QUERIES = Queries(os.path.join(os.path.dirname(__file__), "queries.sql"), _LISTS)

MEMORY = ":memory:"

# A checkpoint copies the log back into the database. It runs after a write has given up its turn, beside other writers.
# If they keep it from finishing until the log is large, it takes a turn.
_COMMITS_PER_CHECKPOINT = 1000
_LARGE_LOG = 64 << 20
_LARGE_LOG_AT_CLOSE = 16 << 20


# A writer that had to wait syncs this many next commits after its turn. A lone writer leaves the sync to SQLite, within
# its turn: that is cheaper, and no other writer waits.
_CROWDED_FOR = 100

# Adapt None to None. Without an adapter, the driver of Python before 3.12 searches for one per value: 5 % of a claim.
sqlite3.register_adapter(type(None), cast("Callable[[None], None]", {}.get))

# The driver puts an error's text together from the file's own bytes, and stumbles if they are no text.
_DRIVER_ERRORS = (sqlite3.Error, UnicodeDecodeError)


def host_clock() -> datetime:
    """The machine's clock: all users of a SQLite file share it."""
    return from_micros(time.time_ns() // 1000)


class Transaction:
    """One consistent moment: queries by name, at one time, with the events they cause."""

    def __init__(self, cursor: sqlite3.Cursor, now: datetime) -> None:
        self._cursor = cursor  # one for all: making one takes as long as a small query
        self.now = now
        self.micros = to_micros(now)

    def all(self, name: str, parameters: Parameters = ()) -> list[Row]:
        return self._cursor.execute(QUERIES[name], parameters).fetchall()

    def one(self, name: str, parameters: Parameters = ()) -> Row | None:
        rows = self.all(name, parameters)  # to the end, for a query that is left in the middle outlives the commit
        return rows[0] if rows else None

    def value(self, name: str, parameters: Parameters = ()) -> Any:
        row = self.one(name, parameters)
        return None if row is None else row[0]

    def run(self, name: str, parameters: Parameters = ()) -> int:
        """Run a statement and return the number of changed rows."""
        return self._cursor.execute(QUERIES[name], parameters).rowcount

    def iterate(self, name: str, parameters: Parameters = ()) -> Iterator[Row]:
        """Rows one by one, for long results. Read to the end."""
        return self._cursor.connection.execute(QUERIES[name], parameters)

    def apart(self, now: datetime) -> Transaction:
        """A part of this transaction with a separate time; `undo_apart` undoes it only."""
        self._cursor.execute("SAVEPOINT apart")
        return Transaction(self._cursor, now)

    def undo_apart(self) -> None:
        self._cursor.execute("ROLLBACK TO apart")

    def end_apart(self) -> None:
        self._cursor.execute("RELEASE apart")

    def append(self, event: Event, previous: int | None) -> int:
        """Add an event to a task's history; the caller writes its number into the row, with what else changed."""
        values = (*event_values(event, self.now, self.micros), previous)
        return self._cursor.execute(QUERIES["insert_event"], values).lastrowid or 0

    def record(self, event: Event) -> None:
        """Add an event about a task whose row is not being written otherwise."""
        named = (event.scope, event.task)
        self.run("write_last_event", (self.append(event, self.value("last_event_of", named)), *named))


class Database:
    """One connection. Reads never wait; writes take turns."""

    def __init__(self, path: str, *, create: bool, durable: bool, timeout: float, clock: Clock) -> None:
        self.path = path
        self.durable = durable
        self.timeout = timeout
        self._clock = clock
        self._commits = 0
        self.turn = NoLock() if path == MEMORY else FairLock(f"{path}-lock", timeout)
        self.log_sync: LogSync | None = None  # None if SQLite always syncs, or syncing is off
        self._crowded = 0  # for so many commits more, we sync after our turn
        self.syncs_late = False
        self._file: StoreFile | None = None
        _refuse_unusable(path, create=create)
        try:
            # Any thread may use it, one at a time: that is the port's contract.
            self._connection = sqlite3.connect(
                path, timeout=timeout, isolation_level=None, cached_statements=256, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise translated(error, path) from error
        self._cursor = self._connection.cursor()
        try:
            self._prepare(create=create)
        except BaseException as error:
            self._connection.close()
            self.turn.close()
            if isinstance(error, _DRIVER_ERRORS):
                raise translated(error, path) from error
            raise
        self._key: tuple[object, ...] | None = _identity(path, durable=durable)
        self._group = commits.join(self._key)
        if path != MEMORY:
            self._file = StoreFile(path)

    def _prepare(self, *, create: bool) -> None:
        execute = self._connection.execute
        execute(f"PRAGMA synchronous = {'FULL' if self.durable else 'NORMAL'}")
        execute("PRAGMA foreign_keys = ON")
        execute("PRAGMA wal_autocheckpoint = 0")
        if needs_migration(self._connection, self.path, create=create):
            self.turn.take()
            try:
                migrate(self._connection, self.path)
            finally:
                self.turn.give()
        # If another program turned the log off, SQLite syncs each commit. No program can turn it off while it is open.
        if self.durable and execute("PRAGMA journal_mode").fetchone()[0] == "wal":
            self.log_sync = LogSync(self.path)

    def now(self) -> datetime:
        return self._clock()

    def read(self) -> Reading:
        """See one moment, however many queries it takes."""
        return Reading(self)

    def write(self, *, dry_run: bool = False) -> Writing:
        """Run a write transaction; an exception inside rolls it back."""
        return Writing(self, dry_run=dry_run)

    def change(self, work: Callable[[Transaction], T]) -> T:
        """Perform a short write and return what it returns. It may share its commit with others of this process."""
        if self._group.users > 1:
            return self._group.run(self, work)
        with self.write() as tx:
            return work(tx)

    def check_file(self) -> None:
        """Raise StoreReplaced if this is no longer the file that was opened."""
        if self._file is not None:
            self._file.check()

    def begin(self, how: str) -> Transaction:
        if self._file is not None:
            self._file.check()
        self._cursor.execute(how)
        return Transaction(self._cursor, self._clock())

    def end(self, how: str) -> None:
        """End a transaction unless SQLite has rolled it back after an error: ending it twice raises."""
        if self._connection.in_transaction:
            self._cursor.execute(how)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    @property
    def changes(self) -> int:
        """How many rows were changed through this connection."""
        return self._connection.total_changes

    def take_turn(self) -> None:
        """Wait for the turn, and decide who syncs the commit."""
        if self.turn.take():
            self._crowded = _CROWDED_FOR
        elif self._crowded:
            self._crowded -= 1
        if self.log_sync is not None and self.syncs_late != (self._crowded > 0):
            try:
                self._cursor.execute(f"PRAGMA synchronous = {'NORMAL' if self._crowded else 'FULL'}")
            except BaseException:
                self.turn.give()
                raise
            self.syncs_late = self._crowded > 0

    def sync(self) -> None:
        """Return when everything is on disk that this connection can have seen."""
        if self.log_sync is not None:
            self.log_sync.settle()

    def translated(self, error: Exception) -> Exception:
        return translated(error, self.path) if isinstance(error, _DRIVER_ERRORS) else error

    def checkpoint_now_and_then(self) -> None:
        """Checkpoint after every so many commits. An error is ignored, since the next checkpoint tries again."""
        self._commits += 1
        if self._commits % _COMMITS_PER_CHECKPOINT:
            return
        with suppress(sqlite3.Error, StoreError):
            if self.log_size() > _LARGE_LOG:
                self._checkpoint_alone()
            else:
                self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _checkpoint_alone(self) -> None:
        self.turn.take()
        try:
            self._empty_log()
        finally:
            self.turn.give()

    def _empty_log(self) -> bool:
        """Move the whole log into the database, unless readers need it: they may take their time, and all writers would
        wait with us. Called inside our turn."""
        try:
            self._connection.execute("PRAGMA busy_timeout = 0")
            busy: int = self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
        finally:
            self._connection.execute(f"PRAGMA busy_timeout = {int(self.timeout * 1000)}")
        return not busy

    def recover_from_failed_sync(self) -> NoReturn:
        """Write once more what a failed sync has left out, by way of the database. Called inside our turn."""
        written = self._empty_log()
        if written and self.log_sync is not None:
            self.log_sync.healed()
        found = "it has been written again" if written else "it cannot be written again while other programs read"
        raise StoreBusy(
            f"The disk failed to store an earlier change to {self.path}; {found}. Try again, and check the disk.",
            retry_after_ms=1000,
        )

    def log_size(self) -> int:
        try:
            return os.stat(f"{self.path}-wal").st_size
        except FileNotFoundError:
            return 0

    def pragma(self, text: str) -> list[Row]:
        try:
            return self._connection.execute(f"PRAGMA {text}").fetchall()
        except sqlite3.Error as error:
            raise translated(error, self.path) from error

    def close(self) -> None:
        """Many short-lived writers may overlap without end, and then none of them is the last who tidies up."""
        try:
            if self._file is not None:
                with suppress(StoreError):
                    self._file.check()
            if self._commits and self.log_size() > _LARGE_LOG_AT_CLOSE:
                with suppress(sqlite3.Error, StoreError):
                    self._checkpoint_alone()
        finally:
            if self._file is not None and self._file.overwritten:
                _keep_open(self._connection)
            else:
                self._connection.close()
                if self._file is not None:
                    self._file.close()
            self.turn.close()
            if self.log_sync is not None:
                self.log_sync.close()
            if self._key is not None:
                commits.leave(self._key)
                self._key = None


class Reading:
    """A read transaction. A class rather than a generator: this and `Writing` are on every verb's path."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Transaction:
        try:
            return self._database.begin("BEGIN")
        except sqlite3.Error as error:
            raise translated(error, self._database.path) from error

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._database.end("COMMIT" if error is None else "ROLLBACK")
        except sqlite3.Error as failure:
            raise translated(failure, self._database.path) from failure
        if isinstance(error, _DRIVER_ERRORS):
            raise translated(error, self._database.path) from error
        self._database.sync()


class Writing:
    """A write transaction, inside our turn. It ends when the commit is on disk, outside our turn."""

    def __init__(self, database: Database, *, dry_run: bool) -> None:
        self._database = database
        self._commit = "ROLLBACK" if dry_run else "COMMIT"
        self._changes = 0
        self._ending = False
        self.number: int | None = None  # of the commit, if we sync it ourselves
        self._covered: int | None = None  # up to which commit SQLite synced, if it did; 0: all before were on disk

    @property
    def committed(self) -> bool:
        return self._ending and not self._database.in_transaction

    def __enter__(self) -> Transaction:
        database = self._database
        try:
            database.take_turn()
        except StoreError:
            database.check_file()  # a folder that is gone has no lock file either
            raise
        try:
            begun = database.begin("BEGIN IMMEDIATE")
        except BaseException as error:
            database.turn.give()
            if isinstance(error, sqlite3.Error):
                raise translated(error, database.path) from error
            raise
        self._changes = database.changes
        return begun

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        database = self._database
        try:
            if error is None:
                self._end()
            else:
                database.end("ROLLBACK")
        except sqlite3.Error as failure:
            self._ending = False
            database.end("ROLLBACK")
            raise translated(failure, database.path) from failure
        finally:
            database.turn.give()
        if isinstance(error, _DRIVER_ERRORS):
            raise translated(error, database.path) from error
        self._sync()
        if error is None:
            database.checkpoint_now_and_then()

    def _end(self) -> None:
        database = self._database
        log_sync = database.log_sync
        if log_sync is not None and self._commit == "COMMIT" and database.changes != self._changes:
            try:
                if database.syncs_late:
                    self.number = log_sync.announce()
                else:  # SQLite syncs the whole log before other connections see the commit
                    self._covered = log_sync.unsynced()
            except Unsynced:
                database.end("ROLLBACK")
                database.recover_from_failed_sync()
            except BaseException:
                database.end("ROLLBACK")
                raise
        self._ending = True
        database.end(self._commit)

    def _sync(self) -> None:
        database = self._database
        if self.number is not None:
            self.sync_commit(database)
        elif self._covered is None:
            database.sync()
        elif self._covered and database.log_sync is not None:
            database.log_sync.publish(self._covered)

    def sync_commit(self, database: Database) -> None:
        """Return when this commit is on disk. Any store of the file can see to that."""
        if database.log_sync is not None and self.number is not None:
            database.log_sync.sync(self.number)


def _identity(path: str, *, durable: bool) -> tuple[object, ...]:
    """Which stores of this process write together: those of one file. A fork has none in common with its parent."""
    if path == MEMORY:
        return (object(),)
    found = os.stat(path)
    return (os.getpid(), found.st_dev, found.st_ino, durable)


def _keep_open(connection: sqlite3.Connection) -> None:
    """Until the process ends: the last connection to close would write the log into the file."""
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _refuse_unusable(path: str, *, create: bool) -> None:
    if os.path.isdir(path):
        raise StoreUnavailable(f"{path} is a directory; a SQLite store is a file, such as {path}/dibs.db.")
    if path != MEMORY:
        refuse_marked(path)
    if not create and path != MEMORY and not os.path.exists(path):
        raise NoStore(f"There is no store at {path}. 'dibs init' makes one.")
    if create and path != MEMORY:
        with suppress(OSError):  # SQLite reports errors; its other files get this file's mode
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


# Where a file system is mounted read-only, SQLite may say no more than that a file cannot be opened, or an I/O error.
_MAY_BE_READ_ONLY = frozenset(
    {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR}
)


def _mounted_read_only(path: str) -> bool:
    try:
        return bool(os.statvfs(os.path.dirname(os.path.abspath(path))).f_flag & os.ST_RDONLY)
    except OSError:  # there is no such folder
        return False


def translated(error: sqlite3.Error | UnicodeDecodeError, path: str) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0)
    if isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error):
        code = sqlite3.SQLITE_CORRUPT
    if code == sqlite3.SQLITE_IOERR_SHMSIZE:
        return StoreFull(f"No room left for {path}. Free some space and try again; nothing was changed.")
    if code & 0xFF in _MAY_BE_READ_ONLY and _mounted_read_only(path):
        return on_read_only_file_system(path)
    match code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"{path} is locked by another program. Try again in a moment.", retry_after_ms=1000)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return StoreReadOnly(f"{path} cannot be written: {error}. Check its permissions and those of its folder.")
        case sqlite3.SQLITE_FULL:
            return StoreFull(f"No room left for {path}. Free some space and try again; nothing was changed.")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return StoreCorrupt(f"{path} is not a sound dibs store: {error}. Restore it from an export or a backup.")
        case sqlite3.SQLITE_CANTOPEN:
            return StoreUnavailable(f"Cannot open {path}: {error}. Check that its folder exists and may be written.")
        case _:
            return StoreError(f"{path}: {error}. Check the disk and its limits. Run 'dibs doctor' for details.")
