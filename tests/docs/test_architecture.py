"""The picture of the layers is what the code imports, and the page tells of every part."""

from __future__ import annotations

import re

import import_graph
from dibs.core import lifecycle
from dibs.stores.port import Store
from docs.pages import ROOT
from docs.test_reference import coded, rows


def test_the_picture_is_drawn_from_the_code() -> None:
    now = "python tools/import_graph.py draws it anew"
    assert import_graph.PICTURE.read_text(encoding="utf-8") == import_graph.picture(), now


def test_every_part_of_the_code_is_explained() -> None:
    page = (ROOT / "docs" / "explanation" / "architecture.md").read_text(encoding="utf-8")
    told = {coded(cells[0])[0] for cells in rows(page.partition("## The layers")[2].partition("\n## ")[0])[1:]}
    assert told == set(import_graph.imports())


def test_pages_state_the_size_of_the_port() -> None:
    verbs = {name for name, value in vars(Store).items() if callable(value) and not name.startswith("_")} - {"close"}
    parts = {name for name, value in vars(Store).items() if isinstance(value, property)} - {"capabilities"}
    assert len(verbs) <= 25
    page = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    named = ", ".join(f"`{part}`" for part in ("fleet", "vectors"))
    assert parts == {"fleet", "vectors", "settings"}
    assert f"one port of {len(verbs)} verbs and three optional parts: {named} and `settings`" in page
    assert f"implements {len(verbs)} verbs" in (ROOT / "docs/explanation/one-core.md").read_text(encoding="utf-8")


def test_pages_name_the_sql_that_mirrors_the_lifecycle() -> None:
    sql = (ROOT / "src/dibs/stores/postgres/migrations/0001_desk.sql").read_text(encoding="utf-8")
    bodies = sql.split("CREATE FUNCTION ")[1:]
    mirrors = {
        body.partition("(")[0] for body in bodies if re.search(r"\bstatus = '(active|done)', updated_at|^renew", body)
    }
    mirrors |= {"claim_named", "finish_all"}  # which call them
    for text in (lifecycle.__doc__ or "", (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")):
        assert all(f"`{name}`" in text for name in mirrors), mirrors


def test_what_follows_from_other_lines_is_not_drawn() -> None:
    found = {"cli": {"desk", "stores", "core"}, "desk": {"stores", "core"}, "stores": {"core"}, "core": set[str]()}
    assert import_graph.shortest(found) == {"cli": {"desk"}, "desk": {"stores"}, "stores": {"core"}, "core": set()}
