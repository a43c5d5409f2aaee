"""`dibs notion check`: the assumptions of timed claims, true and false."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from dibs.cli.main import main
from dibs.stores.notion.health import probe

if TYPE_CHECKING:
    from .desk import Place


@pytest.mark.parametrize("layout", ["ntask", "mesh", "dibs"])
def test_probe_of_a_correct_notion_leaves_no_page(place: Place, layout: str) -> None:
    store = place.open(layout)
    checks = probe(f"{place.database}?layout={layout}", rounds=3)
    assert [(one.name, one.ok) for one in checks] == [
        ("reads are current", True), ("writes are whole", True), ("edits are dated", True),
    ]  # fmt: skip
    assert store._db.listed() == []


def test_probe_notices_stale_reads(place: Place) -> None:
    place.open()
    place.notion.faults.stale_reads = 60.0
    place.clock.advance(minutes=5)
    checks = {one.name: one for one in probe(place.database, rounds=3)}
    assert not checks["reads are current"].ok
    assert "arbiter" in checks["reads are current"].message


def test_command_reports_each_check(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    place.open()
    assert main(["notion", "check", "--rounds", "2", "--store", f"notion://{place.database}", "--json"]) == 0
    assert [one["ok"] for one in json.loads(capsys.readouterr().out)["data"]["checks"]] == [True, True, True]
    assert main(["notion", "check", "--store", "sqlite:///nothing.db"]) != 0
    assert "not a Notion database" in capsys.readouterr().err
