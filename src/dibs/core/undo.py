"""Undo: find an agent's last change in the event log, and the commands that reverse it, unless later changes use it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dibs.core.errors import Changed, NotFound
from dibs.core.events import Event, Outcome
from dibs.core.fields import BY_NAME, LISTS, Kind
from dibs.core.lifecycle import Verb
from dibs.core.messages import command
from dibs.core.task import Edit, Link, LinkKind, ServiceClass, Status
from dibs.core.times import time_from

UNDO = "undo"  # the verb of the event that records an undo
_SILENT = frozenset({"comment", "renew", "configure", "import", "repair", UNDO})


class Reversal(NamedTuple):
    """The reversal of a change: moves of the task, an edit, or a link to add or remove."""

    event: Event
    moves: tuple[tuple[Verb, Mapping[str, Any]], ...] = ()  # with the details to restore
    edit: Edit | None = None
    link: Link | None = None
    unlink: Link | None = None
    note: str = ""  # what could not be restored

    @property
    def frees(self) -> bool:
        """Whether the change unblocked other tasks."""
        return self.event.verb in {"done", "approve", "close", "cancel"}


def last_change(events: Sequence[Event], agent: str) -> Event:
    """The newest change of this agent that was not undone. The events are those of a scope, oldest first."""
    undone = [event for event in events if event.verb == UNDO]
    for event in reversed(events):
        mine = event.agent == agent and event.outcome is Outcome.OK and event.verb in _REVERSED | _FINAL.keys()
        if mine and not any(_covers(undo, event) for undo in undone):
            return event
    raise NotFound(f"{agent} has no change to undo here; 'dibs log' lists all changes.")


def _covers(undo: Event, event: Event) -> bool:
    """Whether it undid this event, or this event was a part of undoing."""
    if undo.detail.get("undoes") == event.seq:
        return True
    since = undo.detail.get("since")
    return event.task == undo.task and isinstance(since, int) and since < event.seq < undo.seq


def refuse_built_on(event: Event, later: Sequence[Event], dependents: Sequence[str] = ()) -> None:
    """Raise Changed if another agent has changed the task since, or has started what the change let go ahead."""
    for other in later:
        if other.seq <= event.seq or other.outcome is not Outcome.OK or other.verb in _SILENT:
            continue
        about = other.task == event.task or other.detail.get("on") == event.task
        if (about and other.agent != event.agent) or (other.task in dependents and other.verb == Verb.CLAIM):
            who = other.agent or "another agent"
            raise Changed(
                f"'{event.verb}' of {event.task} cannot be undone: {who} has made a later change that depends on it"
                f" ('{other.verb}' of {other.task}, event {other.seq}). Nothing was changed."
            )


def reversal(event: Event, earlier: Sequence[Event]) -> Reversal:
    """The reversal of this change. `earlier` are the older events of the same task."""
    if event.verb in _FINAL:
        hint = _FINAL[event.verb]
        typed = f" Instead, run '{command('dibs', hint, event.task)}'." if hint else ""
        raise Changed(f"'{event.verb}' of {event.task} cannot be undone.{typed} Nothing was changed.")
    if event.verb in {"link", "unlink"}:
        link = Link(event.task, str(event.detail["on"]), LinkKind(str(event.detail["kind"])))
        return Reversal(event, unlink=link) if event.verb == "link" else Reversal(event, link=link)
    if event.verb in {"edit", "assign"}:
        return Reversal(event, edit=_edit(event))
    return _moves(event, earlier)


def _moves(event: Event, earlier: Sequence[Event]) -> Reversal:
    back = _BACK[event.verb]
    if event.verb == "reopen" and event.source is Status.DONE:
        back = Verb.CLOSE
    if event.verb == "unblock" and event.source is Status.ESCALATED:
        back = Verb.ESCALATE
    if event.verb == "add":
        return Reversal(event, ((Verb.CANCEL, {"reason": "undone"}),), note="the record stays, as canceled")
    restores = back in {Verb.BLOCK, Verb.PAUSE, Verb.ESCALATE, Verb.CANCEL}
    moves = [(back, _entered(event.source, earlier) if restores else {})]
    if event.source is Status.BACKLOG and back in {Verb.REOPEN, Verb.UNBLOCK}:
        moves.append((Verb.SHELVE, {}))
    lost = event.source in {Status.ACTIVE, Status.REVIEW, Status.BLOCKED, Status.PAUSED, Status.ESCALATED}
    back_to_ready = lost and back in {Verb.REOPEN, Verb.UNBLOCK, Verb.REWORK}
    return Reversal(event, tuple(moves), note=f"it was {event.source} before" if back_to_ready else "")


def _entered(status: Status | None, earlier: Sequence[Event]) -> dict[str, Any]:
    """The reason and the details that the task had in this status. A resume restores those of an earlier event."""
    for old in reversed(earlier):
        entered = old.target is status and old.source is not status and old.outcome is Outcome.OK
        if entered and old.verb != Verb.RESUME:
            when = old.detail.get("next_check_at")
            return {
                "reason": old.reason,
                "unblock_action": old.detail.get("unblock_action"),
                "next_check_at": time_from(when) if isinstance(when, str) else None,
            }
    return {}


# Each verb and the one that leads back.
_BACK: Mapping[str, Verb] = {
    "add": Verb.CANCEL,
    "done": Verb.REOPEN,
    "close": Verb.REOPEN,
    "approve": Verb.REOPEN,
    "cancel": Verb.REOPEN,
    "reopen": Verb.CANCEL,
    "block": Verb.UNBLOCK,
    "unblock": Verb.BLOCK,
    "pause": Verb.RESUME,
    "resume": Verb.PAUSE,
    "queue": Verb.SHELVE,
    "shelve": Verb.QUEUE,
    "review": Verb.REWORK,
    "claim": Verb.RELEASE,
}
_REVERSED = frozenset({*_BACK, "edit", "assign", "link", "unlink"})
# What cannot be taken back, and the command to go on with.
_FINAL = {"release": "claim", "fail": "claim", "exhaust": "unblock", "rework": "review"}


def _edit(event: Event) -> Edit:
    """The old values. Long texts are not in the log, so a change of one cannot be undone."""
    if event.verb == "assign":
        return Edit(assigned_to=event.detail.get("from"))  # type: ignore[arg-type]  # a name or None
    lost = [name for name, value in event.detail.items() if not isinstance(value, list | tuple)]
    if lost:
        raise Changed(
            f"The edit of {event.task} cannot be undone: the log does not keep the old {', '.join(lost)}."
            " Nothing was changed."
        )
    old, new = ({name: _value(name, pair, which) for name, pair in event.detail.items()} for which in (0, 1))
    return Edit(**old, was=new)  # so that a later change is never overwritten


def _value(name: str, pair: Any, which: int) -> Any:
    kind, value = BY_NAME[name].kind, pair[which]
    if value is None:
        return None
    if kind in LISTS:
        return tuple(value)
    if kind == Kind.TIME:
        return time_from(value)
    return ServiceClass(value) if kind == Kind.CLASS else value
