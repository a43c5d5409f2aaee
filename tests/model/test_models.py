"""The formal models: promises hold in every state, and break without their rules."""

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
def test_promises_hold_with_all_rules_and_the_page_has_the_figures(case: Case, page: set[str]) -> None:
    try:
        verdict = check(case)
    except NotFetched as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    assert verdict.broken == case.promise
    assert row(case, verdict) in page


def test_page_lists_exactly_the_cases(page: set[str]) -> None:
    def first_two(line: str) -> str:
        return "|".join(line.split("|")[1:3])

    models = {case.model for case in CASES}
    on_page = [first_two(line) for line in page if line.split("|")[1].strip() in models]
    assert sorted(on_page) == sorted(f" {case.model} | {case.name} " for case in CASES)


def test_each_promise_is_broken_by_some_case() -> None:
    """A promise that no case breaks might be true by construction."""
    broken = {(case.model, case.promise) for case in CASES if case.promise}
    promised = {(case.model, name) for case in CASES for name in (*case.invariants, *case.properties)}
    always = {("Desk", "TypeOK"), ("Desk", "EveryFreeTaskIsClaimed")}  # the latter breaks with NothingLost, no sooner
    assert promised - broken == always
