"""The figures in scaling.md agree with the simulation, and the simulation agrees with the formulas."""

from __future__ import annotations

import pytest
from bench.simulate import CORES, PAGE, Fleet, asked_of, partitions, rates, simulate, table


def test_page_matches_the_simulation() -> None:
    told = PAGE.read_text(encoding="utf-8").partition("<!-- simulated -->\n")[2].partition("<!-- end -->")[0]
    assert told == "\n".join(table()) + "\n", "python -m bench.simulate --write puts it in"


def test_every_store_that_was_measured_has_a_rate() -> None:
    assert set(rates()) == {"SQLite", "PostgreSQL", "Neo4j"}


def test_lightly_loaded_store_serves_all_requests() -> None:
    fleet = Fleet(1000, 60.0)
    came = simulate(fleet, rate=100.0)
    assert came.cycles_per_second == pytest.approx(1000 / 60, rel=0.05)
    assert came.busy == pytest.approx(asked_of(fleet) / 100, rel=0.05)
    assert came.wait_p50 == pytest.approx(0.69 * CORES / 100, rel=0.1), (
        "half of all service times are below ln 2 of the mean"
    )


def test_overloaded_store_saturates_and_agents_wait() -> None:
    came = simulate(Fleet(1000, 1.0), rate=100.0)
    assert came.cycles_per_second == pytest.approx(100, rel=0.05)
    assert came.busy == pytest.approx(1, rel=0.01)
    assert came.wait_p50 == pytest.approx(1000 / 100 - 1, rel=0.1)
    assert partitions(Fleet(1000, 1.0), rate=100.0) == 15
