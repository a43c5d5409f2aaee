"""Health, metrics, and servers whose store is replaced."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from dibs.core.errors import NoStore
from dibs.core.task import Draft
from dibs.desk import open_desk
from dibs.serve import live
from dibs.serve.live import Hub
from dibs.serve.metrics import Metrics
from support.http import PATIENCE, Server
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from pathlib import Path


def test_server_on_a_vault_reports_claim_coordination(tmp_path: Path) -> None:
    url = f"vault:///{tmp_path}"
    with open_desk(url, create=True) as desk:
        desk.add([Draft("Water the plants", "plants.md"), Draft("Feed the cat", "cat.md")])
    server = Server(url)
    try:
        assert _coordination(server)["claim_success_rate"] == 1.0
        server.ok("POST", "claims", {"agent": "ann"})
        server.fails(409, "HELD", "POST", "claims", {"agent": "bob", "ids": ["plants.md", "cat.md"]})
        assert _coordination(server) == {
            "agent_name": "dibs-serve",
            "active_claims": 1,
            "total_claims": 1,
            "claim_conflicts_avoided": 1,
            "claim_success_rate": 0.5,
        }
    finally:
        server.end()


def _coordination(server: Server) -> Any:
    """As the server reports it; on a busy machine the vault may be too slow for one check of its health."""
    deadline = time.monotonic() + PATIENCE
    while (answer := server.ask("GET", "/health/ready")).status == 503:
        assert time.monotonic() < deadline
    assert answer.status == 200, answer
    return answer.data["coordination"]


async def _trouble_and_its_end(path: Path) -> None:
    hub = Hub(lambda: open_desk(str(path)), Metrics())
    hub.start()
    for _ in range(3):
        with pytest.raises(NoStore):
            await hub.refresh()
        await asyncio.sleep(0.05)
    open_desk(str(path), create=True).close()
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(NoStore):
                await hub.refresh()
                break
            await asyncio.sleep(0.05)
    hub.close()
    await asyncio.to_thread(hub.join)


def test_outage_is_logged_at_begin_and_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "_TROUBLE", 0.01)
    monkeypatch.setattr(live, "_REFRESH", PATIENCE)  # a busy machine may take longer than the usual limit
    asyncio.run(_trouble_and_its_end(tmp_path / "dibs.db"))
    first, last = (record.getMessage() for record in caplog.records if record.name == "dibs.serve")
    assert first.startswith("events cannot be read: There is no store")
    assert last == "events can be read again"


@pytest.mark.parametrize("again", [True, False], ids=["and made again", "and gone"])
def test_server_whose_store_is_deleted_acknowledges_nothing(tmp_path: Path, again: bool) -> None:
    home = tmp_path / ".dibs"
    home.mkdir()
    url = f"sqlite:///{home}/dibs.db"
    with open_desk(url, create=True) as desk:
        desk.add([Draft("Sweep", "sweep")])
    server = Server(url)
    try:
        assert server.ok("POST", "claims", {"agent": "ann"})
        shutil.rmtree(home)
        if again:
            home.mkdir()
            with open_desk(url, create=True) as desk:
                desk.add([Draft("Sweep", "sweep")])
        for _ in range(12):  # more than the server has desks
            assert server.ask("POST", "tasks", {"tasks": [{"title": "lost"}]}).status >= 500
        assert server.ask("GET", "/health/ready").status == 503
        assert server.ask("POST", "claims", {"agent": "bob"}).status >= 500
    finally:
        server.end()
    if again:
        with open_desk(url) as desk:
            assert [task.title for task in desk.ready(limit=9)] == ["Sweep"]
    else:
        assert not home.exists()


def test_server_whose_schema_is_recreated_acknowledges_nothing() -> None:
    schema = f"dibs_anew_{os.getpid()}"
    url = f"{shared_url()}&schema={schema}"
    with closing(psycopg2.connect(shared_url())) as admin, admin.cursor() as cursor:
        admin.autocommit = True
        try:
            _make_with_a_task(url)
            server = Server(url)
            try:
                assert server.ok("POST", "claims", {"agent": "ann"})
                cursor.execute(f"SET client_min_messages = warning; DROP SCHEMA {schema} CASCADE")
                _make_with_a_task(url)
                for _ in range(12):  # more than the server has desks
                    answer = server.ask("POST", "tasks", {"tasks": [{"title": "lost"}]})
                    assert (answer.status, answer.data["code"]) == (503, "STORE_REPLACED")
                assert server.ask("GET", "/health/ready").status == 503
            finally:
                server.end()
            with open_desk(url) as desk:
                assert [task.title for task in desk.ready(limit=9)] == ["Sweep"]
        finally:
            cursor.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def _make_with_a_task(url: str) -> None:
    with open_desk(url, create=True) as desk:
        desk.add([Draft("Sweep", "sweep")])


def test_metrics_cover_the_last_hour(shared: Server) -> None:
    before = float(metric(shared, 'dibs_last_hour_attempts{scope="default",outcome="finished"}') or 0)
    shared.ok("POST", "tasks", {"tasks": [{"title": "One", "id": "trend", "labels": ["web"]}]})
    (claimed,) = shared.ok("POST", "claims", {"agent": "trendy", "ids": ["trend"]})["claimed"]
    shared.ok("POST", "tasks/trend/done", {"token": claimed["token"]})
    assert metric(shared, 'dibs_last_hour_attempts{scope="default",outcome="finished"}') == f"{before + 1:g}"
    assert metric(shared, 'dibs_last_hour_agent_attempts{scope="default",agent="trendy",outcome="finished"}') == "1"
    assert metric(shared, 'dibs_last_hour_label_attempts{scope="default",label="web",outcome="finished"}') == "1"
    assert metric(shared, 'dibs_last_hour_run_seconds{scope="default",quantile="0.5"}')


def metric(server: Server, name: str) -> str | None:
    text = server.ask("GET", "/metrics").body.decode()
    return next((line.removeprefix(name).strip() for line in text.splitlines() if line.startswith(name)), None)
