"""Processes killed at each of their steps: the next one continues, and no task is lost, doubled or stuck."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreBusy
from dibs.core.lifecycle import Verb

from .clones import new_remote
from .crashes import ACTS, TEXTS, die_at_every_step, prepare

if TYPE_CHECKING:
    from pathlib import Path

    from support.clock import Clock

    from .clones import Machine


@pytest.fixture
def remote(tmp_path: Path) -> Path:
    return new_remote(tmp_path, {f"Needs_Action/{name}.md": text for name, text in TEXTS.items()})


@pytest.mark.timeout(3600)  # thousands of git commands
@pytest.mark.parametrize(("what", "kind"), ACTS)
def test_kill_at_any_step_blocks_no_other_process(
    tmp_path: Path, here: Machine, there: Machine, clock: Clock, what: str, kind: str
) -> None:
    """At every fourth step here; `make torture` dies at each."""
    stride = 1 if os.environ.get("DIBS_TORTURE") else 4
    prepare(what, here, there)
    assert die_at_every_step(tmp_path, what, kind, clock, stride=stride) > 4, "there was nothing to die at"


# Git itself killed


def test_old_lock_on_the_branch_is_removed(here: Machine, there: Machine) -> None:
    there.hold("bob", "a")
    lock = here.path / ".git/refs/heads/main.lock"
    lock.touch()
    with pytest.raises(StoreBusy, match=r"main\.lock"):
        here.clone.pull()
    os.utime(lock, (0, 0))
    here.clone.pull()
    assert here.find("a.md") == ["In_Progress/bob/a.md"]
    assert here.status() == []


def test_old_lock_on_the_remote_branch_is_removed(here: Machine, there: Machine) -> None:
    there.hold("bob", "a")
    lock = here.path / ".git/refs/remotes/origin/main.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    os.utime(lock, (0, 0))
    here.clone.pull()
    assert here.find("a.md") == ["In_Progress/bob/a.md"]


def test_own_stale_lock_on_the_index_is_removed(here: Machine, there: Machine) -> None:
    there.hold("bob", "a")
    marker, lock = here.path / ".git/dibs/marker", here.path / ".git/index.lock"
    marker.touch()
    os.link(marker, lock)
    here.clone.pull()
    assert not lock.exists()
    assert here.status() == []


def test_index_locked_by_another_git_is_reported(
    here: Machine, there: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dibs.sync.git.staged._PATIENCE", 0.2)
    lock = here.path / ".git/index.lock"
    lock.touch()
    claimed = here.hold("ann", "a")  # that the remote took it counts; the index follows later
    there.hold("bob", "b")
    assert claimed.task.lease is not None
    with here.desk() as desk:
        desk.move(Verb.DONE, "a", token=claimed.task.lease.token)
    with pytest.raises(StoreBusy, match=r"index\.lock"):
        here.clone.pull()
    lock.unlink()
    assert here.clone.settle() == ("Done/a.md",)
    assert here.status() == []
    assert here.find("b.md") == ["In_Progress/bob/b.md"]


def test_edit_swapped_out_by_a_killed_process_is_kept(here: Machine) -> None:
    left = here.path / ".dibs/incoming-1-0/Needs_Action"
    left.mkdir(parents=True)
    (left / "a.md").write_text("saved in the last instant\n")
    (left / "b.md").write_text(TEXTS["b"])
    here.clone.pull()
    (kept,) = here.find("* kept-*.md")
    assert here.read(kept) == "saved in the last instant\n"
    assert not (here.path / ".dibs/incoming-1-0").exists()
