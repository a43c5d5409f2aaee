"""Every session on every page answers as the page says, every program on it runs, and every link leads somewhere."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from docs.pages import ROOT, blocks, exchanges, name_of, pages, sessions
from docs.replay import replay
from docs.shell import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

_RUNNABLE = frozenset({"console", "python"})
_SHOWN = frozenset({"yaml", "json", "sh", "text", "cypher", "py", "ts"})  # only looked at, or saved as a file
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def _runs(page: Path) -> bool:
    return any(block.kind in _RUNNABLE for block in blocks(page.read_text(encoding="utf-8")))


@pytest.mark.timeout(2 * PATIENCE)
@pytest.mark.parametrize("page", [page for page in (*pages(), *sessions()) if _runs(page)], ids=name_of)
def test_page_sessions_match_real_output(page: Path, tmp_path: Path) -> None:
    for answered in replay(page.read_text(encoding="utf-8"), tmp_path):
        where = f"{name_of(page)}:{answered.exchange.line}"
        promised, answer = "\n".join(answered.exchange.answer), "\n".join(answered.answer)
        assert answered.fits, f"{where}: $ {answered.typed}\n--- the page says\n{promised}\n--- it answers\n{answer}\n"


@pytest.mark.parametrize("page", [*pages(), *sessions()], ids=name_of)
def test_every_block_is_of_a_known_kind(page: Path) -> None:
    comments = {"file", "new project", "setup"}
    found = blocks(page.read_text(encoding="utf-8"))
    assert {block.kind for block in found} <= _RUNNABLE | _SHOWN | comments
    commands = "\n".join(one.command for block in found if block.kind == "console" for one in exchanges(block))
    saved = [block.text.rpartition("/")[2] for block in found if block.kind == "file"]
    assert [name for name in saved if name not in commands] == [], "a saved file is used by a command below it"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in _LINK.findall(text):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)}: {target}"
        if anchor:
            assert anchor in _anchors(there), f"{name_of(page)}: {target}"


def test_every_page_is_in_the_index() -> None:
    index = ROOT / "docs" / "README.md"
    linked = {(index.parent / target).resolve() for target in _LINK.findall(index.read_text(encoding="utf-8"))}
    assert {page for page in pages() if page.is_relative_to(index.parent)} == {*linked, index}


def test_the_readme_shows_the_two_commands_and_the_makefile_has_them() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in ("run", "test"):
        assert f"make {command}" in readme
        assert command in targets
    mentioned = {name for page in pages() for name in re.findall(r"`make (\w+)`", page.read_text(encoding="utf-8"))}
    assert mentioned <= set(targets)


def _anchors(page: Path) -> set[str]:
    """Headings as GitHub turns them into anchors."""
    found = _HEADING.findall(page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}
