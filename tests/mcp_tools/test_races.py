"""What a renewal and a call do to each other, in every order: the renewal is held up where the test wants it."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio
import pytest

from dibs.core.errors import StoreUnavailable
from dibs.core.lifecycle import Verb
from dibs.desk import Desk, open_desk
from dibs.fleet.supervisor.protocol import clock
from dibs.serve.desks import Desks
from dibs.serve.mcp.sessions import CallTarget, HttpClients, Identity, LeaseRenewer, Session
from dibs.stores.opening import open_store
from support.mcp import PATIENCE, lost_renewal, until

from .test_sessions import left

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.policy import CanceledBlocker
    from dibs.stores.port import Moved
    from support.mcp import Place

    from .conftest import OwnClock

pytestmark = pytest.mark.anyio

LEASE = timedelta(hours=1)  # in real time it does not end
GRACE = timedelta(minutes=2)
OVERTAKING = 1.5  # seconds that a write has to overtake a renewal


class HeldUp:
    """Desks whose renewals stop at a gate: `arrived` is set by one that comes, `go` lets all pass."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.arrived, self.go = threading.Event(), threading.Event()
        self.trouble: Exception | None = None
        self.failed = threading.Event()

    def open(self) -> Desk:
        store = open_store(self._url)
        move = store.move

        def gated(asked: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
            if asked.verb is Verb.RENEW:
                self.arrived.set()
                assert self.go.wait(PATIENCE)
                if self.trouble is not None:
                    self.failed.set()
                    raise self.trouble
            return move(asked, on_cancel, then)

        store.move = gated  # type: ignore[method-assign, assignment]  # the test's own
        return Desk(store)


@pytest.fixture
def gate(place: Place) -> Iterator[HeldUp]:
    made = HeldUp(place.url)
    yield made
    made.go.set()


def claimed(place: Place, session: Session) -> None:
    """So long ago that it is time to renew it."""
    with open_desk(place.url) as desk:
        (one,) = session.at(desk).claim(session.who.agent, lease=session.who.lease)
        session.take(one, clock() - session.who.lease.total_seconds() / 3)


def let_pass(gate: HeldUp, write: Callable[[], object]) -> None:
    """Try to write while a renewal is under way, then let the renewal go: the write has to wait for it."""
    writing = threading.Thread(target=write)
    writing.start()
    writing.join(OVERTAKING)
    waits = writing.is_alive()
    gate.go.set()
    writing.join(PATIENCE)
    assert not writing.is_alive()
    assert waits


async def renewing(place: Place, gate: HeldUp, renewer: LeaseRenewer, grace: timedelta = GRACE) -> Session:
    """A session that holds `one`, whose renewal has come as far as the gate."""
    place.add("one")
    session = Session(Identity("ann", "run-1", lease=LEASE, grace=grace), renewer)
    claimed(place, session)
    await until(gate.arrived.is_set)
    return session


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RELEASE, Verb.BLOCK])
async def test_end_of_a_task_waits_for_a_renewal_under_way(place: Place, gate: HeldUp, verb: Verb) -> None:
    renewer = LeaseRenewer(gate.open)
    session = await renewing(place, gate, renewer)

    def end() -> None:
        with open_desk(place.url) as opened:
            desk = session.at(opened)
            meant = session.meant(desk, None, None)
            with session.ending(meant):
                desk.move(verb, meant.task, token=meant.token)

    let_pass(gate, end)
    renewer.stop()
    assert place.task("one").lease is None
    assert not lost_renewal(place, "one")
    assert session.holds == []
    assert session.news() is None


@pytest.mark.parametrize("grace", [GRACE, timedelta(0)])
async def test_last_write_of_a_session_waits_for_a_renewal_under_way(
    place: Place, gate: HeldUp, grace: timedelta
) -> None:
    """Else the renewal would bring back the lease that was just cut short or released."""
    renewer = LeaseRenewer(gate.open)
    session = await renewing(place, gate, renewer, grace)
    let_pass(gate, lambda: end_of(place, session))
    renewer.stop()
    if grace:
        assert left(place, "one") <= grace
    else:
        assert place.task("one").lease is None


