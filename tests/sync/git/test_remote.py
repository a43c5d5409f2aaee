"""Remotes that are away, slow, empty or unwilling, and machines on which git is set up in odd ways."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import InvalidInput, StoreBusy, StoreError, StoreUnavailable
from dibs.stores.vault.store import VaultStore
from dibs.sync.git import Clone, Published, is_clone
from dibs.sync.git.repository import Git

from .clones import PATIENCE, Machine, git
from .steps import HurriedGit

if TYPE_CHECKING:
    from pathlib import Path


def script(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


def empty(tmp_path: Path, name: str, remote: Path) -> Machine:
    git(tmp_path, "clone", "-q", str(remote), name)
    git(tmp_path / name, "checkout", "-q", "-B", "main")
    VaultStore(str(tmp_path / name), create=True, durable=False).close()
    return Machine(tmp_path / name)


def test_first_push_makes_the_branch(tmp_path: Path) -> None:
    remote = tmp_path / "empty.git"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    one, two = empty(tmp_path, "one", remote), empty(tmp_path, "two", remote)
    for where, name in ((one, "a"), (two, "b")):
        where.put(f"Needs_Action/{name}.md")
        with where.clone.turn():
            assert where.publish([f"Needs_Action/{name}.md"], name) is Published.ACCEPTED
    one.clone.pull()
    assert one.find("?.md") == two.find("?.md") == ["Needs_Action/a.md", "Needs_Action/b.md"]
    one.hold("ann", "b")
    assert git(remote, "fsck", "--strict") == ""


def test_pull_brings_a_vault_into_an_empty_folder(tmp_path: Path, remote: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "fresh")
    git(tmp_path / "fresh", "remote", "add", "origin", str(remote))
    fresh = Machine(tmp_path / "fresh")
    assert fresh.clone.pull().changed
    fresh.hold("ann", "a")
    assert fresh.status() == []


def test_silent_remote_is_given_up_in_time(tmp_path: Path, here: Machine) -> None:
    slow = script(tmp_path / "slow", f"sleep {10 * PATIENCE:g}")
    here.git("config", "remote.origin.uploadpack", str(slow))
    here.git("config", "remote.origin.receivepack", str(slow))
    hurried = Machine(here.path, git=HurriedGit(os.path.realpath(here.path), 0.5))
    started = time.monotonic()
    assert not hurried.clone.pull().reached
    assert hurried.clone.unreached == "no answer within 0.5 s"
    assert hurried.claim("ann", "a")[0] is Published.OFFLINE
    assert time.monotonic() - started < PATIENCE
    assert here.status() == []


def test_a_remote_that_will_not_have_it_says_why(here: Machine, remote: Path) -> None:
    script(remote / "hooks/pre-receive", "echo 'agents may not push on Sundays' >&2", "exit 1")
    before = here.files()
    with here.clone.turn(), here.desk() as desk:
        desk.claim("ann", refs=["a"])
        paths = ["Needs_Action/a.md", "In_Progress/ann/a.md"]
        with pytest.raises(StoreUnavailable, match="Sundays"):
            here.publish(paths, "ann claims a")
        here.clone.undo(paths)
    assert here.files() == before


def test_password_in_the_remote_url_is_never_shown(here: Machine) -> None:
    here.git("config", "remote.origin.url", "http://pat:hunter2@127.0.0.1:9/x.git")
    assert here.claim("ann", "a")[0] is Published.OFFLINE
    told = f"{here.clone.unreached} {here.clone.standing()!r} {here.clone!r}"
    assert "127.0.0.1" in told
    assert "hunter2" not in told
    assert "pat" not in told


def test_hooks_of_the_clone_do_not_run_for_agents(tmp_path: Path, here: Machine) -> None:
    ran = tmp_path / "ran"
    for name in ("pre-commit", "pre-push", "post-checkout", "post-merge", "reference-transaction", "post-index-change"):
        script(here.path / ".git/hooks" / name, f"echo {name} >> {ran}", "exit 1")
    here.hold("ann", "a")
    here.clone.pull()
    assert not ran.exists()


def test_machine_without_a_git_name_commits_as_dibs(
    here: Machine, remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", "/dev/null")
    monkeypatch.setenv("EMAIL", "")
    here.git("config", "user.useConfigOnly", "true")
    Machine(here.path).hold("ann", "a")
    assert git(remote, "log", "-1", "--format=%an %ae", "main") == "dibs dibs@localhost\n"


def test_settings_that_prompt_sign_or_redirect_are_ignored(
    tmp_path: Path, here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("commit.gpgSign", "true"), ("push.gpgSign", "true"), ("gpg.program", "false")):
        here.git("config", name, value)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere.git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "elsewhere.index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path))
    monkeypatch.setenv("GIT_TRACE", "1")
    clone = Machine(here.path)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    monkeypatch.delenv("GIT_WORK_TREE")
    clone.hold("ann", "a")
    assert not (tmp_path / "elsewhere.index").exists()


def test_missing_clone_or_remote_is_refused_with_a_remedy(tmp_path: Path, here: Machine) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    assert not is_clone(str(plain))
    with pytest.raises(StoreError, match="git clone"):
        Clone(str(plain))
    git(tmp_path, "init", "-q", "lone")
    assert not is_clone(str(tmp_path / "lone"))
    with pytest.raises(StoreUnavailable, match="git remote add"):
        Clone(str(tmp_path / "lone"))
    assert is_clone(str(here.path))
    assert not is_clone(str(here.path / "Needs_Action"))
    with pytest.raises(StoreUnavailable, match="It has: origin"):
        Clone(str(here.path), remote="upstream")
    with pytest.raises(InvalidInput):
        Clone(str(here.path), branch="-x..")


def test_missing_git_is_reported(here: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(StoreUnavailable, match="no git"):
        Clone(str(here.path))


def test_one_process_uses_git_in_a_clone_at_a_time(here: Machine) -> None:
    other = Clone(str(here.path), timeout=0.1, git=Git(os.path.realpath(here.path), PATIENCE))
    with here.clone.turn(), here.clone.turn(), pytest.raises(StoreBusy):
        other.pull()
    assert other.pull().reached or other.unreached


def test_branch_removed_at_the_remote_is_made_again(here: Machine, remote: Path) -> None:
    git(remote, "update-ref", "-d", "refs/heads/main")
    assert here.clone.pull().reached
    here.hold("ann", "a")
    assert "ann claims a" in git(remote, "log", "--format=%s", "main")


def test_file_larger_than_a_task_is_shared_too(here: Machine, there: Machine) -> None:
    here.put("Updates/large.bin", "x" * (17 << 20))
    with here.clone.turn():
        assert here.publish(["Updates/large.bin"], "large") is Published.ACCEPTED
    there.clone.pull()
    assert os.path.getsize(there.path / "Updates/large.bin") == 17 << 20
