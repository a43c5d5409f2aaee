"""A process that opened one store never writes to another, even if its file is replaced."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, redirect_stderr, redirect_stdout
from typing import TYPE_CHECKING

import pytest

from dibs.cli.main import main
from dibs.core.errors import DibsError, InvalidInput, LostLock, StoreReplaced
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft
from dibs.desk import Desk, open_desk

if TYPE_CHECKING:
    from pathlib import Path

OTHER = """
import sys
import time
from dibs.core.task import Draft
from dibs.desk import open_desk
with open_desk(sys.argv[1]) as desk:
    for number in range(int(sys.argv[2])):
        desk.add([Draft(f"other {number}")])
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    home = tmp_path / ".dibs"
    home.mkdir()
    return home / "dibs.db"


def _url(path: Path) -> str:
    return f"sqlite:///{path}"


def _made(path: Path, *titles: str) -> None:
    with open_desk(_url(path), create=True) as desk:
        desk.add([Draft(title, id=title) for title in titles])


def _titles(path: Path) -> set[str]:
    """What the file alone holds, without dibs."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        return {row[0] for row in connection.execute("SELECT title FROM task")}


def _listed_elsewhere(path: Path) -> list[str]:
    code = (
        "import sys; from dibs.desk import open_desk; print(*(t.title for t in open_desk(sys.argv[1]).ready(limit=9)))"
    )
    return subprocess.run(
        [sys.executable, "-c", code, _url(path)], check=True, capture_output=True, text=True
    ).stdout.split()


def _copy_later(source: Path, target: Path) -> None:
    """At another time by the file system's clock, which ticks every few milliseconds."""
    time.sleep(0.05)
    shutil.copyfile(source, target)


def _refuses(desk: Desk) -> None:
    for ask in (
        lambda: desk.add([Draft("late")]),
        lambda: desk.claim("ann"),
        desk.counts,
        desk.events,
    ):
        with pytest.raises(StoreReplaced):
            ask()


@pytest.mark.parametrize("written", [True, False], ids=["after a write", "before any write"])
@pytest.mark.parametrize("again", [True, False], ids=["and made again", "and gone"])
def test_deleted_store_is_refused(path: Path, written: bool, again: bool) -> None:
    _made(path, "a")
    desk = open_desk(_url(path))
    if written:
        desk.add([Draft("b")])
    shutil.rmtree(path.parent)
    if again:
        path.parent.mkdir()
        _made(path, "new")
    _refuses(desk)
    desk.close()
    if again:
        assert _titles(path) == {"new"}
    else:
        assert not path.parent.exists()


@pytest.mark.parametrize("how", ["os.replace", "rename away and copy"])
def test_replaced_file_is_refused_and_its_content_kept(path: Path, tmp_path: Path, how: str) -> None:
    _made(path, "old")
    backup = tmp_path / "backup.db"
    shutil.copyfile(path, backup)
    desk = open_desk(_url(path))
    desk.add([Draft("lost")])
    if how == "os.replace":
        os.replace(backup, path)
    else:
        path.rename(tmp_path / "away.db")
        shutil.copyfile(backup, path)
    _refuses(desk)
    desk.close()
    assert _titles(path) == {"old"}
    with open_desk(_url(path)) as fresh:
        fresh.add([Draft("next")])
    assert _titles(path) == {"old", "next"}


@pytest.mark.parametrize("origin", ["of the same store", "of another store"])
def test_backup_copied_over_the_open_file_is_refused(path: Path, tmp_path: Path, origin: str) -> None:
    _made(path, "old")
    backup = tmp_path / "backup.db"
    if origin == "of the same store":
        shutil.copyfile(path, backup)
    else:
        _made(backup, "old")
    desk = open_desk(_url(path))
    desk.add([Draft("written to the log")])
    _copy_later(backup, path)
    _refuses(desk)
    desk.close()
    assert path.read_bytes() == backup.read_bytes(), "nothing was written into the copy, also when the store was closed"
    with pytest.raises(StoreReplaced, match="delete"):  # the log beside it is that of the old content
        open_desk(_url(path))
    for name in ("dibs.db-wal", "dibs.db-shm", "dibs.db-replaced"):
        (path.parent / name).unlink()
    assert _listed_elsewhere(path) == ["old"]  # this process keeps what it had open


