"""The screen of `dibs top`: a snapshot drawn in so many columns and lines, and a loop that updates it."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import time
import tty
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.box import ROUNDED
from rich.console import Group
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from dibs.cli.commands.top import MINUTES, share_left, time_left
from dibs.console.streams import clean
from dibs.core.errors import StoreError
from dibs.core.events import Outcome
from dibs.core.task import Status, remark, status_word
from dibs.core.times import in_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from rich.console import Console, RenderableType

    from dibs.cli.commands.top import Agent, Snapshot
    from dibs.console.stopping import Stop
    from dibs.core.task import Task

_WIDE = 110  # columns from which two panels fit side by side
_NARROW = 70  # columns below which less important columns are left out
_BAR = 10
_LOW, _HALF = 0.2, 0.5  # of a lease
_SPARKS = "▁▂▃▄▅▆▇█"
_COLOURS = {
    Status.READY: "green",
    Status.ACTIVE: "cyan",
    Status.REVIEW: "magenta",
    Status.BLOCKED: "yellow",
    Status.ESCALATED: "red",
    Status.PAUSED: "yellow",
}
_HAPPENED = {**_COLOURS, Status.READY: "dim", Status.DONE: "green"}
_HEAD = 3  # lines
_TALL = 36  # lines from which recent events are shown
_PEOPLE = "waiting for people"
_EDGES = 2  # lines of a panel


def page(shot: Snapshot, width: int) -> RenderableType:
    """All panels, one below the other, for a file or a pipe."""
    titled = {"agents": _agents(shot, width), _ready_title(shot): _ready(shot), _PEOPLE: _people(shot)}
    return Group(*_head(shot, width), *(_panel(part, title) for title, part in titled.items()))


def frame(shot: Snapshot, width: int, height: int, trouble: str | None) -> RenderableType:
    """As many panels and lines as fit."""
    whole, room = Layout(), height - _HEAD
    whole.split_column(Layout(Group(*_head(shot, width, trouble)), size=_HEAD), Layout(name="below"))
    agents = Layout(_panel(_agents(shot, width), "agents"))
    ready = Layout(_panel(_ready(shot), _ready_title(shot)))
    people = Layout(_panel(_people(shot), _PEOPLE))
    lately = Layout(_panel(_lately(shot), "lately"))
    if width >= _WIDE:
        left, right = Layout(), Layout()
        agents.size = min(_rows(_agent_lines(shot)), room * 2 // 3)
        people.size = min(_rows(len(shot.people)), room // 2)
        left.split_column(agents, lately)
        right.split_column(ready, people)
        whole["below"].split_row(left, right)
        return whole
    agents.size, people.size = _shares(shot, room)
    tall = [lately] if room >= _TALL else []
    whole["below"].split_column(agents, ready, people, *tall)
    return whole


def _shares(shot: Snapshot, room: int) -> tuple[int, int]:
    """The number of lines for agents and for people; ready tasks get the rest."""
    people = min(_rows(len(shot.people)), max(_EDGES + 1, room // 4))
    agents = min(_rows(_agent_lines(shot)), max(_EDGES + 1, (room - people) * 3 // 5))
    return agents, people


def _agent_lines(shot: Snapshot) -> int:
    return sum(max(1, len(agent.tasks)) for agent in shot.agents)


def _rows(count: int) -> int:
    return max(1, count) + _EDGES


def _panel(inner: RenderableType, title: str) -> Panel:
    return Panel(
        inner, title=Text(title, style="bold"), title_align="left", box=ROUNDED, border_style="dim", padding=(0, 1)
    )


# The head


def _head(shot: Snapshot, width: int, trouble: str | None = None) -> list[Text]:
    where = "all scopes" if shot.scope is None else clean(shot.scope)
    first = _line("dibs top", "bold").append(f"  {where}  ", style="not bold")
    first.append(f"{shot.now:%H:%M:%S} UTC", style="not bold dim")
    if trouble is not None:
        first.append(f"  {clean(trouble)}", style="bold red")
    return [first, _counts(shot), _throughput(shot, width)]


def _line(text: str = "", style: str = "") -> Text:
    """One that is cut where the screen ends."""
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _counts(shot: Snapshot) -> Text:
    counts = shot.counts
    told = [
        (counts.claimable, "ready", "green"),
        (counts.by_status[Status.ACTIVE] - counts.expired, "held", "cyan"),
        (counts.waiting, "waiting", "yellow"),
        (counts.by_status[Status.REVIEW], "in review", "magenta"),
        (counts.by_status[Status.BLOCKED], "blocked", "yellow"),
        (counts.by_status[Status.ESCALATED], "escalated", "red"),
        (counts.later, "later", "dim"),
        (counts.expired, "expired", "red"),
        (counts.by_status[Status.PAUSED], "paused", "dim"),
        (counts.by_status[Status.BACKLOG], "backlog", "dim"),
        (counts.by_status[Status.DONE], "done", "dim"),
    ]
    always = {"ready", "held", "waiting", "done"}
    line = _line()
    for number, word, colour in told:
        if number or word in always:
            line.append(f"{number}", style=f"bold {colour}").append(f" {word}  ", style="dim")
    return line


def _throughput(shot: Snapshot, width: int) -> Text:
    if shot.finished is None:
        return _line("finished  this store keeps no record of it", "dim")
    most = max(*shot.finished, 1)
    line = _line("finished  ", "dim")
    for number in shot.finished:
        line.append(_SPARKS[round(number / most * (len(_SPARKS) - 1))], style="not dim green" if number else "dim")
    line.append(f"  {shot.rate:.1f} a minute", style="not dim bold")
    return line if width < _NARROW else line.append(f"  (the last {MINUTES} minutes)", style="dim")


# The panels


def _table(*columns: tuple[str, int | None]) -> Table:
    """Each column's style and its share of the spare width; a column without a share is as wide as its text."""
    table = Table(box=None, show_header=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
    for style, ratio in columns:
        table.add_column(style=style, ratio=ratio, no_wrap=True, overflow="ellipsis")
    return table


def _agents(shot: Snapshot, width: int) -> RenderableType:
    if not shot.agents:
        return Text("no agent is at work or enrolled", style="dim")
    narrow = width < _NARROW
    table = _table(("bold", None), *(() if narrow else (("dim", None),)), ("", 1), ("", None), ("", None))
    for agent in shot.agents:
        for number, task in enumerate(agent.tasks or (None,)):
            who = [clean(agent.name) if number == 0 else ""]
            who += [] if narrow else [clean(agent.role or "") if number == 0 else ""]
            table.add_row(*map(Text, who), *(_idle(agent) if task is None else _held(task, shot.now)))
    return table


def _idle(agent: Agent) -> tuple[Text, Text, Text]:
    return Text("waits for work" if agent.there else "is not there", style="dim"), Text(), Text()


def _held(task: Task, now: datetime) -> tuple[Text, Text, Text]:
    named = Text.assemble((f"{task.id} ", "cyan"), clean(task.title))
    left = time_left(task, now)
    if left is None:
        return named, Text("by hand", style="magenta"), Text()
    share = share_left(task, now)
    colour = "green" if share > _HALF else "yellow" if share > _LOW else "red"
    filled = round(share * _BAR)
    bar = Text.assemble(("━" * filled, colour), ("─" * (_BAR - filled), "dim"))
    return named, bar, Text(in_words(left) if share else "expired", style=colour, justify="right")


def _ready_title(shot: Snapshot) -> str:
    return f"ready ({shot.counts.claimable})" if shot.counts.claimable else "ready"


def _ready(shot: Snapshot) -> RenderableType:
    if not shot.ready:
        return Text("nothing can be claimed now", style="dim")
    table = _table(("dim", None), ("green", None), ("", 1), ("dim", None))
    for number, task in enumerate(shot.ready, start=1):
        meant = f"for {clean(task.assigned_to)}" if task.assigned_to else clean(", ".join(task.requires))
        expired = Text("lease ran out", style="red") if task.status is Status.ACTIVE else Text(meant)
        table.add_row(Text(f"{number}", justify="right"), Text(task.id), Text(clean(task.title)), expired)
    return table


def _people(shot: Snapshot) -> RenderableType:
    if not shot.people:
        return Text("no task needs a person", style="dim")
    table = _table(("", None), ("", None), ("", 1), ("dim", 1))
    for task in shot.people:
        word = Text(status_word(task, shot.now), style=_COLOURS.get(task.status, ""))
        wanted = clean(task.unblock_action or remark(task, shot.now))
        table.add_row(word, Text(task.id), Text(clean(task.title)), Text(wanted))
    return table


def _lately(shot: Snapshot) -> RenderableType:
    if not shot.lately:
        return Text("nothing is known to have happened", style="dim")
    table = _table(("dim", None), ("bold", None), ("", None), ("", None), ("dim", 1))
    for event in shot.lately:
        word = event.verb if event.outcome is Outcome.OK else f"{event.verb} {event.outcome}"
        colour = "dim" if event.target is None or event.outcome is not Outcome.OK else _HAPPENED.get(event.target, "")
        why = (event.reason or "").partition("\n")[0]
        cells = (f"{event.at:%H:%M:%S}", event.agent or "", event.task, why)
        at, who, task, reason = (Text(clean(cell)) for cell in cells)
        table.add_row(at, who, Text(clean(word), style=colour), task, reason)
    return table


_SPARING = 4  # the pause between two reads, in read times, so that `top` never slows down the agents
_ESCAPE = b"\x1b"
_QUIT = frozenset(b"qQ\x03\x04" + _ESCAPE)


def run(look: Callable[[], Snapshot], console: Console, interval: float, stop: Stop) -> None:
    """Show the screen until q, Esc or a stop. If the store fails, show its error and retry."""
    from rich.live import Live

    shot, trouble, spent = look(), None, 0.0
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while not stop.requested:
            live.update(frame(shot, console.width, console.height, trouble), refresh=True)
            if _pressed(keys, stop, max(interval, _SPARING * spent)):
                return
            began = time.monotonic()
            try:
                shot, trouble = look(), None
            except StoreError as error:
                trouble = error.message
            spent = time.monotonic() - began


@contextmanager
def _keys() -> Iterator[int]:
    """Read keys without echo. The yielded descriptor is also readable after the window changed its size."""
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    resized = signal.signal(signal.SIGWINCH, lambda _number, _frame: None)
    waker = signal.set_wakeup_fd(wakes)
    try:
        tty.setcbreak(keyboard)
        yield woken
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)
        signal.set_wakeup_fd(waker)
        signal.signal(signal.SIGWINCH, resized)
        os.close(woken)
        os.close(wakes)


def _pressed(woken: int, stop: Stop, seconds: float) -> bool:
    """Whether a key asks to leave within this time; a new size of the window, or a stop, ends the wait."""
    keyboard, until = sys.stdin.fileno(), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([keyboard, woken, stop], [], [], left)
        if stop in ready:
            return True
        if woken in ready:
            os.read(woken, 4096)
            return False
        if keyboard in ready:
            typed = os.read(keyboard, 64)
            arrow = len(typed) > 1 and typed.startswith(_ESCAPE)  # or another key that sends several
            if not typed or (not arrow and _QUIT & set(typed)):
                return True
    return False
