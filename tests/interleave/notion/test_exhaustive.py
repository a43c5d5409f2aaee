"""Every schedule of a few agents and ticks: no double claim with the bounds, one without any of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dibs.stores.notion import guard
from dibs.stores.notion.guard import Bounds
from interleave.notion import unguarded
from interleave.notion.checker import Checker

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.notion.guard import Ask, Steps

TORTURE = bool(os.environ.get("DIBS_TORTURE"))
TIGHT = Bounds(window=1, settle=2)
STALE = Bounds(window=1, settle=4, staleness=1)


class Size(NamedTuple):
    bounds: Bounds
    agents: int
    delay: int
    deaf: bool = False


SIZES = [
    pytest.param(Size(TIGHT, 2, 4), id="two agents"),
    pytest.param(Size(Bounds(window=2, settle=3), 2, 6), id="two agents, a finer clock"),
    pytest.param(Size(TIGHT, 2, 2, deaf=True), id="two agents, reads that fail"),
    pytest.param(Size(STALE, 2, 5), id="two agents, stale reads"),
    pytest.param(Size(TIGHT, 3, 2), id="three agents"),
]
if TORTURE:
    SIZES += [
        pytest.param(Size(TIGHT, 2, 4, deaf=True), id="two agents, reads that fail, long delays"),
        pytest.param(Size(STALE, 3, 2), id="three agents, stale reads"),
        pytest.param(Size(TIGHT, 3, 4), id="three agents, long delays"),
    ]


@pytest.mark.parametrize("size", SIZES)
def test_no_schedule_lets_two_agents_hold_the_task(size: Size) -> None:
    checker = Checker(guard.claim, size.bounds, agents=size.agents, delay=size.delay, deaf=size.deaf)
    schedule = checker.double_claim()
    assert schedule is None, "\n".join(schedule or ())
    assert checker.states > 1_000
    assert checker.held > 50  # not safe only because all claims failed


UNGUARDED = [
    pytest.param(unguarded.naive, TIGHT, 2, id="reads back at once"),
    pytest.param(unguarded.unbounded, TIGHT, 2, id="takes its time between reading and writing"),
    pytest.param(unguarded.impatient, TIGHT, 2, id="waits no longer than others may take"),
    pytest.param(unguarded.stubborn, TIGHT, 1, id="writes again after it was too slow"),
    pytest.param(guard.claim, STALE._replace(settle=3), 2, id="does not reckon with stale reads"),
]


@pytest.mark.parametrize(("claim", "bounds", "delay"), UNGUARDED)
def test_a_claim_without_one_of_the_bounds_goes_to_two(
    claim: Callable[[str, Ask, Bounds], Steps], bounds: Bounds, delay: int
) -> None:
    schedule = Checker(claim, bounds, agents=2, delay=delay).double_claim()
    assert schedule is not None
    print("\n".join(schedule))  # noqa: T201 - `pytest -s` shows how it goes wrong
    assert {"A: reads A", "B: reads B"} <= set(schedule)
