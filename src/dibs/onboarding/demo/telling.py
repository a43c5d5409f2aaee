"""What happens in a demo, as lines for whoever watches the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.table import clean, paint, shorten
from dibs.console.table import width as cells
from dibs.core.events import Outcome
from dibs.core.lifecycle import LEASE_RAN_OUT, Verb
from dibs.core.scopes import is_internal

if TYPE_CHECKING:
    from dibs.core.events import Event

_AGENT, _VERB, _TIME, _LEAST = 6, 10, 16, 24  # columns
_REASON = 60
_FAINT, _BOLD = "2", "1"
_TOLD: dict[str, tuple[str, str]] = {  # verb → what is told of it, and its colour
    Verb.CLAIM: ("takes", "36"),
    Verb.DONE: ("finishes", "32"),
    Verb.FAIL: ("fails", "31"),
    Verb.EXHAUST: ("gives up", "31"),
    Verb.BLOCK: ("is stuck", "33"),
    Verb.REVIEW: ("hands over", "35"),
    Verb.APPROVE: ("approves", "32"),
    Verb.UNBLOCK: ("unblocks", "32"),
    Verb.REWORK: ("sends back", "33"),
    Verb.RELEASE: ("gives back", "33"),
    Verb.CANCEL: ("calls off", "33"),
}


def event_line(event: Event, title: str, width: int) -> str | None:
    """One line, or None for what would only be noise."""
    if event.verb not in _TOLD or event.outcome is not Outcome.OK or is_internal(event.scope):
        return None
    word, colour = _TOLD[event.verb]
    who, more = shorten(clean(event.agent or "dibs"), _AGENT), _more(event)
    room = max(_LEAST, width - _AGENT - _VERB - _TIME - cells(more))
    what = f"{shorten(clean(title), room)}{more}"
    return f"  {paint(f'{event.at:%H:%M:%S}', _FAINT)}  {who:<{_AGENT}}  {paint(f'{word:<{_VERB}}', colour)}  {what}"


def _more(event: Event) -> str:
    if event.verb == Verb.CLAIM and event.detail.get("taken_from"):
        return f"  ← {clean(str(event.detail['taken_from']))}'s lease had run out; attempt {event.attempt}"
    if event.verb == Verb.CLAIM and (event.attempt or 1) > 1:
        return f"  (attempt {event.attempt})"
    if event.verb == Verb.EXHAUST and event.reason == LEASE_RAN_OUT:
        return "  (the lease ran out once too often)"
    if event.verb in {Verb.FAIL, Verb.BLOCK, Verb.REVIEW} and event.reason:
        return f": {clean(shorten(event.reason.partition(chr(10))[0], _REASON))}"
    return ""


def aside(text: str) -> str:
    """What the demo itself has to say."""
    return f"\n  {paint('▸', _BOLD)} {text}"


def typed(command: str) -> str:
    """Something to type, or that was typed."""
    return f"      {paint('$', _FAINT)} {paint(command, _BOLD)}"
