"""Plain statements write the same as the general way, or nothing if the case is not plain."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import neo4j
import pytest

from dibs.core.errors import DibsError
from dibs.core.fleet import Profile
from dibs.core.lifecycle import RULES, ClaimRequest, Move, Proof, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Holder, Link, LinkKind, Status
from dibs.lab.torture.proxies import BOLT_COMMIT, BoltProxy
from dibs.stores.neo4j import claims
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery, Query
from support.clock import Clock
from support.neo4j import admin, fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BY = Actor("ann", "run 1")
KEEPS = CanceledBlocker.RESOLVES
SOON = Clock().time + timedelta(minutes=30)
DRAFTS = [
    Draft("A", "a", description="first", extra={"n": 1}), Draft("B", "b"), Draft("C", "c"), Draft("P", "p"),
    Draft("K", "k", parent="p"), Draft("H", "h", max_retries=0), Draft("N", "n", requires=("gpu",)),
    Draft("O", "o", assigned_to="ann", not_before=SOON),
]  # fmt: skip
LINKS = [Link("b", "a"), Link("c", "a", LinkKind.FEEDS_INTO), Link("c", "b"), Link("b", "p", LinkKind.PARALLEL_OK)]

_NODES = """
MATCH (n:Item) WHERE n.desk = $desk AND n.sender_hash = 's' AND n.id IS NOT NULL
RETURN labels(n) AS labels, properties(n) AS values ORDER BY n.id
UNION ALL
MATCH (n:Event) WHERE n.desk = $desk AND n.seq > 0
RETURN labels(n) AS labels, properties(n) AS values ORDER BY n.seq
"""


class Twin:
    """Two desks with the same calls, one of which always takes the general way."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.clock = Clock()
        self.patch = patch
        self.desks = [fresh_desk(), fresh_desk()]
        self.stores = [Neo4jStore(shared_url(), desk=desk, clock=self.clock) for desk in self.desks]
        self.opened: list[bool] = []
        self.begun = 0  # transactions of the first store, for the latest act
        begin = neo4j.Session.begin_transaction

        def noted(session: neo4j.Session, **options: Any) -> neo4j.Transaction:
            self.opened.append(True)
            return begin(session, **options)

        patch.setattr(neo4j.Session, "begin_transaction", noted)
        self.on_both(lambda store: store.add("s", DRAFTS, LINKS, BY))

    def on_both(self, act: Callable[[Neo4jStore], object]) -> bool:
        """Whether a plain statement was enough for the first desk."""
        self.opened.clear()
        short = _answer(act, self.stores[0])
        self.begun = len(self.opened)
        plainly = not self.opened
        with self.patch.context() as patch:
            patch.setattr(claims, "plain_claim", lambda _: None)
            patch.setattr(claims, "plain_move", lambda _: None)
            assert short == _answer(act, self.stores[1])
        assert self.nodes(0) == self.nodes(1)
        return plainly

    def nodes(self, which: int) -> list[tuple[list[str], dict[str, Any]]]:
        rows = admin().execute_query(_NODES, desk=self.desks[which]).records
        return [(sorted(row["labels"]), _lasting(row["values"], set(row["labels"]))) for row in rows]


def _lasting(values: dict[str, Any], labels: set[str]) -> dict[str, Any]:
    by_chance = {"desk", "mark"} | ({"id"} if "TaskDispatch" in labels else set())
    return {name: str(value) for name, value in values.items() if name not in by_chance}


def _answer(act: Callable[[Neo4jStore], object], store: Neo4jStore) -> object:
    try:
        return act(store)
    except DibsError as error:
        return type(error), error.message


@pytest.fixture
def twin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Twin]:
    made = Twin(monkeypatch)
    yield made
    for store in made.stores:
        assert store.check(fix=False) == []
        store.close()


def claim(proof: str = "t", **more: Any) -> Callable[[Neo4jStore], object]:
    return lambda store: store.claim(ClaimRequest("ann", (proof,), "s", **{"run": "run 1", **more}))


def move(verb: Verb, task: str = "a", proof: str | None = "t", **more: Any) -> Callable[[Neo4jStore], object]:
    asked = Move(verb, task, "s", BY, proof)._replace(**more)
    return lambda store: store.move(asked, KEEPS)


