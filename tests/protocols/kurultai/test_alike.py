"""Every store has the same ready tasks, the same order, and the same effects of a completion."""

from __future__ import annotations

import os
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import HARNESSES
from dibs.core.errors import DibsError
from dibs.desk import Desk
from dibs.fleet.routing import ROUTING
from dibs.protocols.kurultai.memory import OperationalMemory
from dibs.protocols.kurultai.policy import FLEET
from dibs.protocols.kurultai.records import Change, ClaimRecord
from support.kurultai import ANN

from .conftest import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conformance.harness import StoreHarness

SEEDS, STEPS = (range(100), 120) if os.environ.get("DIBS_TORTURE") else (range(2), 30)
AGENTS = [profile.id for profile in FLEET]


class Side:
    """One store and the proofs of its claims."""

    def __init__(self, harness: StoreHarness) -> None:
        self.harness = harness
        self.desk = Desk(harness.open())
        self.memory = OperationalMemory(self.desk, by="main")
        self.proofs: dict[str, str] = {}

    def do(self, act: Callable[[Side], object]) -> object:
        try:
            return plain(act(self))
        except DibsError as error:
            return error.code, error.message


def plain(outcome: object) -> object:
    """An outcome without times and secrets."""
    if isinstance(outcome, ClaimRecord):
        return plain(outcome.task), outcome.prerequisites
    if isinstance(outcome, Change):
        return plain(outcome.task), *outcome[1:]
    if isinstance(outcome, dict):
        return {name: value for name, value in outcome.items() if not name.endswith(("_at", "claim_attempt_id"))}
    return [plain(each) for each in outcome] if isinstance(outcome, list) else outcome


@pytest.fixture
def sides(tmp_path: Path) -> Iterator[list[Side]]:
    made = [Side(HARNESSES[kind](str(tmp_path))) for kind in KINDS]
    yield made
    for side in made:
        assert side.desk.check(fix=False) == []
        side.desk.close()
        side.harness.close()


def claim(agent: str, task: str | None) -> Callable[[Side], object]:
    def act(side: Side) -> object:
        claimed = side.memory.claim_task(agent, sender_hash=ANN, task_id=task)
        side.proofs[claimed.task["id"]] = claimed.claim_attempt_id
        return claimed

    return act


def create(random: Random, number: int, known: list[str]) -> Callable[[Side], object]:
    said: dict[str, Any] = {
        "deliverable_type": random.choice((None, *ROUTING)),
        "assigned_to": random.choice((None, "any", random.choice(AGENTS))),
        "priority_weight": random.choice((None, 0, 0.25, 0.5, 1, 3, -1)),
        "user_priority_override": random.random() < 0.15,
        "depends_on": random.sample(known, min(len(known), random.choice((0, 0, 1, 2)))),
        "max_retries": random.choice((None, 0, 1)),
    }
    return lambda side: side.memory.create_task(f"Do {number}", sender_hash=ANN, task_id=f"t{number}", **said)


def some_act(random: Random, task: str, other: str) -> Callable[[Side], object]:
    agent, kind = random.choice(AGENTS), random.choice(("blocks", "blocks", "feeds_into", "parallel_ok"))
    weight, first = random.choice((0, 0.5, 1, None)), random.choice((True, False, None))
    return random.choice((
        claim(agent, None),
        claim(agent, None),
        claim(agent, task),
        lambda side: side.memory.complete_task(task, side.proofs.get(task, "none"), task, sender_hash=ANN),
        lambda side: side.memory.complete_task(task, side.proofs.get(task, "none"), task, sender_hash=ANN),
        lambda side: side.memory.fail_task(task, side.proofs.get(task, "none"), "broke", sender_hash=ANN),
        lambda side: side.memory.block_task(task, side.proofs.get(task), reason="stuck", sender_hash=ANN),
        lambda side: side.memory.reassign_blocked_task(task, agent, sender_hash=ANN),
        lambda side: side.memory.pause_task(task, sender_hash=ANN, force=True),
        lambda side: side.memory.resume_task(task, sender_hash=ANN),
        lambda side: side.memory.abort_task(task, sender_hash=ANN, force=True),
        lambda side: side.memory.add_dependency(task, other, kind, sender_hash=ANN),
        lambda side: side.memory.add_dependency(task, other, sender_hash=ANN),
        lambda side: side.memory.set_priority(task, weight, sender_hash=ANN, user_priority_override=first),
    ))  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_all_stores_end_with_the_same_state(sides: list[Side], seed: int) -> None:
    random = Random(seed)
    known: list[str] = []
    for number in range(STEPS):
        for side in sides:
            side.harness.clock.advance(seconds=1)
        if number < 8 or random.random() < 0.1:
            act = create(random, number, known)
            known.append(f"t{number}")
        else:
            act = some_act(random, random.choice(known), random.choice(known))
        outcomes = [side.do(act) for side in sides]
        assert outcomes[0] == outcomes[1] == outcomes[2]
        ready = [[task["id"] for task in side.memory.get_ready_tasks(ANN)] for side in sides]
        assert ready[0] == ready[1] == ready[2]
    for side in sides:
        side.harness.clock.advance(minutes=21)  # all leases end
    for agent in AGENTS * 3:
        outcomes = [side.do(claim(agent, None)) for side in sides]
        assert outcomes[0] == outcomes[1] == outcomes[2]
    everything = [plain(side.memory.get_tasks(ANN)) for side in sides]
    assert everything[0] == everything[1] == everything[2]
