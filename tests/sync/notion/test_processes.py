"""The installed program, killed for real while Notion has done what it asked but has not yet said so."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held
from dibs.core.task import Edit
from dibs.desk import Desk
from dibs.emulator.notion import Emulator, kurultai_schema
from dibs.stores.notion.http import HttpGateway
from dibs.stores.sqlite.store import SqliteStore
from dibs.sync.notion.syncing import Options, Sync
from sync.notion.scene import ANN, FLEET, cells

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.sync.notion.report import Report

SCRIPT = Path(sys.executable).with_name("dibs")


@pytest.fixture
def notion() -> Iterator[Emulator]:
    with Emulator() as emulator:
        yield emulator


def test_a_program_that_is_killed_while_it_writes_is_gone_on_with(notion: Emulator, tmp_path: Path) -> None:
    database = notion.database(kurultai_schema()).id
    page = notion.page(database, cells(name="Research", sender=ANN, status="Ready", priority="Low", agent="Jochi"))
    place = str(tmp_path / "tasks.db")
    gateway = HttpGateway(notion.token, notion.url)

    def sync(ahead: timedelta) -> Report:
        with SqliteStore(place, clock=lambda: datetime.now(UTC) + ahead) as store:  # noqa: TID251 - the real time
            return Sync(store, gateway, ANN, Options(database, FLEET)).run()

    with SqliteStore(place, create=True) as store:
        Desk(store, scope=ANN).configure({"notion_integration_enabled": True})
    sync(timedelta(0))
    with SqliteStore(place) as store:
        (task,) = Desk(store, scope=ANN).graph().tasks
        Desk(store, scope=ANN).edit(task.id, Edit(priority=-1.0))
    held = notion.faults.hold("PATCH", after_commit=True)
    environment = {
        "NOTION_API_BASE_URL": notion.url,
        "NOTION_TOKEN": notion.token,
        "NOTION_DATABASE_ID": database,
        "XDG_CACHE_HOME": str(tmp_path),
    }
    words = [str(SCRIPT), "sync", "notion", "--sender-hash", ANN, "--store", f"sqlite:///{place}"]
    with subprocess.Popen(words, env=os.environ | environment, stdout=subprocess.DEVNULL) as program:
        held.wait_for_arrival(60)
        program.kill()
    held.release()
    with pytest.raises(Held):
        sync(timedelta(0))
    report = sync(timedelta(minutes=3))
    assert (report.applied, report.skipped, report.status) == ((), (), "success")
    assert gateway.page(page)["properties"]["Priority"]["select"]["name"] == "Critical"
    assert not sync(timedelta(minutes=3)).eventful
    gateway.close()
