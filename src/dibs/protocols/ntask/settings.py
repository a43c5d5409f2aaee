"""ntask's settings: the store, from the environment, and the options that several commands share."""

from __future__ import annotations

import argparse
import math
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.arguments import positive
from dibs.core.errors import InvalidInput, LostLock, Misconfigured
from dibs.core.task import Actor, ServiceClass, Status
from dibs.protocols.ntask.answers import NTASK, in_notion

if TYPE_CHECKING:
    from dibs.console.arguments import Parser
    from dibs.desk import Desk

_TRANSPORTS = ("api", "cli")


def open_desk(*, agent: str | None = None, run: str | None = None) -> Desk:
    """Open ntask's desk; a local store is created at first use."""
    from dibs.desk import open_desk

    url = store_url()
    desk = open_desk(url, create=not url.startswith("notion://"), policy=NTASK, by=Actor(agent, run))
    scope = os.environ.get("DIBS_SCOPE") if desk.capabilities.scopes else None
    return desk.at(scope or "default")


def store_url() -> str:
    """Return NTASK_STORE, a URL of any store; else the Notion database of NOTION_TASKS_DB_ID."""
    named = os.environ.get("NTASK_STORE")
    transport = os.environ.get("NTASK_TRANSPORT") or "api"
    if transport not in _TRANSPORTS:
        raise InvalidInput(f"NTASK_TRANSPORT must be {' or '.join(_TRANSPORTS)}, not {transport[:40]!r}.")
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


STATUSES = tuple(word for status, word in NTASK.words.items() if status not in {Status.PAUSED, Status.ESCALATED})
CLASSES = tuple(name.upper() for name in ServiceClass)


def add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", type=task_ref, help="TASK-42, 42, #42, or the page's id or address")


def task_ref(text: str) -> str:
    """An argparse type for a task; a page's address may be longer than an id."""
    if "://" not in text:
        return text
    from dibs.stores.notion.pages import page_in_address

    return page_in_address(text) or text


def add_lock(parser: Parser, *, optional: bool = False) -> None:
    only = "; needed only if it is IN_PROGRESS" if optional else ""
    parser.add_argument(
        "--run-id", metavar="R", type=_given, required=not optional, help=f"the run that claimed it{only}"
    )
    parser.add_argument(
        "--lock-token", metavar="T", type=_given, required=not optional, help=f"the token from 'claim'{only}"
    )


def _given(text: str) -> str:
    """An argparse type for a text; an unset shell variable arrives as an empty one."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; is the variable set?")
    return text


def add_lease(parser: Parser) -> None:
    parser.add_argument(
        "--lease-min",
        metavar="MIN",
        type=_minutes,
        default=NTASK.lease,
        help="length of the lease in minutes (default: 20)",
    )


def _minutes(text: str) -> timedelta:
    return timedelta(minutes=positive(text))


def add_priority(parser: Parser, default: float | None) -> None:
    said = "" if default is None else f" (default: {default:g})"
    parser.add_argument(
        "--priority", metavar="N", type=_number, default=default, help=f"higher numbers come first{said}"
    )


def _number(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number")
    return number


def add_class(parser: Parser, default: ServiceClass | None) -> None:
    said = "" if default is None else " (default: STANDARD)"
    parser.add_argument(
        "--class-of-service", metavar="CLASS", type=_class, default=default, help=f"{', '.join(CLASSES)}{said}"
    )


def _class(text: str) -> ServiceClass:
    if text.upper() not in CLASSES:
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is no class; there are {', '.join(CLASSES)}")
    return ServiceClass(text.lower())


def status_word(text: str) -> Status:
    """An argparse type for one of ntask's statuses."""
    status = NTASK.read(text)
    if status is None:
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is no status; there are {', '.join(STATUSES)}")
    return status


def check_run(desk: Desk, ref: str, run: str) -> None:
    """Raise unless the lock belongs to this run; the token is checked by the move.

    If the lock changes hands between both checks, the token decides. The Notion store compares run and token in one
    reading.
    """
    if in_notion(desk):
        return
    lease = desk.get(ref).lease
    if lease is not None and lease.run != run:
        raise LostLock(f"{ref} is held under another run id.")
