"""The pages make a site: each in its section, no link that leads nowhere, nothing fetched from outside."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

_FETCHED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?(https?:|//)[^>]*>")


def build(config: Path, site: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--config-file", config, "--site-dir", site],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_the_site_builds_with_every_page_in_its_section(tmp_path: Path) -> None:
    built = build(ROOT / "mkdocs.yml", tmp_path)
    assert built.returncode == 0, built.stderr
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    places = [
        home.index(f'id="{name}"') for name in ("tutorial", "how-to-guides", "reference", "explanation", "decisions")
    ]
    assert places == sorted(places)
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not _FETCHED.search(text), f"{page.name} fetches something from outside"
        assert "<!-- setup" not in text


def test_a_link_or_an_anchor_that_leads_nowhere_stops_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "tools").symlink_to(ROOT / "tools")
    (tmp_path / "mkdocs.yml").write_text((ROOT / "mkdocs.yml").read_text(encoding="utf-8"), encoding="utf-8")
    index = "# All\n\n## Reference\n\n- [One](one.md)\n"
    (tmp_path / "docs" / "README.md").write_text(index, encoding="utf-8")
    (tmp_path / "docs" / "one.md").write_text("# One\n\n[a](none.md) [b](README.md#none)\n", encoding="utf-8")
    (tmp_path / "docs" / "two.md").write_text("# Two\n", encoding="utf-8")
    built = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert built.returncode != 0
    assert "'none.md'" in built.stderr
    assert "'README.md#none'" in built.stderr
    assert "two.md" in built.stderr, "readers cannot find a page outside the navigation"
