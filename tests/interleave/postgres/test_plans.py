"""A plan on PostgreSQL and an add of one of its tasks, which takes no lock."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interleave import acts
from interleave.test_plans import new_plan, planned

if TYPE_CHECKING:
    from interleave.postgres.conftest import StageMaker


def test_same_id_from_a_plan_and_an_add_exists_once(stage: StageMaker) -> None:
    """An add without links takes no lock; a plan that meets it during its transaction is refused as a whole."""
    scene = stage(planned)
    add = partial(acts.add_one, task="d")
    alone = scene.in_turn(add, acts.look)
    for race in scene.races(new_plan, add):
        plan, added = race.outcome.first, race.outcome.second
        assert (plan.code, added.code) in {(None, "ALREADY_EXISTS"), (None, None), ("ALREADY_EXISTS", None)}, race
        assert race.outcome.findings == ()
        if plan.code:
            assert race.outcome.rest == alone.rest, race
