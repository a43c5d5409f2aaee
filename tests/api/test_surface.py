"""The public names of dibs: this list changes only on purpose."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import dibs
import dibs.aio
import dibs.testing

PUBLIC = [
    "AlreadyExists",
    "AmbiguousId",
    "Changed",
    "Claim",
    "Counts",
    "CycleDetected",
    "Desk",
    "DibsError",
    "Event",
    "Filter",
    "Graph",
    "Held",
    "IllegalMove",
    "IncompleteSubtasks",
    "InvalidInput",
    "Lease",
    "Link",
    "LinkKind",
    "LostLock",
    "Moved",
    "Neighbours",
    "NoStore",
    "NotForYou",
    "NotFound",
    "NothingReady",
    "OverLimit",
    "PlanChanges",
    "PlanInvalid",
    "Refused",
    "RuleBroken",
    "ServiceClass",
    "Status",
    "StoreBusy",
    "StoreError",
    "StoreUnavailable",
    "Task",
    "Unsupported",
    "Waiting",
    "__version__",
    "open",
]

VERBS = [
    "add",
    "approve",
    "block",
    "cancel",
    "claim",
    "close",
    "comment",
    "configure",
    "counts",
    "done",
    "edit",
    "events",
    "fail",
    "get",
    "graph",
    "keep_vectors",
    "link",
    "links",
    "list",
    "now",
    "pause",
    "plan",
    "ready",
    "release",
    "renew",
    "reopen",
    "resume",
    "review",
    "rework",
    "scopes",
    "settings",
    "similar",
    "unblock",
    "unlink",
    "vectors",
    "work",
]

OF_A_CLAIM = ["block", "cancel", "done", "fail", "release", "renew", "review"]


def methods(kind: type) -> set[str]:
    return {name for name, value in vars(kind).items() if callable(value) and not name.startswith("_")}


def test_public_names_are_these() -> None:
    assert sorted(dibs.__all__) == sorted(PUBLIC)
    assert set(dir(dibs)) == {*PUBLIC, "aio"}


@pytest.mark.parametrize("name", PUBLIC)
def test_public_name_can_be_imported(name: str) -> None:
    assert getattr(dibs, name) is not None


def test_names_of_testing_are_these() -> None:
    assert dibs.testing.__all__ == ["Clock", "StoreConformance", "memory_desk", "sqlite_store"]
    assert all(getattr(dibs.testing, name) is not None for name in dibs.testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Oracle'"):
        _ = dibs.testing.Oracle


def test_testing_loads_no_test_library() -> None:
    script = "import sys, dibs.testing; print([name for name in ('pytest', 'hypothesis') if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Handoff'"):
        _ = dibs.Handoff


def test_verbs_of_a_desk_are_these() -> None:
    assert methods(dibs.Desk) == set(VERBS)
    assert methods(dibs.aio.Desk) == set(VERBS)


def test_verbs_of_a_claim_are_these() -> None:
    assert methods(dibs.Claim) == set(OF_A_CLAIM)
    assert methods(dibs.aio.Claim) == set(OF_A_CLAIM)


@pytest.mark.parametrize("name", sorted(set(VERBS) - {"close", "work"}))
def test_asyncio_takes_the_same_arguments(name: str) -> None:
    here, there = (list(inspect.signature(getattr(kind, name)).parameters) for kind in (dibs.Desk, dibs.aio.Desk))
    assert here == there


def test_import_loads_no_other_module_of_dibs() -> None:
    script = "import sys, dibs; print([name for name in sys.modules if name.startswith('dibs.')])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
