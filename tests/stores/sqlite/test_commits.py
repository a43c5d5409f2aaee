"""Commits are synced after the turn and before the answer; writes of one process that wait share a commit."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import AlreadyExists, StoreBusy, StoreError, StoreFull
from dibs.core.fields import Filter
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Status
from dibs.desk import Desk
from dibs.stores.sqlite import commits, database
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

    from dibs.core.task import Task

PATIENCE = 120.0


@pytest.fixture
def path(tmp_path: Path) -> str:
    place = str(tmp_path / "dibs.db")
    open_desk(place, create=True).close()
    return place


def open_desk(path: str, *, crowded: bool = True, **options: Any) -> Desk:
    """A desk that syncs after its turn from the start, as one does that has met others."""
    desk = Desk(SqliteStore(path, **options), scope="s", by=Actor("tester"))
    database_of(desk)._crowded = 1_000_000 * crowded
    return desk


def database_of(desk: Desk) -> database.Database:
    found: database.Database = desk._store._database  # type: ignore[attr-defined]
    return found


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


# On disk before the answer


class Syncs:
    """Counts syncs, and how much of the log each has seen."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.before: Callable[[], object] = lambda: None
        sync = commits._sync

        def counted(fd: int) -> None:
            self.before()
            sync(fd)
            self.sizes.append(os.fstat(fd).st_size)

        monkeypatch.setattr(commits, "_sync", counted)

    @property
    def count(self) -> int:
        return len(self.sizes)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    return Syncs(monkeypatch)


@pytest.fixture
def desk(path: str, syncs: Syncs) -> Iterator[Desk]:
    with open_desk(path) as desk:
        yield desk
    assert syncs is not None


def log_size(path: str) -> int:
    return os.path.getsize(f"{path}-wal")


WRITES: dict[str, Callable[[Desk], object]] = {
    "add": lambda desk: desk.add([Draft("B", "b")]),
    "claim": lambda desk: desk.claim("ann"),
    "finish": lambda desk: desk.move(Verb.DONE, "held", token=held(desk)),
    "finish and claim": lambda desk: desk.move(Verb.DONE, "held", token=held(desk), then=desk.next_request("ann")),
    "comment": lambda desk: desk.comment("a", "a remark"),
    "prune": lambda desk: desk.prune(events_before=None, tasks_before=desk.now()),
}


def held(desk: Desk) -> str | None:
    lease = desk.get("held").lease
    return lease.token if lease else None


@pytest.fixture
def at_work(desk: Desk) -> Desk:
    desk.add([Draft("A", "a"), Draft("Held", "held"), Draft("Old", "old")])
    desk.claim("ann", refs=["held"])
    desk.claim("ann", refs=["old"])
    desk.move(Verb.CANCEL, "old", force=True)
    return desk


@pytest.mark.parametrize("name", WRITES)
def test_write_is_synced_before_its_answer(at_work: Desk, syncs: Syncs, path: str, name: str) -> None:
    before = syncs.count
    WRITES[name](at_work)
    assert syncs.count > before
    assert syncs.sizes[-1] == log_size(path)


def test_turn_is_free_during_a_sync(at_work: Desk, syncs: Syncs, path: str) -> None:
    with open_desk(path, timeout=0.5, durable=False) as other:  # as another process would
        syncs.before = lambda: other.add([Draft("B", "b")])
        at_work.add([Draft("C", "c")])
        assert {task.id for task in other.ready(limit=9)} == {"a", "b", "c"}


def test_reads_and_empty_writes_need_no_sync(at_work: Desk, syncs: Syncs) -> None:
    before = syncs.count
    assert at_work.claim("ann", only=Filter(category="none")) == []
    at_work.get("a")
    at_work.counts()
    list(at_work.dump())
    assert syncs.count == before


def die_before_the_sync(path: str, act: Callable[[Desk], object]) -> None:
    """Do it in a process that is gone between its commit and its sync."""
    pid = os.fork()
    if pid == 0:
        commits._sync = lambda _fd: os._exit(7)
        with open_desk(path) as desk:
            act(desk)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_repeat_of_an_unsynced_finish_is_synced(at_work: Desk, syncs: Syncs, path: str) -> None:
    token = held(at_work)
    die_before_the_sync(path, lambda desk: desk.move(Verb.DONE, "held", token=token))
    before = syncs.count
    assert at_work.move(Verb.DONE, "held", token=token).repeated
    assert syncs.count == before + 1


