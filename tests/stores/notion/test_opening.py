"""Open a store, make a database, read a log, and report problems."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import InvalidInput, Misconfigured
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Status
from dibs.lab.emulator import mesh_communication_log_schema, ntask_schema
from dibs.stores.notion.layout import LAYOUTS
from dibs.stores.notion.logs import open_log
from dibs.stores.opening import open_store

from .desk import SCOPE, add, hold, move, number, title

if TYPE_CHECKING:
    from .desk import Place

DATABASE = "2f835e812bbb81b69700e18108a40b1f"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("layout=kanban", "No layout"),
        ("colour=red", "not 'colour'"),
        ("transport=pigeon", "transport=api or transport=cli"),
        ("window=soon", "numbers of seconds"),
        ("window=5&settle=5", "wait must be longer"),
        ("layout", "name=value"),
        ("properties=/nowhere/names.toml", "cannot be read"),
    ],
)
def test_invalid_url_is_refused_with_advice(place: Place, query: str, said: str) -> None:
    place.database = DATABASE
    with pytest.raises((InvalidInput, Misconfigured), match=said):
        open_store(f"notion://{DATABASE}?{query}")


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[properties", "is not TOML"),
        ("[colours]\n", r"not \[colours\]"),
        ('[properties]\nNowhere = "x"\n', "no property 'Nowhere'"),
        ("[properties]\nStatus = 7\n", "are texts"),
        ('[statuses]\nSOON = "x"\n', "no status 'SOON'"),
    ],
)
def test_a_file_of_names_that_makes_no_sense_is_refused(place: Place, toml: str, said: str) -> None:
    names = place.folder / "names.toml"
    names.write_text(toml)
    with pytest.raises((InvalidInput, Misconfigured), match=said):
        open_store(f"notion://{DATABASE}?properties={names}")


def test_opening_sends_nothing(place: Place) -> None:
    place.make()
    place.join().close()
    assert place.served() == []


@pytest.mark.parametrize("layout", LAYOUTS)
def test_new_database_of_every_layout_works(place: Place, layout: str) -> None:
    place.make()
    parent = place.page("a page to put it on")
    with open_store(f"notion://?parent={parent}&layout={layout}", create=True) as store:
        found = store.describe()["place"]
        assert found.startswith("notion://")
        assert f"layout={layout}" in found
        assert "parent" not in found
        id_ = {} if store.capabilities.ids == "assigned" else {"id": "sweep"}
        (task,) = store.add(SCOPE, [Draft("Sweep", **id_)], [], Actor())  # type: ignore[arg-type]
        assert [finding.problem for finding in store.check(fix=False)] == []
    with open_store(found) as again:
        assert again.get(SCOPE, task.id).title == "Sweep"


def test_a_new_ntask_database_counts_the_unfinished_parts(place: Place) -> None:
    place.make()
    parent = place.page("a page to put it on")
    with open_store(f"notion://?parent={parent}", create=True) as store:
        place.database = store.describe()["place"].removeprefix("notion://").partition("?")[0]
    mine = place.join()
    (house,) = add(mine, "House")
    (part,) = add(mine, "Kitchen", parent=house.id)
    assert place.shows(str(house.origin))["Dependencies"] == 1
    move(mine, Verb.DONE, part.id, hold(mine, part.id))
    assert place.shows(str(house.origin))["Dependencies"] == 0


def test_init_reports_missing_properties(place: Place) -> None:
    schema = ntask_schema()
    del schema["Lock Token"]
    place.make(schema=schema)
    with pytest.raises(Misconfigured, match="'Lock Token' is missing"):
        open_store(f"notion://{place.database}", create=True)


def test_log_matches_columns_in_any_case(place: Place) -> None:
    database = place.notion.database(mesh_communication_log_schema(), title="Mesh Communication Log").id
    log = open_log(database)
    now = place.clock()
    for attempt in range(3):
        log.append(
            {"event": "claim_attempt", "Source Agent": "Sandman", "retry count": attempt, "Timestamp": now,
             "Status": "Sent", "Nowhere": "x", "Resolution": None}
        )  # fmt: skip
        place.clock.advance(minutes=1)
    rows = log.rows(2)
    log.close()
    assert [row["Retry Count"] for row in rows] == [2, 1]
    assert (rows[0]["Event"], rows[0]["Status"], rows[0]["Resolution"]) == ("claim_attempt", "Sent", "")
    assert str(rows[0]["Timestamp"]).startswith("2026-01-01T12:00")


def test_an_examination_looks_at_everything_and_raises_nothing(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    store = place.open()
    place.page("one")
    found = {one.name: one for one in store.examine()}
    assert all(one.ok for one in found.values()), [one for one in found.values() if not one.ok]
    assert {"token", "reachable", "clock", "database", "property Status", "options Status", "comments"} <= found.keys()
    monkeypatch.setenv("NOTION_TOKEN", place.notion.bot())
    told = {one.name: one for one in place.join().examine()}
    assert not told["comments"].ok
    assert "Insert comments" in told["comments"].message
    monkeypatch.setenv("NOTION_TOKEN", "ntn_wrong")
    assert [(one.name, one.ok) for one in place.join().examine()] == [("token", True), ("reachable", False)]


def test_an_examination_names_each_property_that_is_wrong(place: Place) -> None:
    schema = ntask_schema(status="status") | {"Priority": {"rich_text": {}}}
    schema["Status"] = {"status": {"options": [{"name": "READY"}]}}
    del schema["Agent Run"], schema["Open"], schema["Dependencies"]
    found = {one.name: one for one in place.open(schema=schema).examine()}
    wrong = {name for name, one in found.items() if not one.ok}
    assert wrong == {"property Priority", "property Agent Run", "property Dependencies", "options Status"}
    assert "IN_PROGRESS" in found["options Status"].message


def test_store_clock_is_notions(place: Place) -> None:
    store = place.open()
    assert abs((store.now() - place.clock()).total_seconds()) < 60
    place.clock.advance(hours=5)
    (task,) = add(store, "Sweep")
    assert (task.created_at - place.clock()).total_seconds() == 0
    clock = next(one for one in store.examine() if one.name == "clock")
    assert clock.ok
    assert "ahead of" in clock.message or "behind" in clock.message


def test_claiming_from_sqlite_loads_nothing_of_notion(place: Place) -> None:
    url = f"sqlite:///{place.folder}/plain.db"
    call = [sys.executable, "-X", "importtime", "-m", "dibs", "--store", url]
    subprocess.run([*call, "init"], capture_output=True, check=True)
    subprocess.run([*call, "add", "Sweep"], capture_output=True, check=True)
    done = subprocess.run([*call, "claim", "--agent", "ann"], capture_output=True, text=True, check=True)
    assert "dibs.stores.sqlite" in done.stderr
    assert [line for line in done.stderr.splitlines() if "notion" in line or "httpx" in line] == []


def test_a_lease_is_counted_by_notions_clock(place: Place) -> None:
    store = place.open()
    place.clock.advance(days=400)
    page = place.page("one", Priority=number(1), **{"Task name": title("one")})
    hold(store, page)
    lease = store.get(SCOPE, page).lease
    assert lease is not None
    assert lease.expires_at is not None
    assert 1199 < (lease.expires_at - place.clock()).total_seconds() <= 1260
    assert store.get(SCOPE, page).status is Status.ACTIVE


LOOKS = (
    ["list"],
    ["list", "--all"],
    ["ready"],
    ["next"],
    ["show", "TASK-1"],
    ["stats"],
    ["stale"],
    ["doctor", "--deep"],
    ["export"],
)


@pytest.mark.parametrize("words", LOOKS, ids=" ".join)
def test_every_look_of_the_command_line_works_on_notion(place: Place, words: list[str]) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    hold(store, task.id, "ann")
    call = [sys.executable, "-m", "dibs", "--store", f"notion://{place.database}", *words]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_init_creates_a_database_and_prints_its_url(place: Place) -> None:
    place.make()
    parent = place.page("a page to put it on")
    call = [sys.executable, "-m", "dibs", "--store"]
    made = subprocess.run([*call, f"notion://?parent={parent}", "init"], capture_output=True, text=True, check=True)
    url = made.stdout.splitlines()[0].removeprefix("ready: ")
    added = subprocess.run([*call, url, "add", "Sweep"], capture_output=True, text=True, check=True)
    assert added.stdout.strip() == "TASK-1"
