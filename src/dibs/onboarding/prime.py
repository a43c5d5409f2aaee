"""The briefing of an agent, at its start and after its context was compacted: the rules and the state of the tasks."""

import os
import re
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from dibs.console.streams import clean, shorten
from dibs.core.errors import DibsError, StoreUnavailable
from dibs.core.messages import command
from dibs.core.task import Status
from dibs.core.times import in_words
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk
    from dibs.stores.reports import Counts

_MOST_HELD = 2
_TITLE = 36  # columns of a title
_LONGEST = 1 << 20  # characters of a product's settings
_PATIENCE = 2.0  # seconds that a hook may wait for a store


# Where each product has the server of `dibs mcp`, below the project's folder.
SERVER_FILES = {
    "claude": ".mcp.json",
    "codex": ".codex/config.toml",
    "cursor": ".cursor/mcp.json",
    "gemini": ".gemini/settings.json",
    "vscode": ".vscode/mcp.json",
}
_SERVER = re.compile(r'"dibs"\s*:\s*\{|\[mcp_servers\.dibs\]')


def offered_tools(folder: str, product: str | None) -> bool | None:
    """Whether the agent has the tools of `dibs mcp`; None where that depends on which product it runs in."""
    offered = {name for name, path in SERVER_FILES.items() if _SERVER.search(_text(os.path.join(folder, path)))}
    if product is None:
        return None if offered else False
    return product in offered


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_LONGEST)
    except OSError:
        return ""


class Situation(NamedTuple):
    now: datetime
    counts: "Counts"
    next: "Task | None"
    held: "tuple[Task, ...]"


def situation(desk: "Desk", agent: str) -> Situation:
    """The state of the tasks for this agent."""
    active = desk.find(Query(desk.scope, (Status.ACTIVE,), agent=agent, limit=_MOST_HELD + 1))
    ready = desk.ready(limit=1, agent=agent)
    return Situation(desk.now(), desk.counts(), ready[0] if ready else None, tuple(active))


def situation_lines(found: Situation, agent: str) -> list[str]:
    """Two or three lines; longer only for who holds several tasks."""
    counts = found.counts
    busy, people = counts.by_status[Status.ACTIVE] - counts.expired, _waiting_for_people(counts)
    stands = [f"{counts.claimable} ready", f"{busy} being worked on", f"{counts.waiting} waiting"]
    stands += [f"{people} waiting for people"] if people else []
    lines = [f"Now: {', '.join(stands)}."]
    lines += [f"You ({agent}) hold {_named(task)}{_left(task, found.now)}." for task in found.held[:_MOST_HELD]]
    if len(found.held) > _MOST_HELD:
        lines.append(f"More: {command('dibs', 'list', '--held-by', agent)}")
    elif found.next is not None and not found.held:
        lines.append(f"Next: {_named(found.next)}.")
    return lines


def within(ask: Callable[[], Situation], patience: float = _PATIENCE) -> Situation:
    """The result, or soon a DibsError: an agent's start must not wait for an absent store."""
    found: list[Situation | DibsError] = []

    def run() -> None:
        try:
            found.append(ask())
        except DibsError as error:
            found.append(error)

    asking = threading.Thread(target=run, daemon=True)
    asking.start()
    asking.join(patience)
    if not found:
        raise StoreUnavailable(f"The store gave no answer within {patience:g} seconds.")
    if isinstance(found[0], DibsError):
        raise found[0]
    return found[0]


def _waiting_for_people(counts: "Counts") -> int:
    return sum(counts.by_status[status] for status in (Status.BLOCKED, Status.REVIEW, Status.ESCALATED))


def _named(task: "Task") -> str:
    return f"{task.id} ({shorten(clean(task.title), _TITLE)})"


def _left(task: "Task", now: datetime) -> str:
    if task.lease is None or task.lease.expires_at is None:
        return ""
    if not task.lease.live(now):
        return ", but the lease is over: claim it again"
    return f", {in_words(task.lease.expires_at - now)} left"
