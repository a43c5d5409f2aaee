"""Several workers: limits, assigned tasks, and a store that is unavailable for a while."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from dibs.core.fleet import Profile
from dibs.core.task import Link, Status
from dibs.lab.torture.proxies import PostgresProxy
from support.postgres_server import shared_url
from support.workers import LONG, shell, until

from .conftest import on_postgres

if TYPE_CHECKING:
    from pathlib import Path

    from support.workers import Place


def test_two_workers_of_one_name_never_hold_more_than_its_limit(place: Place) -> None:
    with place.desk() as desk:
        desk.enrol(Profile("ann", "writer", limit=2))
    place.add(*(f"t{number}" for number in range(8)))
    # No command ends before two run.
    both = "touch here-$DIBS_TASK_ID; while [ $(ls here-* | wc -l) -lt 2 ]; do sleep 0.02; done; sleep 0.05"
    one, two = (place.work("--slots", "3", *shell(both)) for _ in range(2))
    until(lambda: all(place.task(f"t{number}").finished for number in range(8)), lambda: one.said + two.said)
    held: set[str] = set()
    most = 0
    for event in place.events():
        if event.outcome == "ok":
            (held.add if event.verb == "claim" else held.discard)(event.task)
            most = max(most, len(held))
    assert most == 2


def test_worker_with_assigned_claims_only_assigned_tasks(place: Place) -> None:
    place.add("free")
    place.add("mine", assigned_to="ann")
    place.add("later", assigned_to="ann", links=(Link("later", "mine"),))
    assert place.worked("--until-empty", "--assigned", *shell("true")).status == 0
    assert [place.task(name).status for name in ("free", "mine", "later")] == [Status.READY, Status.DONE, Status.DONE]


def test_worker_waits_for_a_store_and_reports_afterwards(tmp_path: Path) -> None:
    place = on_postgres(tmp_path)
    with PostgresProxy(shared_url()) as network:
        one = place.work(
            *LONG, *shell("touch here-$DIBS_TASK_ID; while [ ! -e go ]; do sleep 0.02; done; echo fine"),
            store=network.url(schema=place.schema, timeout=5),
        )  # fmt: skip
        one.says("is at work")
        network.refuse()
        one.says("trouble: Cannot reach")
        place.add("a")
        network.heal()
        until((place.folder / "here-a").exists, lambda: one.said)
        network.refuse()
        (place.folder / "go").touch()
        place.commands_end()
        network.heal()
        one.says("done a")
        one.signal(signal.SIGTERM)
        assert one.leaves() == 0
    assert place.told("a") == ["claim", "done"]
    place.close()
