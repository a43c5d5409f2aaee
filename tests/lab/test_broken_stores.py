"""Known-bad stores, really run: each is caught, and by the rule that it breaks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.lab.emulator import Emulator
from dibs.lab.torture.experiments import RULES, Experiment, run
from lab.notion import a_page

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.lab.torture.experiments import Report

RULES_IN_NOTION = ["lab.broken:naive_notion", *([""] if os.environ.get("DIBS_TORTURE") else [])]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200), pytest.mark.xdist_group("lab-broken")]


# How much happens in three seconds depends on the machine: the last runs are long enough for a very slow one.
TRIES = (1, 1, 1, 2, 4, 8, 16)  # times as long


def tried(url: str, rule: str, times: int, **said: object) -> Report:
    experiment = Experiment(url, seconds=3.0, workers=4, tasks=60, faults=("stop",), rule=rule, lease=1.0, patience=0.5)
    experiment = experiment._replace(mischief=3.0)._replace(**said)  # type: ignore[arg-type]
    return run(experiment._replace(seconds=times * experiment.seconds))


def broken(report: Report) -> set[str]:
    return {violation.rule for violation in report.violations}


def caught(url: str, rule: str, wanted: set[str], **said: object) -> set[str]:
    """The rules that were broken, in one run after the other until these are among them."""
    found: set[str] = set()
    for seed, times in enumerate(TRIES, 1):
        found |= broken(tried(url, rule, times, seed=seed, **said))
        if wanted <= found:
            break
    return found


def test_the_same_run_without_a_broken_rule_is_sound(sqlite: str) -> None:
    late = 0
    for seed, times in enumerate(TRIES, 1):
        report = tried(sqlite, "", times, seed=seed)
        assert list(report.violations) == []
        late += report.figures.lost_locks
        if late > 10:
            return
    pytest.fail("no worker tried a forbidden write")


def test_no_fence_lets_a_late_holder_finish_what_another_has(sqlite: str) -> None:
    assert caught(sqlite, RULES["no-fence"], {"latest attempt", "proof"}) >= {"latest attempt", "proof"}


def test_claims_that_belong_to_a_name_are_held_twice(sqlite: str) -> None:
    wanted = {"one holder", "rising attempts"}
    assert wanted <= caught(sqlite, RULES["name-keyed"], wanted)


def test_a_queue_that_deletes_what_it_hands_out_loses_it_when_a_worker_dies(sqlite: str) -> None:
    wanted = {"no starvation"}
    assert wanted <= caught(sqlite, RULES["delete-on-dequeue"], wanted, faults=("kill",), calm=0.2, work=0.3)


def test_numbers_that_are_used_again_do_not_rise(sqlite: str) -> None:
    wanted = {"rising attempts"}
    assert wanted <= caught(sqlite, "lab.broken:reused_attempts", wanted)


def test_late_unblock_strands_a_new_dependent(sqlite: str) -> None:
    wanted = {"counters true"}
    assert wanted <= caught(sqlite, "lab.broken:non_atomic_unblock", wanted, work=0.3, mischief=4.0)


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
        told = {"seconds": 5.0, "workers": 5, "tasks": 3, "faults": ("kill",), "work": 0.5}
        wanted = {"one holder"} if rule else set()
        found = caught(url, rule, wanted, **told, lease=0.0, patience=5.0, mischief=1.0)
        # A naive claim overwrites any other change of the page too, so it can break more rules than this one.
        assert wanted <= found if rule else not found
