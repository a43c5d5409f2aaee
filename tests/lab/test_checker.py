"""The checker lets every true history pass, and of every way to spoil one the right rule notices."""

from __future__ import annotations

import os
from itertools import count, islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.lab.torture.checker import RULES, Assumptions, violations
from dibs.lab.torture.history import Operation
from lab.mutations import MUTATIONS
from lab.true_desk import history

if TYPE_CHECKING:
    from lab.mutations import Mutation

EXAMPLES = int(os.environ.get("DIBS_EXAMPLES", "200"))
SEEDS = st.integers(0, 2**32)


@settings(max_examples=EXAMPLES)
@given(SEEDS)
def test_a_true_history_passes(seed: int) -> None:
    assert [(each.rule, each.message) for each in violations(history(seed), Assumptions())] == []


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.__name__)
@settings(max_examples=EXAMPLES // 20)
@given(first=SEEDS)
def test_a_spoilt_history_is_noticed_by_the_right_rule(mutation: Mutation, first: int) -> None:
    """Of the histories from a seed on, the first that can be spoilt in this way."""
    tried = (mutation(history(seed)) for seed in islice(count(first), 300))
    spoilt = next(each for each in tried if each is not None)
    assert MUTATIONS[mutation] in {each.rule for each in violations(spoilt, Assumptions())}


def test_unanswered_finish_may_prolong_a_lease() -> None:
    proof = "t"
    claim = Operation("w1", "ann", 1, "claim", 0.0, 1.0, "ok", lease=4.0, given={"a": (1, proof)})
    doubt = Operation("w1", "ann", 2, "release", 2.0, 3.0, "unknown", task="a", token=proof)
    late = Operation("w1", "ann", 3, "done", 20.0, 21.0, "ok", task="a", token=proof)
    found = [violations(told, Assumptions(prolong=True)) for told in ([claim, doubt, late], [claim, late])]
    assert [[each.rule for each in these] for these in found] == [[], ["in time"]]
    assert [each.rule for each in violations([claim, doubt, late], Assumptions())] == ["in time"]


def test_every_rule_is_broken_by_some_spoilt_history() -> None:
    functions = {rule.__name__.replace("_", " ") for rule in RULES}
    assert set(MUTATIONS.values()) == functions


def test_link_that_was_taken_back_before_its_answer_came_makes_no_cycle() -> None:
    """Found by the simulator: the disk of the worker that added the link was slow."""
    told = [
        Operation("w1", "w1", 1, "link", 0.0, 5.0, "ok", task="a", on="b"),
        Operation("w2", "w2", 1, "unlink", 2.0, 3.0, "ok", task="a", on="b"),
        Operation("w2", "w2", 2, "link", 4.0, 4.5, "ok", task="b", on="a"),
    ]
    assert [each.rule for each in violations(told, Assumptions())] == []
    assert [each.rule for each in violations([told[0], told[2]], Assumptions())] == ["no cycle"]
