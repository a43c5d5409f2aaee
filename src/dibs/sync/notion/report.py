"""The report of a sync, in the words of kurultai's document, and its audit records."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.core.task import Json
from dibs.core.times import time_text
from dibs.desk import mint_token
from dibs.mail import Note, sender_box
from dibs.sync.notion.reconcile import Decision, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.core.errors import DibsError
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.sync.notion.reconcile import Decision

_SHOWN = 50  # characters of a title
_LINES = 20  # lines per kind


class Place(NamedTuple):
    """A task in the resulting order: title, urgency, agent, and why it cannot begin."""

    title: str
    priority: str
    agent: str | None
    blocked: str = ""


class Outlook(NamedTuple):
    """The estimated time, and the resulting order."""

    minutes: int
    order: tuple[Place, ...] = ()


class Report(NamedTuple):
    """The report. `polled`: started by the poller. `failed` changes have their reason in `skip`. `left` remain for the
    next sync.
    """

    sender: str
    polled: bool
    applied: tuple[Decision, ...] = ()
    skipped: tuple[Decision, ...] = ()
    failed: tuple[Decision, ...] = ()
    rows: int = 0
    written: int = 0
    unwritten: int = 0
    left: int = 0
    added: int = 0  # new rows
    dry_run: bool = False
    outlook: Outlook | None = None

    @property
    def sync_type(self) -> str:
        return "notion" if self.polled else "manual"

    @property
    def status(self) -> str:
        if not (self.failed or self.unwritten or self.left):
            return "success"
        return "partial" if self.applied or self.written or self.added else "failed"

    @property
    def eventful(self) -> bool:
        return bool(
            self.applied or self.skipped or self.failed or self.written or self.added or self.unwritten or self.left
        )


def text_of(report: Report) -> str:
    created = [each for each in report.applied if each.kind is Kind.NEW]
    updated = [each for each in report.applied if each.kind is not Kind.NEW]
    would = report.dry_run
    lines = [_head(report)]
    if created:
        lines += ["", f"✅ **{_count(len(created), 'new task')} {'to create' if would else 'created'}:**"]
        lines += _listed(_cut(each.title) for each in created)
    if updated:
        kind = ("change", "applied") if report.polled else ("task", "updated")
        count = len(updated) if report.polled else len({each.task for each in updated})
        lines += ["", f"✅ **{_count(count, kind[0])} {'to come' if would else kind[1]}:**"]
        lines += _listed(map(_change, updated))
    if report.skipped:
        lines += ["", f"⚠️ **{_count(len(report.skipped), 'change')} skipped** (safety rules):"]
        lines += _listed(map(_skipped, report.skipped))
    if report.failed:
        lines += ["", f"❌ **{_count(len(report.failed), 'change')} failed:**"]
        lines += _listed(f"{_change(each)}: {each.skip}" for each in report.failed)
    return "\n".join([*lines, *_rest(report)])


def _head(report: Report) -> str:
    if report.dry_run:
        return "**Sync from Notion, not carried out**"
    if report.polled:
        return "✅ **Notion sync complete**"
    return "✅ **Sync from Notion complete**" if report.status != "failed" else "❌ **Sync from Notion failed**"


def _rest(report: Report) -> Iterable[str]:
    if report.added:
        verb = "to add" if report.dry_run else "added"
        yield from ("", f"✅ **{_count(report.added, 'row')} {verb} in Notion**")
    elif not (report.applied or report.skipped or report.failed):
        yield from ("", "Nothing has changed.")
    if report.unwritten:
        rows = _count(report.unwritten, "row")
        yield from ("", f"❌ {rows} in Notion could not be written; the next sync tries again.")
    if report.left:
        yield from ("", f"⏳ {_count(report.left, 'row')} left for the next sync.")
    if report.outlook is not None and report.outlook.order and not report.polled:
        soon = _count(report.outlook.minutes, "minute") if report.outlook.minutes else "less than a minute"
        yield from ("", f"📊 **Estimated completion:** {soon}")
        if report.applied:
            yield from ("", "New execution order:" if not report.dry_run else "Execution order now:")
            yield from _ordered(report.outlook.order)


def _ordered(order: Iterable[Place]) -> Iterable[str]:
    every = list(order)
    for number, place in enumerate(every[:_LINES], 1):
        whose = f" → {place.agent}" if place.agent else ""
        held_up = f" (blocked: {place.blocked})" if place.blocked else ""
        yield f"{number}. {_cut(place.title)} ({place.priority}){whose}{held_up}"
    if len(every) > _LINES:
        yield f"… and {len(every) - _LINES} more"


def _change(decision: Decision) -> str:
    if decision.kind is Kind.DELETED:
        return f"Deleted in Notion, blocked here ({_cut(decision.title)})"
    if decision.kind is Kind.NEW:
        return _cut(decision.title)
    if decision.kind is Kind.TITLE:
        return f"Description: {_cut(str(decision.old))} → {_cut(str(decision.new))}"
    return (
        f"{str(decision.kind).capitalize()}: {_value(decision.old)} → {_value(decision.new)} ({_cut(decision.title)})"
    )


def _skipped(decision: Decision) -> str:
    if decision.kind is Kind.MISSING:
        return f'Task "{_cut(decision.title)}" {decision.skip}'
    return f"{_change(decision)}: {decision.skip}"


def _value(value: Json) -> str:
    return "nobody" if value is None else str(value)


def _listed(lines: Iterable[str]) -> list[str]:
    every = list(lines)
    more = [f"  … and {len(every) - _LINES} more"] if len(every) > _LINES else []
    return [*(f"  • {line}" for line in every[:_LINES]), *more]


def _cut(title: str) -> str:
    return title if len(title) <= _SHOWN else f"{title[: _SHOWN - 1]}…"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def as_json(report: Report) -> dict[str, Json]:
    return {
        "sender_hash": report.sender,
        "sync_type": report.sync_type,
        "status": report.status,
        "dry_run": report.dry_run,
        "rows": report.rows,
        "applied": [_decision_json(each) for each in report.applied],
        "skipped": [_decision_json(each) for each in report.skipped],
        "failed": [_decision_json(each) for each in report.failed],
        "written": report.written,
        "unwritten": report.unwritten,
        "left": report.left,
        "added": report.added,
        "estimated_minutes": None if report.outlook is None else report.outlook.minutes,
    }


def _decision_json(decision: Decision) -> dict[str, Json]:
    told: dict[str, Json] = {
        "kind": str(decision.kind), "task": decision.task, "title": decision.title, "old": decision.old,
        "new": decision.new,
    }  # fmt: skip
    return told | ({"reason": decision.skip} if decision.skip else {})


SYNC, CHANGE, NOTICE = "sync", "sync_change", "sync_notice"
_LONGEST = 200


class Audit:
    """The audit record of one sync."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.id = mint_token()

    def decided(self, decision: Decision, failed: str = "") -> None:
        why = decision.skip or failed
        kind = "create" if decision.kind is Kind.NEW else str(decision.kind)
        self._change(decision.task, kind, decision.old, decision.new, applied=not why, reason=why or None)

    def told(self, task: Task, kind: str, old: str | None, new: str | None) -> None:
        """Record a value in Notion before it is overwritten."""
        why = "the value here wins"
        self._change(task.id, kind, old, new, applied=True, reason=why, direction="to_notion")

    def added(self, task: Task) -> None:
        self._change(task.id, "row", None, task.title, applied=True, reason="new in Notion", direction="to_notion")

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

    def broke_off(self, error: DibsError, started: datetime, ended: datetime, *, polled: bool) -> None:
        """Record a sync that stopped early."""
        detail: dict[str, Json] = {
            "id": self.id,
            "sync_type": "notion" if polled else "manual",
            "triggered_at": time_text(started),
            "completed_at": time_text(ended),
            "changes_applied": 0,
            "changes_skipped": 0,
            "changes_failed": 0,
            "status": "failed",
            "error": error.message,
        }
        self._desk.record(SYNC, detail=detail)

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
            "error": _error(report),
        }
        detail = {name: value for name, value in detail.items() if value is not None}
        self._desk.record(SYNC, detail=detail)
        if notify:
            self._desk.record(NOTICE, detail={"sync_event_id": self.id, **counts})
            tasks = sorted({decision.task for decision in (*report.applied, *report.skipped, *report.failed)})
            note = Note(SYNC, text_of(report), extra={"tasks": tasks})
            sender_box(self._desk, self._desk.scope).put([note])


def _error(report: Report) -> str | None:
    """Return the failures in one line."""
    why = [each.skip for each in report.failed]
    why += [f"{_count(report.unwritten, 'row')} in Notion could not be written"] if report.unwritten else []
    return "; ".join(dict.fromkeys(why))[:_LONGEST] or None


def _shown(value: Json) -> str:
    """Return a value as text; None is empty."""
    text = "" if value is None else str(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
