"""What a sync has to tell, and how it tells it: in the words and signs that kurultai's document gives it."""

from collections.abc import Iterable
from typing import NamedTuple

from dibs.core.task import Json
from dibs.sync.notion.reconcile import Decision, Kind

_SHOWN = 50  # characters of a title
_LINES = 20  # of one kind


class Place(NamedTuple):
    """A task in the order that follows: its title, how urgent it is, and whose it is."""

    title: str
    priority: str
    agent: str | None


class Outlook(NamedTuple):
    """How long it will take, and in which order."""

    minutes: int
    order: tuple[Place, ...] = ()


class Report(NamedTuple):
    """`polled`: nobody asked for it. `failed` have their reason under `skip`. `left` is for the next sync to do."""

    sender: str
    polled: bool
    applied: tuple[Decision, ...] = ()
    skipped: tuple[Decision, ...] = ()
    failed: tuple[Decision, ...] = ()
    rows: int = 0
    written: int = 0
    unwritten: int = 0
    left: int = 0
    dry_run: bool = False
    outlook: Outlook | None = None

    @property
    def sync_type(self) -> str:
        return "notion" if self.polled else "manual"

    @property
    def status(self) -> str:
        if not (self.failed or self.unwritten or self.left):
            return "success"
        return "partial" if self.applied or self.written else "failed"

    @property
    def eventful(self) -> bool:
        return bool(self.applied or self.skipped or self.failed or self.written or self.unwritten or self.left)


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
    if not (report.applied or report.skipped or report.failed):
        yield from ("", "Nothing has changed.")
    if report.unwritten:
        rows = _count(report.unwritten, "row")
        yield from ("", f"❌ {rows} in Notion could not be written; the next sync tries again.")
    if report.left:
        yield from ("", f"⏳ {_count(report.left, 'row')} left for the next sync.")
    if report.outlook is not None and report.outlook.order and not report.polled:
        yield from ("", f"📊 **Estimated completion:** {_count(report.outlook.minutes, 'minute')}")
        if report.applied:
            yield from ("", "New execution order:" if not report.dry_run else "Execution order now:")
            yield from _ordered(report.outlook.order)


def _ordered(order: Iterable[Place]) -> Iterable[str]:
    every = list(order)
    for number, place in enumerate(every[:_LINES], 1):
        whose = f" → {place.agent}" if place.agent else ""
        yield f"{number}. {_cut(place.title)} ({place.priority}){whose}"
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
        "estimated_minutes": None if report.outlook is None else report.outlook.minutes,
    }


def _decision_json(decision: Decision) -> dict[str, Json]:
    told: dict[str, Json] = {
        "kind": str(decision.kind), "task": decision.task, "title": decision.title, "old": decision.old,
        "new": decision.new,
    }  # fmt: skip
    return told | ({"reason": decision.skip} if decision.skip else {})
