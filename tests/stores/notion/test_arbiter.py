"""Strict claims: the ledger on real stores, and corrections of pages."""

from __future__ import annotations

from datetime import timedelta
from threading import Barrier, Thread
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import PostgresHarness, SqliteHarness
from core.samples import make_task
from dibs.core.errors import DibsError, Held, LostLock, Misconfigured
from dibs.core.lifecycle import ClaimRequest
from dibs.core.task import Actor, Holder, Lease, Status
from dibs.stores.notion.arbiter import Ledger, Row, decided, reconcile
from dibs.stores.notion.guard import View
from dibs.stores.opening import open_store
from dibs.stores.port import Capabilities
from dibs.stores.sqlite.store import SqliteStore
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conformance.harness import StoreHarness
    from dibs.core.task import Task

ANN, BOB = Actor("ann", "run-1"), Actor("bob")
LEASE = timedelta(minutes=20)


def request(by: Actor, lease: timedelta = LEASE) -> ClaimRequest:
    return ClaimRequest(by.agent or "", (), run=by.run, lease=lease)


@pytest.fixture(params=[SqliteHarness, PostgresHarness], ids=["sqlite", "postgres"])
def harness(tmp_path: Path, request: pytest.FixtureRequest) -> StoreHarness:
    made: StoreHarness = request.param(str(tmp_path))
    return made


@pytest.fixture
def clock(harness: StoreHarness) -> Clock:
    return harness.clock


@pytest.fixture
def ledger(harness: StoreHarness) -> Iterator[Ledger]:
    with harness.open() as store:
        yield Ledger(store, "db1")


# The ledger


def test_the_first_claim_of_a_page_makes_its_row(ledger: Ledger, clock: Clock) -> None:
    assert ledger.row("TASK-1") == Row(0, None, live=False, left=None)
    lease = ledger.claim("TASK-1", request(ANN), "t1")
    assert lease == Lease("t1", 1, "ann", "run-1", Holder.AGENT, clock(), clock() + LEASE)
    assert ledger.row("TASK-1") == Row(1, lease, live=True, left=None)


def test_held_row_is_refused_to_others(ledger: Ledger) -> None:
    ledger.claim("TASK-1", request(ANN), "t1")
    with pytest.raises(Held) as refused:
        ledger.claim("TASK-1", request(BOB), "t2")
    assert refused.value.holder == "ann"
    assert refused.value.retry_after_ms == 1_200_000


def test_claim_repeated_with_the_same_token_succeeds(ledger: Ledger) -> None:
    first = ledger.claim("TASK-1", request(ANN), "t1")
    assert ledger.claim("TASK-1", request(ANN), "t1") == first


def test_attempt_rises_with_every_claim(ledger: Ledger, clock: Clock) -> None:
    assert ledger.claim("TASK-1", request(ANN), "t1").attempt == 1
    ledger.release("TASK-1", "t1", Status.READY, ANN)
    assert ledger.claim("TASK-1", request(BOB), "t2").attempt == 2
    clock.advance(minutes=20)
    assert ledger.claim("TASK-1", request(ANN), "t3").attempt == 3


def test_a_late_holder_neither_renews_nor_proves_nor_releases(ledger: Ledger, clock: Clock) -> None:
    ledger.claim("TASK-1", request(ANN), "t1")
    clock.advance(minutes=20)
    ledger.claim("TASK-1", request(BOB), "t2")
    for word in (
        lambda: ledger.renew("TASK-1", "t1", LEASE, ANN),
        lambda: ledger.prove("TASK-1", "t1", ANN),
        lambda: ledger.release("TASK-1", "t1", Status.DONE, ANN),
    ):
        with pytest.raises(LostLock):
            word()
    assert ledger.row("TASK-1").lease == ledger.renew("TASK-1", "t2", LEASE, BOB)


def test_page_without_row_is_lost_to_its_bearer(ledger: Ledger) -> None:
    with pytest.raises(LostLock, match="knows of no claim"):
        ledger.renew("TASK-9", "t1", LEASE, ANN)


