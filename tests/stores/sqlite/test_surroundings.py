"""Faults of a store's machine, and their errors: the right code, the store's path and a next step."""

from __future__ import annotations

import os
import random
import re
import shutil
import sqlite3
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core import errors
from dibs.core.errors import DibsError, NoStore, SchemaTooNew, StoreBusy, StoreCorrupt, StoreError, StoreUnavailable
from dibs.core.task import Actor, Draft, Edit
from dibs.desk import Desk
from dibs.stores.port import Query
from dibs.stores.sqlite import database, migrate
from dibs.stores.sqlite.migrate import NEWEST
from dibs.stores.sqlite.store import SqliteStore
from interleave import acts
from interleave.stepper import Order
from stores.sqlite import small_disk
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from interleave.stepper import Act, Answer, Player

ADVICE = re.compile(r"\b(Check|Free|Try|Restore|Upgrade|Choose|Use|Remove|Give|such as)\b|'dibs \w+'")
NOBODY = 65534
TASKS = 200


def open_desk(path: str, *, create: bool = False, timeout: float = 0.3) -> Desk:
    return Desk(SqliteStore(path, create=create, timeout=timeout), scope="s", by=Actor("tester"))


def fill(desk: Desk) -> None:
    desk.add([Draft(f"Task {number}", f"t{number}", description="x" * 300) for number in range(TASKS)])


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store with something in it, closed and all in one file."""
    place = str(tmp_path / "dibs.db")
    with open_desk(place, create=True) as desk:
        fill(desk)
    assert not os.path.exists(f"{place}-wal")
    return place


def assert_helpful(message: str, path: str) -> None:
    assert path in message
    assert ADVICE.search(message), message
    assert "sqlite3" not in message


def refused(kind: type[DibsError], act: Callable[[], object], path: str) -> DibsError:
    """Exactly this error, with the place and the way out in its message."""
    with pytest.raises(DibsError) as caught:
        act()
    assert type(caught.value) is kind, caught.value
    assert_helpful(caught.value.message, path)
    return caught.value


def bytes_of(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def overwrite(path: str, at: int, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


# Not a store at all


@pytest.mark.parametrize("create", [False, True])
def test_directory_at_the_store_path_is_refused(tmp_path: Path, create: bool) -> None:
    refused(StoreUnavailable, lambda: open_desk(str(tmp_path), create=create), str(tmp_path))
    assert os.listdir(tmp_path) == []


def test_missing_file_is_no_store_until_init(tmp_path: Path) -> None:
    place = str(tmp_path / "dibs.db")
    refused(NoStore, lambda: open_desk(place), place)
    assert os.listdir(tmp_path) == [], "looking leaves nothing behind"
    open_desk(place, create=True).close()
    open_desk(place).close()


def test_empty_file_is_no_store_until_init(tmp_path: Path) -> None:
    place = str(tmp_path / "dibs.db")
    open(place, "wb").close()
    refused(NoStore, lambda: open_desk(place), place)
    assert bytes_of(place) == b""
    open_desk(place, create=True).close()
    open_desk(place).close()


def test_a_path_in_a_missing_folder(tmp_path: Path) -> None:
    place = str(tmp_path / "nowhere" / "dibs.db")
    refused(NoStore, lambda: open_desk(place), place)
    refused(StoreUnavailable, lambda: open_desk(place, create=True), place)
    assert os.listdir(tmp_path) == []
    os.mkdir(tmp_path / "nowhere")
    open_desk(place, create=True).close()


@pytest.mark.parametrize("create", [False, True])
def test_another_programs_database_is_left_alone(tmp_path: Path, create: bool) -> None:
    place = str(tmp_path / "theirs.db")
    connection = sqlite3.connect(place)
    connection.execute("CREATE TABLE theirs (a)")
    connection.close()
    before = bytes_of(place)
    refused(StoreCorrupt, lambda: open_desk(place, create=create), place)
    assert bytes_of(place) == before
    assert os.listdir(tmp_path) == ["theirs.db"]


@pytest.mark.parametrize("create", [False, True])
def test_a_store_of_a_newer_dibs_is_left_alone(path: str, create: bool) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {NEWEST + 1}")
    connection.close()
    before = bytes_of(path)
    error = refused(SchemaTooNew, lambda: open_desk(path, create=create), path)
    assert str(NEWEST + 1) in error.message
    assert bytes_of(path) == before


# Damage. The way out is a backup, so that is what the cure is here.


def bad_header(path: str) -> None:
    overwrite(path, 0, b"Salted__" + bytes(92))


def half_of_it(path: str) -> None:
    os.truncate(path, os.path.getsize(path) // 2)


def a_few_bytes_of_it(path: str) -> None:
    os.truncate(path, 10)


def text_instead(path: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write("# Tasks\n\n- [ ] not a database\n" * 100)


@pytest.mark.parametrize("damage", [bad_header, half_of_it, a_few_bytes_of_it, text_instead])
@pytest.mark.parametrize("create", [False, True])
def test_a_damaged_file_is_refused_and_not_touched(path: str, damage: Callable[[str], None], create: bool) -> None:
    shutil.copyfile(path, f"{path}.backup")
    damage(path)
    before = bytes_of(path)
    refused(StoreCorrupt, lambda: open_desk(path, create=create).get("t1"), path)
    assert bytes_of(path) == before
    for leftover in ("-wal", "-shm"):
        if os.path.exists(path + leftover):
            os.unlink(path + leftover)
    os.replace(f"{path}.backup", path)
    with open_desk(path) as desk:
        assert desk.check() == []
        assert desk.claim("ann")[0].task.id == "t0"


VERBS: dict[str, Callable[[Desk], object]] = {
    "get": lambda desk: desk.get("t150"),
    "find": lambda desk: desk.find(Query()),
    "counts": lambda desk: desk.counts(),
    "dump": lambda desk: list(desk.dump()),
    "graph": lambda desk: desk.graph(),
    "events": lambda desk: desk.events(),
    "claim": lambda desk: desk.claim("ann"),
    "edit": lambda desk: desk.edit("t150", Edit(title="new")),
    "check": lambda desk: desk.check(),
}


def page_size(path: str) -> int:
    return int.from_bytes(bytes_of(path)[16:18], "big")


@pytest.mark.parametrize("verb", VERBS)
def test_file_with_random_bytes_is_corrupt_for_every_verb(path: str, verb: str) -> None:
    """Everything but the first pages, which hold the schema, is noise."""
    schema = 26 * page_size(path)
    noise = random.Random(verb).randbytes(os.path.getsize(path) - schema)
    overwrite(path, schema, noise)
    with open_desk(path) as desk:
        refused(StoreCorrupt, lambda: VERBS[verb](desk), path)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_raise_only_our_errors(path: str, seed: int) -> None:
    """SQLite does not notice damage within a text or a number, so dibs must report it."""
    dice = random.Random(seed)
    length = dice.choice([1, 16, 256, 4096])
    overwrite(path, dice.randrange(100, os.path.getsize(path) - length), dice.randbytes(length))
    told = [message for message in (store_error(path, verb) for verb in VERBS.values()) if message]
    assert all(ADVICE.search(message) for message in told), told  # each names the file, or the row


def store_error(path: str, verb: Callable[[Desk], object]) -> str:
    """What the store says is wrong with it, if anything; a rotten id is simply not found."""
    try:
        with open_desk(path) as desk:
            verb(desk)
    except StoreError as error:
        return error.message
    except DibsError:
        return ""
    return ""


# Locked


def test_writing_program_makes_the_store_busy_until_it_commits(path: str) -> None:
    foreign = sqlite3.connect(path, isolation_level=None)
    foreign.execute("BEGIN IMMEDIATE")
    with open_desk(path) as desk:
        began = time.monotonic()
        error = refused(StoreBusy, lambda: desk.claim("ann"), path)
        assert 0.25 <= time.monotonic() - began < 25, "it waited for the usual 30 s"
        assert error.retry_after_ms == 1000
        assert desk.get("t0").lease is None, "readers are not kept waiting"
        foreign.execute("ROLLBACK")
        assert desk.claim("ann")[0].task.id == "t0"
    foreign.close()


def test_slow_dibs_writer_makes_the_store_busy(path: str) -> None:
    with open_desk(path) as fellow, open_desk(path) as desk:
        with fellow._store._database.write():  # type: ignore[attr-defined]  # as long as we like
            error = refused(StoreBusy, lambda: desk.claim("ann"), path)
            assert error.retry_after_ms == 1000
        assert desk.claim("ann")[0].task.id == "t0"


def test_a_lock_file_that_is_a_directory(path: str) -> None:
    os.unlink(f"{path}-lock")
    os.mkdir(f"{path}-lock")
    before = bytes_of(path)
    with open_desk(path) as desk:
        refused(StoreUnavailable, lambda: desk.claim("ann"), path)
        assert desk.get("t0").lease is None
        assert bytes_of(path) == before
        os.rmdir(f"{path}-lock")
        assert desk.claim("ann")[0].task.id == "t0"


# Missing permissions. Root ignores them, so these tests run as another user.


def become_nobody() -> None:
    if os.getuid() == 0:
        _read_ahead()
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def _read_ahead() -> None:
    """Load the migrations now, since the other user may not be able to read this checkout."""
    known = migrate._migrations()
    told = {path: migrate._statements(path) for path in (os.path.join(migrate._FOLDER, name) for _, name in known)}
    migrate._migrations = lambda: known
    migrate._statements = lambda path: told[path]


EVERYONE, READERS = 0o777, 0o555


def allow(path: str, mode: int) -> None:
    os.chmod(path, mode)


def allow_everything(path: str) -> None:
    folder = os.path.dirname(path)
    allow(folder, EVERYONE)
    for name in os.listdir(folder):
        allow(os.path.join(folder, name), 0o666)


@pytest.fixture
def open_place() -> Iterator[str]:
    """A store in a folder that everyone can reach and write, unlike pytest's own."""
    with tempfile.TemporaryDirectory() as folder:
        place = os.path.join(folder, "dibs.db")
        with open_desk(place, create=True) as desk:
            fill(desk)
        allow_everything(place)
        yield place
        allow_everything(place)


