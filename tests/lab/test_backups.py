"""An export made while a fleet works is the store at one moment, and goes into another kind of store whole."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter, defaultdict
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dibs.lab.torture.crew import Crew, Terms
from dibs.lab.torture.experiments import Planner
from dibs.lab.torture.places import place_beside
from dibs.stores.opening import open_store
from support import neo4j, postgres_server
from support.cli import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab")]

PATIENCE = 120.0  # seconds until the fleet has done some of everything
FINISHED = {"done", "canceled"}


class Export(NamedTuple):
    tasks: dict[str, dict[str, Any]]
    links: list[dict[str, Any]]
    events: list[dict[str, Any]]


@contextmanager
def a_fleet(url: str, folder: Path) -> Iterator[None]:
    """At work with all its mischief, until it is left."""
    planner = Planner(url, str(folder / "planner.jsonl"), seed=5, size=60, enough=20)
    crew = Crew(3, Terms(url, str(folder), {}, 5, 1.0, 0.02, 0.0, "", 2.0))
    planner.start()
    try:
        yield
    finally:
        (folder / "stop").touch()
        crew.end()
        planner.end()
    assert crew.breakdowns == []


def export(url: str, path: Path) -> Export:
    subprocess.run([SCRIPT, "export", str(path), "--store", url], check=True, capture_output=True)
    found = Export({}, [], [])
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        kind = record.pop("kind")
        if kind == "task":
            assert record["id"] not in found.tasks
            found.tasks[record["id"]] = record
        elif kind == "link":
            found.links.append(record["link"])
        elif kind == "event":
            found.events.append(record)
    return found


def assert_one_moment(taken: Export) -> None:
    """Tasks, links and events agree: each task has as many claims as attempts, and an end if it ended."""
    claims: Counter[str] = Counter()
    said: defaultdict[str, list[str]] = defaultdict(list)
    for event in taken.events:
        if event.get("outcome", "ok") == "ok":
            claims[event["task"]] += event["verb"] == "claim"
            said[event["task"]].append(event["verb"])
    waiting = Counter(
        link["task"]
        for link in taken.links
        if link["kind"] == "blocks" and taken.tasks[link["on"]]["status"] not in FINISHED
    )
    for id_, task in taken.tasks.items():
        assert claims[id_] == task.get("attempt", 0), id_
        assert ("done" in said[id_]) == (task["status"] == "done"), id_
        assert (task.get("result") is not None) == (task["status"] == "done"), id_
        if task["status"] not in FINISHED:
            assert task.get("blockers", 0) == waiting[id_], id_


def assert_later(earlier: Export, later: Export) -> None:
    assert earlier.tasks.keys() <= later.tasks.keys()
    assert all(task.get("attempt", 0) <= later.tasks[id_].get("attempt", 0) for id_, task in earlier.tasks.items())
    assert [event["seq"] for event in earlier.events] == [event["seq"] for event in later.events[: len(earlier.events)]]


@pytest.mark.parametrize("other", ["postgresql", "neo4j"] if os.environ.get("DIBS_TORTURE") else ["postgresql"])
def test_an_export_under_load_is_one_moment_and_goes_into_another_kind_of_store_whole(
    other: str, sqlite: str, tmp_path: Path
) -> None:
    folder = tmp_path / "fleet"
    folder.mkdir()
    with a_fleet(sqlite, folder):
        taken = [export(sqlite, tmp_path / f"{number}.jsonl") for number in range(3)]
        until = time.monotonic() + PATIENCE
        while len({event["verb"] for event in taken[-1].events}) <= 3 or len(taken) < 4:
            assert time.monotonic() < until, "no worker was active"
            taken.append(export(sqlite, tmp_path / f"{len(taken)}.jsonl"))
    for each in taken:
        assert_one_moment(each)
    for earlier, later in pairwise(taken):
        assert_later(earlier, later)
    last = taken[-1]
    url = postgres_server.shared_url() if other == "postgresql" else neo4j.shared_url()
    open_store(url, create=True).close()
    place = place_beside(url, f"backup-{other}")
    try:
        words = [str(SCRIPT), "import", str(tmp_path / f"{len(taken) - 1}.jsonl"), "--store", place.url]
        subprocess.run(words, check=True, capture_output=True)
        restored = export(place.url, tmp_path / "restored.jsonl")
    finally:
        place.close()
    assert restored.tasks == last.tasks
    assert sorted(map(str, restored.links)) == sorted(map(str, last.links))
    told = [{**event, "seq": 0} for event in restored.events if event["verb"] != "import"]
    assert told == [{**event, "seq": 0} for event in last.events]