def test_a_renewal_counts_from_now(ledger: Ledger, clock: Clock) -> None:
    ledger.claim("TASK-1", request(ANN), "t1")
    clock.advance(minutes=15)
    assert ledger.renew("TASK-1", "t1", LEASE, ANN).expires_at == clock() + LEASE


def test_final_write_gets_a_minute_within_the_lease(ledger: Ledger, clock: Clock) -> None:
    end = clock() + LEASE
    ledger.claim("TASK-1", request(ANN), "t1")
    assert ledger.prove("TASK-1", "t1", ANN).expires_at == end
    clock.advance(minutes=19, seconds=50)
    assert ledger.prove("TASK-1", "t1", ANN).expires_at == clock() + timedelta(minutes=1)


@pytest.mark.parametrize("left", [Status.DONE, Status.READY, Status.BLOCKED])
def test_row_is_free_after_the_final_write_and_keeps_its_status(ledger: Ledger, left: Status) -> None:
    ledger.claim("TASK-1", request(ANN), "t1")
    for _ in range(2):  # the answer to the first may have been lost
        ledger.release("TASK-1", "t1", left, ANN)
    assert ledger.row("TASK-1") == Row(1, None, live=False, left=left)


def test_persons_change_ends_the_row_and_refuses_the_holder(ledger: Ledger) -> None:
    ledger.overrule("TASK-1", None, Status.READY, Actor("pat"))
    held = ledger.claim("TASK-1", request(ANN), "t1")
    ledger.overrule("TASK-1", held, Status.READY, Actor("pat"))
    assert ledger.row("TASK-1") == Row(1, None, live=False, left=Status.READY)
    with pytest.raises(LostLock):
        ledger.renew("TASK-1", "t1", LEASE, ANN)


def test_claim_after_a_persons_change_is_kept(ledger: Ledger) -> None:
    before = ledger.claim("TASK-1", request(ANN), "t1")
    ledger.release("TASK-1", "t1", Status.READY, ANN)
    since = ledger.claim("TASK-1", request(BOB), "t2")
    ledger.overrule("TASK-1", before, Status.READY, Actor("pat"))
    ledger.overrule("TASK-1", None, Status.READY, Actor("pat"))
    assert ledger.row("TASK-1") == Row(2, since, live=True, left=Status.READY)


def test_release_is_counted_until_answered_or_withdrawn(ledger: Ledger, clock: Clock) -> None:
    """Unanswered releases stay counted under later holders."""
    ledger.claim("TASK-1", request(ANN), "t1")
    ledger.prove("TASK-1", "t1", ANN, opens=True)
    ledger.withdraw("TASK-1", "t1", ANN)
    assert ledger.row("TASK-1").unheard == 0
    ledger.prove("TASK-1", "t1", ANN, opens=True)
    clock.advance(minutes=20)
    ledger.claim("TASK-1", request(BOB), "t2")
    ledger.prove("TASK-1", "t2", BOB, opens=True)
    assert ledger.row("TASK-1").unheard == 2
    ledger.release("TASK-1", "t2", Status.READY, BOB, heard=True)
    assert ledger.row("TASK-1") == Row(2, None, live=False, left=Status.READY, unheard=1)
    ledger.claim("TASK-1", request(ANN), "t3")
    ledger.release("TASK-1", "t3", None, ANN)
    assert ledger.row("TASK-1") == Row(3, None, live=False, left=Status.READY, unheard=1)


def test_all_rows_are_seen_in_one_look(ledger: Ledger, clock: Clock) -> None:
    ledger.claim("TASK-1", request(ANN, timedelta(minutes=1)), "t1")
    ledger.claim("TASK-2", request(BOB), "t2")
    ledger.claim("TASK-3", request(BOB), "t3")
    ledger.release("TASK-3", "t3", Status.DONE, BOB)
    clock.advance(minutes=5)
    rows = ledger.rows()
    assert {task: (row.live, row.left) for task, row in rows.items()} == {
        "TASK-1": (False, None),
        "TASK-2": (True, None),
        "TASK-3": (False, Status.DONE),
    }


