"""The picture of the layers is what the code imports, and the page tells of every part."""

from __future__ import annotations

import import_graph
from docs.pages import ROOT
from docs.test_reference import coded, rows


def test_the_picture_is_drawn_from_the_code() -> None:
    now = "python tools/import_graph.py draws it anew"
    assert import_graph.PICTURE.read_text(encoding="utf-8") == import_graph.picture(), now


def test_every_part_of_the_code_is_explained() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    told = {coded(cells[0])[0] for cells in rows(page.partition("## The layers")[2].partition("\n## ")[0])[1:]}
    assert told == set(import_graph.imports())


def test_what_follows_from_other_lines_is_not_drawn() -> None:
    found = {"cli": {"desk", "stores", "core"}, "desk": {"stores", "core"}, "stores": {"core"}, "core": set[str]()}
    assert import_graph.shortest(found) == {"cli": {"desk"}, "desk": {"stores"}, "stores": {"core"}, "core": set()}
