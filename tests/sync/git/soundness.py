"""Invariants of clones and their remote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .clones import git

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from .clones import Machine


def assert_sound(remote: Path, machines: list[Machine], texts: Mapping[str, str]) -> None:
    """After a last sync: all clones agree, every task has one file with its text, and git finds no error."""
    for machine in machines:
        machine.clone.pull()
    for machine in machines:
        assert machine.head() == git(remote, "rev-parse", "main").strip()
        assert machine.files() == machines[0].files()
        assert machine.status() == []
        for task, text in texts.items():
            (place,) = machine.find(f"{task}.md")
            assert text in machine.read(place)
    for repository in (remote, *(machine.path for machine in machines)):
        git(repository, "fsck", "--strict", "--no-dangling")
    assert_no_markers(remote)


def assert_no_markers(remote: Path) -> None:
    added = git(remote, "log", "-p", "--no-renames", "--format=", "main")
    assert not [line for line in added.splitlines() if line.startswith(("+<<<<<<<", "+>>>>>>>", "+======="))]


def twice_in_one_commit(remote: Path) -> list[str]:
    """Tasks that lay in two places at once in any commit: never should one."""
    found = []
    for commit in git(remote, "rev-list", "main").split():
        names = git(remote, "ls-tree", "-r", "-z", "--name-only", commit).split("\0")
        tasks = [name.rpartition("/")[2] for name in names if name.endswith(".md") and not name.startswith("Errors/")]
        found += [f"{commit} {task}" for task in set(tasks) if tasks.count(task) > 1]
    return found
