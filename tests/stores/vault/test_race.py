"""Many processes and one folder: every file is won exactly once, whatever else goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.stores.port import Query

from .folder import claim
from .race import assert_each_was_won_once, race
from .steps import SteppedDisk

if TYPE_CHECKING:
    import pytest

    from .folder import Folder


def test_one_of_many_processes_wins_each_file(folder: Folder) -> None:
    assert_each_was_won_once(folder, race(folder, processes=8, files=400))


def test_claim_is_announced_before_it_waits_for_the_disk(folder: Folder) -> None:
    """Else each of them would run into every file that has just been taken."""
    folder.put("Needs_Action/a.md")
    heard: list[str] = []
    disk = SteppedDisk(lambda: heard.append(folder.read(".dibs/changes")), 1, steps=("write", "write_over"))
    with folder.open(disk=disk) as store:
        disk.arm()
        assert claim(store)
    assert ["In_Progress/ann/a.md" in one for one in heard] == [True]
    assert folder.read(".dibs/changes").count("In_Progress/ann/a.md") == 1, "and they hear of it once"


def test_first_change_is_noticed_without_another_sweep(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "ab":
        folder.put(f"Needs_Action/{name}.md")
    with folder.open() as early, folder.open() as first:
        assert len(early.find(Query())) == 2
        claim(first, "bob")
        looks: list[str] = []
        monkeypatch.setattr(early._vault.index, "sweep", lambda: looks.append("through all of it"))
        (claimed,) = claim(early, "ann")
        assert (claimed.task.id, looks) == ("b", [])
