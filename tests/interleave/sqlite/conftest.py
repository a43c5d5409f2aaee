"""Races that only SQLite has."""

import pytest


@pytest.fixture
def store() -> str:
    return "sqlite"