def test_databases_are_separate_from_each_other_and_from_tasks(tmp_path: Path) -> None:
    with SqliteStore(str(tmp_path / "arbiter.db"), create=True) as store:
        one, two = Ledger(store, "db1"), Ledger(store, "db2")
        one.claim("TASK-1", request(ANN), "t1")
        two.claim("TASK-1", request(BOB), "t2")
        assert store.scopes() == ["notion/db1", "notion/db2"]
        assert store.peek(ClaimRequest("cat", (), "default"), 5) == []


def test_a_store_with_timed_claims_cannot_be_an_arbiter(tmp_path: Path) -> None:
    class Timed(SqliteStore):
        capabilities = Capabilities("timed", transactions=False)

    with Timed(str(tmp_path / "arbiter.db"), create=True) as store, pytest.raises(Misconfigured, match="strict"):
        Ledger(store, "db1")


def test_second_creator_of_a_row_learns_the_holder(tmp_path: Path) -> None:
    """Both find no row, and both add one."""
    path = str(tmp_path / "arbiter.db")

    class Second(SqliteStore):
        def add(self, *words: Any) -> list[Task]:
            first.claim("TASK-1", request(ANN), "t1")
            return super().add(*words)

    with SqliteStore(path, create=True) as store, Second(path) as late:
        first = Ledger(store, "db1")
        with pytest.raises(Held) as refused:
            Ledger(late, "db1").claim("TASK-1", request(BOB), "t2")
    assert refused.value.holder == "ann"


