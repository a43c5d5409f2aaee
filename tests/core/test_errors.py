"""The tree of errors in the docstring agrees with the classes."""

from __future__ import annotations

import inspect
import re

from dibs.core import errors
from dibs.core.errors import AmbiguousId, CycleDetected, DibsError, Held, PlanInvalid

DRAWN = re.compile(r"^ {4}(?P<branch>[│├└─ ]*)(?P<name>\w+)(?: +(?P<exit>\d+) +(?P<code>[A-Z_]+) +\S)?")


def _drawn() -> dict[str, tuple[str | None, int, str]]:
    """Name → parent, exit status and code, as the docstring says."""
    found: dict[str, tuple[str | None, int, str]] = {}
    above: list[str] = []
    for line in (errors.__doc__ or "").split("\n"):
        match = DRAWN.match(line)
        if match:
            depth = len(match["branch"]) // 4
            above[depth:] = [match["name"]]
            parent = above[depth - 1] if depth else None
            found[match["name"]] = (parent, int(match["exit"] or 1), match["code"] or "ERROR")
    return found


def _real() -> dict[str, type[DibsError]]:
    return {name: value for name, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, DibsError)}


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    real = {
        name: (None if error is DibsError else error.__bases__[0].__name__, error.exit_status, error.code)
        for name, error in _real().items()
    }
    assert _drawn() == real
    assert len(real) > 20


def test_no_two_errors_share_a_code() -> None:
    codes = [error.code for error in _real().values()]
    assert len(set(codes)) == len(codes)


def test_an_error_exits_as_its_kind_does() -> None:
    for error in _real().values():
        parent = error.__bases__[0]
        if parent is not DibsError and issubclass(parent, DibsError):
            assert error.exit_status == parent.exit_status


def test_error_exit_statuses_are_neither_0_nor_signals() -> None:
    assert all(1 <= error.exit_status < 126 for error in _real().values())


def test_error_has_message_and_holder() -> None:
    error = Held("a is held", holder="ada", retry_after_ms=5)
    assert (str(error), error.message, error.holder, error.retry_after_ms) == ("a is held", "a is held", "ada", 5)


def test_a_wrong_plan_says_at_which_line() -> None:
    assert (str(PlanInvalid("no id", line=3)), PlanInvalid("no id", line=3).line) == ("line 3: no id", 3)
    assert (str(PlanInvalid("no list")), PlanInvalid("no list").line) == ("no list", None)


def test_an_ambiguous_id_lists_the_candidates() -> None:
    error = AmbiguousId("a", ["a1", "a2"])
    assert error.candidates == ("a1", "a2")
    assert "'a' fits more than one task: a1, a2" in str(error)


def test_a_cycle_is_shown_whole() -> None:
    error = CycleDetected(["a", "b", "a"])
    assert error.path == ("a", "b", "a")
    assert "a → b → a" in str(error)
