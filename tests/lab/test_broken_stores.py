"""Known-bad stores, really run: each is caught, and by the rule that it breaks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.emulator.notion import Emulator
from dibs.torture.lab import Experiment, run
from dibs.torture.rules import RULES
from lab.notion import a_page

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.torture.lab import Report

RULES_IN_NOTION = ["lab.broken:naive_notion", *([""] if os.environ.get("DIBS_TORTURE") else [])]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("lab-broken")]


def tried(url: str, rule: str, **said: object) -> Report:
    experiment = Experiment(url, seconds=3.0, workers=4, tasks=60, faults=("stop",), rule=rule, lease=1.0, patience=0.5)
    return run(experiment._replace(mischief=3.0)._replace(**said))  # type: ignore[arg-type]


def broken(report: Report) -> set[str]:
    return {violation.rule for violation in report.violations}


def test_the_same_run_without_a_broken_rule_is_sound(sqlite: str) -> None:
    report = tried(sqlite, "")
    assert list(report.violations) == []
    assert report.figures.lost_locks > 10, "nobody tried what is not allowed"


def test_no_fence_lets_a_late_holder_finish_what_another_has(sqlite: str) -> None:
    assert {"latest attempt", "proof"} & broken(tried(sqlite, RULES["no-fence"]))


def test_claims_that_belong_to_a_name_are_held_twice(sqlite: str) -> None:
    assert {"one holder", "rising attempts"} <= broken(tried(sqlite, RULES["name-keyed"]))


def test_a_queue_that_deletes_what_it_hands_out_loses_it_when_a_worker_dies(sqlite: str) -> None:
    found = broken(tried(sqlite, RULES["delete-on-dequeue"], faults=("kill",), calm=0.2, work=0.3))
    assert "no starvation" in found


def test_numbers_that_are_used_again_do_not_rise(sqlite: str) -> None:
    assert broken(tried(sqlite, "lab.broken:reused_attempts")) == {"rising attempts"}


def test_an_unblock_beside_the_finish_strands_what_was_linked_meanwhile(sqlite: str) -> None:
    assert "counters true" in broken(tried(sqlite, "lab.broken:non_atomic_unblock", work=0.3, mischief=4.0))


@pytest.mark.parametrize("rule", RULES_IN_NOTION)
def test_a_naive_claim_in_notion_is_held_twice_and_a_guarded_one_is_not(
    rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Emulator(seed=3) as notion:
        monkeypatch.setenv("NOTION_TOKEN", notion.token)
        monkeypatch.setenv("NOTION_API_BASE_URL", notion.url)
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        notion.faults.requests_per_minute = None
        notion.faults.latency_before = (0.0, 0.2)
        notion.faults.latency_after = (0.0, 0.2)
        url = f"notion://?parent={a_page(notion)}&layout=dibs&window=1&settle=1.2"
        report = run(Experiment(url, seconds=5.0, workers=5, tasks=3, faults=("kill",), rule=rule, work=0.5))
    assert broken(report) == ({"one holder"} if rule else set())
