"""Where the tasks are: what ntask's users set in the environment."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, Misconfigured
from dibs.core.task import Actor
from dibs.protocols.ntask.policy import NTASK

if TYPE_CHECKING:
    from dibs.desk import Desk

_TRANSPORTS = ("api", "cli")


def open_desk(*, agent: str | None = None, run: str | None = None) -> Desk:
    """ntask's desk. A store that dibs can make by itself is made by whoever comes first."""
    from dibs.desk import open_desk

    url = store_url()
    desk = open_desk(url, create=not url.startswith("notion://"), policy=NTASK, by=Actor(agent, run))
    scope = os.environ.get("DIBS_SCOPE") if desk.capabilities.scopes else None
    return desk.at(scope or "default")


def store_url() -> str:
    """NTASK_STORE, any store of dibs; else the Notion database of NOTION_TASKS_DB_ID."""
    named = os.environ.get("NTASK_STORE")
    transport = os.environ.get("NTASK_TRANSPORT") or "api"
    if transport not in _TRANSPORTS:
        raise InvalidInput(f"NTASK_TRANSPORT is {' or '.join(_TRANSPORTS)}, not {transport[:40]!r}.")
    if not named:
        return _with_transport(f"notion://{_database()}", transport)
    if not named.startswith("notion://") or "transport=" in named:
        return named
    return _with_transport(named, transport)


def _with_transport(url: str, transport: str) -> str:
    return url if transport == "api" else f"{url}{'&' if '?' in url else '?'}transport={transport}"


def _database() -> str:
    database = (os.environ.get("NOTION_TASKS_DB_ID") or "").strip()
    if not database:
        raise Misconfigured(
            "Where are the tasks? Set NOTION_TASKS_DB_ID to the id of the Notion database (and NOTION_TOKEN), "
            "or NTASK_STORE to another store, such as sqlite:///tasks.db."
        )
    return database
