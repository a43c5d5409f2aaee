"""ralph's rules as data, its environment, and the options that its commands share."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.console.arguments import Parser, json_text
from dibs.console.streams import compact_json, complain, speaks_utf8
from dibs.core import checks
from dibs.core.errors import InvalidInput, NoStore
from dibs.core.policy import CanceledBlocker, OwnerProof, Policy
from dibs.core.task import Json, Status

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from dibs.desk import Desk
    from dibs.protocols.ralph.markdown import Section


def open_desk(args: argparse.Namespace) -> Desk:
    """ralph's desk. The first caller creates the store or migrates it."""
    from dibs.core.task import Actor
    from dibs.desk import open_desk

    named = _database_url() or os.environ.get("DIBS_STORE")
    scope = scope_name(os.environ.get("RALPH_SCOPE_REPO") or "", os.environ.get("RALPH_SCOPE_BRANCH") or "")
    by = Actor(agent_name(args))
    return open_desk(named or _project_url(), create=bool(named), scope=scope, policy=RALPH, by=by)


def _database_url() -> str | None:
    """A bare word would be taken for the file of a new SQLite store, where a database server was meant."""
    url = os.environ.get("RALPH_DB_URL")
    if url and "://" not in url:
        raise InvalidInput(
            "RALPH_DB_URL is no URL: it has no '://'. Nothing was created. "
            "Write postgresql://host/database, or sqlite:///tasks.db for a file."
        )
    return url


def _project_url() -> str:
    from dibs.stores.opening import default_url

    try:
        return default_url(os.getcwd())
    except NoStore:
        raise NoStore(
            "Where are the tasks? Set RALPH_DB_URL, such as postgresql://host/database or sqlite:///tasks.db."
        ) from None


def scope_name(repo: str, branch: str) -> str:
    """One name for a repository and a branch, different for every two that differ; without either, the default.

    The last '@' parts them. The repository keeps its name but for a dot at its start; a '@' in the branch is escaped.
    A scope that is too long is cut and gets a digest. It has no '@', so it never equals one that was short enough.
    """
    repo, branch = repo.strip(), branch.strip()
    if not (repo or branch):
        return "default"
    if repo[:1] in {".", "%"}:  # a scope never starts with a dot, and '.github' is a repository
        repo = f"%{ord(repo[0]):X}{repo[1:]}"
    joined = f"{repo}@{branch.replace('%', '%25').replace('@', '%40')}"
    scope = joined if len(joined) <= checks.NAME_MAX else _shortened(joined)
    return checks.name_of("scope of RALPH_SCOPE_REPO and RALPH_SCOPE_BRANCH", scope)


def _shortened(joined: str) -> str:
    from hashlib import sha256

    digest = sha256(joined.encode(errors="surrogatepass")).hexdigest()[:32]
    return f"{joined[: checks.NAME_MAX - 33].replace('@', '/')}~{digest}"


def agent_name(args: argparse.Namespace) -> str | None:
    """The calling agent, if known."""
    given: str | None = getattr(args, "agent", None)
    return os.environ.get("RALPH_AGENT_ID") or None if given is None else given


def needed_agent(args: argparse.Namespace) -> str:
    agent = agent_name(args)
    if agent is None:
        raise InvalidInput(
            "Your name is missing. Give --agent, or set RALPH_AGENT_ID ('ralph task agent register' makes one)."
        )
    return agent


def token_of(args: argparse.Namespace) -> str | None:
    """The proof of one attempt. Where it is given, it is checked, and a name no longer counts."""
    given: str | None = args.token
    return given or os.environ.get("RALPH_TOKEN") or None


NOT_FOUND = 2  # no such task, or none that may be claimed
FAILED = 1

_FAILURES = (
    "ERROR INVALID_INPUT PLAN_INVALID REFUSED HELD WAITING NOT_FOR_YOU OVER_QUOTA OVER_LIMIT CHANGED ILLEGAL_MOVE "
    "LOST_LOCK BROKEN_RULE CYCLE INCOMPLETE_SUBTASKS ALREADY_EXISTS SERVICE_UNAVAILABLE "
    "STORE_ERROR NO_STORE STORE_BUSY STORE_READ_ONLY STORE_FULL STORE_CORRUPT SCHEMA_TOO_NEW STORE_UNAVAILABLE "
    "STORE_REPLACED UNCONFIRMED MISCONFIGURED CLI_MISSING UNSUPPORTED"
)

RALPH = Policy(
    name="ralph",
    lease=timedelta(seconds=600),
    canceled_blocker=CanceledBlocker.RESOLVES,
    owner_proof=OwnerProof.NAME,
    late_holder_ok=True,
    id_marks="/",  # its documents name tasks by spec and number, such as auth/01
    short_ids=False,  # a planner names its tasks; t-1 must never be taken for t-10
    words={
        Status.READY: "open",
        Status.ACTIVE: "active",
        Status.DONE: "done",
        Status.CANCELED: "deleted",
        # What ralph itself never makes of a task, but other users of the same store may.
        Status.BACKLOG: "backlog",
        Status.BLOCKED: "blocked",
        Status.PAUSED: "paused",
        Status.REVIEW: "review",
        Status.ESCALATED: "escalated",
    },
    exit_statuses=dict.fromkeys(_FAILURES.split(), FAILED)
    | dict.fromkeys(("NOT_FOUND", "AMBIGUOUS_ID", "NOTHING_READY"), NOT_FOUND),
)


def add_id(parser: Parser) -> None:
    parser.add_argument("id", metavar="ID", help="the task's full id")


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="A", help="your name (default: RALPH_AGENT_ID)")


def add_token(parser: Parser) -> None:
    parser.add_argument("--token", metavar="T", help="the token that 'claim --json' printed (default: RALPH_TOKEN)")


def add_json(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON instead")


def steps_from(text: str) -> tuple[str, ...]:
    steps = json_text("steps", text)
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise InvalidInput('Steps must be a JSON list of texts, such as \'["write it", "test it"]\'.')
    return tuple(steps)


def warn(message: str) -> None:
    complain("ralph", message)


def print_json(document: Json) -> int:
    print(compact_json(document))
    return 0


def print_sections(sections: Iterable[Section]) -> int:
    """As Markdown-KV; nothing at all where there is none."""
    from dibs.protocols.ralph.markdown import render

    text = render(sections, ascii_only=not speaks_utf8())
    if text:
        print(text)
    return 0


def print_lines(lines: Sequence[str]) -> int:
    for line in lines:
        print(line)
    return 0