@pytest.mark.parametrize(
    "look",
    [
        lambda desk: desk.get("held").status is Status.DONE,
        lambda desk: desk.counts().by_status[Status.DONE] == 1,
        lambda desk: next(desk.dump()) is not None,
    ],
    ids=["get", "counts", "dump"],
)
def test_reading_an_unsynced_commit_syncs_it(
    at_work: Desk, syncs: Syncs, path: str, look: Callable[[Desk], bool]
) -> None:
    token = held(at_work)
    die_before_the_sync(path, lambda desk: desk.move(Verb.DONE, "held", token=token))
    before = syncs.count
    assert look(at_work)
    assert syncs.count > before


def test_refusal_due_to_an_unsynced_commit_is_synced(at_work: Desk, syncs: Syncs, path: str) -> None:
    die_before_the_sync(path, lambda desk: desk.add([Draft("B", "b")]))
    before = syncs.count
    with pytest.raises(AlreadyExists):
        at_work.add([Draft("B", "b")])
    assert syncs.count == before + 1


def test_log_reset_between_commit_and_sync_loses_nothing(
    at_work: Desk, syncs: Syncs, path: str, tmp_path: Path
) -> None:
    """At the worst moment, the disk holds the database that the checkpoint synced, and the new log."""
    copy = str(tmp_path / "after-the-cut.db")

    def reset_the_log() -> None:
        syncs.before = lambda: None
        other = sqlite3.connect(path, isolation_level=None)
        log, copied = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()[1:]
        assert log == copied > 0
        other.execute("UPDATE task SET title = 'over the old frames' WHERE id = 'a'")
        for suffix in ("", "-wal"):
            with open(path + suffix, "rb") as source, open(copy + suffix, "wb") as target:
                target.write(source.read())
        other.close()

    syncs.before = reset_the_log
    at_work.add([Draft("B", "b")])
    with open_desk(copy) as after:
        assert after.get("b").title == "B"
        assert after.check() == []


def test_log_truncated_between_commit_and_sync_loses_nothing(at_work: Desk, syncs: Syncs, path: str) -> None:
    def empty_the_log() -> None:
        syncs.before = lambda: None
        other = sqlite3.connect(path, isolation_level=None)
        assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0
        other.close()

    syncs.before = empty_the_log
    at_work.add([Draft("B", "b")])
    assert log_size(path) == 0
    with open_desk(path) as other:
        assert other.get("b").title == "B"


