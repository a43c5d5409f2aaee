"""The options that several commands of ntask share, and what they mean."""

from __future__ import annotations

import argparse
import math
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.arguments import positive
from dibs.core.errors import LostLock
from dibs.core.task import ServiceClass, Status
from dibs.protocols.ntask.answers import in_notion
from dibs.protocols.ntask.policy import NTASK

if TYPE_CHECKING:
    from dibs.console.arguments import Parser
    from dibs.desk import Desk

STATUSES = tuple(word for status, word in NTASK.words.items() if status not in {Status.PAUSED, Status.ESCALATED})
CLASSES = tuple(name.upper() for name in ServiceClass)


def add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="TASK-42, 42, or the page's id")


def add_lock(parser: Parser, *, optional: bool = False) -> None:
    only = "; needed only where it is IN_PROGRESS" if optional else ""
    parser.add_argument(
        "--run-id", metavar="R", type=_given, required=not optional, help=f"the run that claimed it{only}"
    )
    parser.add_argument(
        "--lock-token", metavar="T", type=_given, required=not optional, help=f"the proof that claim gave you{only}"
    )


def _given(text: str) -> str:
    """An empty text is what a shell makes of a variable that is not set."""
    if not text.strip():
        raise argparse.ArgumentTypeError("it is empty; is the variable set?")
    return text


def add_lease(parser: Parser) -> None:
    parser.add_argument(
        "--lease-min", metavar="MIN", type=_minutes, default=NTASK.lease, help="for how many minutes; 20 unless said"
    )


def _minutes(text: str) -> timedelta:
    return timedelta(minutes=positive(text))


def add_priority(parser: Parser, default: float | None) -> None:
    said = "" if default is None else f"; {default:g} unless said"
    parser.add_argument(
        "--priority", metavar="N", type=_number, default=default, help=f"the higher number comes first{said}"
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
    said = "" if default is None else "; STANDARD unless said"
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
    """A lock is proved by its token and by the run that took it; a run that differs has lost it.

    Read before the move: should the lock change hands in between, the token decides, as it does for everybody. In
    Notion the store compares the run itself, in the same reading in which it compares the token.
    """
    if in_notion(desk):
        return
    lease = desk.get(ref).lease
    if lease is not None and lease.run != run:
        raise LostLock(f"{ref} is held under another run id.")
