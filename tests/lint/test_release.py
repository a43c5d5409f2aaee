"""A tree is fit to be released when its version, its changelog and its tags agree."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

import release

if TYPE_CHECKING:
    from pathlib import Path


def git(tree: Path, *words: str) -> None:
    name = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
    subprocess.run(["git", *name, *words], cwd=tree, check=True, capture_output=True)


def write(tree: Path, version: str, heading: str) -> None:
    (tree / "src" / "dibs" / "__init__.py").write_text(f'__version__ = "{version}"\n', encoding="utf-8")
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## {heading}\n", encoding="utf-8")
    git(tree, "add", ".")
    git(tree, "commit", "--quiet", "-m", heading)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src" / "dibs").mkdir(parents=True)
    git(tmp_path, "init", "--quiet")
    write(tmp_path, "1.2.0", "1.2.0, 2026-01-31")
    return tmp_path


def test_a_tree_that_agrees_is_fit_before_and_after_it_is_tagged(tree: Path) -> None:
    assert list(release.complaints(tree)) == []
    git(tree, "tag", "v1.2.0")
    assert list(release.complaints(tree)) == []


@pytest.mark.parametrize(
    ("version", "heading", "told"),
    [
        ("1.3.0", "1.2.0, 2026-01-31", "does not begin with '## 1.3.0, DATE'"),
        ("1.3.0", "1.3.0, unreleased", "write the date"),
        ("1.3", "1.3, 2026-02-01", "is not MAJOR.MINOR.PATCH"),
        ("1.2.0", "1.2.0, 2026-02-01", "released already, from another commit"),
        ("1.1.9", "1.1.9, 2026-02-01", "A newer version than 1.1.9"),
    ],
)
def test_disagreement_is_reported(tree: Path, version: str, heading: str, told: str) -> None:
    git(tree, "tag", "v1.2.0")
    write(tree, version, heading)
    assert told in " ".join(release.complaints(tree))


def test_uncommitted_changes_prevent_a_release(tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text("## 1.2.0, 2026-01-31\n", encoding="utf-8")
    assert list(release.complaints(tree)) == ["There are changes that are not committed."]
