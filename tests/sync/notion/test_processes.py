"""The installed program, killed after Notion did its request and before it answered."""

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
from dibs.lab.emulator import Emulator, kurultai_schema
from dibs.stores.notion.http import HttpGateway
from dibs.stores.sqlite.store import SqliteStore
from dibs.sync.notion.syncing import Options, Sync
from sync.notion.scene import ANN, FLEET, cells

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.sync.notion.report import Report

SCRIPT = Path(sys.executable).with_name("dibs")


@pytest.fixture
def notion() -> Iterator[Emulator]:
    with Emulator() as emulator:
        yield emulator


def test_killed_sync_is_continued(notion: Emulator, tmp_path: Path) -> None:
    database = notion.database(kurultai_schema()).id
    page = notion.page(database, cells(name="Research", sender=ANN, status="Ready", priority="Low", agent="Jochi"))
    place = str(tmp_path / "tasks.db")
    gateway = HttpGateway(notion.token, notion.url)

    def now() -> datetime:
        return datetime.now(UTC)  # noqa: TID251 - the program uses this clock

    def later() -> datetime:
        return now() + timedelta(minutes=3)

    def sync(clock: Callable[[], datetime]) -> Report:
        with SqliteStore(place, clock=clock) as store:
            return Sync(Desk(store), gateway, ANN, Options(database, FLEET)).run()

    with SqliteStore(place, create=True) as store:
        Desk(store, scope=ANN).configure({"notion_integration_enabled": True})
    sync(now)
    with SqliteStore(place) as store:
        (task,) = Desk(store, scope=ANN).graph().tasks
        Desk(store, scope=ANN).edit(task.id, Edit(priority=-1.0))
    held = notion.faults.hold("PATCH", after_commit=True)
    began = now()
    environment = {
        "NOTION_API_BASE_URL": notion.url,
        "NOTION_TOKEN": notion.token,
        "NOTION_DATABASE_ID": database,
        "XDG_CACHE_HOME": str(tmp_path),
    }
    words = [str(SCRIPT), "sync", "notion", "--sender-hash", ANN, "--store", f"sqlite:///{place}"]
    with subprocess.Popen(words, env=os.environ | environment, stdout=subprocess.DEVNULL) as program:
        held.wait_for_arrival(120)
        program.kill()
    held.release()
    with pytest.raises(Held):
        sync(lambda: began)  # the program's lease is still live then
    report = sync(later)
    assert (report.applied, report.skipped, report.status) == ((), (), "success")
    assert gateway.page(page)["properties"]["Priority"]["select"]["name"] == "Critical"
    assert not sync(later).eventful
    gateway.close()
