"""Races of claims and finishes that are one statement each.

A test cannot pause inside a statement, but can make it wait there, by holding the lock of the desk, which the statement
needs last. By then it has read all that it decides on, and nothing is committed.
"""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import ClaimRequest, Verb
from dibs.core.task import Actor, Claimed, Draft
from dibs.stores.neo4j.store import Neo4jStore
from dibs.stores.port import EventQuery
from interleave import acts
from interleave.neo4j import mutants
from interleave.postgres.player import Waiting
from interleave.stepper import PATIENCE
from interleave.test_claims import held, one_task
from support.neo4j import admin, fresh_desk, shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.task import Task
    from interleave.neo4j.conftest import StageMaker
    from interleave.neo4j.stage import Mutant, Stage
    from interleave.stepper import Act, Answer

ANN, BOB = (partial(acts.claim, agent=agent, proof=proof) for agent, proof in (("ann", "t1"), ("bob", "t2")))
FINISH = partial(acts.finish, task="a", proof="t1")
FAIL = partial(acts.move, verb=Verb.FAIL, task="a", proof="t1")


@contextmanager
def holding(label: str, desk: str) -> Iterator[None]:
    """Hold the lock of a desk or of its scopes."""
    whose = {"Desk": "n.name", "Scope": "n.desk"}[label]
    with admin().session() as session, session.begin_transaction() as transaction:
        transaction.run(f"MATCH (n:{label}) WHERE {whose} = $desk SET n.held = true", desk=desk).consume()
        yield
        transaction.commit()


def meet(scene: Stage, first: Act, second: Act, mutant: Mutant | None = None) -> tuple[Answer, Answer]:
    """Let both begin and wait, the first for the desk, the second for the first."""
    scene.reset()
    one, other = scene.players[1], scene.players[2]
    rewrites = [mutant.rewrites(player.lane) if mutant else {} for player in (one, other)]
    with holding("Desk", scene.name):
        assert isinstance(one.start(first, rewrites=rewrites[0]), Waiting)
        assert isinstance(other.start(second, rewrites=rewrites[1]), Waiting)
    return one.finish(), other.finish()


def holders(told: tuple[Answer, Answer]) -> int:
    return sum(len(each.value) for each in told if isinstance(each.value, list))


def test_two_plain_claims_have_one_winner(stage: StageMaker) -> None:
    scene = stage(one_task)
    told = meet(scene, ANN, BOB)
    assert holders(told) == 1
    assert scene.desk.get("a").attempt == 1
    assert [player.places for player in scene.players[1:3]] == [["claim_plainly"], ["claim_plainly"]]
    assert scene.desk.check() == []


@pytest.mark.parametrize("mutant", [mutants.reads_before_its_lock, mutants.plain_without_lock])
def test_claim_that_reads_before_its_lock_is_detected(stage: StageMaker, mutant: Mutant) -> None:
    assert holders(meet(stage(one_task), ANN, BOB, mutant)) == 2


@pytest.mark.parametrize("second", [FINISH, FAIL], ids=["done", "fail"])
def test_first_of_two_plain_ends_counts(stage: StageMaker, second: Act) -> None:
    scene = stage(held)
    first, other = meet(scene, FINISH, second)
    assert (first.code, other.code) == (None, None if second is FINISH else "LOST_LOCK")
    ends = [event.verb for event in scene.desk._store.events(EventQuery(task="a")) if event.outcome == "ok"]
    assert ends == ["add", "claim", "done"]
    assert scene.desk.check() == []


@pytest.mark.parametrize("second", [FINISH, FAIL], ids=["done", "fail"])
def test_end_that_reads_before_its_lock_is_detected(stage: StageMaker, second: Act) -> None:
    scene = stage(held)
    meet(scene, FINISH, second, mutants.ends_before_its_lock)
    ends = [event.verb for event in scene.desk._store.events(EventQuery(task="a")) if event.outcome == "ok"]
    assert len(ends) == 4


def test_plain_claim_reads_the_time_after_its_lock() -> None:
    """By the server's clock, a claim that waited has a later time than the claim before it."""
    with Neo4jStore(shared_url(), desk=(name := fresh_desk())) as store:
        store.add("s", [Draft("A", "a"), Draft("B", "b")], [], Actor())
        store.claim(ClaimRequest("ann", ("t",), "s"))
        got: list[Claimed] = []
        with holding("Scope", name):
            asking = threading.Thread(target=lambda: got.extend(store.claim(ClaimRequest("bob", ("u",), "s"))))
            asking.start()
            _until_blocked(name)
            let_go = store.now()
        asking.join(PATIENCE)
    task: Task = got[0].task
    assert task.lease is not None
    assert task.lease.claimed_at >= let_go


def _until_blocked(desk: str) -> None:
    blocked = (
        "SHOW TRANSACTIONS YIELD status, parameters"
        " WHERE status STARTS WITH 'Blocked' AND parameters.desk = $desk RETURN 1"
    )
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if admin().execute_query(blocked, desk=desk).records:
            time.sleep(0.05)
            return
    raise AssertionError("nobody waits")