def test_backup_copied_over_an_idle_store_is_not_overwritten_at_its_close(path: Path, tmp_path: Path) -> None:
    _made(path, "old")
    backup = tmp_path / "backup.db"
    shutil.copyfile(path, backup)
    desk = open_desk(_url(path))
    desk.add([Draft("written to the log")])
    _copy_later(backup, path)
    desk.close()
    assert path.read_bytes() == backup.read_bytes()


def test_checkpoints_of_others_are_no_replacement(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dibs.stores.sqlite.database._COMMITS_PER_CHECKPOINT", 2)
    _made(path, "a")
    with open_desk(_url(path)) as desk, open_desk(_url(path)) as second:
        for number in range(40):
            desk.add([Draft(f"one {number}")])
            second.add([Draft(f"two {number}")])
            with closing(sqlite3.connect(path)) as other:
                other.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if number % 3 else 'PASSIVE'})").fetchall()
            desk.counts()
            second.counts()


def test_other_processes_that_write_and_end_are_no_replacement(path: Path) -> None:
    _made(path, "a")
    with open_desk(_url(path)) as desk:
        others = [subprocess.Popen([sys.executable, "-c", OTHER, _url(path), "60"]) for _ in range(2)]
        while any(other.poll() is None for other in others):
            desk.add([Draft("mine")])
        assert [other.wait() for other in others] == [0, 0]
        desk.counts()


def test_killed_writer_is_no_replacement(path: Path) -> None:
    _made(path, "a")
    other = subprocess.Popen([sys.executable, "-c", OTHER, _url(path), "100000"])
    with open_desk(_url(path)) as desk:
        while desk.counts().claimable < 3:
            pass
        other.kill()
        other.wait()
        desk.add([Draft("mine")])
    with open_desk(_url(path)) as desk:
        desk.add([Draft("mine")])


def test_store_describes_its_id_and_generation(path: Path, tmp_path: Path) -> None:
    _made(path, "a")
    _made(tmp_path / "other.db", "a")
    with open_desk(_url(path)) as one, open_desk(_url(tmp_path / "other.db")) as other:
        assert one.describe()["id"] != other.describe()["id"]
        assert one.describe()["generation"] == "1"
    with open_desk(_url(path)) as again:
        assert again.describe()["id"] == _id(path)


def _id(path: Path) -> str:
    with closing(sqlite3.connect(path)) as connection:
        return str(connection.execute("SELECT id FROM store").fetchone()[0])


def _cli(path: Path, *words: str) -> tuple[int, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        status = main([*words, "--store", _url(path)])
    return status, out.getvalue() + err.getvalue()


@pytest.mark.parametrize("keep", [False, True], ids=["", "--keep-tokens"])
def test_restore_replaces_the_content_of_a_store_in_use(path: Path, tmp_path: Path, keep: bool) -> None:
    backup = tmp_path / "backup.jsonl"
    _made(path, "held", "free", "later")
    with open_desk(_url(path)) as desk:
        (held,) = desk.claim("ann", refs=["held"])
        assert held.task.lease is not None
        assert _cli(path, "backup", str(backup))[0] == 0
        assert backup.stat().st_mode & 0o777 == 0o600
        (late,) = desk.claim("bob", refs=["later"])
        assert late.task.lease is not None
        desk.add([Draft("added later")])
        seen = desk.events()[-1].seq

        status, said = _cli(path, "restore", str(backup), *(["--keep-tokens"] if keep else []))

        assert status == 0, said
        assert "generation 2" in said
        assert {task.title for task in desk.ready(limit=9)} == {"free", "later"}
        assert min(event.seq for event in desk.events()) > seen, "followers go on behind what they have seen"
        with pytest.raises(DibsError):
            desk.move(Verb.DONE, "later", token=late.task.lease.token)
        if keep:
            assert desk.move(Verb.DONE, "held", token=held.task.lease.token).task.finished
        else:
            with pytest.raises(LostLock):
                desk.move(Verb.DONE, "held", token=held.task.lease.token)
        assert desk.check() == []
        assert desk.describe()["generation"] == "2"


def test_restore_of_a_broken_backup_changes_nothing(path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup.jsonl"
    _made(path, "a")
    assert _cli(path, "backup", str(backup))[0] == 0
    assert _cli(path, "backup", str(backup))[0] == InvalidInput.exit_status, "a backup overwrites nothing"
    backup.write_text(backup.read_text() + "{oops\n")
    _made(path, "b")
    assert _cli(path, "restore", str(backup))[0] == InvalidInput.exit_status
    with open_desk(_url(path)) as desk:
        assert {task.title for task in desk.ready(limit=9)} == {"a", "b"}
        assert desk.describe()["generation"] == "1"
