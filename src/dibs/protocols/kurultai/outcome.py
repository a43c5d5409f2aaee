"""What a command tells after it has changed a task: its new status, and what followed for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.streams import emit
from dibs.console.table import clean
from dibs.protocols.kurultai.records import Change, as_json
from dibs.protocols.kurultai.text import first_line, remark, short

if TYPE_CHECKING:
    import argparse

    from dibs.core.task import Json
    from dibs.protocols.kurultai.records import TaskRecord


def told(args: argparse.Namespace, change: Change | TaskRecord) -> int:
    full = change if isinstance(change, Change) else Change(change)
    return emit(args, lambda: _json(full), lambda: _lines(full))


def _json(change: Change) -> dict[str, Json]:
    others = {"unblocked": change.unblocked, "escalated": change.escalated, "aborted": change.aborted}
    return {"task": as_json(change.task), **{word: list(ids) for word, ids in others.items()}}


def _lines(change: Change) -> list[str]:
    task, why = change.task, remark(change.task)
    head = f"{task['status'].upper()}  {short(task['id'])}  {clean(first_line(task['description']))}"
    lines = [f"{head}: {clean(why)}" if why else head]
    others = {"unblocked": change.unblocked, "escalated": change.escalated, "aborted too": change.aborted}
    return lines + [f"  {word:<12}{', '.join(map(short, ids))}" for word, ids in others.items() if ids]
