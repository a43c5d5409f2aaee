"""People's changes in Notion win at every step of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import DibsError, Held, IncompleteSubtasks, LostLock, NotFound, Refused
from dibs.core.lifecycle import Verb
from dibs.core.task import Holder, Status

from .desk import PATIENCE, SCOPE, add, claim, date, hold, in_background, move, peek_ids, select, text, title

if TYPE_CHECKING:
    from .desk import Place

HOLDERS_VERBS = (Verb.RENEW, Verb.DONE, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL, Verb.RELEASE)

TAKE_OVERS: dict[str, dict[str, Any]] = {
    "Claimed By is set to HUMAN": {"Claimed By": select("HUMAN")},
    "Claimed By is cleared": {"Claimed By": select(None)},
    "the status is set to REVIEW": {"Status": select("REVIEW")},
    "the status is set to READY": {"Status": select("READY")},
    "the status is set to DONE": {"Status": select("DONE")},
    "the lock is cleared": {"Lock Token": text(""), "Lock Expires": date(None)},
    "the lock's end is cleared": {"Lock Expires": date(None)},
    "the token is replaced": {"Lock Token": text("mine now")},
}


def stores(place: Place, *, strict: bool) -> Any:
    if not strict:
        return place.open()
    from dibs.stores.opening import open_store

    open_store(place.arbiter, create=True).close()
    place.follow_clock()
    return place.open(arbiter=place.arbiter)


@pytest.mark.parametrize("verb", HOLDERS_VERBS)
@pytest.mark.parametrize("how", TAKE_OVERS)
def test_holder_is_refused_after_a_persons_takeover(place: Place, how: str, verb: Verb) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.notion.human.edit(str(task.origin), TAKE_OVERS[how])
    before = place.shows(str(task.origin))
    with pytest.raises(LostLock):
        move(store, verb, task.id, token, reason="because")
    assert place.shows(str(task.origin)) == before


@pytest.mark.parametrize("verb", HOLDERS_VERBS)
@pytest.mark.parametrize(
    "how", ["Claimed By is set to HUMAN", "the status is set to REVIEW", "the status is set to DONE"]
)
def test_persons_takeover_ends_the_arbiters_lease(place: Place, how: str, verb: Verb) -> None:
    store = stores(place, strict=True)
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.notion.human.edit(str(task.origin), TAKE_OVERS[how])
    before = place.shows(str(task.origin))
    with pytest.raises(LostLock):
        move(store, verb, task.id, token, reason="because")
    assert place.shows(str(task.origin)) == before
    assert not store._db.ledger.row(task.id).live


@pytest.mark.parametrize("strict", [False, True])
def test_page_held_by_a_person_is_never_claimed(place: Place, strict: bool) -> None:
    store = stores(place, strict=strict)
    for status in ("READY", "IN_PROGRESS"):
        for until in (None, "2020-01-01", "2030-01-01"):
            page = place.page(Status=select(status), **{"Claimed By": select("HUMAN"), "Lock Expires": date(until)})
            with pytest.raises(Held):
                hold(store, page)
    unsigned = place.page("a person has set the status by hand", Status=select("IN_PROGRESS"))
    with pytest.raises(Held, match="is held by a person"):
        hold(store, unsigned)
    assert claim(store) == []


ODD: dict[str, tuple[dict[str, Any], bool]] = {
    "claimed by an agent, but until nobody knows when": (
        {"Status": select("READY"), "Claimed By": select("AGENT")}, True,
    ),
    "in progress by an agent, but until nobody knows when": (
        {"Status": select("IN_PROGRESS"), "Claimed By": select("AGENT")}, True,
    ),
    "claimed by nobody, but locked": ({"Status": select("READY"), "Lock Expires": date("2030-01-01")}, True),
    "claimed by an agent, long ago": (
        {"Status": select("READY"), "Claimed By": select("AGENT"), "Lock Expires": date("2020-01-01")}, False,
    ),
    "in progress by an agent, long ago": (
        {"Status": select("IN_PROGRESS"), "Claimed By": select("AGENT"), "Lock Expires": date("2020-01-01")}, False,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", ODD)
def test_odd_states_are_claimable_with_a_comment(place: Place, how: str) -> None:
    store = place.open()
    properties, odd = ODD[how]
    page = place.page(**properties)
    assert [claimed.task.origin for claimed in claim(store)] == [page]
    told = place.comments(page)
    assert bool(told) is odd
    assert all("inconsistent" in comment for comment in told)


def test_claim_counts_without_its_comment(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.make()
    page = place.page(**ODD["claimed by nobody, but locked"][0])
    place._patch.setenv("NOTION_TOKEN", place.notion.bot())
    assert [claimed.task.origin for claimed in claim(place.join())] == [page]
    assert "No comment could be left" in caplog.text


def test_locked_ready_page_is_not_claimed(place: Place) -> None:
    store = place.open()
    page = place.page(**{"Claimed By": select("AGENT"), "Agent": text("bob"), "Lock Expires": date("2030-01-01")})
    with pytest.raises(Held, match="bob"):
        hold(store, page)
    assert peek_ids(store) == []


STEPS = {
    "before it is read": ("GET", False),
    "before it is written": ("PATCH", False),
    "after it was written": ("PATCH", True),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("how", ["Claimed By is set to HUMAN", "the status is set to REVIEW"])
def test_person_during_a_claim_wins_or_is_noticed_next(place: Place, how: str, step: str) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    page = str(task.origin)
    method, after = STEPS[step]
    held = place.notion.faults.hold(method, page, after_commit=after)
    outcome = in_background(lambda: hold(store, task.id))
    held.wait_for_arrival(PATIENCE)
    place.notion.human.edit(page, TAKE_OVERS[how])
    held.release()
    token = outcome()
    if isinstance(token, DibsError):
        assert isinstance(token, Refused | LostLock)
        return
    # The agent's write overwrote the person's, so no task in progress was taken over.
    assert step == "before it is written"
    place.notion.human.edit(page, TAKE_OVERS[how])
    with pytest.raises(LostLock):
        move(store, Verb.DONE, task.id, token)


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.BLOCK, Verb.REVIEW, Verb.CANCEL])
def test_person_after_a_final_write_is_not_overwritten(place: Place, verb: Verb) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    page = str(task.origin)
    token = hold(store, task.id)
    held = place.notion.faults.hold("PATCH", page, after_commit=True)
    outcome = in_background(lambda: move(store, verb, task.id, token, reason="because"))
    held.wait_for_arrival(PATIENCE)
    place.notion.human.edit(page, {"Status": select("IN_PROGRESS"), "Claimed By": select("HUMAN")})
    held.release()
    assert isinstance(outcome(), LostLock)
    assert place.shows(page)["Claimed By"] == "HUMAN"


@pytest.mark.parametrize("verb", HOLDERS_VERBS)
def test_trashed_page_is_lost_and_unknown(place: Place, verb: Verb) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.notion.human.trash(str(task.origin))
    with pytest.raises(LostLock, match="deleted while you held it"):
        move(store, verb, task.id, token)
    for ask in (lambda: store.get(SCOPE, task.id), lambda: hold(store, task.id), lambda: hold(place.join(), task.id)):
        with pytest.raises(NotFound):
            ask()
    assert peek_ids(store) == []


def test_a_page_that_is_no_longer_shared_is_not_found(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id)
    place.notion.human.unshare(str(task.origin))
    with pytest.raises(NotFound, match="not shared"):
        move(store, Verb.DONE, task.id, token)


def test_another_run_is_refused_without_writes(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    token = hold(store, task.id, "ann", run="r-1")
    before = place.shows(str(task.origin))
    for verb in HOLDERS_VERBS:
        with pytest.raises(LostLock, match="another run"):
            move(store, verb, task.id, token, run="r-2")
    assert place.shows(str(task.origin)) == before
    assert move(store, Verb.DONE, task.id, token, run="r-1").task.status is Status.DONE


def test_parent_waits_for_sub_tasks_by_rollup(place: Place) -> None:
    store = place.open()
    (parent,) = add(store, "House")
    one, two = add(store, "Kitchen", "Bath", parent=parent.id)
    assert (one.parent, store.get(SCOPE, two.id).parent) == (parent.id, parent.id)
    token = hold(store, parent.id)
    before = place.shows(str(parent.origin))
    with pytest.raises(IncompleteSubtasks, match="2 unfinished"):
        move(store, Verb.DONE, parent.id, token)
    with pytest.raises(LostLock):
        move(store, Verb.DONE, parent.id, "another token")
    assert place.shows(str(parent.origin)) == before
    move(store, Verb.CANCEL, one.id, reason="not needed")
    move(store, Verb.DONE, two.id, hold(store, two.id))
    assert move(store, Verb.DONE, parent.id, token).task.status is Status.DONE


def test_parent_without_rollup_reads_every_sub_task(place: Place) -> None:
    store = place.open("dibs")
    from dibs.core.task import Actor, Draft

    parts = [Draft(f"part {number}", id=f"p{number}", parent="all") for number in range(30)]
    store.add(SCOPE, [Draft("all", id="all"), *parts], [], Actor())
    token = hold(store, "all")
    with pytest.raises(IncompleteSubtasks, match="p0, p1"):
        move(store, Verb.DONE, "all", token)
    for part in parts[:-1]:
        move(store, Verb.CANCEL, part.id)
    with pytest.raises(IncompleteSubtasks, match="p29"):
        move(store, Verb.DONE, "all", token)
    move(store, Verb.CANCEL, "p29")
    assert move(store, Verb.DONE, "all", token).task.status is Status.DONE


def test_person_finishes_only_with_the_own_token(place: Place) -> None:
    store = place.open()
    (task,) = add(store, "Sweep")
    agents = hold(store, task.id)
    hers = hold(store, task.id, "hannah", holder=Holder.HUMAN, force=True)
    shown = place.shows(str(task.origin))
    assert (shown["Claimed By"], shown["Agent"], shown["Lock Expires"]) == ("HUMAN", "hannah", None)
    assert hers not in str(shown)
    with pytest.raises(LostLock):
        move(store, Verb.DONE, task.id, agents)
    with pytest.raises(LostLock):
        move(store, Verb.DONE, task.id, shown["Lock Token"])
    assert move(store, Verb.DONE, task.id, hers).task.status is Status.DONE


@pytest.mark.parametrize("verb", [Verb.RENEW, Verb.DONE, Verb.BLOCK])
def test_person_takes_a_mesh_task_by_name(place: Place, verb: Verb) -> None:
    store = place.open("mesh")
    page = place.notion.page(place.database, {"title": title("Sweep"), "status": select("OPEN")})
    token = hold(store, page, "Sandman")
    assert move(store, Verb.RENEW, page, token, agent="sandman").task.status is Status.ACTIVE
    place.notion.human.edit(page, {"claimed_by": text("Maria")})
    before = place.shows(page)
    with pytest.raises(LostLock, match="Maria's now"):
        move(store, verb, page, token, agent="Sandman")
    assert place.shows(page) == before
