"""A vault where things are not as they should be: full disks, foreign files, strange names, no rights."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import time
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import (
    InvalidInput,
    LostLock,
    NoStore,
    NotFound,
    StoreBusy,
    StoreCorrupt,
    StoreReadOnly,
    StoreUnavailable,
)
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Link
from dibs.stores.opening import open_store
from dibs.stores.port import EventQuery, Query
from dibs.stores.vault.disk import LARGEST, Disk, Flock
from stores.vault import small_vault

from .folder import SCOPE, add, claim, hold, move

if TYPE_CHECKING:
    from pathlib import Path

    from support.clock import Clock

    from .folder import Folder


def test_claim_on_a_full_disk_is_valid_and_completed_later(tmp_path: Path) -> None:
    told = small_vault.run(str(tmp_path))
    assert told["claim"].startswith("STORE_FULL: a is yours, in In_Progress/ann")
    assert json.loads(told["lies"]) == ["In_Progress/ann/a.md", "Needs_Action/b.md"]
    assert told["others by name"] == "HELD by ann"
    assert told["again, still full"].startswith("STORE_FULL")
    assert told["again"] == "[('a', 1)]"
    assert told["done, full"].startswith("STORE_FULL"), told["done, full"]
    assert json.loads(told["still there"]) == json.loads(told["lies"])
    assert told["done"] == "done"
    assert json.loads(told["there at last"]) == ["Done/a.md", "Needs_Action/b.md"]
    assert (told["texts"], told["findings"]) == ("{True}", "[]")


# Entries that are not tasks, and the problem that a check reports for each.
STRANGERS = {
    "symlink": "symbolic link",
    "dangling": "symbolic link",
    "folder link": "symbolic link",
    "pipe": "no regular file",
    "latin-1": "not UTF-8",
    "huge": "larger than",
    "unclosed": "never closed",
    "newline": "'new\\nline' cannot be a file name",
    "loose": "a folder of its holder",
    "default": "cannot be called 'default'",
}


def put_strangers(folder: Folder) -> None:
    secret = folder.path.parent / "secret.md"
    secret.write_text("Not yours.\n", encoding="utf-8")
    here = folder.path / "Needs_Action"
    (here / "symlink.md").symlink_to(secret)
    (here / "dangling.md").symlink_to("/nowhere/at/all.md")
    (here / "folder link").symlink_to(folder.path.parent)
    os.mkfifo(here / "pipe.md")
    (here / "latin-1.md").write_bytes(b"caf\xe9\n")
    with open(here / "huge.md", "wb") as file:
        file.truncate(LARGEST + 1)
    (here / "unclosed.md").write_text("---\npriority: low\n", encoding="utf-8")
    (here / "new\nline.md").write_text("x", encoding="utf-8")
    folder.put("In_Progress/loose.md", "x")
    folder.put("Needs_Action/default/x.md", "x")
    os.mkdir(here / "a-folder.md")
    (here / ".hidden.md").write_text("x", encoding="utf-8")
    (here / "picture.png").write_bytes(b"\x89PNG")


def test_strange_files_are_reported_and_stop_no_agent(folder: Folder) -> None:
    put_strangers(folder)
    folder.put("Needs_Action/good.md")
    with folder.open() as store:
        assert [task.id for task in store.find(Query())] == ["good"]
        assert [claimed.task.id for _ in range(3) for claimed in claim(store)] == ["good"]
        problems = [finding.problem for finding in store.check(fix=False)]
        for said in STRANGERS.values():
            assert any(said in problem for problem in problems), (said, problems)
        assert not any("\n" in finding.subject for finding in store.check(fix=True))
    assert (folder.path.parent / "secret.md").read_text(encoding="utf-8") == "Not yours.\n"
    assert (folder.path / "Needs_Action/latin-1.md").read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize("task", ["latin-1", "huge", "unclosed"])
def test_claim_of_an_unreadable_file_names_it(folder: Folder, task: str) -> None:
    put_strangers(folder)
    with folder.open() as store:
        with pytest.raises(StoreCorrupt, match=f"Needs_Action/{task}.md"):
            claim(store, "ann", task)
        with pytest.raises((StoreCorrupt, NotFound)):
            store.get(SCOPE, task)


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/../../x", ".x", "x/y"])
def test_names_that_lead_elsewhere_are_refused(folder: Folder, name: str) -> None:
    with folder.open() as store:
        with pytest.raises(InvalidInput):
            store.add(SCOPE, [Draft("X", name)], [], Actor())
        with pytest.raises(InvalidInput):
            store.add(f"{name}/..", [Draft("X", "x")], [], Actor())
        with pytest.raises(NotFound):
            claim(store, "ann", name)
    assert not list(folder.path.parent.rglob("x.md"))


@pytest.mark.parametrize("agent", ["../../out", ".", "..", "/root", "a/b", "x" * 128, "😀" * 128, ".git"])
def test_any_agent_name_gives_a_folder_in_in_progress(folder: Folder, agent: str) -> None:
    with folder.open() as store:
        add(store, "a")
        token = hold(store, agent)
        (place,) = (path.name for path in (folder.path / "In_Progress").iterdir() if path.is_dir())
        assert folder.only("a") == f"In_Progress/{place}/a.md"
        assert store.get(SCOPE, "a").lease.agent == agent  # type: ignore[union-attr]
        assert move(store, Verb.DONE, "a", token).task.finished_by == agent


def test_invalid_values_are_ignored_and_reported(folder: Folder) -> None:
    text = "---\npriority: asap\ncreated_at: yesterday\nstatus: 7\nretries: -1\ndepends_on: [{a: b}]\n---\nDo it.\n"
    folder.put("Needs_Action/a.md", text)
    with folder.open() as store:
        assert claim(store)[0].task.priority == 2
        told = " ".join(finding.problem for finding in store.check(fix=False))
        for key in ("priority", "created_at", "status", "retries", "depends_on"):
            assert f"'{key}'" in told or key == "depends_on"


def test_cycles_and_loose_ends_in_files_are_reported(folder: Folder) -> None:
    folder.put("Needs_Action/a.md", "---\ndepends_on: b\n---\n")
    folder.put("Needs_Action/b.md", "---\ndepends_on: [a]\n---\n")
    folder.put("Needs_Action/c.md", "---\ndepends_on: [gone]\nparent: lost\n---\n")
    folder.put("Needs_Action/d.md", "")
    with folder.open() as store:
        told = [finding.problem for finding in store.check(fix=False)]
        assert sum("wait for each other" in problem for problem in told) == 1
        assert sum("which is not there" in problem for problem in told) == 2
        store.link(SCOPE, [Link("d", "c")], Actor())
        assert claim(store) == []
        store.check(fix=True)
        assert [claimed.task.id for claimed in claim(store)] == ["c"]
        assert not any("not there" in finding.problem for finding in store.check(fix=False))


def test_unfinished_version_of_a_dead_process_is_removed(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a", description="The text.")
        found = os.stat(folder.path / "Needs_Action/a.md")
        name = f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}-{found.st_size}"
        (folder.path / ".dibs/tmp" / name).write_text("---\ntask_i", encoding="utf-8")
        (folder.path / ".dibs/tmp/nonsense").write_text("x", encoding="utf-8")
        add(store, "b")
        assert store.get(SCOPE, "a").description == "The text."
    assert folder.left_over() == []


def test_files_of_dibs_may_be_deleted_and_are_recreated(folder: Folder, clock: Clock) -> None:
    with folder.open() as store:
        add(store, "a", "b")
        token = hold(store)
        shutil.rmtree(folder.path / ".dibs")
        clock.advance(minutes=1)
        move(store, Verb.DONE, "a", token)
    shutil.rmtree(folder.path / ".dibs")
    with folder.open() as store:
        assert [claimed.task.id for claimed in claim(store)] == ["b"]


def test_torn_line_in_the_log_is_reported(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        (log,) = (folder.path / "Logs").glob("dibs-*.jsonl")
        with open(log, "a", encoding="utf-8") as file:
            file.write('{"at": "2026')
        hold(store)
        assert [(event.verb, event.seq) for event in store.events(EventQuery(SCOPE))] == [("add", 1), ("claim", 3)]
        assert [finding.problem for finding in store.check(fix=False)] == ["holds 1 line(s) that are no events"]


def test_a_vault_that_may_only_be_read_is_read(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
    with folder.open(disk=_ReadOnly(durable=False)) as store:
        assert [task.id for task in store.find(Query())] == ["a"]
        with pytest.raises(StoreReadOnly):
            claim(store)


class _ReadOnly(Disk):
    def move(self, source: str, target: str) -> None:
        raise PermissionError(1, "Operation not permitted", f"{source} {target}")


def test_folders_on_two_file_systems_are_refused_clearly(folder: Folder) -> None:
    class Torn(Disk):
        def move(self, source: str, target: str) -> None:
            raise OSError(errno.EXDEV, "Invalid cross-device link", source, None, target)

    with folder.open() as store:
        add(store, "a")
    with folder.open(disk=Torn(durable=False)) as store, pytest.raises(StoreUnavailable, match="file system"):
        claim(store)
    assert folder.only("a") == "Needs_Action/a.md"


def test_there_is_no_vault_where_none_was_made(tmp_path: Path) -> None:
    with pytest.raises(NoStore):
        open_store(f"vault:///{tmp_path}")
    with pytest.raises(NoStore):
        open_store(f"vault:///{tmp_path}/nowhere")
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(NoStore):
        open_store(f"vault:///{tmp_path}/file", create=True)
    with pytest.raises(InvalidInput):
        open_store(f"vault:///{tmp_path}?speed=high")


def test_new_vault_keeps_its_folders_in_a_clone(tmp_path: Path) -> None:
    open_store(f"vault:///{tmp_path}/v", create=True).close()
    made = sorted(path.name for path in (tmp_path / "v").iterdir())
    folders = "Needs_Action In_Progress Pending_Approval Done Rejected Plans Updates Errors Logs"
    assert made == sorted([".dibs", *folders.split()])
    assert all((tmp_path / "v" / name / ".gitkeep").exists() for name in made if name != ".dibs")
    assert (tmp_path / "v/.dibs/.gitignore").read_text(encoding="utf-8") == "*\n"


def test_stopped_process_does_not_hang_the_others(folder: Folder) -> None:
    with folder.open(timeout=0.3) as store:
        add(store, "a")
        stopped = Flock(str(folder.path / ".dibs/lock"), 1)
        stopped.take(shared=False)
        began = time.monotonic()
        with pytest.raises(StoreBusy):
            add(store, "b")
        with pytest.raises(StoreBusy):
            claim(store)
        assert time.monotonic() - began < 25, "it waited for the usual 30 s"
        stopped.close()
        assert [claimed.task.id for claimed in claim(store)] == ["a"]


def test_tokens_are_in_no_file_and_no_line(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        token = hold(store)
        move(store, Verb.RENEW, "a", token)
        move(store, Verb.DONE, "a", token)
    for path in folder.path.rglob("*"):
        if path.is_file() and stat.S_ISREG(path.stat().st_mode):
            assert token.encode() not in path.read_bytes()


def test_the_digest_in_a_file_proves_nothing(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        hold(store)
        lease = store.get(SCOPE, "a").lease
        assert lease is not None
        with pytest.raises(LostLock):
            move(store, Verb.DONE, "a", lease.token)
