"""Data on stdout, diagnostics on stderr; with --json exactly one document on stdout, errors included."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from dibs.core.errors import DibsError
    from dibs.core.task import Json, Task

SCHEMA_VERSION = 1


def emit(args: argparse.Namespace, data: Callable[[], Json], text: Callable[[], Iterable[str]]) -> int:
    """Print as asked for: one JSON document, or lines for a person. Only the one that is wanted gets made."""
    if args.json:
        print_json({"schema_version": SCHEMA_VERSION, "data": data()})
    else:
        for line in text():
            print(line)
    return 0


def task_data(task: Task) -> dict[str, Json]:
    from dibs.core.wire import task_json

    return {"task": task_json(task)}


def print_json(document: Json) -> None:
    import json

    print(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def print_error(error: DibsError, *, as_json: bool) -> int:
    """Say what went wrong, and return the exit status that says the same."""
    if as_json:
        told: dict[str, Json] = {"code": error.code, "message": error.message, "holder": error.holder}
        told["retry_after_ms"] = error.retry_after_ms
        print_json({"schema_version": SCHEMA_VERSION, "error": told})
    else:
        sys.stdout.flush()
        warn(error.message)
    return error.exit_status


def warn(message: str) -> None:
    print(f"dibs: {_printable(message)}", file=sys.stderr)


def _printable(text: str) -> str:
    """What came in undecodable goes out escaped instead of breaking the message."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
