"""An emulator, the official client, and a plain way to ask."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from notion_client import Client

from dibs.lab.emulator import Emulator, ntask_schema
from emulator.asking import Plain, loopback
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.lab.emulator import Database


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def notion(clock: Clock) -> Iterator[Emulator]:
    with Emulator(clock, seed=7) as emulator:
        yield emulator


@pytest.fixture
def client(notion: Emulator) -> Iterator[Client]:
    """The official client without retries."""
    made = Client(client=loopback(), auth=notion.token, base_url=notion.url, retry=False, log_level=logging.CRITICAL)
    yield made
    made.close()


@pytest.fixture
def plain(notion: Emulator) -> Iterator[Plain]:
    with Plain(notion.url, notion.token) as asking:
        yield asking


@pytest.fixture
def tasks(notion: Emulator) -> Database:
    return notion.database(ntask_schema())
