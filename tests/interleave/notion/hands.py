"""Advance an operation step by step from a test."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, StoreUnavailable
from dibs.stores.notion.guard import Failed, Read, Seen, Wait, Write
from interleave.notion.page import moment

if TYPE_CHECKING:
    from dibs.stores.notion.guard import Answer, Steps, View
    from interleave.notion.page import Page

FAILED = Failed(StoreUnavailable("no answer"))


class Player:
    """One agent on a page. Times are in seconds; a request is sent and answered at once unless the test gives times."""

    def __init__(self, page: Page, steps: Steps) -> None:
        self._page, self._steps = page, steps
        self.result: Seen | DibsError | None = None
        self.step = self._steps.send(None)

    @property
    def holds(self) -> bool:
        return isinstance(self.result, Seen)

    def reads(self, at: float, *, sent: float | None = None, received: float | None = None) -> Player:
        assert isinstance(self.step, Read), self.step
        return self._hear(self._page.view, at if sent is None else sent, at if received is None else received)

    def writes(self, at: float, *, sent: float | None = None, received: float | None = None) -> Player:
        assert isinstance(self.step, Write), self.step
        view = self._page.write(self.step.changes, at)
        return self._hear(view, at if sent is None else sent, at if received is None else received)

    def writes_unheard(self, at: float) -> Player:
        """The write succeeds, but its answer is lost."""
        assert isinstance(self.step, Write), self.step
        self._page.write(self.step.changes, at)
        return self.fails()

    def waits(self) -> float:
        assert isinstance(self.step, Wait), self.step
        seconds = self.step.seconds
        self._go(None)
        return seconds

    def fails(self, answer: Failed = FAILED) -> Player:
        assert isinstance(self.step, Read | Write), self.step
        return self._go(answer)

    def _hear(self, view: View, sent: float, received: float) -> Player:
        return self._go(Seen(view, sent, received, moment(received)))

    def _go(self, answer: Answer) -> Player:
        try:
            self.step = self._steps.send(answer)
        except StopIteration as end:
            self.result = end.value
        except DibsError as error:
            self.result = error
        return self
