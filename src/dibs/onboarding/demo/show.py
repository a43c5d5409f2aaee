"""A demo from its beginning to its end, and its events as lines for the terminal."""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from dibs.console.streams import clean, paint, shorten
from dibs.console.streams import width as cells
from dibs.core.events import Event, Outcome
from dibs.core.lifecycle import LEASE_RAN_OUT, Verb
from dibs.core.messages import quoted
from dibs.core.scores import Scores, scores
from dibs.core.task import Actor, Status, is_internal
from dibs.desk import Desk, open_desk
from dibs.fleet.attempt import history
from dibs.onboarding.demo.director import PERSON, Director, story, typed
from dibs.onboarding.demo.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dibs.console.stopping import Stop
    from dibs.core.events import Event

_AGENT, _VERB, _TIME, _LEAST = 6, 10, 16, 24  # columns
_REASON = 60
_FAINT, _BOLD = "2", "1"
_TOLD: dict[str, tuple[str, str]] = {  # verb → its text and colour
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
    """One line, or None for an event that is not shown."""
    if event.verb not in _TOLD or event.outcome is not Outcome.OK or is_internal(event.scope):
        return None
    word, colour = _TOLD[event.verb]
    who, more = shorten(clean(event.agent or "dibs"), _AGENT), _more(event)
    room = max(_LEAST, width - _AGENT - _VERB - _TIME - cells(more))
    what = f"{shorten(clean(title), room)}{more}"
    return f"  {paint(f'{event.at:%H:%M:%S}', _FAINT)}  {who:<{_AGENT}}  {paint(f'{word:<{_VERB}}', colour)}  {what}"


def _more(event: Event) -> str:
    if event.verb == Verb.CLAIM and event.detail.get("taken_from"):
        return f"  ← {clean(str(event.detail['taken_from']))}'s lease had expired; attempt {event.attempt}"
    if event.verb == Verb.CLAIM and (event.attempt or 1) > 1:
        return f"  (attempt {event.attempt})"
    if event.verb == Verb.EXHAUST and event.reason == LEASE_RAN_OUT:
        return "  (the lease expired too often)"
    if event.verb in {Verb.FAIL, Verb.BLOCK, Verb.REVIEW} and event.reason:
        return f": {clean(shorten(event.reason.partition(chr(10))[0], _REASON))}"
    return ""


_TICK = 0.4  # seconds
_TO_TRY = ("dibs top", "dibs graph", "dibs list", "dibs log", 'dibs add "Paint the jetty" --priority 0')


class Options(NamedTuple):
    """`seconds` None: until it is interrupted. `folder` None: one that goes with the demo."""

    seconds: float | None
    port: int
    browser: bool
    folder: str | None
    speed: float


class Summary(NamedTuple):
    seconds: float
    tasks: int
    finished: int
    twice: int
    scores: Scores


def play(options: Options, say: Callable[[str], None], stop: Stop) -> Summary:
    """Play until the time is over or until stopped. Every process of the demo has ended when this returns."""
    began = time.monotonic()
    with Stage(options.folder) as stage, open_desk(stage.url, create=True, by=Actor(PERSON)) as desk:
        director = Director(stage, desk, story(), options.speed, say)
        planned = director.begin()
        if options.seconds != 0:
            _open(options, stage, director, planned, say)
            _watch(options, desk, director, say, stop)
            if stop.requested:
                say("\n")
        return _summary(desk, time.monotonic() - began)


def _open(options: Options, stage: Stage, director: Director, planned: int, say: Callable[[str], None]) -> None:
    cast = story().cast
    say(f"\n  {paint('dibs demo', '1')}: {len(cast)} agents ship a small product: {planned} tasks, one desk.")
    say(f"  {', '.join(f'{part.agent} ({part.role})' for part in cast)}.")
    say(f"  Each agent is a separate process and claims its tasks with leases of {director.lease:.0f} s.\n")
    address = stage.board(options.port)
    say(f"  the board   {paint(address, '1;36') if address else 'is not there: ' + stage.last_line('board')}")
    say("\n  In a second terminal:")
    for command in (*_on_the_path(), f"export DIBS_STORE={quoted(stage.url)}", *_TO_TRY):
        say(typed(command))
    say("\n  Ctrl-C ends the demo.\n")
    if address and options.browser and _on_a_desktop():
        import webbrowser

        webbrowser.open(f"{address}/#/board?tour=1")
    director.start_fleet()


def _on_the_path() -> Iterable[str]:
    """`make run` cannot change the PATH of the user's shell, which does not find `dibs` yet."""
    from shutil import which

    here = os.path.dirname(sys.executable)
    if which("dibs") is None and which("dibs", path=here) is not None:
        yield f"export PATH={quoted(here)}:$PATH"


def _on_a_desktop() -> bool:
    shown = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    return bool(shown) and sys.stdout.isatty() and not os.environ.get("SSH_CONNECTION")


def _watch(options: Options, desk: Desk, director: Director, say: Callable[[str], None], stop: Stop) -> None:
    began = time.monotonic()
    last = desk.events(last=1, anywhere=True)
    after = last[-1].seq if last else 0
    while not stop.wait(_TICK) and (options.seconds is None or time.monotonic() - began < options.seconds):
        events = desk.events(after=after, limit=200, anywhere=True)
        for line in _lines(desk, events):
            say(line)
        after = events[-1].seq if events else after
        director.tick((time.monotonic() - began) * options.speed)


def _lines(desk: Desk, events: Iterable[Event]) -> Iterable[str]:
    from shutil import get_terminal_size

    width = get_terminal_size((100, 24)).columns
    titles: dict[tuple[str, str], str] = {}
    for event in events:
        if event.task and (event.scope, event.task) not in titles:
            titles[event.scope, event.task] = desk.at(event.scope, internal=True).get(event.task).title
        line = event_line(event, titles.get((event.scope, event.task), ""), width)
        if line is not None:
            yield line


def _summary(desk: Desk, seconds: float) -> Summary:
    """Count finished tasks by events, so that a task finished twice would show."""
    told = list(history(desk, anywhere=True))
    finished = Counter((e.scope, e.task) for e in told if e.target is Status.DONE and e.outcome is Outcome.OK)
    scopes = [desk.at(scope).counts() for scope in desk.scopes()]
    tasks = sum(sum(counts.by_status.values()) for counts in scopes)
    return Summary(seconds, tasks, len(finished), sum(finished.values()) - len(finished), scores(told))
