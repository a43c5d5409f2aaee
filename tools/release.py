"""Check that this commit can be released, and build the wheel, the sdist and the bill of materials (`make release`).

A release is a commit whose version, changelog and tag agree: `__version__` in src/dibs/__init__.py, the first heading
of CHANGELOG.md with that version and a date, and the tag, if there is one. All problems are reported together.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]

_VERSION = re.compile(r'^__version__ = "(.+)"$', re.MULTILINE)
_HEADING = re.compile(r"^## (\S+), (.+)$", re.MULTILINE)
_NUMBERS = re.compile(r"(\d+)\.(\d+)\.(\d+)")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")


def complaints(root: Path) -> Iterator[str]:
    """The problems, each with the next step."""
    version = _found(_VERSION, root / "src" / "dibs" / "__init__.py")[0]
    headings = _HEADING.findall((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if not _NUMBERS.fullmatch(version):
        yield f"The version {version} is not MAJOR.MINOR.PATCH."
    if not headings or headings[0][0] != version:
        yield f"CHANGELOG.md does not begin with '## {version}, DATE'; the version is that of src/dibs/__init__.py."
    elif not _DATE.fullmatch(headings[0][1]):
        yield f"CHANGELOG.md says '{version}, {headings[0][1]}'; write the date of the release there."
    if _git(root, "status", "--porcelain"):
        yield "There are changes that are not committed."
    yield from _about_tags(root, version)


def _about_tags(root: Path, version: str) -> Iterator[str]:
    here = _git(root, "tag", "--points-at", "HEAD", "--list", "v*").split()
    others = [tag for tag in _git(root, "tag", "--list", "v*").split() if tag not in here]
    if here and here != [f"v{version}"]:
        yield f"HEAD is tagged {', '.join(here)}, and the version is {version}."
    if f"v{version}" in others:
        yield f"v{version} is released already, from another commit. Raise the version."
    elif any(_order(tag) > _order(version) for tag in others):
        yield f"A newer version than {version} is released already. Raise the version."


def _order(version: str) -> tuple[int, ...]:
    found = _NUMBERS.search(version)
    return tuple(map(int, found.groups())) if found else ()


def _found(pattern: re.Pattern[str], path: Path) -> list[str]:
    found: list[str] = pattern.findall(path.read_text(encoding="utf-8"))
    if len(found) != 1:
        raise SystemExit(f"{path} should have the version once; it has it {len(found)} times.")
    return found


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    wrong = list(complaints(ROOT))
    for complaint in wrong:
        print(f"✗ {complaint}")
    if wrong:
        return 1
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-d", "dist"], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "tools/sbom.py", "build/sbom.cdx.json"], cwd=ROOT, check=True)
    print("✓ fit to be released: tag this commit, and push the tag; the release workflow publishes it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
