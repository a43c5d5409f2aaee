"""The matcher lets pass what may differ, and nothing else."""

from __future__ import annotations

import pytest

from docs.matching import Matcher

PROMISED = "6e19c55d-d126-47a5-a169-6e3e01649805"
REAL = "00fcc739-a740-4125-b10c-6ba7e34bf8ff"


@pytest.mark.parametrize(
    ("promised", "answer"),
    [
        ("done parser", "done parser"),
        ("ID      STATUS", "ID  STATUS"),
        ("ready: …/.dibs/dibs.db", "ready: /home/ann/.dibs/dibs.db"),
        ("at 2026-11-15 12:22:16 UTC", "at 2031-01-01 00:00:00 UTC"),
        ('"at": "2026-11-15T12:22:16.123456Z"', '"at": "2031-01-01T00:00:00Z"'),
        ("ann, 19m 59s left", "ann, 20m left"),
        ("expired 177ms ago", "expired 2s ago"),
        ("3c12sw  Write", "abcdef  Write"),
        (f"token {PROMISED}", f"token {REAL}"),
    ],
)
def test_accepted_differences(promised: str, answer: str) -> None:
    assert Matcher().matches([promised], [answer])


@pytest.mark.parametrize(
    ("promised", "answer"),
    [
        ("done parser", "done tests"),
        ("done parser", "done parser now"),
        ("parser", "tracer"),
        ("attempt 1", "attempt 2"),
        ("for 20m", "for ever"),
        ("3c12sw", "3c12swx"),
        ("at 2026-11-15 12:22:16", "at noon"),
        (f"token {PROMISED}", "token …"),
    ],
)
def test_refused_differences(promised: str, answer: str) -> None:
    assert not Matcher().matches([promised], [answer])


def test_lone_ellipsis_matches_any_lines() -> None:
    assert Matcher().matches(["a", "…", "b"], ["a", "b"])
    assert Matcher().matches(["a", "…", "b"], ["a", "x", "y", "b"])
    assert not Matcher().matches(["a", "…", "b"], ["a", "x"])
    assert not Matcher().matches(["a"], ["a", "x"])
    assert not Matcher().matches(["a", "x"], ["a"])


def test_repeated_id_matches_one_value() -> None:
    matcher = Matcher()
    assert matcher.matches(["3c12sw"], ["zzzzz9"])
    assert matcher.matches(["done 3c12sw"], ["done zzzzz9"])
    assert not matcher.matches(["done 3c12sw"], ["done yyyyy8"])
    assert not matcher.matches(["a8p4b3"], ["zzzzz9"]), "two names on the page are two names in the run"


def test_commands_are_typed_with_the_names_of_the_run() -> None:
    matcher = Matcher()
    assert matcher.matches(["3c12sw", PROMISED], ["zzzzz9", REAL])
    assert matcher.typed(f"dibs done 3c12sw --token {PROMISED}") == f"dibs done zzzzz9 --token {REAL}"
    assert matcher.typed("dibs show a8p4b3") == "dibs show a8p4b3"


def test_failed_match_binds_no_names() -> None:
    matcher = Matcher()
    assert not matcher.matches(["3c12sw", "done"], ["zzzzz9", "failed"])
    assert matcher.typed("3c12sw") == "3c12sw"
