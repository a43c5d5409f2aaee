"""The pull policy on a page's properties, over HTTP."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from dibs.lab.emulator import ntask_schema
from support.notion import PATIENCE, date, number, select, text, title
from support.ntask import NotionPlace

from .test_seed import MORE, end

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.ntask import Ntask, Ran

CLEARED: dict[str, Any] = {
    "Claimed By": None,
    "Agent Run": "",
    "Agent": "",
    "Lock Token": "",
    "Lock Expires": None,
}


@pytest.fixture
def ntask(make: Callable[..., Ntask]) -> Ntask:
    return make()


def place_of(ntask: Ntask) -> NotionPlace:
    assert isinstance(ntask.place, NotionPlace)
    return ntask.place


def by_hand(ntask: Ntask, **properties: object) -> str:
    """Create a task as a person in the app; `Claimed_By` is Claimed By. Return its id."""
    place = place_of(ntask)
    named = {name.replace("_", " "): value for name, value in properties.items()}
    page = place.notion.api.page(place.database.id, {"Task name": title("T"), "Status": select("READY"), **named})
    place.let(60)
    return f"TASK-{place.notion.client().pages.retrieve(page_id=page)['properties']['ID']['unique_id']['number']}"


def claim_words(task: str, agent: str = "bob") -> tuple[str, ...]:
    return ("claim", task, "--run-id", "run-2", "--agent-name", agent)


def lock_of(ntask: Ntask, task: str) -> dict[str, Any]:
    found = place_of(ntask).properties(task)
    return {name: found[name] for name in CLEARED}


# Task selection


def test_human_claimed_ready_task_is_never_pulled(ntask: Ntask) -> None:
    task = by_hand(ntask, Claimed_By=select("HUMAN"), Lock_Expires=date("2020-01-01T00:00:00Z"))
    assert ntask.next() is None
    assert ntask(*claim_words(task)).code == "CONFLICT"


def test_unclaimed_ready_task_is_eligible_despite_a_lock(ntask: Ntask) -> None:
    """As in the document; a comment notes the odd state."""
    task = by_hand(ntask, Lock_Expires=date("2999-01-01T00:00:00Z"))
    assert ntask.next() == task
    assert place_of(ntask).comments(task) == []
    ntask.claim(task)
    (said,) = place_of(ntask).comments(task)
    assert "inconsistent" in said


@pytest.mark.parametrize(
    "expires",
    ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.500+05:30", "2020-01-01"],
)
def test_ready_task_with_expired_agent_lock_is_eligible(ntask: Ntask, expires: str) -> None:
    task = by_hand(ntask, Claimed_By=select("AGENT"), Lock_Expires=date(expires))
    assert ntask.next() == task
    live = by_hand(ntask, Claimed_By=select("AGENT"), Lock_Expires=date("2999-01-01"), Priority=number(9))
    assert ntask.next() == task
    assert ntask(*claim_words(live)).code == "CONFLICT"


@pytest.mark.parametrize("status", ["READY", "IN_PROGRESS"])
def test_agent_lock_without_end_is_claimable_with_a_comment(ntask: Ntask, status: str) -> None:
    task = by_hand(ntask, Status=select(status), Claimed_By=select("AGENT"))
    assert ntask.next() == task
    ntask.claim(task)
    (said,) = place_of(ntask).comments(task)
    assert "inconsistent" in said


def test_claim_succeeds_without_the_comment(ntask: Ntask) -> None:
    task = by_hand(ntask, Claimed_By=select("AGENT"))
    place_of(ntask).notion.api.faults.next("internal_error", method="POST", path="comments", times=9)
    assert ntask.claim(task).task["status"] == "IN_PROGRESS"


def test_a_task_without_class_and_priority_is_standard_and_zero(ntask: Ntask) -> None:
    bare, odd = by_hand(ntask), by_hand(ntask, Class=select("URGENT"))
    low = by_hand(ntask, Class=select("STANDARD"), Priority=number(-1))
    high = by_hand(ntask, Class=select("STANDARD"), Priority=number(1))
    expedite = by_hand(ntask, Class=select("EXPEDITE"), Priority=number(-9))
    shown = [task["task_id"] for task in ntask("list").data["tasks"]]
    assert shown == [expedite, high, bare, odd, low]
    assert (ntask.ok("get", bare)["class"], ntask.ok("get", bare)["priority"]) == ("STANDARD", 0)
    assert ntask.ok("get", odd)["class"] == "URGENT"  # as the page says; it counts as STANDARD


def test_equal_tasks_are_ordered_by_number(ntask: Ntask) -> None:
    place = place_of(ntask)
    for _ in range(12):
        place.notion.api.page(place.database.id, {"Task name": title("T"), "Status": select("READY")})
    shown = [task["task_id"] for task in ntask("list").data["tasks"]]
    assert shown == [f"TASK-{number}" for number in range(1, 13)]


# Claim


def test_claim_writes_once_and_reads_back(ntask: Ntask) -> None:
    task = ntask.create()
    place = place_of(ntask)
    place.notion.api.requests.clear()
    held = ntask.claim(task, run="run-7", agent="ann")
    served = [(one.method, one.template) for one in place.notion.api.requests]
    page = "/v1/pages/{page_id}"
    assert served[-3:] == [("GET", page), ("PATCH", page), ("GET", page)]
    assert len([one for one in served if one[0] == "PATCH"]) == 1
    found = place.properties(task)
    assert found["Status"] == "IN_PROGRESS"
    assert found["Claimed By"] == "AGENT"
    assert found["Agent Run"] == "run-7"
    assert found["Agent"] == "ann"
    assert found["Lock Token"] == held.token
    assert found["Lock Expires"].startswith("2026-01-01T12:2")
    assert found["StartedAt"].startswith("2026-01-01T12:01")


def test_optional_properties_that_do_not_exist_are_left_out(make: Callable[..., Ntask]) -> None:
    ntask = make(ntask_schema(optional=False))
    for how in MORE:
        held = ntask.claim(ntask.create())
        ran = ntask(how, *held.words, *MORE[how])
        assert ran.code is None
        assert ("not kept" in ran.err) is (how in {"complete", "block", "cancel"})
        assert not {"StartedAt", "DoneAt", "Artifacts", "BlockerReason"} & place_of(ntask).properties(held.id).keys()


def test_different_token_at_read_back_is_a_conflict(ntask: Ntask) -> None:
    """Another agent wrote its own token between our write and our second look."""
    task = ntask.create()
    place = place_of(ntask)
    held = place.notion.api.faults.hold("PATCH", path="pages/", after_commit=True)
    came: list[Ran] = []
    claimer = threading.Thread(target=lambda: came.append(ntask(*claim_words(task))))
    claimer.start()
    held.wait_for_arrival(PATIENCE)
    place.edit(task, Lock_Token=text("another"), Agent=text("eve"))
    before = place.properties(task)
    held.release()
    claimer.join()
    assert (came[0].code, came[0].status) == ("CONFLICT", 2)
    assert "eve" in came[0].message
    assert place.properties(task) == before


def test_failed_read_back_is_an_api_error_with_the_token(ntask: Ntask) -> None:
    task = ntask.create()
    place = place_of(ntask)
    place.notion.api.faults.next("unavailable", method="GET", path="pages/", skip=1, times=20)
    ran = ntask(*claim_words(task))
    assert (ran.code, ran.status) == ("API_ERROR", 5)
    token = ran.task["lock_token"]
    assert token not in ran.message + ran.err
    place.notion.api.faults.clear()
    assert place.properties(task)["Lock Token"] == token
    words = (task, "--run-id", "run-2", "--lock-token", token)
    assert ntask.ok("release", *words)["status"] == "READY"
    assert lock_of(ntask, task) == CLEARED


# Heartbeat


def test_heartbeat_writes_only_lock_expires(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    place = place_of(ntask)
    before = place.properties(held.id)
    place.let(600)
    place.notion.api.requests.clear()
    ntask.ok("heartbeat", *held.words)
    assert [one.method for one in place.notion.api.requests] == ["GET", "PATCH"]
    after = place.properties(held.id)
    assert after.pop("Lock Expires") > before.pop("Lock Expires")
    assert after == before


# Complete, block, review, cancel, release


@pytest.mark.parametrize("kind", ["rich_text", "select"])
def test_complete_writes_its_properties_and_clears_the_lock(make: Callable[..., Ntask], kind: str) -> None:
    ntask = make(ntask_schema(agent=kind))
    held = ntask.claim(ntask.create())
    place_of(ntask).let(300)
    ntask.ok("complete", *held.words, "--artifacts", "see PR 7")
    found = place_of(ntask).properties(held.id)
    assert (found["Status"], found["Artifacts"]) == ("DONE", "see PR 7")
    assert found["DoneAt"].startswith("2026-01-01T12:06")
    assert lock_of(ntask, held.id) == {**CLEARED, "Agent": "" if kind == "rich_text" else None}


def test_block_writes_its_properties_and_clears_the_lock(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    words = ("--reason", "no key", "--unblock-action", "ask Zoe", "--next-check", "2030-01-31T12:00:00Z")
    ntask.ok("block", *held.words, *words)
    found = place_of(ntask).properties(held.id)
    assert (found["Status"], found["BlockerReason"], found["UnblockAction"]) == ("BLOCKED", "no key", "ask Zoe")
    assert found["NextCheckAt"].startswith("2030-01-31T12:00")
    assert lock_of(ntask, held.id) == CLEARED


def test_review_writes_its_properties_and_clears_the_lock(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.ok("review", *held.words, "--artifacts", "see PR")
    found = place_of(ntask).properties(held.id)
    assert (found["Status"], found["Artifacts"]) == ("REVIEW", "see PR")
    assert lock_of(ntask, held.id) == CLEARED


def test_cancel_writes_its_properties_and_clears_the_lock(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.ok("cancel", *held.words, "--reason", "not needed")
    found = place_of(ntask).properties(held.id)
    assert (found["Status"], found["BlockerReason"]) == ("CANCELED", "not needed")
    assert lock_of(ntask, held.id) == CLEARED


def test_release_makes_the_page_ready_and_clears_the_lock(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    ntask.ok("release", *held.words)
    assert place_of(ntask).properties(held.id)["Status"] == "READY"
    assert lock_of(ntask, held.id) == CLEARED


def test_text_of_any_length_is_split_as_notion_wants_it(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    long = "".join(f"{number:05} ⛵ " for number in range(900))
    assert ntask.ok("complete", *held.words, "--artifacts", long)["artifacts"] == long
    assert place_of(ntask).properties(held.id)["Artifacts"] == long


@pytest.mark.parametrize("how", MORE)
def test_matching_token_without_lock_expires_is_lost(ntask: Ntask, how: str) -> None:
    held = ntask.claim(ntask.create())
    place_of(ntask).edit(held.id, Lock_Expires=date(None))
    before = place_of(ntask).properties(held.id)
    assert ntask(how, *held.words, *MORE[how]).code == "LOST_LOCK"
    assert place_of(ntask).properties(held.id) == before


@pytest.mark.parametrize("how", MORE)
@pytest.mark.parametrize(
    "edit",
    [
        {"Status": select("READY")},
        {"Status": select("DONE")},
        {"Claimed_By": select("HUMAN")},
        {"Claimed_By": select("HUMAN"), "Lock_Expires": date(None), "Agent_Run": text("")},
        {"Lock_Token": text("")},
        {"Lock_Token": text("another")},
    ],
    ids=["reopened", "done", "human", "human with nothing left", "token cleared", "token changed"],
)
def test_persons_edit_always_wins(ntask: Ntask, how: str, edit: dict[str, object]) -> None:
    held = ntask.claim(ntask.create())
    place_of(ntask).edit(held.id, **edit)
    before = place_of(ntask).properties(held.id)
    ran = ntask(how, *held.words, *MORE[how])
    if how == "cancel" and edit.get("Status") == select("DONE"):
        assert ran.code is None  # a finished task is not changed, without an error
    else:
        assert (ran.code, ran.status) == ("LOST_LOCK", 4)
    assert held.token not in ran.out + ran.err
    assert place_of(ntask).properties(held.id) == before


def test_persons_deletion_always_wins(ntask: Ntask) -> None:
    held = ntask.claim(ntask.create())
    place = place_of(ntask)
    place.notion.api.human.trash(place.page(held.id))
    for how in MORE:
        assert ntask(how, *held.words, *MORE[how]).code in {"LOST_LOCK", "MISCONFIGURED"}
    assert ntask("heartbeat", *held.words).code == "LOST_LOCK"
    assert ntask(*claim_words(held.id)).code == "MISCONFIGURED"


# Names of tasks


def test_task_is_found_by_id_number_or_page(ntask: Ntask) -> None:
    task = ntask.create()
    page = place_of(ntask).page(task)
    told = ntask.ok("get", task)
    assert (told["task_id"], told["page_id"]) == (task, page)
    for name in (task.removeprefix("TASK-"), page, page.replace("-", "")):
        assert ntask.ok("get", name) == told
    held = ntask.claim(page)
    end(ntask, held._replace(id=task.removeprefix("TASK-")), "complete")


# Lagging lists


def test_next_skips_tasks_that_an_old_list_shows(ntask: Ntask) -> None:
    taken, done, gone, kept, free = (ntask.create(priority=9 - number) for number in range(5))
    place = place_of(ntask)
    place.let(600)
    place.notion.api.faults.query_lag = 120.0
    ntask.claim(taken)
    end(ntask, ntask.claim(done, run="run-2"), "complete")
    ended_page = ntask.ok("get", gone)["page_id"]
    place.notion.api.human.trash(ended_page)
    place.notion.api.human.edit(ntask.ok("get", kept)["page_id"], {"Claimed By": select("HUMAN")})
    shown = [task["task_id"] for task in ntask("list", "--status", "READY").data["tasks"]]
    assert shown == [taken, done, gone, kept, free]
    assert ntask.next() == free


# Requests


def test_claim_needs_five_requests_and_heartbeat_two(ntask: Ntask) -> None:
    ntask.create()
    requests = place_of(ntask).notion.api.requests
    task = ntask.next()
    assert task is not None
    requests.clear()
    held = ntask.claim(task)
    assert requests.count() <= 5
    requests.clear()
    ntask.ok("heartbeat", *held.words)
    assert requests.count() <= 2


def test_claim_with_empty_cache_needs_five_requests(ntask: Ntask, folder: Path) -> None:
    task = ntask.create()
    requests = place_of(ntask).notion.api.requests
    requests.clear()
    ran = ntask(*claim_words(task), XDG_CACHE_HOME=str(folder / "nothing-known"))
    assert ran.code is None
    assert requests.count() <= 5


def test_next_on_a_thousand_tasks_takes_at_most_eleven_requests(ntask: Ntask) -> None:
    place = place_of(ntask)
    for each in range(1000):
        place.notion.api.page(
            place.database.id, {"Task name": title("T"), "Status": select("READY"), "Priority": number(each % 100)}
        )
    for _ in ("a newcomer", "one that knows the database"):
        place.notion.api.requests.clear()
        assert ntask.next() == "TASK-100"
        assert place.notion.api.requests.count() == 11


# Recovery: the page decides, not the agent


def claimable_after(ntask: Ntask, task: str, *words: str) -> float:
    """Return the seconds until the refusal says that the task is claimable."""
    ran = ntask(*claim_words(task), *words)
    assert ran.code == "CONFLICT", ran
    return float(ran.data["error"]["retry_after_ms"]) / 1000


@pytest.mark.parametrize("asked", [(), ("--lease-min", "4"), ("--lease-min", "60")])
@pytest.mark.parametrize("second", [1, 30, 58])
def test_short_lease_ends_on_time_for_every_agent(ntask: Ntask, asked: tuple[str, ...], second: int) -> None:
    place = place_of(ntask)
    task = ntask.create()
    place.let(second)
    ntask.claim(task, "--lease-min", "4")
    place.let(300)  # its end is rounded up to the minute
    assert ntask.next() is None
    left = claimable_after(ntask, task, *asked)
    assert 0 < left <= 90
    place.let(left)
    assert ntask.next() == task
    ntask.ok(*claim_words(task), *asked)


def test_persons_edit_does_not_prolong_an_abandoned_lock(ntask: Ntask) -> None:
    place = place_of(ntask)
    task = ntask.create()
    ntask.claim(task, "--lease-min", "4")
    place.let(200)
    place.notion.api.human.edit(place.page(task), {"Task name": title("Sweep the floor")})
    place.let(60 + 60 + 90)
    assert ntask.next() == task
    ntask.ok(*claim_words(task))


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_late_write_locks_the_page_for_a_default_lease(ntask: Ntask, known: bool) -> None:
    """A delayed claim may cover a valid one. An editor who cannot be looked up may be an agent."""
    place = place_of(ntask)
    if not known:
        place.notion.api.faults.next("internal_error", method="GET", path="/v1/users/", times=99)
    task = ntask.create()
    held = ntask.claim(task, "--lease-min", "4")
    place.let(60 * 60)
    late = {"Lock Expires": date("2026-01-01T12:06:00Z")}
    place.notion.client().pages.update(page_id=place.page(task), properties=late)
    assert ntask.next() is None
    left = claimable_after(ntask, task)
    assert 19 * 60 < left <= 20 * 60 + 90
    place.let(left)
    assert ntask.next() == task
    assert held.task["status"] == "IN_PROGRESS"


def test_late_write_locks_the_page_for_a_dated_longer_lease(make: Callable[..., Ntask]) -> None:
    ntask = make({**ntask_schema(), "HeartbeatAt": {"date": {}}})
    place = place_of(ntask)
    task = ntask.create()
    ntask.claim(task, "--lease-min", "60")
    place.let(2 * 60 * 60)
    place.notion.client().pages.update(page_id=place.page(task), properties={"Task name": title("Sweep the floor")})
    assert 59 * 60 < claimable_after(ntask, task) <= 60 * 60 + 90


def test_dated_heartbeat_lets_a_short_lease_end_on_time(make: Callable[..., Ntask]) -> None:
    ntask = make({**ntask_schema(), "HeartbeatAt": {"date": {}}})
    place = place_of(ntask)
    task = ntask.create()
    held = ntask.claim(task, "--lease-min", "4")
    place.let(100)
    ntask.ok("heartbeat", *held.words, "--lease-min", "4")
    place.let(300 + 90)
    assert ntask.next() == task


# Values of the page


def test_cancel_leaves_done_at_alone(ntask: Ntask) -> None:
    task = ntask.create()
    ntask.ok("cancel", task, "--reason", "no longer wanted")
    assert place_of(ntask).properties(task)["DoneAt"] is None
    done = ntask.create()
    ntask.ok("complete", *ntask.claim(done).words, "--artifacts", "a")
    assert place_of(ntask).properties(done)["DoneAt"] is not None


@pytest.mark.parametrize(
    ("properties", "shows", "warns"),
    [
        ({"Status": select("Waiting for legal")}, {"status": "Waiting for legal"}, "is unknown"),
        ({"Status": select(None)}, {"status": None}, "no status"),
        (
            {"Status": select("IN_PROGRESS")},
            {"claimed_by": None, "agent": None, "lock_expires": None},
            "without a claim",
        ),
        (
            {"Claimed_By": select("AGENT")},
            {"claimed_by": "AGENT", "agent": None, "lock_expires": None},
            "its lock has no end",
        ),
        ({"Status": select("IN_PROGRESS"), "Claimed_By": select("HUMAN")}, {"claimed_by": "HUMAN", "agent": None}, ""),
        ({"Class": select("Whenever")}, {"class": "Whenever", "status": "READY"}, "'Whenever' is unknown"),
        ({"Status": select("DONE")}, {"status": "DONE", "done_at": None}, ""),
        (
            {"Lock_Expires": date("2031-01-01T00:00:00Z")},
            {"lock_expires": "2031-01-01T00:00:00Z"},
            "no claim, but a lock",
        ),
        ({"Claimed_By": select("Robot")}, {"claimed_by": "Robot"}, "neither AGENT nor HUMAN"),
        ({"Task name": title("")}, {"title": None}, ""),
    ],
)
def test_odd_page_is_reported_with_raw_values(
    ntask: Ntask, properties: dict[str, Any], shows: dict[str, Any], warns: str
) -> None:
    found = ntask.ok("get", by_hand(ntask, **properties))
    assert {name: found.get(name) for name in shows} == shows
    assert warns in " ".join(found.get("warnings", ())), found
    assert bool(warns) == ("warnings" in found)


def test_page_without_a_status_is_called_so(ntask: Ntask) -> None:
    ran = ntask(*claim_words(by_hand(ntask, Status=select(None))))
    assert (ran.code, ran.message) == (
        "CONFLICT",
        "TASK-1 is without a status, not READY. Run 'ntask next' again to find another task.",
    )


def test_task_is_found_by_any_number_form_or_address(ntask: Ntask) -> None:
    task = ntask.create("Sweep")
    page = place_of(ntask).page(task)
    bare = page.replace("-", "")
    names = (
        "TASK-1", "task-1", "Task-1", "1", "#1", page, bare, f"https://www.notion.so/acme/Sweep-{bare}",
        f"https://www.notion.so/{bare}?pvs=4", f"https://acme.notion.site/Sweep-{bare}?source=copy_link",
        f"https://www.notion.so/acme/{'0' * 32}?v={'1' * 32}&p={bare}&pm=s", f"notion://www.notion.so/acme/Sweep-{bare}",
    )  # fmt: skip
    for name in names:
        assert ntask.ok("get", name)["task_id"] == task, name
    held = ntask.claim("#1")
    assert ntask.ok("complete", *held.words, "--artifacts", "a")["status"] == "DONE"
    for name in ("TASK-11", "#2", "https://www.notion.so/acme", f"https://www.notion.so/{'a' * 32}"):
        assert ntask("get", name).code == "MISCONFIGURED", name


@pytest.mark.parametrize("form", ["#1", "1", "page"])
def test_unconfirmed_claim_carries_the_task_and_its_page(ntask: Ntask, form: str) -> None:
    task = ntask.create()
    page = place_of(ntask).page(task)
    ntask.ok("get", task)
    reads = place_of(ntask).notion.api.faults
    reads.next("unavailable", method="GET", times=99, skip=1)
    ran = ntask(*claim_words(page if form == "page" else form))
    reads.clear()
    assert ran.code == "API_ERROR"
    assert (ran.task["task_id"], ran.task["page_id"]) == (task, page)
    ntask.ok("heartbeat", task, "--run-id", "run-2", "--lock-token", ran.task["lock_token"])
