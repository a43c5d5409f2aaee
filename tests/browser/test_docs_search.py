"""The documentation's search works when its pages are opened from a folder, without a server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_ROOT = Path(__file__).parents[2]


def test_search_finds_pages_opened_from_a_folder(browser: Browser, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "-q", "-f", _ROOT / "mkdocs.yml", "--site-dir", tmp_path / "site"],
        check=True,
        capture_output=True,
        env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"},
    )
    page = browser.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "site" / "howto" / "board.html").as_uri())
    page.locator("input.md-search__input").click()
    page.keyboard.type("worktree")
    expect(page.locator(".md-search-result__item").first).to_be_visible()
    page.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:", "blob:"))] == []
