"""A large import into a Neo4j server with 2 GB of heap, in one uninterrupted run of the installed command."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dibs.core.lifecycle import ClaimRequest
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import Query
from neo4j_server import Server
from support.neo4j import admin_of, url_of

pytestmark = [pytest.mark.xdist_group("neo4j-server"), pytest.mark.timeout(7200)]

SCRIPT = Path(sys.executable).with_name("dibs")
TASKS, EACH, EXTRA = 100_000, 3, 6  # the last few tasks have one more prerequisite: 300,000 links
HEAP = 2 << 30
MOMENT = "2026-01-01T00:00:00Z"


def exported(path: Path) -> int:
    """Write an export in which each task waits for three earlier ones, and return the number of links."""
    pick = random.Random(7)
    each = [min(EACH + (task >= TASKS - EXTRA), task) for task in range(TASKS)]
    pairs = [(task, on) for task in range(TASKS) for on in pick.sample(range(task), each[task])]
    times = dict.fromkeys(("created_at", "updated_at", "queued_at"), MOMENT)
    with path.open("w", encoding="utf-8") as file:
        for number in range(TASKS):
            task = {"kind": "task", "scope": "large", "id": f"t{number:06}", "title": f"Task {number}", **times}
            file.write(json.dumps({**task, "status": "ready"}) + "\n")
        for one, on in pairs:
            link = {"task": f"t{one:06}", "on": f"t{on:06}", "kind": "blocks"}
            file.write(json.dumps({"kind": "link", "scope": "large", "link": link}) + "\n")
    return len(pairs)


def heap_of(url: str) -> dict[str, int]:
    """The limit of the heap, and the most bytes that each of its pools has held."""
    ask = "CALL dbms.queryJmx($what) YIELD name, attributes RETURN name, attributes"

    def told(attribute: Any, which: str) -> int:
        return int(attribute["value"]["properties"][which])

    (memory,) = admin_of(url).execute_query(ask, what="java.lang:type=Memory").records
    pools = admin_of(url).execute_query(ask, what="java.lang:type=MemoryPool,*").records
    peaks = {
        pool["attributes"]["Name"]["value"]: told(pool["attributes"]["PeakUsage"], "used")
        for pool in pools
        if pool["attributes"]["Type"]["value"] == "HEAP"
    }
    return {"limit": told(memory["attributes"]["HeapMemoryUsage"], "max"), **peaks}


def test_large_import_needs_2_gb_of_heap(tmp_path: Path) -> None:
    links = exported(tmp_path / "large.jsonl")
    server = Server(heap="2g")
    try:
        url = f"{url_of(server)}?desk=large"
        Neo4jStore(url, create=True).close()
        words = ("import", str(tmp_path / "large.jsonl"), "--store", url)
        began = time.monotonic()
        ran = subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False)
        took = time.monotonic() - began
        assert ran.returncode == 0, ran.stderr[-2000:]
        heap = heap_of(url_of(server))
        print(f"{TASKS:,} tasks, {links:,} links: {took:.0f} s, most bytes of heap: {heap}")  # noqa: T201 - figures
        assert heap["limit"] <= HEAP
        assert "OutOfMemory" not in server.log()
        count = (
            "MATCH (t:Task {desk: 'large'}) WITH count(t) AS tasks"
            " MATCH (:Task)-[d:DEPENDS_ON]->() RETURN tasks, count(d) AS links"
        )
        (row,) = admin_of(url_of(server)).execute_query(count).records
        assert (row["tasks"], row["links"]) == (TASKS, links) == (100_000, 300_000)
        with Neo4jStore(url) as store:
            assert [task.blockers for task in store.find(Query("large", limit=5))] == [0, 1, 2, 3, 3]
            assert [task.id for task in store.peek(ClaimRequest("ann", (), "large"), 5)] == ["t000000"]
    finally:
        server.remove()