def test_eight_simultaneous_row_claims_have_one_winner(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/arbiter.db"
    open_store(url, create=True).close()
    barrier, got = Barrier(8), list[str]()

    def claim(number: int) -> None:
        with open_store(url) as store:
            barrier.wait()
            try:
                got.append(Ledger(store, "db1").claim("TASK-1", request(Actor(f"agent-{number}")), f"t{number}").agent)
            except Held:
                got.append("")

    threads = [Thread(target=claim, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got)[:7] == [""] * 7
    assert sorted(got)[7]


# Which lease counts

NOON = Clock().time


def test_row_lease_overrules_the_page() -> None:
    page = make_task(status=Status.ACTIVE, lease=Lease("old", 1, "bob", None, Holder.AGENT, NOON, NOON + LEASE))
    lease = Lease("t1", 7, "ann", None, Holder.AGENT, NOON, NOON + LEASE)
    assert decided(page, Row(7, lease, live=True, left=None)).lease == lease
    assert decided(page, Row(7, lease, live=True, left=None)).attempt == 7
    assert decided(page, Row(7, None, live=False, left=Status.READY)).lease is None


def test_persons_hold_and_pages_without_row_count() -> None:
    by_hand = make_task(status=Status.ACTIVE, lease=Lease("", 1, "pat", None, Holder.HUMAN, NOON, None))
    lease = Lease("t1", 7, "ann", None, Holder.AGENT, NOON, NOON + LEASE)
    assert decided(by_hand, Row(7, lease, live=True, left=None)) is by_hand
    page = make_task(status=Status.ACTIVE, lease=lease)
    assert decided(page, Row(0, None, live=False, left=None)) is page


# Corrections

OLD = "t1"
LIVE = Lease("t2", 2, "ann", "run-1", Holder.AGENT, NOON, NOON + LEASE)
HELD = Row(2, LIVE, live=True, left=None)
EXPIRED = Row(2, LIVE, live=False, left=None)
OVER = Row(2, None, live=False, left=Status.DONE)
UNHEARD = OVER._replace(unheard=1)
DIED = EXPIRED._replace(left=Status.DONE)  # after a finished task was claimed, before the page was read
BEFORE = NOON - timedelta(minutes=1)


def page(status: Status = Status.ACTIVE, **fields: Any) -> View:
    stated: dict[str, Any] = {
        "edited_at": NOON,
        "holder": Holder.AGENT,
        "agent": "ann",
        "run": "run-1",
        "token": "t2",
        "expires_at": NOON + LEASE,
        **fields,
    }
    return View("TASK-1", status, **stated)


def free(status: Status, **fields: Any) -> View:
    return page(status, **{"holder": None, "agent": None, "run": None, "token": None, "expires_at": None, **fields})


@pytest.mark.parametrize(
    ("view", "row", "written"),
    [
        # Nothing to correct.
        (page(), HELD, {}),
        (page(), EXPIRED, {}),
        (page(expires_at=NOON + LEASE + timedelta(seconds=59)), HELD, {}),  # Notion stores minutes
        (free(Status.DONE), OVER, {}),
        (page(), Row(0, None, live=False, left=None), {}),  # claimed without an arbiter
        # A renewal that failed at Notion, or a late one of another agent.
        (page(expires_at=NOON), HELD, {"expires_at": NOON + LEASE}),
        (page(expires_at=NOON + 3 * LEASE), EXPIRED, {"expires_at": NOON + LEASE}),
        # A late claim over the present or latest holder.
        (page(token=OLD, agent="bob"), HELD, {"lease": LIVE}),
        (page(token=OLD, agent="bob"), EXPIRED, {"lease": LIVE}),
        # A late claim over a finished task.
        (page(token=OLD, agent="bob"), OVER, {"status": Status.DONE, "lease": None}),
        (page(), OVER, {"status": Status.DONE, "lease": None}),
        (page(), Row(2, None, live=False, left=None), {"status": Status.READY, "lease": None}),
        (page(token=OLD, agent="bob"), DIED, {"status": Status.DONE, "lease": None}),
        # A late release, recognised by its count.
        (free(Status.READY), UNHEARD, {"status": Status.DONE, "lease": None}),
        (free(Status.READY), DIED._replace(unheard=1), {"status": Status.DONE, "lease": None}),
        (free(Status.READY), UNHEARD._replace(left=Status.READY), {}),
        (free(Status.READY), HELD._replace(left=Status.DONE, unheard=1), {}),  # the holder decides
        # A crash between the arbiter and Notion.
        (free(Status.READY, edited_at=BEFORE), HELD, {"status": Status.ACTIVE, "lease": LIVE, "started_at": NOON}),
        (free(Status.READY, edited_at=BEFORE), EXPIRED, {}),
    ],
)
def test_page_that_differs_from_its_row_is_corrected(view: View, row: Row, written: dict[str, object]) -> None:
    assert reconcile(view, row) == written


@pytest.mark.parametrize("row", [HELD, EXPIRED, OVER])
@pytest.mark.parametrize(
    "view",
    [
        page(holder=Holder.HUMAN, agent="pat"),
        page(holder=Holder.HUMAN, agent="pat", token=OLD),
        page(holder=Holder.HUMAN, agent="pat", token=None, expires_at=None),
        page(token=None),
        free(Status.READY),  # set back since the claim
        free(Status.DONE),
        free(Status.BLOCKED, edited_at=BEFORE),
        page(Status.CANCELED),
    ],
)
def test_persons_changes_are_never_overwritten(view: View, row: Row) -> None:
    assert reconcile(view, row) == {}


def test_corrected_page_stays_correct() -> None:
    """A second check finds nothing."""
    assert reconcile(page(token=LIVE.token, expires_at=LIVE.expires_at), HELD) == {}
    assert reconcile(free(Status.DONE), OVER) == {}


def test_errors_contain_no_token(ledger: Ledger, clock: Clock) -> None:
    ledger.claim("TASK-1", request(ANN), "secret-1")
    words: list[Callable[[], object]] = [
        lambda: ledger.claim("TASK-1", request(BOB), "secret-2"),
        lambda: ledger.renew("TASK-1", "secret-2", LEASE, BOB),
        lambda: ledger.renew("TASK-2", "secret-2", LEASE, BOB),
    ]
    for word in words:
        with pytest.raises(DibsError) as error:
            word()
        assert "secret" not in f"{error.value!r} {error.value}"
    assert "secret" not in repr(ledger.row("TASK-1"))
    assert ledger.now() == clock()