async def test_last_write_waits_for_the_renewal_of_a_session_before(place: Place, gate: HeldUp) -> None:
    """Both sessions hold the task under one token."""
    renewer = LeaseRenewer(gate.open)
    await renewing(place, gate, renewer)
    second, task = Session(Identity("ann", "run-2", lease=LEASE, grace=GRACE), renewer), place.task("one")
    assert task.lease is not None
    second.adopt(CallTarget("one", task.lease.token, None), task, clock())
    let_pass(gate, lambda: end_of(place, second))
    renewer.stop()
    assert left(place, "one") <= GRACE


def end_of(place: Place, session: Session) -> None:
    with open_desk(place.url) as desk:
        session.end(desk)


async def test_stop_waits_for_a_renewal_under_way(place: Place, gate: HeldUp) -> None:
    renewer = LeaseRenewer(gate.open)
    await renewing(place, gate, renewer)
    before = place.expires_at("one")
    let_pass(gate, renewer.stop)
    assert place.expires_at("one") > before


async def test_lost_task_is_reported_once(place: Place, gate: HeldUp) -> None:
    place.add("one")
    renewer = LeaseRenewer(gate.open)
    session = Session(Identity("ann", "run-1", lease=LEASE), renewer)
    claimed(place, session)
    await until(gate.arrived.is_set)
    place.take_over("one")
    gate.go.set()
    await until(lambda: not session.holds)
    assert "held by boss" in (session.news() or "")
    assert session.news() is None
    renewer.stop()


async def test_renewal_is_retried_until_the_store_is_back(place: Place, gate: HeldUp, own_clock: OwnClock) -> None:
    place.add("one")
    gate.trouble = StoreUnavailable("not now")
    gate.go.set()
    renewer = LeaseRenewer(gate.open)
    session = Session(Identity("ann", "run-1", lease=LEASE), renewer)
    claimed(place, session)
    before = place.expires_at("one")
    await until(gate.failed.is_set)
    assert place.expires_at("one") == before
    gate.trouble = None
    own_clock.advance(minutes=10)
    await until(lambda: place.expires_at("one") > before)
    assert [hold.task.id for hold in session.holds] == ["one"]
    assert session.news() is None
    renewer.stop()


async def test_token_resumed_elsewhere_leaves_the_first_session(place: Place) -> None:
    """Or the end of the first would cut the lease of the second short."""
    place.add("one")
    renewer = LeaseRenewer(lambda: open_desk(place.url))
    first, second = Session(Identity("ann", "run-1"), renewer), Session(Identity("ann", "run-2"), renewer)
    claimed(place, first)
    task = place.task("one")
    assert task.lease is not None
    second.adopt(CallTarget("one", task.lease.token, None), task, clock())
    assert first.holds == []
    assert first.news() is None
    with open_desk(place.url) as desk:
        assert first.end(desk) == []
    assert [hold.task.id for hold in second.holds] == ["one"]
    lease = place.task("one").lease
    assert lease is not None
    assert lease.expires_at is not None
    assert lease.expires_at - lease.claimed_at > timedelta(minutes=19)
    renewer.stop()


async def test_claim_of_a_gone_client_is_found_by_token_and_ended(place: Place) -> None:
    """A canceled call still completes."""
    place.add("one")
    clients, working, go = HttpClients(lambda: open_desk(place.url)), threading.Event(), threading.Event()

    def work(desk: Desk, session: Session) -> None:
        working.set()
        assert go.wait(PATIENCE)
        (one,) = session.at(desk).claim("ann")
        session.take(one, clock())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(clients.attend, Identity("ann", "run-1"), None, None, work)
        await until(working.is_set)
        tasks.cancel_scope.cancel()
    go.set()
    await until(lambda: bool(clients._known))
    (token,) = clients._known
    lease = place.task("one").lease
    assert lease is not None
    assert token == lease.token
    await clients.close()


async def test_first_calls_of_a_session_share_a_client(place: Place) -> None:
    clients = HttpClients(lambda: open_desk(place.url))
    seen: list[Session] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(
                clients.attend, Identity("ann", "run-1"), "a", None, lambda _desk, session: seen.append(session)
            )
    assert len(seen) == 5
    assert len({id(session) for session in seen}) == 1
    await clients.close()


def test_session_without_tasks_ends_without_a_desk(place: Place) -> None:
    opened: list[int] = []

    def open_one() -> Desk:
        opened.append(1)
        return open_desk(place.url)

    renewer, desks = LeaseRenewer(open_one), Desks(open_one, size=1)
    Session(Identity("ann", "run-1"), renewer)
    renewer.stop()
    desks.close()
    assert opened == []
