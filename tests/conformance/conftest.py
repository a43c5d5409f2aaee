"""Tests of the suite can be chosen by its modules: `-k "sqlite and leases"`."""

from __future__ import annotations

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    if isinstance(item, pytest.Function):
        item.extra_keyword_matches.add(item.function.__module__.rpartition(".")[2])
