"""A page of the emulator, below which the lab creates its databases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.lab.emulator import ntask_schema

if TYPE_CHECKING:
    from dibs.lab.emulator import Emulator


def a_page(notion: Emulator) -> str:
    database = notion.database(ntask_schema(), "Notes").id
    return notion.page(database, {"Task name": {"title": [{"text": {"content": "The lab"}}]}})