def read_only_file(path: str) -> None:
    allow(path, 0o444)


def read_only_folder(path: str) -> None:
    allow(os.path.dirname(path), READERS)


def read_only_folder_without_lock_file(path: str) -> None:
    os.unlink(f"{path}-lock")
    read_only_folder(path)


def unreadable_file(path: str) -> None:
    allow(path, 0)


def locked_lock_file(path: str) -> None:
    allow(f"{path}-lock", 0)


claim = partial(acts.claim, agent="ann", proof="t1")


def by_nobody(player: Player, path: str, act: Act, *, create: bool = False) -> Answer:
    return player.run(Order(path, act, Clock(), timeout=0.3, create=create, stepwise=False, mutant=become_nobody))


@pytest.mark.parametrize(
    ("trouble", "kind", "can_read"),
    [
        (read_only_file, errors.StoreReadOnly, True),
        (read_only_folder, errors.StoreReadOnly, False),  # SQLite needs its -shm file even for a look
        (read_only_folder_without_lock_file, errors.StoreReadOnly, False),
        (unreadable_file, errors.StoreUnavailable, False),
        (locked_lock_file, errors.StoreReadOnly, True),
    ],
)
def test_unwritable_store_is_reported_and_unchanged(
    open_place: str,
    players: tuple[Player, ...],
    trouble: Callable[[str], None],
    kind: type[DibsError],
    can_read: bool,
) -> None:
    before = bytes_of(open_place)
    trouble(open_place)
    for create in (False, True):
        answer = by_nobody(players[0], open_place, claim, create=create)
        assert answer.code == kind.code, answer
        assert_helpful(answer.message, open_place)
    looked = by_nobody(players[0], open_place, acts.look)
    assert (looked.code is None) is can_read, looked
    allow_everything(open_place)
    assert bytes_of(open_place) == before
    assert by_nobody(players[0], open_place, claim).code is None
    with open_desk(open_place) as desk:
        assert desk.check() == []
        assert desk.get("t0").attempt == 1


