"""The list of mistakes can be made as it stands, and the tool that makes them sees a difference."""

from __future__ import annotations

import os

import pytest

from mutate import PACKAGE, ROOT, Mutant, NotThere, failing, load, mutated, noticed

STORES = load()
PROOFS = ("tests/core/test_lifecycle_proofs.py", "-k", "token")


def text_of(mutant: Mutant) -> str:
    with open(os.path.join(PACKAGE, mutant.file), encoding="utf-8") as file:
        return file.read()


@pytest.mark.parametrize("store", STORES)
def test_every_mistake_on_the_list_can_be_made(store: str) -> None:
    tests, mutants = STORES[store]
    for mutant in mutants:
        before = text_of(mutant)
        assert mutated(before, mutant) != before
    assert len({(mutant.file, mutant.within, mutant.old) for mutant in mutants}) == len(mutants) >= 8
    named = [word for step in tests for word in step if word.startswith("tests/")]
    named += [mutant.first.split()[0] for mutant in mutants if mutant.first]
    assert [path for path in named if not os.path.exists(os.path.join(ROOT, path))] == []


def test_a_mistake_that_can_no_longer_be_made_is_told() -> None:
    gone = STORES["core"][1][0]._replace(old="what nobody wrote")
    with pytest.raises(NotThere, match="0 times"):
        mutated(text_of(gone), gone)
    with pytest.raises(NotThere, match="0 times"):
        mutated(text_of(gone), gone._replace(within="def nobody("))


@pytest.mark.timeout(3600)  # it runs pytest twice
def test_a_mistake_is_noticed_and_what_changes_nothing_survives() -> None:
    mistake = STORES["core"][1][0]
    assert mistake.why == "any token will do"
    found = noticed([list(PROOFS)], mistake)
    assert found is not None
    assert "test_a_token_that_is_not_the_leases_has_lost" in found
    harmless = mistake._replace(old="lease is not None and ", new="lease is not None and True and ")
    assert failing(PROOFS, harmless) is None
