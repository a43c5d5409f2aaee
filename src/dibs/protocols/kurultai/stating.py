"""What callers state, checked and put into the desk's terms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput
from dibs.core.task import LinkKind
from dibs.protocols.kurultai.policy import ANYONE, agent_for, agent_id
from dibs.protocols.kurultai.records import kept

if TYPE_CHECKING:
    from dibs.core.task import Json

_TITLE = 120  # characters of a description that stand for it


def title_of(description: str) -> str:
    """What stands for a task in lists: its first line, cut where that is long."""
    first = next((line.strip() for line in description.splitlines() if line.strip()), "")
    if not first:
        raise InvalidInput("A task needs a description.")
    return first if len(first) <= _TITLE else f"{first[: _TITLE - 1]}…"


def assignee(said: str | None, deliverable: str | None) -> str | None:
    """Who is to do it: who is named, anyone at all, or whom the deliverable is routed to."""
    if said is None:
        return agent_for(deliverable)
    return None if said.casefold() == ANYONE else agent_id(said)


def link_kind(dep_type: str) -> LinkKind:
    if dep_type not in set(LinkKind):
        raise InvalidInput(f"A dependency is {', '.join(LinkKind)}, not {dep_type[:40]!r}.")
    return LinkKind(dep_type)


def quality(score: float | None) -> dict[str, Json]:
    if score is not None and not (math.isfinite(score) and 0 <= score <= 1):
        raise InvalidInput("A quality score is a number from 0 to 1.")
    return kept([("quality_score", score)])


def reason_of(text: str) -> str:
    if not text.strip():
        raise InvalidInput("Say why: the reason is empty.")
    return text.strip()


def new_id() -> str:
    from uuid import uuid4

    return str(uuid4())
