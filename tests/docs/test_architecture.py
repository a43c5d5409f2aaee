"""The picture of the layers is drawn from the code, and the page names every package and only files that exist."""

from __future__ import annotations

import re

import import_graph
from dibs.core import lifecycle
from dibs.stores.port import Store
from docs.pages import ROOT
from docs.test_reference import coded, rows

PAGE = ROOT / "docs" / "explanation" / "architecture.md"


def test_the_picture_is_drawn_from_the_code() -> None:
    now = "python tools/import_graph.py updates it"
    assert import_graph.PICTURE.read_text(encoding="utf-8") == import_graph.picture(), now


def test_every_package_is_explained() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Packages")[2].partition("\n## ")[0]
    explained = {name for cells in rows(section)[1:] for name in coded(cells[0])}
    assert explained == set(import_graph.imports())


def test_named_files_exist() -> None:
    named = set(re.findall(r"`([\w/]+\.(?:py|sql)|tests/\w+)`", PAGE.read_text(encoding="utf-8"))) - {"policy.py"}
    assert len(named) > 20
    assert [name for name in sorted(named) if not any((top / name).exists() for top in (ROOT, ROOT / "src/dibs"))] == []


def test_pages_state_the_size_of_the_port() -> None:
    verbs = {name for name, value in vars(Store).items() if callable(value) and not name.startswith("_")} - {"close"}
    parts = {name for name, value in vars(Store).items() if isinstance(value, property)} - {"capabilities"}
    assert len(verbs) <= 25
    page = PAGE.read_text(encoding="utf-8")
    assert parts == {"fleet", "vectors", "settings", "output"}
    named = "`fleet`, `vectors`, `settings` and `output`"
    assert f"one port of {len(verbs)} verbs and four optional parts: {named}" in page
    assert f"implements {len(verbs)} verbs" in (ROOT / "docs/explanation/one-core.md").read_text(encoding="utf-8")


def test_pages_name_the_sql_that_mirrors_the_lifecycle() -> None:
    folder = ROOT / "src/dibs/stores/postgres"
    migration = (folder / "migrations/0008_store.sql").read_text(encoding="utf-8")
    queries = (folder / "queries.sql").read_text(encoding="utf-8")
    bodies = migration.split("CREATE FUNCTION ")[1:] + queries.split("\n-- name: ")[1:]
    mirrors = {
        re.split(r"[(\n]", body)[0]
        for body in bodies
        if re.search(r"\bstatus = '(active|done)', updated_at|expires_at = desk_now", body)
    }
    assert {"claim_head", "renew", "finish", "lease_out"} <= mirrors
    for text in (lifecycle.__doc__ or "", PAGE.read_text(encoding="utf-8")):
        assert all(f"`{name}`" in text for name in mirrors), mirrors


def test_implied_imports_are_not_drawn() -> None:
    found = {"cli": {"desk", "stores", "core"}, "desk": {"stores", "core"}, "stores": {"core"}, "core": set[str]()}
    assert import_graph.shortest(found) == {"cli": {"desk"}, "desk": {"stores"}, "stores": {"core"}, "core": set()}
