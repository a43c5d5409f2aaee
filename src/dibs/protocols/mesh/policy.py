"""The mesh's policy as data, a task in its words, its settings, its options and its list of commands."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.arguments import whole
from dibs.console.commands import Group
from dibs.core.errors import DibsError, InvalidInput, Misconfigured
from dibs.core.policy import Policy
from dibs.core.scores import FULL_RATING
from dibs.core.task import Actor, Status
from dibs.core.times import time_text

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk


TIMEOUT_MINUTES = 30  # for a task that states no timeout
NOTION = "notion"  # an extra field: the oddities of the page, with its raw values
TIMEOUT = "claim_timeout_minutes"  # the extra field of a task's timeout

MESH = Policy(
    name="mesh",
    lease=timedelta(minutes=TIMEOUT_MINUTES),
    short_ids=False,  # ids of pages are not abbreviated
    words={
        Status.READY: "OPEN",
        Status.ACTIVE: "IN_PROGRESS",
        Status.BLOCKED: "BLOCKED",
        Status.DONE: "COMPLETED",
        Status.CANCELED: "CANCELLED",
        # The protocol never sets these statuses, but other users of the same store may.
        Status.BACKLOG: "BACKLOG",
        Status.PAUSED: "PAUSED",
        Status.REVIEW: "REVIEW",
        Status.ESCALATED: "ESCALATED",
    },
    aliases={"CANCELED": Status.CANCELED, "DONE": Status.DONE},
)

AGENTS = ("Sandman", "Oracle")  # the default of MESH_AGENTS


def timeout_of(task: Task) -> timedelta:
    """Return how long a claim of the task counts: its own timeout, or 30 minutes."""
    said = task.extra.get(TIMEOUT)
    good = isinstance(said, int | float) and not isinstance(said, bool) and said > 0
    return timedelta(minutes=said if good else TIMEOUT_MINUTES)  # type: ignore[arg-type]  # a number, if good


def status_of(task: Task) -> str:
    """Return the status as the page spells it, also if the mesh does not know the word."""
    said = _shown(task, "status")
    return "without a status" if said == "" else str(said or MESH.say(task.status))


def _shown(task: Task, field: str) -> Json:
    """Return the raw value of an odd page's field."""
    odd = task.extra.get(NOTION)
    shows = odd.get("shows") if isinstance(odd, dict) else None
    return shows.get(field) if isinstance(shows, dict) else None


def claimed_by(task: Task) -> str | None:
    """Return the holder, or the finisher, which scores need."""
    if task.lease is not None:
        return task.lease.agent or None
    return task.finished_by if task.status is Status.DONE else None


def claimed_at(task: Task) -> datetime | None:
    """Return when the timeout began; every heartbeat restarts it."""
    if _shown(task, "expires_at") is not None:
        return None  # the page has a claim without an end
    if task.lease is not None:
        return task.lease.expires_at - timeout_of(task) if task.lease.expires_at else task.lease.claimed_at
    return task.started_at if task.status is Status.DONE else None


def priority_of(task: Task) -> float:
    """Negate the priority: the mesh counts points by it, so higher numbers come first."""
    return max(0, -task.priority)


def mesh_json(task: Task) -> dict[str, Json]:
    since = claimed_at(task)
    told: dict[str, Json] = {
        "id": task.id,
        "title": task.title,
        "status": status_of(task) if _shown(task, "status") != "" else None,
        "claimed_by": claimed_by(task),
        "claimed_at": None if since is None else time_text(since),
        TIMEOUT: timeout_of(task) / timedelta(minutes=1),
        "priority": priority_of(task),
        "reason": task.reason,
        "warnings": odd.get("warnings") if isinstance(odd := task.extra.get(NOTION), dict) else None,
    }
    return {key: value for key, value in told.items() if value is not None}


def open_desk(
    args: argparse.Namespace, agent: str | None = None, *, create: bool = False, writes: bool = False
) -> Desk:
    """Open the mesh's desk. With `writes`, a wrong log id is refused first."""
    from dibs.desk import open_desk

    desk = open_desk(store_url(args), create=create, policy=MESH, by=Actor(agent))
    scope = os.environ.get("DIBS_SCOPE") if desk.capabilities.scopes else None
    desk = desk.at(args.scope or scope or "default")
    if writes:
        from dibs.protocols.mesh.logs import check_logs

        try:
            check_logs(desk)
        except DibsError:
            desk.close()
            raise
    return desk


