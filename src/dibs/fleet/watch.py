"""Dispatching round after round, while others stand by to take over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import StoreError
from dibs.fleet.dispatch import Round

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk
    from dibs.fleet.dispatch import Dispatcher
    from dibs.fleet.leading import Lead

EVERY = 0.25  # seconds between looks for whoever was freed, which nobody gives notice of
_STANDING_BY = 0.4
_BREATH = 0.05  # at least, however much happens
_TROUBLE = 2.0


class Watch:
    """`show` is told of every round in which something happened, `trouble` of what went wrong."""

    def __init__(
        self,
        desk: Desk,
        dispatcher: Dispatcher,
        lead: Lead,
        show: Callable[[Round], None],
        trouble: Callable[[str], None],
    ) -> None:
        self._desk = desk
        self._dispatcher = dispatcher
        self._lead = lead
        self._show = show
        self._trouble = trouble
        self._known: set[tuple[str, str, str]] = set()

    def run(self, stopped_within: Callable[[float], bool], *, until_done: bool) -> Round:
        """Dispatch until stopped, or until all is done. Returns the sum of all rounds.

        `stopped_within` waits so many seconds. The lead is given up at the end, so that the next one need not wait.
        """
        total, pause = Round(), _BREATH
        try:
            while not stopped_within(pause):
                pause = _BREATH
                try:
                    done = self._round(until_done=until_done)
                except StoreError as error:
                    self._trouble(error.message)
                    pause = _TROUBLE
                    continue
                if done is not None:
                    total = done.after(total)
                    if until_done and not done.given and self._dispatcher.settled():
                        break
        finally:
            self._lead.give_up()
        return total

    def _round(self, *, until_done: bool) -> Round | None:
        """None for who only stands by."""
        if not self._lead.have():
            if until_done and self._dispatcher.settled():
                return Round()
            self._desk.wait(_STANDING_BY - _BREATH)
            return None
        done = self._dispatcher.round()
        news = self._news(done)
        if news:
            self._show(news)
        if not done.given:
            self._desk.wait(EVERY - _BREATH)
        return done

    def _news(self, done: Round) -> Round:
        """Without the trouble that was told of the round before."""
        known, self._known = self._known, {(one.task.scope, one.task.id, one.error) for one in done.troubles}
        fresh = (one for one in done.troubles if (one.task.scope, one.task.id, one.error) not in known)
        return done._replace(troubles=tuple(fresh))
