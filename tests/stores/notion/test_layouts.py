"""Every layout over HTTP, with other names and types of properties."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import InvalidInput, Misconfigured, Unsupported
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Edit, ServiceClass, Status
from dibs.lab.emulator import mesh_schema, ntask_schema

from .desk import LEASE, SCOPE, add, claim, date, hold, move, number, peek_ids, request, select, text, title

if TYPE_CHECKING:
    from .desk import Place

KINDS = [
    (status, agent, optional)
    for status in ("select", "status")
    for agent in ("select", "rich_text")
    for optional in (True, False)
]


@pytest.mark.parametrize(("status", "agent", "optional"), KINDS)
def test_task_is_processed_with_all_property_types(place: Place, status: str, agent: str, optional: bool) -> None:
    store = place.open(schema=ntask_schema(status=status, agent=agent, optional=optional))
    (task,) = add(store, "Sweep", priority=-5, service_class=ServiceClass.EXPEDITE)
    page = str(task.origin)
    place.clock.advance(seconds=1)
    token = hold(store, task.id, "ann", run="r-1")
    held = place.shows(page)
    assert (held["Status"], held["Claimed By"], held["Agent"], held["Agent Run"], held["Lock Token"]) == (
        "IN_PROGRESS", "AGENT", "ann", "r-1", token,
    )  # fmt: skip
    assert held["Lock Expires"].startswith("2026-01-01T12:21")  # 20 minutes from a moment after noon, rounded up
    assert (held["Priority"], held["Class"]) == (5, "EXPEDITE")
    move(store, Verb.RENEW, task.id, token, run="r-1", lease=timedelta(minutes=40))
    assert place.shows(page)["Lock Expires"].startswith("2026-01-01T12:41")
    move(store, Verb.DONE, task.id, token, run="r-1", artifacts=("a.txt", "b.txt"))
    done = place.shows(page)
    assert done["Status"] == "DONE"
    assert [done[name] or None for name in ("Claimed By", "Agent", "Agent Run", "Lock Token", "Lock Expires")] == [
        None
    ] * 5
    if optional:
        assert (done["Artifacts"], done["StartedAt"][:16], done["DoneAt"][:16]) == (
            "a.txt\nb.txt", "2026-01-01T12:00", "2026-01-01T12:00",
        )  # fmt: skip


def test_blocking_reviewing_and_canceling_write_their_own_properties(place: Place) -> None:
    store = place.open()
    one, two, three = add(store, "one", "two", "three")
    check = store.now() + timedelta(hours=1)
    token = hold(store, one.id)
    move(store, Verb.BLOCK, one.id, token, reason="no key", unblock_action="ask Eve", next_check_at=check)
    blocked = place.shows(str(one.origin))
    assert (blocked["Status"], blocked["BlockerReason"], blocked["UnblockAction"]) == ("BLOCKED", "no key", "ask Eve")
    assert blocked["NextCheckAt"].startswith("2026-01-01T13:00")
    move(store, Verb.REVIEW, two.id, hold(store, two.id), artifacts=("x",))
    assert (place.shows(str(two.origin))["Status"], place.shows(str(two.origin))["Artifacts"]) == ("REVIEW", "x")
    move(store, Verb.CANCEL, three.id, reason="not needed")
    assert (place.shows(str(three.origin))["Status"], place.shows(str(three.origin))["BlockerReason"]) == (
        "CANCELED", "not needed",
    )  # fmt: skip


def test_claim_writes_only_the_agreed_properties(place: Place) -> None:
    store = place.open()
    page = place.page(BlockerReason=text("fix the tests first"), Artifacts=text("draft.md"), Priority=number(3))
    before = place.shows(page)
    claim(store)
    after = place.shows(page)
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"Status", "Claimed By", "Agent", "Lock Token", "Lock Expires", "StartedAt"}


def test_properties_and_statuses_may_be_called_otherwise(place: Place) -> None:
    schema = ntask_schema()
    schema["Stage"] = {"select": {"options": [{"name": name} for name in ("To do", "Doing", "DONE", "CANCELED")]}}
    del schema["Status"], schema["Open"], schema["Dependencies"]
    schema["Urgency"] = schema.pop("Priority")
    schema["Title of it"] = schema.pop("Task name")
    schema["Dependencies"] = {"number": {}}
    names = place.folder / "names.toml"
    names.write_text(
        '[properties]\nStatus = "Stage"\nPriority = "Urgency"\n[statuses]\nREADY = "To do"\nIN_PROGRESS = "Doing"\n'
    )
    store = place.open(schema=schema, properties=str(names))
    said = {"Title of it": title("Sweep"), "Stage": select("To do"), "Urgency": number(7)}
    page = place.notion.page(place.database, said)
    (claimed,) = claim(store)
    assert (claimed.task.title, claimed.task.priority) == ("Sweep", -7)
    assert place.shows(page)["Stage"] == "Doing"


def test_database_spelling_of_words_is_kept(place: Place) -> None:
    schema = ntask_schema(status="status")
    schema["Status"] = {
        "status": {"options": [{"name": name} for name in ("Ready", "In Progress", "Done", "Cancelled")]}
    }
    schema["Open"] = {"formula": {"expression": 'prop("Status") != "Done"'}}
    store = place.open(schema=schema)
    page = place.notion.page(place.database, {"Task name": title("Sweep"), "Status": {"status": {"name": "Ready"}}})
    (claimed,) = claim(store)
    assert place.shows(page)["Status"] == "In Progress"
    move(store, Verb.DONE, claimed.task.id, claimed.task.lease and claimed.task.lease.token)
    assert place.shows(page)["Status"] == "Done"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"Lock Token": None}, "'Lock Token' is missing; it is a text"),
        ({"Priority": {"rich_text": {}}}, "'Priority' is a text, not a number"),
        ({"Agent": {"number": {}}}, "'Agent' is a number, not a select or text"),
        (
            {"Lock Expires": None, "Claimed By": {"rich_text": {}}},
            "'Claimed By' is a text, not a select; 'Lock Expires' is",
        ),
        ({"Artifacts": {"number": {}}}, "'Artifacts' is a number, not a text"),
    ],
)
def test_missing_or_wrong_properties_are_named(place: Place, broken: dict[str, Any], said: str) -> None:
    schema = {name: value for name, value in (ntask_schema() | broken).items() if value is not None}
    store = place.open(schema=schema)
    page = place.notion.page(place.database, {"Task name": title("Sweep"), "Status": select("READY")})
    for ask in (lambda: claim(store), lambda: store.get(SCOPE, page), store.learn, lambda: hold(store, page)):
        with pytest.raises(Misconfigured) as refused:
            ask()
        assert said in refused.value.message
        assert "properties=FILE.toml" in refused.value.message
    assert place.shows(page)["Status"] == "READY"


def test_missing_optional_properties_are_skipped(place: Place) -> None:
    store = place.open(schema=ntask_schema(optional=False))
    (task,) = add(store, "Sweep")
    blocked = move(store, Verb.BLOCK, task.id, hold(store, task.id), reason="no key", unblock_action="ask").task
    assert (blocked.status, blocked.reason, blocked.unblock_action) == (Status.BLOCKED, None, None)


def test_a_mesh_task_is_leased_by_its_own_timeout(place: Place) -> None:
    store = place.open("mesh")
    page = place.notion.page(
        place.database, {"title": title("Sweep"), "status": select("OPEN"), "claim_timeout_minutes": number(45)}
    )
    place.clock.advance(seconds=1)
    token = hold(store, page, "Sandman")
    held = place.shows(page)
    assert (held["status"], held["claimed_by"], held["claim_nonce"]) == ("IN_PROGRESS", "Sandman", token)
    lease = store.get(SCOPE, page).lease
    assert lease is not None
    assert lease.expires_at == datetime(2026, 1, 1, 12, 45, tzinfo=UTC)
    place.clock.advance(minutes=30)
    renewed = move(store, Verb.RENEW, page, token).task.lease
    assert renewed is not None
    assert renewed.expires_at == datetime(2026, 1, 1, 13, 15, tzinfo=UTC)
    assert place.shows(page)["claimed_at"].startswith("2026-01-01T12:30")
    done = move(store, Verb.DONE, page, token).task
    shown = place.shows(page)
    assert (shown["status"], shown["claimed_by"], shown["claim_nonce"]) == ("COMPLETED", "Sandman", "")
    assert (done.finished_by, done.extra) == ("Sandman", {"claim_timeout_minutes": 45})


def test_mesh_task_without_timeout_is_leased_for_half_an_hour(place: Place) -> None:
    store = place.open("mesh")
    page = place.notion.page(place.database, {"title": title("Sweep"), "status": select("OPEN")})
    (claimed,) = claim(store, "Oracle", page, lease=timedelta(hours=5))
    assert claimed.task.lease is not None
    assert claimed.task.lease.expires_at == store.now().replace(second=0) + timedelta(minutes=30)


def test_mesh_claim_without_a_time_is_stale(place: Place) -> None:
    store = place.open("mesh")
    page = place.notion.page(
        place.database, {"title": title("Sweep"), "status": select("IN_PROGRESS"), "claimed_by": text("Oracle")}
    )
    assert [claimed.task.id for claimed in claim(store, "Sandman")] == [page]
    assert any("its lock has no end" in comment for comment in place.comments(page))


def test_mesh_database_without_nonce_is_refused(place: Place) -> None:
    store = place.open("mesh", schema=mesh_schema(nonce=False))
    page = place.notion.page(place.database, {"title": title("Sweep"), "status": select("OPEN")})
    with pytest.raises(Misconfigured, match="'claim_nonce' is missing"):
        hold(store, page)


def test_dibs_layout_stores_every_field(place: Place) -> None:
    store = place.open("dibs")
    draft = Draft("Sweep", id="sweep", steps=("a", "b"), requires=("broom",), category="house", extra={"n": [1, None]})
    (task,) = store.add(SCOPE, [draft], [], Actor())
    again = place.join(layout="dibs").get(SCOPE, "sweep")
    assert again == task
    assert (again.steps, again.requires, again.category, again.extra) == (
        ("a", "b"),
        ("broom",),
        "house",
        {"n": [1, None]},
    )


def test_a_long_rest_is_cut_into_pieces_and_comes_back(place: Place) -> None:
    store = place.open("dibs")
    draft = Draft("Sweep", id="sweep", description="".join(f"line {number}\n" for number in range(2000)))
    store.add(SCOPE, [draft], [], Actor())
    assert store.get(SCOPE, "sweep").description == draft.description


def test_persons_text_in_the_rest_does_no_harm(place: Place) -> None:
    store = place.open("dibs")
    (task,) = store.add(SCOPE, [Draft("Sweep", id="sweep", category="house")], [], Actor())
    page = store._db.find_page("sweep")
    for nonsense in ("not JSON", "[1, 2]", '{"steps": 7}', '{"status": "done"}', '{"unheard": 1}', "{" * 900):
        place.notion.human.edit(page, {"Dibs": text(nonsense)})
        read = store.get(SCOPE, "sweep")
        assert (read.title, read.status) == (task.title, Status.READY)
    assert [finding.subject for finding in store.check(fix=False)] == ["sweep"]


def test_value_without_a_property_is_refused(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    for ask in (
        lambda: add(store, "Dust", category="house"),
        lambda: add(store, "Dust", extra={"n": 1}),
        lambda: store.amend(SCOPE, task.id, Edit(category="house"), Actor()),
        lambda: add(store, "Dust", status=Status.PAUSED),
        lambda: move(store, Verb.PAUSE, task.id),
    ):
        with pytest.raises(Unsupported, match="'ntask' has no"):
            ask()
    token = hold(store, task.id)
    with pytest.raises(Unsupported, match="result"):
        move(store, Verb.DONE, task.id, token, result={"n": 1})
    assert peek_ids(store) == []
    assert move(store, Verb.DONE, task.id, token).task.status is Status.DONE


def test_ids_cannot_be_chosen_where_notion_gives_them(place: Place) -> None:
    store = place.open()
    with pytest.raises(InvalidInput, match="Notion gives the ids"):
        store.add(SCOPE, [Draft("Sweep", id="mine")], [], Actor())


def test_order_is_class_priority_edit_time_number(place: Place) -> None:
    store = place.open()
    place.page("1: plain")
    place.page("2: urgent", Priority=number(9))
    place.clock.advance(minutes=1)
    place.page("3: late but a class above", Class=select("EXPEDITE"))
    place.page("4: low", Priority=number(-1))
    place.page("5: unknown class", Class=select("WHATEVER"))
    for _ in range(6):
        place.page("later")
    place.page("12: intangible", Class=select("INTANGIBLE"), Priority=number(99))
    place.page("13: dated", Class=select("FIXED_DATE"), Priority=number(-99))
    ids = [int(task.removeprefix("TASK-")) for task in peek_ids(store)]
    assert ids == [3, 13, 2, 1, 5, 6, 7, 8, 9, 10, 11, 4, 12]


def test_unknown_lease_end_or_status_is_skipped_with_a_note(place: Place) -> None:
    store = place.open()
    page = place.page("odd", Status=select("Parked"))
    task = store.get(SCOPE, page)
    assert task.status is Status.BACKLOG
    assert [(finding.subject, "Parked" in finding.problem) for finding in store.check(fix=False)] == [(task.id, True)]
    assert peek_ids(store) == []


def test_a_bare_date_is_a_lease_until_its_midnight(place: Place) -> None:
    store = place.open()
    page = place.page(
        Status=select("IN_PROGRESS"), **{"Claimed By": select("AGENT"), "Lock Expires": date("2026-01-02")}
    )
    assert claim(store) == []
    place.clock.advance(hours=12, minutes=2)
    assert [claimed.task.origin for claimed in store.claim(request("bob", lease=LEASE))] == [page]


def test_labels_are_a_multi_select_that_people_may_change(place: Place) -> None:
    store = place.open("dibs")
    (task,) = add(store, "Sweep", labels=("café, 2nd floor", "urgent"))
    page = store._db.find_page(task.id)
    assert sorted(option["name"] for option in place.shows(page)["Labels"]) == ["café  2nd floor", "urgent"]
    place.notion.human.edit(page, {"Labels": {"multi_select": [{"name": "late"}]}})
    assert store.get(SCOPE, task.id).labels == ("late",)


def test_labels_are_refused_where_the_database_has_no_such_property(place: Place) -> None:
    store = place.open(schema=ntask_schema(optional=False))
    with pytest.raises(Unsupported, match="multi-select 'Labels'"):
        add(store, "Sweep", labels=("urgent",))