MOVES: dict[str, dict[str, Any]] = {
    "done": {"verb": Verb.DONE, "result": {"x": 1}, "artifacts": ("f",)},
    "done, nothing to show": {"verb": Verb.DONE, "reason": "trivial"},
    "fail": {"verb": Verb.FAIL, "reason": "oops"},
    "fail, later": {"verb": Verb.FAIL, "reason": "oops", "not_before": SOON},
    "fail, due": {"verb": Verb.FAIL, "not_before": Clock().time},
    "release": {"verb": Verb.RELEASE},
    "renew": {"verb": Verb.RENEW, "lease": timedelta(hours=3, microseconds=7)},
    "renew, as it is": {"verb": Verb.RENEW},
    "block": {"verb": Verb.BLOCK, "reason": "no key", "unblock_action": "send it", "next_check_at": SOON},
    "review": {"verb": Verb.REVIEW, "reason": "look", "result": [1]},
    "late but heard": {"verb": Verb.DONE, "late_ok": True},
    "by another's hand": {"verb": Verb.DONE, "by": Actor("bob")},
}


@pytest.mark.parametrize("name", MOVES)
def test_plain_statements_write_the_same_as_the_general_way(twin: Twin, name: str) -> None:
    assert twin.on_both(claim())
    twin.clock.advance(minutes=1)
    assert twin.on_both(move(**MOVES[name]))
    twin.clock.advance(minutes=1)
    assert twin.on_both(claim("u", can=frozenset({"gpu"})))


def test_plain_statements_return_inputs_and_unblocked_tasks(twin: Twin) -> None:
    assert twin.on_both(claim())
    assert twin.on_both(move(Verb.DONE, result={"x": 1}))
    assert twin.on_both(claim("u"))
    assert [task.id for task in twin.stores[0].find(Query(statuses=(Status.ACTIVE,)))] == ["b"]
    assert twin.on_both(move(Verb.DONE, "b", "u", artifacts=("out",)))


def test_human_lease_never_expires_and_ignores_assignment(twin: Twin) -> None:
    assert twin.on_both(claim(holder=Holder.HUMAN))
    twin.clock.advance(days=3)
    assert not twin.on_both(move(Verb.DONE))


def test_empty_queue_is_plain_and_writes_nothing(twin: Twin) -> None:
    for token in "tuvwxyz":
        twin.on_both(claim(token, can=frozenset({"gpu"})))
    before = twin.nodes(0)
    assert twin.on_both(claim("!"))
    assert twin.nodes(0) == before


HOLD_A, HOLD_H, HOLD_P = (
    lambda store, task=task: store.claim(ClaimRequest("ann", ("t",), "s", (task,))) for task in "ahp"
)
NOT_PLAIN: dict[str, tuple[Any, ...]] = {
    "a lease has ended": (claim(), {"hours": 1}, claim("u")),
    "no retry is left": (HOLD_H, move(Verb.FAIL, "h")),
    "a child is open": (HOLD_P, move(Verb.DONE, "p")),
    "it expired": (HOLD_A, {"hours": 1}, move(Verb.DONE)),
    "another's token": (HOLD_A, move(Verb.DONE, proof="mine")),
    "it was done before": (HOLD_A, move(Verb.DONE), move(Verb.DONE)),
    "something else is due": (claim(), claim("u"), {"minutes": 25}, move(Verb.DONE, late_ok=True)),
    "no token": (HOLD_A, move(Verb.DONE, proof=None, named=True)),
    "by nobody": (HOLD_A, move(Verb.DONE, by=Actor())),
    "it says something new": (HOLD_A, move(Verb.DONE, extra={"n": 2})),
    "it goes to the end of the queue": (HOLD_A, {"hours": 0.1}, move(Verb.RELEASE, requeue=True)),
    "no such task": (move(Verb.DONE, "nowhere"),),
    "no such scope": (lambda store: store.claim(ClaimRequest("ann", ("t",), "elsewhere")),),
}


@pytest.mark.parametrize("case", NOT_PLAIN)
def test_other_cases_take_the_general_way(twin: Twin, case: str) -> None:
    *before, last = NOT_PLAIN[case]
    for act in before:
        twin.clock.advance(**act) if isinstance(act, dict) else twin.on_both(act)
    assert not twin.on_both(last)


