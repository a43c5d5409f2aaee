"""The lint rule that only the Desk calls a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import one_way_in

if TYPE_CHECKING:
    from pathlib import Path

ROOT = "src/dibs"


@pytest.mark.parametrize(
    "line",
    [
        "from dibs.stores.port import Query, Store",
        "from dibs.stores.opening import open_store",
        "from dibs.stores.sqlite.store import SqliteStore",
        "desk.store.claim(request)",
        "self._desk.store.now()",
        "self._desk._store.now()",
    ],
)
def test_a_way_past_the_desk_is_found(line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "serve").mkdir()
    (tmp_path / "serve" / "new.py").write_text(f"x = 1\n{line}\n")
    assert one_way_in.main(str(tmp_path)) == 1
    assert "new.py:2: " in capsys.readouterr().out


@pytest.mark.parametrize(
    "line", ["from dibs.stores.port import Query", "from dibs.desk import open_desk", "url = args.store or None"]
)
def test_values_and_options_are_fine(line: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(f"{line}\n")
    assert one_way_in.main(str(tmp_path)) == 0


def test_the_desk_and_the_stores_may(tmp_path: Path) -> None:
    (tmp_path / "desk.py").write_text("from dibs.stores.port import Store\n")
    assert one_way_in.main(str(tmp_path)) == 0


def test_the_source_keeps_the_rule(request: pytest.FixtureRequest) -> None:
    assert one_way_in.main(str(request.config.rootpath / ROOT)) == 0