def test_store_cannot_be_created_in_a_read_only_folder(open_place: str, players: tuple[Player, ...]) -> None:
    folder = os.path.dirname(open_place)
    place = os.path.join(folder, "new.db")
    allow(folder, READERS)
    before = os.listdir(folder)
    answer = by_nobody(players[0], place, claim, create=True)
    assert answer.code == StoreUnavailable.code
    assert_helpful(answer.message, place)
    assert os.listdir(folder) == before
    allow(folder, EVERYONE)
    assert by_nobody(players[0], place, claim, create=True).code is None


# No room left


def test_full_disk_refuses_writes_until_there_is_space(tmp_path: Path) -> None:
    told = small_disk.run("full", str(tmp_path))
    troubles = {step: each.kind for step, each in told.items() if each.kind != "ok"}
    assert troubles == {"add": "StoreFull", "claim": "StoreFull"}
    assert_helpful(told["add"].message, str(tmp_path / "dibs.db"))


def test_init_on_a_full_disk_fails_and_can_be_retried(tmp_path: Path) -> None:
    told = small_disk.run("full_from_the_start", str(tmp_path))
    assert told["make"].kind == "StoreFull"
    assert_helpful(told["make"].message, str(tmp_path / "dibs.db"))
    assert told["look"].kind in {"StoreFull", "NoStore"}
    assert (told["make again"].kind, told["look again"].kind) == ("ok", "ok")


