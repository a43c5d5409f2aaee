"""What a sync leaves on record: itself, and every change that it made, left out or wrote into Notion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.times import time_text
from dibs.desk import mint_token
from dibs.mail import Note, sender_box
from dibs.sync.notion.reconcile import Kind
from dibs.sync.notion.report import text_of

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.sync.notion.reconcile import Decision
    from dibs.sync.notion.report import Report

SYNC, CHANGE, NOTICE = "sync", "sync_change", "sync_notice"
_LONGEST = 200


class Audit:
    """The record of one sync."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.id = mint_token()

    def decided(self, decision: Decision, failed: str = "") -> None:
        why = decision.skip or failed
        kind = "create" if decision.kind is Kind.NEW else str(decision.kind)
        self._change(decision.task, kind, decision.old, decision.new, applied=not why, reason=why or None)

    def told(self, task: Task, kind: str, old: str | None, new: str | None) -> None:
        """Before it is written, so that nothing is ever written over without a word."""
        why = "Notion is told what holds here"
        self._change(task.id, kind, old, new, applied=True, reason=why, direction="to_notion")

    def untold(self, task: Task, why: str) -> None:
        self._change(task.id, "write", None, None, applied=False, reason=why, direction="to_notion")

    def _change(
        self, task: str, kind: str, old: Json, new: Json, *, applied: bool, reason: str | None, direction: str = "here"
    ) -> None:
        detail: dict[str, Json] = {
            "id": mint_token(), "sync_event_id": self.id, "change_type": kind, "old_value": _shown(old),
            "new_value": _shown(new), "applied": applied, "direction": direction,
        }  # fmt: skip
        self._desk.record(CHANGE, ref=task or None, reason=reason, detail=detail)

    def closed(self, report: Report, started: datetime, ended: datetime, *, notify: bool) -> None:
        counts: dict[str, Json] = {
            "applied": len(report.applied),
            "skipped": len(report.skipped),
            "failed": len(report.failed),
        }
        detail: dict[str, Json] = {
            "id": self.id,
            "sync_type": report.sync_type,
            "triggered_at": time_text(started),
            "completed_at": time_text(ended),
            **{f"changes_{name}": count for name, count in counts.items()},
            "status": report.status,
        }
        self._desk.record(SYNC, detail=detail)
        if notify:
            self._desk.record(NOTICE, detail={"sync_event_id": self.id, **counts})
            tasks = sorted({decision.task for decision in (*report.applied, *report.skipped, *report.failed)})
            note = Note(SYNC, text_of(report), extra={"tasks": tasks})
            sender_box(self._desk, self._desk.scope).put([note])


def _shown(value: Json) -> str:
    """A word or a number, as text; nothing is an empty one."""
    text = "" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
