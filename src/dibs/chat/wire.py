"""The results of messages as JSON, the same for every interface."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.times import time_text
from dibs.core.wire import link_json, task_json

if TYPE_CHECKING:
    from dibs.chat.conversation.plan import Item, Plan
    from dibs.chat.conversation.reader import Outcome
    from dibs.chat.steering.session import SayResult
    from dibs.core.task import Json, Task


def said_json(said: SayResult, *, preview: bool) -> dict[str, Json]:
    reply = said.reply
    data: dict[str, Json] = {"kind": "message" if said.command is None else "command", "reply": reply.text}
    if said.command is not None:
        from dibs.chat.steering.changes import to_json

        data["command"] = {
            "name": str(said.command.name),
            "targets": said.command.targets,
            "understood": reply.understood,
            "changes": [to_json(change) for change in reply.changes],
            "choices": [{"id": task.id, "title": task.title} for task in reply.choices],
        }
    if said.noted is not None:
        data["message"] = {"id": said.noted.message.id, "read_at": time_text(said.noted.closes_at)}
    return data | ({"preview": True} if preview else {})


def outcome_json(outcome: Outcome) -> dict[str, Json]:
    later = outcome.later
    return {
        "sender_hash": outcome.sender,
        "messages": [message.id for message in outcome.messages],
        "tasks": [task_json(task) for task in outcome.tasks],
        "links": [link_json(link) for link in outcome.links],
        "questions": [{"kind": one.kind, "about": one.about, "text": one.text} for one in outcome.questions],
        "notes": outcome.notes,
        "later": [message.id for message in later.messages],
        "later_until": None if later.until is None else time_text(later.until),
        "set_aside": None if outcome.refused is None else outcome.refused.id,
        "why": outcome.why or (later.why if later.messages else ""),
    }


def plan_json(plan: Plan) -> dict[str, Json]:
    return {
        "phases": [[_item_json(item) for item in phase] for phase in plan.phases],
        "order": [item.task.id for item in plan.order],
        "critical_path": [task.id for task in plan.path],
        "estimate": {
            "minutes_per_task": plan.each.total_seconds() / 60,
            "work_minutes": plan.work.total_seconds() / 60,
            "soonest_minutes": plan.soonest.total_seconds() / 60,
        },
    }


def _item_json(item: Item) -> dict[str, Json]:
    task = item.task
    return {
        "id": task.id,
        "title": task.title,
        "status": str(task.status),
        "agent": task.lease.agent if task.lease else None,
        "waits_for": [
            {"id": wait.on.id, "title": wait.on.title, "kind": str(wait.kind), "because": wait.because or None}
            for wait in item.waits
        ],
    }


def note_json(note: Task) -> dict[str, Json]:
    return {
        "id": note.id,
        "kind": note.extra.get("kind"),
        "mode": note.extra.get("mode"),
        "at": time_text(note.created_at),
        "text": note.description,
        "tasks": note.extra.get("tasks", []),
    }
