"""The formal models in models/: what holds in every state, and what breaks when a rule is taken away."""

from __future__ import annotations

import os

import pytest

from maven import NotFetched
from model import PAGE, Case, cases, check, row, told

CASES = cases()
SMALL = [pytest.param(case, id=f"{case.model}, {case.name}") for case in CASES if case.small]


@pytest.fixture(scope="session")
def page() -> set[str]:
    with open(PAGE, encoding="utf-8") as file:
        return told(file.read())


@pytest.mark.parametrize("case", SMALL)
def test_every_promise_holds_until_its_rule_is_taken_away_and_the_page_tells_how_it_was_shown(
    case: Case, page: set[str]
) -> None:
    try:
        verdict = check(case)
    except NotFetched as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    assert verdict.broken == case.promise
    assert row(case, verdict) in page


def test_the_page_tells_of_every_case_and_of_no_other(page: set[str]) -> None:
    def first_two(line: str) -> str:
        return "|".join(line.split("|")[1:3])

    models = {case.model for case in CASES}
    on_page = [first_two(line) for line in page if line.split("|")[1].strip() in models]
    assert sorted(on_page) == sorted(f" {case.model} | {case.name} " for case in CASES)


def test_each_promise_is_broken_by_some_case() -> None:
    """A promise that nothing can break may have been written down so that it is always true."""
    broken = {(case.model, case.promise) for case in CASES if case.promise}
    promised = {(case.model, name) for case in CASES for name in (*case.invariants, *case.properties)}
    always = {("Desk", "TypeOK"), ("Desk", "EveryFreeTaskIsClaimed")}  # the latter breaks with NothingLost, no sooner
    assert promised - broken == always