def store_url(args: argparse.Namespace) -> str:
    """Return --store or MESH_STORE, a URL of any store; else the Notion database of MESH_TASKS_DB_ID."""
    named: str | None = args.store or os.environ.get("MESH_STORE")
    if named:
        return named
    database = (os.environ.get("MESH_TASKS_DB_ID") or "").strip()
    if not database:
        raise Misconfigured(
            "Where are the tasks? Set MESH_TASKS_DB_ID to the id of the Notion database (and NOTION_TOKEN), "
            "or MESH_STORE to another store, such as sqlite:///mesh.db."
        )
    return f"notion://{database}?layout=mesh"


def known_agents() -> tuple[str, ...]:
    said = os.environ.get("MESH_AGENTS") or ""
    return tuple(name.strip() for name in said.split(",") if name.strip()) or AGENTS


def agent_of(args: argparse.Namespace) -> str:
    """Return the calling agent's name in the mesh's spelling; names match in any case."""
    said = args.agent or os.environ.get("MESH_AGENT")
    if not said:
        raise InvalidInput("The agent's name is missing. Give --agent, or set MESH_AGENT.")
    return spelt(said)


def spelt(said: str) -> str:
    known = {name.casefold(): name for name in known_agents()}
    name = known.get(said.strip().casefold())
    if name is None:
        raise InvalidInput(
            f"The mesh knows no agent {said[:40]!r}; it knows {', '.join(known.values())}. Add the name to MESH_AGENTS."
        )
    return name


def same_agent(one: str, other: str) -> bool:
    return one.strip().casefold() == other.strip().casefold()


def nonce_of(args: argparse.Namespace) -> str:
    """Return the nonce, the proof of one claim; a name alone could be used by any agent."""
    nonce: str | None = args.nonce or os.environ.get("MESH_NONCE")
    if not nonce:
        raise InvalidInput("The nonce is missing. Give the --nonce that 'claim' printed, or set MESH_NONCE.")
    return nonce


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands of the mesh")
    shared.add_argument(
        "--store", metavar="URL", help="the store of the tasks (default: MESH_STORE, else MESH_TASKS_DB_ID)"
    )
    shared.add_argument("--scope", metavar="NAME", help="which set of tasks in it (DIBS_SCOPE; else 'default')")
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_id(parser: Parser, *, optional: bool = False) -> None:
    hint = "the task's id" + (" (default: the next task)" if optional else "")
    parser.add_argument("id", metavar="ID", nargs="?" if optional else None, help=hint)


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="your name (default: MESH_AGENT)")


def add_nonce(parser: Parser) -> None:
    parser.add_argument("--nonce", metavar="N", help="the nonce from 'claim' (default: MESH_NONCE)")


def add_scores(parser: Parser, *, required: bool = False) -> None:
    for name in ("confidence", "coherence"):
        parser.add_argument(f"--{name}", metavar="N", type=score, required=required, help=f"its {name}, 0 to 100")
    parser.add_argument("--reworks", metavar="N", type=whole, default=0, help="how often the task had to be reworked")
    parser.add_argument("--notes", metavar="TEXT", help="notes for the log")


def score(text: str) -> float:
    """An argparse type for scores."""
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= FULL_RATING:
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number from 0 to {FULL_RATING}")
    return number


# The list of commands

PACKAGE = "dibs.protocols.mesh.commands"
COMMANDS = {
    "init": ("project", "create the store, or check the databases"),
    "add": ("project", "add a task"),
    "preflight": ("work", "check whether a task can be claimed: CLAIM or SKIP, and why"),
    "claim": ("work", "claim a task and confirm the claim; log every attempt"),
    "heartbeat": ("work", "renew your claim: set claimed_at to now"),
    "complete": ("work", "finish a task and score it"),
    "block": ("work", "block a task until something outside changes"),
    "unblock": ("work", "make a blocked task OPEN again"),
    "cancel": ("work", "cancel a task"),
    "log": ("project", "read the Mesh Communication Log, or add a message"),
    "score": ("project", "show the agents' scores, or score a completed task"),
}

_MORE = (
    "MESH_AGENT is your name, MESH_NONCE the nonce of your claim.",
    "MESH_TASKS_DB_ID, MESH_TASK_LOG_DB_ID and MESH_COMM_LOG_DB_ID are the ids of the Notion databases,",
    "NOTION_TOKEN is the integration's secret. MESH_STORE selects another store instead, such as sqlite:///mesh.db.",
)

_ABOUT = "The Task Claim Protocol: agents share one queue and never do the same work twice."

GROUP = Group("mesh", PACKAGE, COMMANDS, add_shared, _ABOUT, _MORE)