def go_on(task: str, proof: str, then: str, verb: Verb = Verb.DONE, **more: Any) -> Callable[[Neo4jStore], object]:
    asked = Move(verb, task, "s", BY, proof)
    return lambda store: store.move(asked, KEEPS, ClaimRequest("ann", (then,), "s", **{"run": "run 1", **more}))


def test_plain_finish_and_next_is_one_transaction(twin: Twin) -> None:
    twin.on_both(claim())
    for proof, then, verb in (("t", "u", Verb.DONE), ("u", "v", Verb.FAIL), ("v", "w", Verb.DONE)):
        twin.clock.advance(seconds=1)
        (held,) = twin.stores[0].find(Query("s", (Status.ACTIVE,)))
        twin.on_both(go_on(held.id, proof, then, verb))
        assert twin.begun == 1, "no statement had to be taken back"


NOT_PLAIN_NEXT: dict[str, tuple[Any, ...]] = {
    "the lease was lost": (claim(), go_on("a", "mine", "u")),
    "it was done before": (claim(), go_on("a", "t", "u"), go_on("a", "t", "u")),
    "something else is due": (claim(), claim("u"), {"minutes": 25}, go_on("a", "t", "v")),
    "a member asks": (lambda store: store.fleet.enrol(Profile("ann", "writer", (), 1)), claim(), go_on("a", "t", "u")),
}


@pytest.mark.parametrize("case", NOT_PLAIN_NEXT)
def test_other_finish_and_next_takes_the_general_way(twin: Twin, case: str) -> None:
    for act in NOT_PLAIN_NEXT[case]:
        twin.clock.advance(**act) if isinstance(act, dict) else twin.on_both(act)
    assert twin.begun == 2, "the plain way was taken back, and the long one taken"


def test_every_verb_is_plain_or_a_known_exception() -> None:
    """A new verb must be classified here."""
    leased = {rule.verb for rule in RULES if rule.source is Status.ACTIVE and rule.proof is Proof.LEASE}
    assert leased == claims._MOVES | {Verb.CANCEL, Verb.EXHAUST, Verb.CLOSE, Verb.PAUSE}


@pytest.mark.parametrize("verb", sorted(claims._MOVES))
def test_plain_statement_writes_no_placeholder_value(verb: Verb) -> None:
    way = claims.plain_move(Move(verb, "a", "s", BY, "t"))
    assert way is not None
    assert "\\x00" not in repr(way.statements)
    assert repr(claims._THEN) not in repr(way.statements)


LOST: dict[str, Callable[[Neo4jStore], object]] = {
    "claim": claim("u"),
    "done": move(Verb.DONE),
    "fail": move(Verb.FAIL),
    "renew": move(Verb.RENEW, lease=timedelta(hours=1)),
    "finish and next": go_on("a", "t", "u"),
    "finish and next, at the commit": go_on("a", "t", "u"),
}
_CUT_AT: dict[str, str | bytes] = {"claim": "e:TaskDispatch", "finish and next, at the commit": BOLT_COMMIT}


@pytest.mark.parametrize("arrived", [True, False], ids=["carried out", "not heard of"])
@pytest.mark.parametrize("verb", LOST)
def test_plain_statement_with_a_lost_answer_counts_once(verb: str, arrived: bool) -> None:
    clock = Clock()
    with (
        BoltProxy(shared_url()) as proxy,
        Neo4jStore(shared_url(), desk=fresh_desk(), clock=clock) as sound,
        Neo4jStore(proxy.url(), desk=fresh_desk(), clock=clock) as store,
    ):
        for each in (sound, store):
            each.add("s", [Draft("A", "a"), Draft("B", "b"), Draft("C", "c")], [Link("b", "a")], BY)
            claim()(each)
        expected = LOST[verb](sound)
        words = _CUT_AT.get(verb, "AS holder")
        trap = (proxy.lose_answer if arrived else proxy.lose_request)(words)
        assert LOST[verb](store) == expected
        trap.wait()
        told = [[(e.task, e.verb, e.attempt) for e in each.events(EventQuery())] for each in (sound, store)]
        assert told[0] == told[1]
        assert [each for _, each in sound.dump()][:3] == [each for _, each in store.dump()][:3]
        assert store.check(fix=False) == []
