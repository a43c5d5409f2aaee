"""Reading events one after the other, and missing none, though their numbers may be seen out of turn."""

import json
from collections.abc import Callable, Iterator
from typing import NamedTuple

from dibs.core.events import Event
from dibs.core.wire import event_json
from dibs.desk import Desk
from dibs.serve.cursor import Cursor

_PAGE = 1000  # events at once
_FIRST_LOOK = 500  # how far back numbers may be missing that turn up after the server has started
_GIVEN_UP = 600.0  # seconds after which a number that is missing is taken for one that nobody wrote


class Entry(NamedTuple):
    """An event, how it is told, and the place of who has read up to here."""

    event: Event
    data: str
    place: Cursor


class Follower:
    """Reads on from where it was, and keeps looking for the numbers that it has seen others go past."""

    def __init__(self, open_desk: Callable[[], Desk], clock: Callable[[], float]) -> None:
        self._open_desk = open_desk
        self._clock = clock
        self._desk: Desk | None = None
        self._noticed: dict[tuple[int, int], float] | None = None  # None: it has never looked
        self.place = Cursor()

    def look(self) -> Iterator[Entry]:
        """What turned up."""
        desk = self._desk = self._desk or self._open_desk()
        if self._noticed is None:
            self._begin(desk)
        for low, top in self.place.missing:
            for event in desk.events(after=low - 1, limit=top - low + 1, anywhere=True):
                if event.seq <= top:
                    yield self._seen(event)
        while events := desk.events(after=self.place.high, limit=_PAGE, anywhere=True):
            for event in events:
                yield self._seen(event)
        self._give_up()

    def _begin(self, desk: Desk) -> None:
        newest = desk.events(last=_FIRST_LOOK, anywhere=True)
        place = Cursor(newest[0].seq if newest else 0)
        for event in newest:
            place = place.past(event.seq)
        self.place, self._noticed = place, dict.fromkeys(place.missing, self._clock())

    def leave(self) -> None:
        """The place is kept, to go on from."""
        desk, self._desk = self._desk, None
        if desk is not None:
            desk.close()

    def _seen(self, event: Event) -> Entry:
        self.place = self.place.past(event.seq)
        return Entry(event, json.dumps(event_json(event)), self.place)

    def _give_up(self) -> None:
        """What is left of a range is as old as the range was."""
        now, known = self._clock(), self._noticed or {}
        self._noticed = {
            gap: min((at for old, at in known.items() if _within(gap, old)), default=now) for gap in self.place.missing
        }
        self.place = self.place.only(tuple(gap for gap, at in self._noticed.items() if now - at < _GIVEN_UP))


def _within(gap: tuple[int, int], old: tuple[int, int]) -> bool:
    return old[0] <= gap[0] and gap[1] <= old[1]
