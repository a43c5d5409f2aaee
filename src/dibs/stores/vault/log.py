"""What happened, as lines of JSON in Logs/, a file for each day.

Lines are only ever added, each in one write, so any number of processes may do so at once. An event's number is its
place among all lines; where old ones were dropped, a line at the top of the file says how many.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput
from dibs.core.wire import event_from_json, event_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.stores.port import EventQuery
    from dibs.stores.vault.disk import Disk

FOLDER = "Logs"
_PREFIX, _SUFFIX = "dibs-", ".jsonl"
_DROPPED = "dropped"
_line = json.JSONEncoder(ensure_ascii=False).encode


class Log:
    """The events of one vault."""

    def __init__(self, root: str, disk: Disk) -> None:
        self._folder = os.path.join(root, FOLDER)
        self._disk = disk
        self._days: dict[str, _Day] = {}
        self._newest = ""

    def append(self, events: Sequence[Event]) -> str:
        """Add events; the file they went to is returned."""
        path = self._file_for(events[-1].at)
        text = "".join(f"{_line(event_json(event))}\n" for event in events)
        try:
            self._disk.append(path, text.encode())
        except FileNotFoundError:
            self._disk.make_folder(self._folder)
            self._disk.append(path, text.encode())
        return path

    def _file_for(self, moment: datetime) -> str:
        """The day's file, or the newest if a clock was set back: what is added comes last."""
        path = os.path.join(self._folder, f"{_PREFIX}{moment.date().isoformat()}{_SUFFIX}")
        if path > self._newest:
            self._newest = max([path, *self._paths()])
        return self._newest

    def read(self, query: EventQuery) -> list[Event]:
        found = [event for event in self.all() if event.seq > query.after]
        if query.scope is not None:
            found = [event for event in found if event.scope == query.scope]
        if query.task is not None:
            found = [event for event in found if event.task == query.task]
        if query.last is not None:
            return found[max(0, len(found) - query.last) :]
        return found if query.limit is None else found[: query.limit]

    def all(self) -> list[Event]:
        """Every event, under its number."""
        found: list[Event] = []
        base = 0
        for day in self._read_days():
            found += [event._replace(seq=base + place) for place, event in day.events]
            base += day.numbers
        return found

    def unreadable(self) -> list[tuple[str, int]]:
        """Lines that are no events, by file."""
        days = self._read_days()
        return [(os.path.basename(day.path), day.damaged) for day in days if day.damaged]

    def drop(self, before: datetime, most: int) -> int:
        """Take out the oldest events before a moment, up to so many; never the newest, where numbering goes on."""
        dropped = passed_on = 0
        days = self._read_days()
        for day in days:
            old = [place for place, event in day.events if event.at < before]
            if day is days[-1]:
                old = [place for place in old if place != day.numbers]
            old = old[: most - dropped]
            dropped += len(old)
            kept = [(place, event) for place, event in day.events if place not in set(old)]
            if kept and (old or passed_on):
                self._rewrite(day, kept, passed_on)
                passed_on = 0
            elif not kept:
                self._disk.remove(day.path)
                passed_on += day.numbers
        return dropped

    def _rewrite(self, day: _Day, kept: list[tuple[int, Event]], passed_on: int) -> None:
        """What is left of a day, with the numbers of what is gone, here or in days that are gone as a whole."""
        lines: list[str] = []
        expected = 1 - passed_on
        for place, event in kept:
            if place > expected:
                lines.append(json.dumps({_DROPPED: place - expected}))
            lines.append(_line(event_json(event._replace(seq=0))))
            expected = place + 1
        self._disk.replace(day.path, "".join(f"{line}\n" for line in lines).encode())

    def _read_days(self) -> list[_Day]:
        self._days = {path: self._days.get(path) or _Day(path) for path in self._paths()}
        for day in self._days.values():
            day.catch_up()
        return list(self._days.values())

    def _paths(self) -> list[str]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return []
        ours = (name for name in sorted(names) if name.startswith(_PREFIX) and name.endswith(_SUFFIX))
        return [os.path.join(self._folder, name) for name in ours]


class _Day:
    """One file of events, read on from where it was read to before."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.events: list[tuple[int, Event]] = []  # each with its place among this day's numbers
        self.numbers = 0
        self.damaged = 0
        self._inode = 0
        self._read_to = 0

    def catch_up(self) -> None:
        with open(self.path, "rb") as file:
            stat = os.fstat(file.fileno())
            if stat.st_ino != self._inode or stat.st_size < self._read_to:
                self.events, self.numbers, self.damaged = [], 0, 0
                self._inode, self._read_to = stat.st_ino, 0
            if stat.st_size == self._read_to:
                return
            file.seek(self._read_to)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for line in whole.split(b"\n"):
            if line.strip():
                self._take(line)

    def _take(self, line: bytes) -> None:
        """A line that cannot be read has its number all the same: the others must not change theirs."""
        try:
            said = json.loads(line)
            if isinstance(said, dict) and isinstance(said.get(_DROPPED), int):
                self.numbers += said[_DROPPED]
                return
            self.numbers += 1
            self.events.append((self.numbers, event_from_json(said)))
        except (ValueError, RecursionError):
            self.numbers += 1
            self.damaged += 1
        except InvalidInput:
            self.damaged += 1
