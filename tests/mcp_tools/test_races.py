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
from dibs.fleet.minder.words import clock
from dibs.serve.desks import Desks
from dibs.serve.mcp.keeper import Keeper
from dibs.serve.mcp.session import Meant, Session, Who
from dibs.serve.mcp.visitors import Visitors
from dibs.stores.opening import open_store

from .place import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.policy import CanceledBlocker
    from dibs.stores.port import Moved

    from .conftest import OwnClock
    from .place import Place

pytestmark = pytest.mark.anyio

LEASE = timedelta(hours=1)  # in real time it does not end


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


async def finished(place: Place, session: Session, verb: Verb, then: Callable[[], None]) -> None:
    """While a renewal of it is under way."""
    with open_desk(place.url) as opened:
        desk = session.at(opened)
        meant = session.meant(desk, None, None)
        with session.ending(meant):
            desk.move(verb, meant.task, token=meant.token)
            then()


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RELEASE, Verb.BLOCK])
async def test_a_renewal_that_comes_after_the_end_is_no_news(place: Place, gate: HeldUp, verb: Verb) -> None:
    """Not even if another has the task by then."""
    place.add("one")
    keeper = Keeper(gate.open)
    session = Session(Who("ann", "run-1", lease=LEASE), keeper)
    claimed(place, session)
    await until(gate.arrived.is_set)

    def another() -> None:
        if verb is Verb.RELEASE:
            assert place.claimed_by_another("one")
        gate.go.set()
        keeper.stop()
        assert keeper._thread is not None
        keeper._thread.join(PATIENCE)  # after the renewal that is under way, and all that comes of it
        assert not keeper._thread.is_alive()

    await finished(place, session, verb, another)
    assert session.holds == []
    assert session.news() is None


async def test_a_task_that_another_has_by_now_is_news_once(place: Place, gate: HeldUp) -> None:
    place.add("one")
    keeper = Keeper(gate.open)
    session = Session(Who("ann", "run-1", lease=LEASE), keeper)
    claimed(place, session)
    await until(gate.arrived.is_set)
    place.take_over("one")
    gate.go.set()
    await until(lambda: not session.holds)
    assert "held by boss" in (session.news() or "")
    assert session.news() is None
    keeper.stop()


async def test_renewal_is_retried_until_the_store_is_back(place: Place, gate: HeldUp, own_clock: OwnClock) -> None:
    place.add("one")
    gate.trouble = StoreUnavailable("not now")
    gate.go.set()
    keeper = Keeper(gate.open)
    session = Session(Who("ann", "run-1", lease=LEASE), keeper)
    claimed(place, session)
    before = place.expires_at("one")
    await until(gate.failed.is_set)
    assert place.expires_at("one") == before
    gate.trouble = None
    own_clock.advance(minutes=10)
    await until(lambda: place.expires_at("one") > before)
    assert [hold.task.id for hold in session.holds] == ["one"]
    assert session.news() is None
    keeper.stop()


async def test_a_token_that_is_taken_up_by_another_session_leaves_the_first(place: Place) -> None:
    """Or the end of the first would cut the lease of the second short."""
    place.add("one")
    keeper = Keeper(lambda: open_desk(place.url))
    first, second = Session(Who("ann", "run-1"), keeper), Session(Who("ann", "run-2"), keeper)
    claimed(place, first)
    task = place.task("one")
    assert task.lease is not None
    second.adopt(Meant("one", task.lease.token, None), task, clock())
    assert first.holds == []
    assert first.news() is None
    with open_desk(place.url) as desk:
        assert first.end(desk) == []
    assert [hold.task.id for hold in second.holds] == ["one"]
    lease = place.task("one").lease
    assert lease is not None
    assert lease.expires_at is not None
    assert lease.expires_at - lease.claimed_at > timedelta(minutes=19)
    keeper.stop()


async def test_a_claim_whose_client_has_gone_is_found_by_its_token_and_sent_off(place: Place) -> None:
    """Whoever does not wait for the answer does not stop what was asked for."""
    place.add("one")
    visitors, working, go = Visitors(lambda: open_desk(place.url)), threading.Event(), threading.Event()

    def work(desk: Desk, session: Session) -> None:
        working.set()
        assert go.wait(PATIENCE)
        (one,) = session.at(desk).claim("ann")
        session.take(one, clock())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(visitors.attend, Who("ann", "run-1"), None, None, work)
        await until(working.is_set)
        tasks.cancel_scope.cancel()
    go.set()
    await until(lambda: bool(visitors._known))
    (token,) = visitors._known
    lease = place.task("one").lease
    assert lease is not None
    assert token == lease.token
    await visitors.close()


async def test_the_first_calls_of_a_session_find_the_same_visitor(place: Place) -> None:
    visitors = Visitors(lambda: open_desk(place.url))
    seen: list[Session] = []
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(
                visitors.attend, Who("ann", "run-1"), "a", None, lambda _desk, session: seen.append(session)
            )
    assert len(seen) == 5
    assert len({id(session) for session in seen}) == 1
    await visitors.close()


def test_a_desk_is_not_asked_for_when_nothing_is_held(place: Place) -> None:
    opened: list[int] = []

    def open_one() -> Desk:
        opened.append(1)
        return open_desk(place.url)

    keeper, desks = Keeper(open_one), Desks(open_one, size=1)
    Session(Who("ann", "run-1"), keeper)
    keeper.stop()
    desks.close()
    assert opened == []
