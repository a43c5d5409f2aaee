"""The network breaks during a verb: the verb reports its real outcome and happens once.

Every verb runs on two stores whose clocks are stopped at the same moment. One has no fault. On the other, the proxy
drops either the decisive request or its answer (a commit without confirmation). Then both stores must have returned the
same result and contain the same tasks and events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from dibs.core.errors import Held, LostLock, StoreUnavailable
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Edit, Holder, Link, Status
from dibs.lab.torture.proxies import Ending
from dibs.stores.port import Batch, Moved
from dibs.testing.conformance.builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    amend,
    apply,
    blocks,
    dump,
    fleet_of,
    link,
    move,
    plan,
    unlink,
)
from stores.postgres.far import Call, Far, in_time, notice_silence_soon

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.stores.port import Store

pytestmark = pytest.mark.xdist_group("postgres-faults")


def request(*ids: str, count: int = 1, first: int = 1, **more: Any) -> ClaimRequest:
    """Tokens that are the same in every store."""
    tokens = tuple(f"token-{first + number}" for number in range(len(ids) or count))
    return ClaimRequest("ann", tokens, SCOPE, ids, **({"lease": LEASE} | more))


def some(store: Store) -> None:
    """a, b and c, of which c waits for a."""
    add(store, "a", "b", "c", links=[blocks("c", "a")])


def held(store: Store) -> None:
    """The same; a is held under token-1."""
    some(store)
    store.claim(request("a"))


class Play(NamedTuple):
    """A verb, the words of the statement that decides, and what the store is like before."""

    words: str
    act: Callable[[Store], object]
    before: Callable[[Store], None] = some


def both_held(store: Store) -> None:
    """a and b are held, under token-1 and token-2."""
    some(store)
    store.claim(request("a", "b"))


def all_done(store: Store, then: ClaimRequest | None = None) -> Batch:
    finishes = [Move(Verb.DONE, task, SCOPE, MAKER, f"token-{at}") for at, task in enumerate(("a", "b"), 1)]
    return store.move_all(finishes, CanceledBlocker.ESCALATES, then)


def done(store: Store, **more: Any) -> Moved:
    return move(store, Verb.DONE, "a", "token-1", result={"it": "works"}, **more)


QUICK = {
    "claim": Play("EXECUTE claim_head", lambda store: store.claim(request())),
    "claim of several": Play("EXECUTE claim_head", lambda store: store.claim(request(count=3))),
    "claim by name": Play("EXECUTE claim_named", lambda store: store.claim(request("b", "a"))),
    "finish": Play("EXECUTE finish", done, held),
    "finish and next": Play("EXECUTE finish", lambda store: done(store, then=request(first=2)), held),
    "finish of several": Play("EXECUTE finish_all", all_done, both_held),
    "finish of several and next": Play(
        "EXECUTE finish_all", lambda store: all_done(store, then=request(first=3)), both_held
    ),
    "link": Play("EXECUTE add_link", lambda store: link(store, blocks("b", "c"))),
    "renew": Play("EXECUTE renew", lambda store: move(store, Verb.RENEW, "a", "token-1", lease=2 * LEASE), held),
}
WHOLE = {
    "claim by a person": Play("COMMIT", lambda store: store.claim(request("b", "a", holder=Holder.HUMAN))),
    "takeover": Play("COMMIT", lambda store: store.claim(request("a", first=2, holder=Holder.HUMAN, force=True)), held),
    "release": Play("COMMIT", lambda store: move(store, Verb.RELEASE, "a", "token-1"), held),
    "release and next": Play(
        "COMMIT", lambda store: move(store, Verb.RELEASE, "a", "token-1", then=request(first=2)), held
    ),
    "fail": Play("COMMIT", lambda store: move(store, Verb.FAIL, "a", "token-1", reason="broken"), held),
    "block": Play("COMMIT", lambda store: move(store, Verb.BLOCK, "a", "token-1", reason="no key"), held),
    "cancel": Play("COMMIT", lambda store: move(store, Verb.CANCEL, "a")),
    "add": Play("COMMIT", lambda store: add(store, "x", "y", links=[blocks("y", "x"), blocks("x", "a")])),
    "links": Play("COMMIT", lambda store: link(store, blocks("b", "c"), blocks("b", "a"))),
    "unlink": Play("COMMIT", lambda store: unlink(store, Link("c", "a"))),
    "edit": Play("COMMIT", lambda store: amend(store, "a", Edit(title="Another"))),
    "plan": Play(
        "COMMIT", lambda store: apply(store, plan({"id": "a", "t": "New"}, {"id": "x", "deps": ["a"]}, {"id": "y"}))
    ),
    "register": Play("COMMIT", lambda store: fleet_of(store).register("ann", host="here", pid=7).id),
    "prune": Play(
        "COMMIT", lambda store: store.prune(events_before=store.now(), tasks_before=None, progress=lambda _: None)
    ),
}
PLAYS = QUICK | WHOLE

# Only the first answer lists unblocked tasks; a repeated finish returns its task only.
TOLD_ONCE = frozenset(name for name in QUICK if name.startswith("finish"))


@pytest.fixture
def far() -> Iterator[Far]:
    with Far() as stores:
        yield stores


@pytest.fixture
def twin() -> Iterator[Far]:
    with Far() as stores:
        yield stores


def held_by(store: Store) -> list[str]:
    """The whole content, sorted: events of one moment have no order across tasks."""
    return sorted(map(str, dump(store)))


def as_told_again(expected: Any, answer: Any) -> Any:
    if isinstance(expected, Batch):
        outcomes = zip(expected.outcomes, answer.outcomes, strict=True)
        return expected._replace(outcomes=tuple(as_told_again(*pair) for pair in outcomes))
    return expected._replace(unblocked=(), repeated=True) if answer.repeated else expected


def assert_as_if_nothing_had_been(play: Play, name: str, far: Far, twin: Far, lose: Callable[[], Any]) -> None:
    play.before(twin.near)
    play.before(far.near)
    expected = play.act(twin.far)
    far.far.now()  # past the greeting, so that the words are met in the statement itself
    trap = lose()
    answer = in_time(lambda: play.act(far.far))
    assert trap.sprung.is_set(), "the statement never came by"
    if name in TOLD_ONCE:
        expected = as_told_again(expected, answer)
    assert answer == expected
    assert held_by(far.near) == held_by(twin.near)


@pytest.mark.parametrize("name", PLAYS)
def test_verb_with_a_lost_answer_happens_once(name: str, far: Far, twin: Far) -> None:
    play = PLAYS[name]
    assert_as_if_nothing_had_been(play, name, far, twin, lambda: far.proxy.lose_answer(play.words))


@pytest.mark.parametrize("name", PLAYS)
def test_verb_with_a_lost_request_is_repeated(name: str, far: Far, twin: Far) -> None:
    play = PLAYS[name]
    assert_as_if_nothing_had_been(play, name, far, twin, lambda: far.proxy.lose_request(play.words))


@pytest.mark.parametrize(
    "name", ["claim", "finish", "finish and next", "finish of several", "renew", "add", "link", "plan"]
)
def test_verb_without_an_answer_queries_the_outcome(name: str, far: Far, twin: Far) -> None:
    play = PLAYS[name]
    notice_silence_soon(far.far)
    lose = lambda: far.proxy.lose_answer(play.words, Ending.SILENCE)  # noqa: E731 - one line, said once
    assert_as_if_nothing_had_been(play, name, far, twin, lose)


def test_claim_lost_in_the_first_statement_is_recognised(far: Far) -> None:
    some(far.near)
    trap = far.proxy.lose_answer("EXECUTE claim_head")
    (claimed,) = in_time(lambda: far.far.claim(request()))
    assert trap.sprung.is_set()
    assert (claimed.task.id, claimed.task.attempt) == ("a", 1)
    assert far.near.counts(SCOPE).by_status[Status.ACTIVE] == 1


def test_interrupted_import_reports_that_nothing_was_changed(far: Far) -> None:
    some(far.near)
    exported = list(far.near.dump())
    with Far() as other:
        other.far.now()
        trap = other.proxy.lose_request("COMMIT")
        with pytest.raises(StoreUnavailable, match="nothing was changed"):
            in_time(lambda: other.far.restore(iter(exported), Actor("mover"), lambda _: None))
        assert trap.sprung.is_set()
        assert list(other.near.dump()) == []


def test_import_with_a_lost_answer_reports_success(far: Far) -> None:
    some(far.near)
    exported = list(far.near.dump())
    with Far() as other:
        other.far.now()
        trap = other.proxy.lose_answer("COMMIT")
        assert in_time(lambda: other.far.restore(iter(exported), Actor("mover"), lambda _: None)) == 3
        assert trap.sprung.is_set()
        assert [record.item for record in other.near.dump()][:3] == [record.item for record in exported][:3]


def test_repeatedly_lost_answers_claim_one_task(far: Far) -> None:
    some(far.near)
    traps = [
        far.proxy.lose_answer("EXECUTE claim_head"),
        far.proxy.lose_answer("unnest("),
        far.proxy.lose_request("unnest("),
    ]
    (claimed,) = in_time(lambda: far.far.claim(request()))
    assert [trap.sprung.is_set() for trap in traps] == [True, True, True]
    assert (claimed.task.id, claimed.task.attempt) == ("a", 1)
    assert far.near.counts(SCOPE).by_status[Status.ACTIVE] == 1


def test_repeated_finish_after_a_lost_lease_is_rejected(far: Far) -> None:
    """The request is lost. Before it is repeated, the lease expires and another agent claims the task."""
    held(far.near)
    far.far.now()
    notice_silence_soon(far.far)
    far.proxy.lose_request("EXECUTE finish", Ending.SILENCE)
    trap = far.proxy.lose_request("pg_terminate_backend", Ending.RESET)
    finishing = Call(lambda: done(far.far))
    trap.wait()
    far.clock.advance(minutes=30)
    (taken,) = far.near.claim(ClaimRequest("bob", ("token-9",), SCOPE, ("a",), lease=LEASE))
    with pytest.raises(LostLock):
        finishing.result()
    assert far.near.get(SCOPE, "a") == taken.task


def test_refusal_with_a_lost_answer_is_recorded_once(far: Far, twin: Far) -> None:
    for stores in (far, twin):
        held(stores.near)
    far.far.now()
    trap = far.proxy.lose_answer("COMMIT")
    for stores in (twin, far):
        with pytest.raises(Held):
            stores.far.claim(request("a", first=5))
    assert trap.sprung.is_set()
    assert held_by(far.near) == held_by(twin.near)