def test_disk_too_full_for_a_checkpoint_keeps_commits(tmp_path: Path) -> None:
    """The claim is in the log, so it must be answered: only its caller knows the token."""
    told = small_disk.run("full_at_a_checkpoint", str(tmp_path))
    assert {step: each.kind for step, each in told.items()} == dict.fromkeys(told, "ok")


def test_file_size_limit_refuses_writes_and_changes_nothing(tmp_path: Path) -> None:
    told = small_disk.run("limited", str(tmp_path))
    assert {step for step, each in told.items() if each.kind != "ok"} == {"add"}
    assert told["add"].kind in {"StoreError", "StoreFull"}
    assert_helpful(told["add"].message, str(tmp_path / "dibs.db"))


# A file system that is mounted read-only


def test_read_only_file_system_is_reported(tmp_path: Path) -> None:
    told = small_disk.run("read_only", str(tmp_path))
    troubles = {step: each.kind for step, each in told.items() if each.kind != "ok"}
    refused_steps = ("look", "claim", "claim after a crash", "init", "init elsewhere", "failed write")
    assert troubles == dict.fromkeys(refused_steps, "StoreReadOnly"), told
    for step in refused_steps:
        assert "mounted read-only" in told[step].message, told[step]
        assert_helpful(told[step].message, str(tmp_path))


# A failed or slow checkpoint affects no caller


def test_failed_checkpoint_of_a_large_log_fails_no_commit(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_COMMITS_PER_CHECKPOINT", 1)
    monkeypatch.setattr(database, "_LARGE_LOG", 0)
    with open_desk(path) as desk:
        taken = 0
        take = desk._store._database.turn.take  # type: ignore[attr-defined]  # only the first call succeeds

        def take_once() -> None:
            nonlocal taken
            taken += 1
            if taken > 1:
                raise StoreBusy("busy")
            take()

        monkeypatch.setattr(desk._store._database.turn, "take", take_once)  # type: ignore[attr-defined]
        assert desk.claim("ann")[0].task.id == "t0"
        assert taken > 1


def test_closing_beside_a_busy_writer_closes(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LARGE_LOG_AT_CLOSE", 0)
    with open_desk(path) as fellow:
        desk = open_desk(path)
        desk.claim("ann")
        with fellow._store._database.write():  # type: ignore[attr-defined]  # as long as we like
            desk.close()
        with pytest.raises(Exception):  # noqa: B017 - any error will do
            desk.get("t0")


@pytest.mark.parametrize("when", ["after a commit", "at close"])
def test_slow_reader_blocks_no_writer(path: str, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """An export into a pager keeps the log from being emptied; no writer may wait for it."""
    if when == "at close":
        monkeypatch.setattr(database, "_LARGE_LOG_AT_CLOSE", 0)
    else:
        monkeypatch.setattr(database, "_COMMITS_PER_CHECKPOINT", 1)
        monkeypatch.setattr(database, "_LARGE_LOG", 0)
    with open_desk(path) as reader:
        export = reader.dump()
        next(export)
        began = time.monotonic()
        with open_desk(path, timeout=120) as desk:
            assert desk.claim("ann")[0].task.id == "t0"
        assert time.monotonic() - began < 60, "it waited for the reader"
        assert len(list(export)) > TASKS