def test_failed_sync_is_an_error_that_the_next_write_repairs(
    at_work: Desk, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_sync", fail)
        with pytest.raises(StoreError, match=r"Input/output error.*Check the disk"):
            at_work.add([Draft("B", "b")])
    with open_desk(path) as other:
        with pytest.raises(StoreBusy, match="written again"):
            other.add([Draft("C", "c")])
        assert log_size(path) == 0, "all of it is in the database now"
        other.add([Draft("C", "c")])
    assert {task.id for task in at_work.ready(limit=9)} == {"a", "b", "c"}


@pytest.mark.parametrize(
    ("error", "kind"),
    [(OSError(28, "No space left on device"), StoreFull), (OSError(5, "Input/output error"), StoreError)],
)
def test_commit_that_cannot_be_announced_is_rolled_back(
    at_work: Desk, path: str, monkeypatch: pytest.MonkeyPatch, error: OSError, kind: type[StoreError]
) -> None:
    def fail(*_args: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(commits, "_write", fail)
        with pytest.raises(kind, match=f"{error.strerror}.*nothing was changed"):
            at_work.add([Draft("B", "b")])
    assert {task.id for task in at_work.ready(limit=9)} == {"a"}
    at_work.add([Draft("B", "b")])
    with open_desk(path) as other:
        assert {task.id for task in other.ready(limit=9)} == {"a", "b"}


def test_writer_that_is_alone_leaves_the_sync_to_sqlite(path: str, syncs: Syncs) -> None:
    with open_desk(path, crowded=False) as desk:
        desk.add([Draft("A", "a")])
        assert syncs.count == 0
        assert database_of(desk)._connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_writer_that_had_to_wait_syncs_after_its_turn_for_a_while(
    path: str, syncs: Syncs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "_CROWDED_FOR", 2)
    with open_desk(path, crowded=False) as desk, open_desk(path, durable=False) as other:
        with database_of(other).write():
            waiting = threading.Thread(target=lambda: desk.add([Draft("A", "a")]))
            waiting.start()
            until(lambda: getattr(database_of(desk).turn, "_deputy", None) is not None)
        waiting.join(PATIENCE)
        assert syncs.count == 1
        desk.add([Draft("B", "b")])
        assert syncs.count == 2
        desk.add([Draft("C", "c")])
        assert syncs.count == 2
        assert database_of(desk)._connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_sync_by_sqlite_covers_what_a_killed_process_left_unsynced(at_work: Desk, syncs: Syncs, path: str) -> None:
    token = held(at_work)
    die_before_the_sync(path, lambda desk: desk.move(Verb.DONE, "held", token=token))
    with open_desk(path, crowded=False) as desk:
        desk.add([Draft("B", "b")])
    before = syncs.count
    assert at_work.get("held").status is Status.DONE
    assert syncs.count == before


def test_database_without_a_log_is_synced_by_sqlite(path: str, syncs: Syncs) -> None:
    other = sqlite3.connect(path)
    assert other.execute("PRAGMA journal_mode = DELETE").fetchone()[0] == "delete"
    other.close()
    with open_desk(path) as desk:
        connection = database_of(desk)._connection
        assert connection.execute("PRAGMA synchronous").fetchone()[0] == 2
        desk.add([Draft("A", "a")])
        assert syncs.count == 0


def test_log_cannot_be_turned_off_under_an_open_store(desk: Desk, path: str) -> None:
    other = sqlite3.connect(path, timeout=0.1)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("PRAGMA journal_mode = DELETE")
    other.close()
    desk.add([Draft("A", "a")])


@pytest.mark.parametrize("left", [b"\xff" * 48, b"\x05" + bytes(47), (b"\x09" + bytes(7) + b"\xf6" + b"\xff" * 7) * 2])
def test_garbage_in_the_lock_file_prevents_no_sync(path: str, syncs: Syncs, left: bytes) -> None:
    with open(f"{path}-lock", "wb") as file:
        file.write(left)
    with open_desk(path) as desk:
        desk.add([Draft("A", "a")])
        assert syncs.count == 1
        desk.add([Draft("B", "b")])
        assert syncs.count == 2


# Together


class Crew:
    """Threads that each run one action with a separate store, and their results."""

    def __init__(self, path: str, **options: Any) -> None:
        self._path = path
        self._options = options
        self._threads: list[threading.Thread] = []
        self._company = open_desk(path, **options)  # so that not even the first one is alone
        self.came: dict[int, object] = {}

    def start(self, act: Callable[[Desk], object], *, behind: int = 0) -> None:
        """Start a thread and wait until it is queued, behind `behind` others."""
        number = len(self._threads)
        opened = threading.Event()

        def run() -> None:
            with open_desk(self._path, **self._options) as desk:
                opened.set()
                try:
                    self.came[number] = act(desk)
                except Exception as error:  # noqa: BLE001 - the test looks at it
                    self.came[number] = error

        thread = threading.Thread(target=run)
        thread.start()
        self._threads.append(thread)
        assert opened.wait(PATIENCE)
        until(lambda: self.waiting() > number + behind or number in self.came)

    def waiting(self) -> int:
        return len(database_of(self._company)._group._waiting)

    def join(self) -> dict[int, object]:
        for thread in self._threads:
            thread.join(PATIENCE)
        self._company.close()
        return self.came


@pytest.fixture
def held_up(path: str) -> Iterator[Desk]:
    """A desk in a separate group that holds the turn until the test ends it."""
    with open_desk(path, durable=False) as desk:
        yield desk


def add(task: str) -> Callable[[Desk], list[Task]]:
    return lambda desk: desk.add([Draft(task, task)])


def test_waiting_writes_share_a_commit_and_a_sync(path: str, held_up: Desk, syncs: Syncs) -> None:
    crew = Crew(path)
    with database_of(held_up).write():
        for number in range(8):
            crew.start(add(f"t{number}"))
    assert {number: [task.id for task in added] for number, added in crew.join().items()} == {  # type: ignore[attr-defined]
        number: [f"t{number}"] for number in range(8)
    }
    assert syncs.count == 1
    events = held_up.events()
    assert [event.task for event in events] == [f"t{number}" for number in range(8)]
    assert len({event.at for event in events}) == 8, "each has a time of its own"


def test_claims_in_one_commit_get_different_tasks(path: str, held_up: Desk) -> None:
    held_up.add([Draft(f"t{number}", f"t{number}") for number in range(5)])
    crew = Crew(path)
    with database_of(held_up).write():
        for _ in range(6):
            crew.start(lambda desk: [claimed.task.id for claimed in desk.claim("ann")])
    assert sorted(crew.join().values(), key=str) == [*([f"t{number}"] for number in range(5)), []]
    assert held_up.check() == []


def test_error_rolls_back_its_own_write_alone(path: str, held_up: Desk) -> None:
    held_up.add([Draft("There", "there")])
    crew = Crew(path)
    with database_of(held_up).write():
        crew.start(add("a"))
        crew.start(lambda desk: desk.add([Draft("New", "new"), Draft("There", "there")]))
        crew.start(add("b"))
    came = crew.join()
    assert isinstance(came[1], AlreadyExists)
    assert {task.id for task in held_up.ready(limit=9)} == {"there", "a", "b"}
    assert [event.task for event in held_up.events()] == ["there", "a", "b"]


def test_failed_common_transaction_is_retried_write_by_write(
    path: str, held_up: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when the disk is full: SQLite takes back all of it."""
    end = database.Transaction.end_apart
    ended = 0

    def fail_once(self: database.Transaction) -> None:
        nonlocal ended
        ended += 1
        if ended == 2:
            self._cursor.execute("ROLLBACK")
        end(self)

    monkeypatch.setattr(database.Transaction, "end_apart", fail_once)
    crew = Crew(path)
    with database_of(held_up).write():
        for number in range(3):
            crew.start(add(f"t{number}"))
    assert all(isinstance(added, list) for added in crew.join().values())
    assert [event.task for event in held_up.events()] == ["t0", "t1", "t2"]


def test_failed_sync_fails_every_write_of_its_commit(path: str, held_up: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(commits, "_sync", fail)
    crew = Crew(path)
    with database_of(held_up).write():
        for number in range(3):
            crew.start(add(f"t{number}"))
    assert [type(came) for came in crew.join().values()] == [StoreError] * 3
    assert len(held_up.events()) == 3, "each once"


def test_waiting_writes_time_out_together(path: str, held_up: Desk) -> None:
    crew = Crew(path, timeout=0.5)
    with database_of(held_up).write():
        for number in range(3):
            crew.start(add(f"t{number}"))
        came = crew.join()
    assert [type(one) for one in came.values()] == [StoreBusy] * 3
    assert held_up.ready(limit=9) == []


def test_follower_times_out_behind_a_long_write(path: str) -> None:
    """The leader is at a long piece of work: those behind it are not in its transaction, and give up in time."""
    started, go_on = threading.Event(), threading.Event()

    def long(desk: Desk) -> object:
        def work(_tx: database.Transaction) -> str:
            started.set()
            assert go_on.wait(PATIENCE)
            return "done"

        return database_of(desk).change(work)

    crew = Crew(path)
    hasty = Crew(path, timeout=0.2)
    leader = threading.Thread(target=crew.start, args=(long,))
    leader.start()
    assert started.wait(PATIENCE)
    hasty.start(add("late"))
    assert isinstance(hasty.join()[0], StoreBusy)
    go_on.set()
    leader.join(PATIENCE)
    assert crew.join() == {0: "done"}


class Interrupted(BaseException):
    pass


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


def test_interrupted_leader_passes_the_lead_on(path: str, held_up: Desk) -> None:
    """Ctrl-C reaches the main thread while it performs the writes of others: they are performed by another."""
    usual = signal.signal(signal.SIGUSR1, interrupt)
    crew = Crew(path)

    def interrupted(_tx: database.Transaction) -> None:
        os.kill(os.getpid(), signal.SIGUSR1)
        time.sleep(PATIENCE)

    def follow() -> None:
        until(lambda: crew.waiting() == 1)
        for number in range(3):
            crew.start(add(f"t{number}"), behind=1)
        release.set()

    release = threading.Event()
    holding = threading.Event()

    def hold() -> None:
        with database_of(held_up).write():
            holding.set()
            assert release.wait(PATIENCE)

    try:
        with open_desk(path) as desk:
            threading.Thread(target=hold).start()
            assert holding.wait(PATIENCE)
            threading.Thread(target=follow).start()
            with pytest.raises(Interrupted):
                database_of(desk).change(interrupted)
            assert sorted(crew.join()) == [0, 1, 2]
    finally:
        signal.signal(signal.SIGUSR1, usual)
    assert all(isinstance(added, list) for added in crew.came.values())
    assert [event.task for event in held_up.events()] == ["t0", "t1", "t2"]


def test_shared_commit_uses_the_clock_of_each_store(path: str, held_up: Desk) -> None:
    clock = Clock()
    crew, other = Crew(path, clock=clock), Crew(path)
    with database_of(held_up).write():
        other.start(add("now"))
        crew.start(add("then"), behind=1)
    other.join()
    crew.join()
    assert held_up.get("then").created_at == clock.time
    assert held_up.get("now").created_at != clock.time


def test_group_is_per_file_and_durability(path: str, tmp_path: Path) -> None:
    before = len(commits._groups)
    with open_desk(path), open_desk(path), open_desk(path, durable=False):
        with open_desk(":memory:", create=True), open_desk(":memory:", create=True):
            assert len(commits._groups) == before + 4
        os.rename(path, str(tmp_path / "moved.db"))
        with open_desk(path, create=True):
            assert len(commits._groups) == before + 3
    assert len(commits._groups) == before
