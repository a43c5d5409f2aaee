"""What a server tells of itself and its store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.opening import open_store
from serve.place import Server

if TYPE_CHECKING:
    from pathlib import Path


def test_a_server_on_a_vault_tells_how_claims_go_there(tmp_path: Path) -> None:
    url = f"vault:///{tmp_path}"
    with open_store(url, create=True) as store:
        Desk(store).add([Draft("Water the plants", "plants.md"), Draft("Feed the cat", "cat.md")])
    server = Server(url)
    try:
        assert server.ok("GET", "/health/ready")["coordination"]["claim_success_rate"] == 1.0
        server.ok("POST", "claims", {"agent": "ann"})
        assert server.ok("GET", "/health/ready")["coordination"] == {
            "agent_name": "dibs-serve",
            "active_claims": 1,
            "total_claims": 1,
            "claim_conflicts_avoided": 0,
            "claim_success_rate": 1.0,
        }
    finally:
        server.end()
