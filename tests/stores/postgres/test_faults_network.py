"""The network between a worker and the server breaks, goes silent and returns: no verb hangs, and work continues."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError, LostLock, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import Draft, Status
from dibs.lab.torture.proxies import Ending
from dibs.stores.postgres.store import PostgresStore
from dibs.testing.conformance.builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    apply,
    blocks,
    hold,
    link,
    move,
    plan,
    request,
    verbs,
)
from stores.postgres.far import PATIENT, TIMEOUT, Call, Far, be_patient, hurried, in_time, notice_silence_soon, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.stores.port import Store

pytestmark = pytest.mark.xdist_group("postgres-faults")


@pytest.fixture
def far() -> Iterator[Far]:
    with Far() as stores:
        add(stores.near, "a", "b", "c", links=[blocks("c", "a")])
        yield stores


@pytest.fixture
def slow() -> Iterator[Far]:
    """The same, with a timeout that lets the test cut the connection while the store waits for a row."""
    with Far(timeout=20) as stores:
        add(stores.near, "a", "b", "c", links=[blocks("c", "a")])
        yield stores


VERBS: dict[str, Callable[[Store], object]] = {
    "claim": lambda store: store.claim(request()),
    "claim by name": lambda store: store.claim(request("ann", "b")),
    "peek": lambda store: store.peek(request(), 1),
    "get": lambda store: store.get(SCOPE, "a"),
    "counts": lambda store: store.counts(SCOPE),
    "graph": lambda store: store.graph(SCOPE, finished=True),
    "export": lambda store: list(store.dump()),
    "check": lambda store: store.check(fix=False),
    "add": lambda store: add(store, "x"),
    "link": lambda store: link(store, blocks("b", "a")),
    "plan": lambda store: apply(store, plan({"id": "x"})),
    "cancel": lambda store: move(store, Verb.CANCEL, "a"),
    "wait": lambda store: store.wait(0.1),
    "describe": lambda store: store.describe(),
}


@pytest.mark.parametrize("name", VERBS)
def test_connection_cut_between_verbs_is_replaced(name: str, far: Far) -> None:
    far.far.now()
    assert far.proxy.cut() == 1
    in_time(lambda: VERBS[name](far.far))


@pytest.mark.parametrize("name", ["claim", "get", "graph", "add", "plan", "wait", "check"])
def test_silent_connection_is_detected_and_replaced(name: str, far: Far) -> None:
    far.far.now()
    notice_silence_soon(far.far)
    assert far.proxy.freeze() == 1
    in_time(lambda: VERBS[name](far.far))


@pytest.mark.parametrize("name", ["claim", "get", "graph", "add", "plan", "export"])
def test_verb_times_out_without_network_and_works_after_it_returns(name: str, far: Far) -> None:
    far.far.now()
    with hurried(far.far):
        far.proxy.black_hole()
        with pytest.raises(StoreUnavailable, match="Check that the server runs"):
            in_time(lambda: VERBS[name](far.far))
    far.proxy.heal()
    notice_silence_soon(far.far)  # an export has a connection of its own, and the other is still silent
    (claimed,) = in_time(lambda: far.far.claim(request()))
    assert claimed.task.attempt == 1


def test_server_that_resets_connections_is_unavailable(far: Far) -> None:
    far.far.now()
    with hurried(far.far):
        far.proxy.refuse()
        with pytest.raises(StoreUnavailable):
            in_time(lambda: far.far.claim(request()))
    far.proxy.heal()
    (claimed,) = in_time(lambda: far.far.claim(request()))
    assert claimed.task.attempt == 1


def test_network_back_before_the_timeout_fails_no_verb(far: Far) -> None:
    far.far.now()
    far.proxy.refuse()
    accepted = far.proxy.accepted
    claiming = Call(lambda: far.far.claim(request()))
    until(lambda: far.proxy.accepted > accepted)
    far.proxy.heal()
    assert [claimed.task.attempt for claimed in claiming.result()] == [1]


def test_opening_a_store_without_network_does_not_hang(far: Far) -> None:
    far.proxy.black_hole()
    with pytest.raises(StoreUnavailable):
        in_time(lambda: far.open(timeout=TIMEOUT))


def test_slow_answers_are_awaited(far: Far) -> None:
    far.far.now()
    far.proxy.delay = 0.3
    (claimed,) = in_time(lambda: far.far.claim(request()))
    assert claimed.task.attempt == 1
    assert far.proxy.accepted == 1, "it lost patience with a server that answers in time"


def test_answers_after_the_timeout_claim_once(far: Far) -> None:
    """Every answer is too slow, also over a new connection. A returned claim must be in the store."""
    far.far.now()
    far.proxy.delay = 2.0 * TIMEOUT
    asked = request()
    with hurried(far.far), suppress(StoreUnavailable):
        (claimed,) = in_time(lambda: far.far.claim(asked))
        assert far.near.get(SCOPE, "a") == claimed.task
    far.proxy.heal()
    assert verbs(far.near).count("claim") <= 1


@pytest.mark.parametrize("words", ["pg_terminate_backend", "unnest("])
def test_second_break_during_recovery_is_recovered(words: str, far: Far) -> None:
    far.far.now()
    first, second = far.proxy.lose_answer("EXECUTE claim_head"), far.proxy.lose_answer(words)
    (claimed,) = in_time(lambda: far.far.claim(request()))
    assert first.sprung.is_set()
    assert second.sprung.is_set()
    assert (claimed.task.id, claimed.task.attempt) == ("a", 1)
    assert verbs(far.near, "a").count("claim") == 1


@pytest.mark.parametrize("words", ["pg_terminate_backend", "unnest("])
def test_silence_during_recovery_does_not_hang_and_claims_once(words: str, far: Far) -> None:
    """After two timeouts, a verb may report that the server is unavailable."""
    far.far.now()
    notice_silence_soon(far.far)
    first, second = far.proxy.lose_answer("EXECUTE claim_head"), far.proxy.lose_answer(words, Ending.SILENCE)
    with suppress(StoreUnavailable):
        in_time(lambda: far.far.claim(request()))
    assert first.sprung.is_set()
    assert second.sprung.is_set()
    assert verbs(far.near).count("claim") == 1
    assert in_time(lambda: far.far.get(SCOPE, "a")).attempt == 1


def test_an_unanswered_rollback_does_not_hang(far: Far) -> None:
    far.far.now()
    notice_silence_soon(far.far)
    trap = far.proxy.lose_answer("ROLLBACK", Ending.SILENCE)
    with pytest.raises(DibsError) as caught:
        in_time(lambda: far.far.add(SCOPE, [Draft("Twice", "a")], [], MAKER))
    assert caught.value.code == "ALREADY_EXISTS"
    assert trap.sprung.is_set()
    assert in_time(lambda: far.far.get(SCOPE, "a")).id == "a"


def test_silence_during_a_plan_does_not_hang(far: Far) -> None:
    far.far.now()
    notice_silence_soon(far.far)
    trap = far.proxy.lose_answer("lock_scope", Ending.SILENCE)
    in_time(lambda: apply(far.far, plan({"id": "x"})))
    assert trap.sprung.is_set()
    assert far.near.get(SCOPE, "x").status is Status.READY


@pytest.mark.parametrize("words", ["advisory_xact_lock", "CREATE TABLE task", "INTO schema_version", "COMMIT"])
def test_silence_during_init_leaves_all_or_nothing(words: str, far: Far) -> None:
    schema = f"{far.schema}_made"
    trap = far.proxy.lose_answer(words, Ending.SILENCE)
    hasty = far.proxy.url(timeout=TIMEOUT, connect_timeout=PATIENT)
    try:
        with suppress(StoreUnavailable):
            in_time(lambda: PostgresStore(hasty, schema=schema, create=True)).close()
        assert trap.sprung.is_set()
        far.proxy.cut()  # now the server notices too, and gives back what the lost session had locked
        with in_time(lambda: PostgresStore(far.proxy.url(timeout=PATIENT), schema=schema, create=True)) as made:
            add(made, "a")
            assert made.check(fix=False) == []
    finally:
        with far.admin() as admin, admin.cursor() as cursor:
            cursor.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {schema} CASCADE")
            admin.commit()


@pytest.mark.parametrize("refused_first", [False, True])
def test_lost_session_is_ended_before_its_claim_is_repeated(refused_first: bool, slow: Far) -> None:
    """Else it would get the row one day, and claim for someone who has stopped listening."""
    slow.far.now()
    be_patient(slow.far)
    asked = request("ann", "a")
    with slow.admin() as admin, admin.cursor() as cursor:
        cursor.execute("SELECT FROM task WHERE id = 'a' FOR UPDATE")
        claiming = Call(lambda: slow.far.claim(asked))
        until(lambda: any(session[1] == "Lock" for session in slow.sessions()))
        (waiting,) = [session[0] for session in slow.sessions() if session[1] == "Lock"]
        accepted = slow.proxy.accepted
        slow.proxy.refusing = refused_first
        slow.proxy.freeze()
        until(lambda: slow.proxy.accepted > accepted)
        slow.proxy.heal()
        until(lambda: waiting not in [session[0] for session in slow.sessions()])
        admin.rollback()
        (claimed,) = claiming.result()
    assert (claimed.task.attempt, claimed.task.lease and claimed.task.lease.token) == (1, asked.tokens[0])
    assert verbs(slow.near, "a").count("claim") == 1


def test_finish_after_an_outage_longer_than_the_lease_is_rejected(far: Far) -> None:
    token = hold(far.far, "a")
    notice_silence_soon(far.far)
    far.proxy.freeze()
    far.clock.advance(minutes=30)
    (taken,) = far.near.claim(ClaimRequest("bob", ("another-token",), SCOPE, ("a",), lease=LEASE))
    with pytest.raises(LostLock):
        in_time(lambda: move(far.far, Verb.DONE, "a", token))
    assert far.near.get(SCOPE, "a") == taken.task


def test_waiting_for_work_outlives_a_dead_connection(far: Far) -> None:
    in_time(lambda: far.far.wait(0.1))
    notice_silence_soon(far.far)
    far.proxy.freeze()
    assert in_time(lambda: far.far.wait(60.0)), "a new connection may have missed something, and says so"
    assert in_time(lambda: far.far.wait(0.1)) is False
    add(far.near, "late")
    assert in_time(lambda: far.far.wait(60.0)), "it does not listen on the new connection"
