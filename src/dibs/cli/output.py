"""Data on stdout, diagnostics on stderr; with --json exactly one document on stdout, errors included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.streams import SCHEMA_VERSION, compact_json, complain, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.errors import DibsError
    from dibs.core.task import Claimed, Json, Task


def task_data(task: Task) -> dict[str, Json]:
    from dibs.core.wire import task_json

    return {"task": task_json(task)}


def print_export(claimed: Sequence[Claimed]) -> None:
    """For `eval "$(dibs claim --export)"`: all that the following commands need, or that there is nothing."""
    from shlex import quote

    if not claimed:
        print("unset DIBS_TASK_ID DIBS_TOKEN")
    for task, _ in claimed:
        if task.lease is not None:
            names = {"TASK_ID": task.id, "TOKEN": task.lease.token, "SCOPE": task.scope, "AGENT": task.lease.agent}
            if task.lease.run is not None:
                names["RUN"] = task.lease.run
            print("export", *(f"DIBS_{name}={quote(value)}" for name, value in names.items()))


def print_error(error: DibsError, *, as_json: bool, for_shell: bool) -> int:
    """Say what went wrong, and return the exit status that says the same."""
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
