"""The options that several commands share; data on stdout, diagnostics on stderr, one document with --json."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from dibs.console.arguments import span
from dibs.console.streams import SCHEMA_VERSION, compact_json, complain, printable
from dibs.core.errors import InvalidInput
from dibs.core.messages import quoted

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from dibs.console.arguments import Parser
    from dibs.core.errors import DibsError
    from dibs.core.fields import Filter
    from dibs.core.task import Claimed, Json, Task
    from dibs.desk import Desk


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands")
    shared.add_argument(
        "--store", metavar="URL", help="the store's address (default: DIBS_STORE, else the project's store)"
    )
    shared.add_argument(
        "--scope", metavar="NAME", help="the set of tasks in the store (default: DIBS_SCOPE, else 'default')"
    )
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def open_desk(args: argparse.Namespace, *, create: bool = False) -> Desk:
    """The desk that the options and the environment name; with `create`, a missing store is made."""
    from dibs.core.task import Actor
    from dibs.desk import open_desk
    from dibs.identity import agent_name

    by = Actor(getattr(args, "agent", None) or agent_name(), run_name(args))
    return open_desk(store_url(args), create=create, scope=scope_name(args), by=by)


def store_url(args: argparse.Namespace) -> str:
    from dibs.stores import opening

    return opening.store_url(args.store)


def scope_name(args: argparse.Namespace) -> str:
    from dibs.core import checks

    return checks.scope(args.scope or os.environ.get("DIBS_SCOPE") or "default")


def run_name(args: argparse.Namespace) -> str | None:
    return getattr(args, "run", None) or os.environ.get("DIBS_RUN") or None


def add_agent(parser: Parser) -> None:
    parser.add_argument(
        "--agent", metavar="NAME", help="your name (default: DIBS_AGENT, else from your product or login)"
    )
    parser.add_argument("--run", metavar="ID", help="the id of your run (default: DIBS_RUN)")


def agent_or_me(name: str) -> str:
    """An argparse type for agents; `@me` is the caller."""
    from dibs.identity import agent_name

    return agent_name() if name in {"@me", "me"} else name


def add_filters(parser: Parser, when: str = "") -> None:
    """Options that narrow a listing or a claim to some of the tasks."""
    from dibs.core.fields import FILTERS, LISTS

    for field in FILTERS:
        several = field.kind in LISTS
        parser.add_argument(
            *field.options,
            dest=field.name,
            metavar=field.metavar,
            action="append" if several else "store",
            help=f"{when}only tasks with this {field.called}{' (repeatable)' if several else ''}",
        )


def filter_of(args: argparse.Namespace) -> Filter:
    """The filter that the options give."""
    from dibs.core.fields import EVERY, FILTERS, Filter

    values: dict[str, Any] = {field.name: getattr(args, field.name) for field in FILTERS}
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if value
    }
    return Filter(**given) if given else EVERY


_ENDS = {
    "--blocked-by": "a task that must be done first",
    "--blocks": "a task that waits for this one",
    "--feeds-from": "a task whose result this one gets, without waiting for it",
}


def add_links(parser: Parser, more: Mapping[str, str] | None = None) -> None:
    """Options for the other ends of a task's links, by kind."""
    for option, about in {**_ENDS, **(more or {})}.items():
        parser.add_argument(option, metavar="ID", action="append", default=[], help=f"{about} (repeatable)")


def add_task(parser: Parser, *, optional: bool = False) -> None:
    """The task's id; for a holder, DIBS_TASK_ID is the default."""
    hint = "the task's id, or the beginning of it" + (" (default: DIBS_TASK_ID)" if optional else "")
    parser.add_argument("task", metavar="ID", nargs="?" if optional else None, help=hint)


def task_of(args: argparse.Namespace) -> str:
    """The given task, else DIBS_TASK_ID. An empty id is an error."""
    task = os.environ.get("DIBS_TASK_ID") if args.task is None else args.task
    if not task:
        raise InvalidInput("Which task? Give its id, or set DIBS_TASK_ID. 'dibs status' lists what you hold.")
    return str(task)


def add_token(parser: Parser) -> None:
    parser.add_argument("--token", metavar="T", help="the token that 'dibs claim' printed (default: DIBS_TOKEN)")


def add_force(parser: Parser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="act without the token, as a person in charge; the log records it"
    )


def token_of(args: argparse.Namespace, desk: Desk) -> str | None:
    """The given token, else DIBS_TOKEN, which is valid only for DIBS_TASK_ID."""
    if args.token or getattr(args, "force", False):
        return args.token or None
    own_task = os.environ.get("DIBS_TASK_ID")
    if own_task and args.task and desk.resolve(args.task) != desk.resolve(own_task):
        return None
    return os.environ.get("DIBS_TOKEN") or None


def add_lease(parser: Parser) -> None:
    parser.add_argument("--lease", metavar="SPAN", type=span, help="how long the lease lasts (default: 20m)")


def task_data(task: Task) -> dict[str, Json]:
    from dibs.core.wire import task_json

    return {"task": task_json(task)}


def print_export(claimed: Sequence[Claimed]) -> None:
    """For `eval "$(dibs claim --export)"`: all that the following commands need, or that there is nothing."""
    if not claimed:
        print("unset DIBS_TASK_ID DIBS_TOKEN")
    for task, _ in claimed:
        if task.lease is not None:
            names = {"TASK_ID": task.id, "TOKEN": task.lease.token, "SCOPE": task.scope, "AGENT": task.lease.agent}
            if task.lease.run is not None:
                names["RUN"] = task.lease.run
            print("export", *(f"DIBS_{name}={quoted(value)}" for name, value in names.items()))


def print_error(error: DibsError, *, as_json: bool, for_shell: bool) -> int:
    """Print an error, and return its exit status."""
    if for_shell and not as_json:
        # What a shell evaluates must fail too; and where there is nothing to hold any more, it must let go of it.
        gone = "unset DIBS_TASK_ID DIBS_TOKEN; " if error.code in {"LOST_LOCK", "NOTHING_READY"} else ""
        print(f"{gone}(exit {error.exit_status})")
    if as_json:
        told: dict[str, Json] = {"code": error.code, "message": printable(error.message), "holder": error.holder}
        told["retry_after_ms"] = error.retry_after_ms
        print(compact_json({"schema_version": SCHEMA_VERSION, "error": told}))
    else:
        warn(error.message)
    return error.exit_status


def warn(message: str) -> None:
    complain("dibs", message)
