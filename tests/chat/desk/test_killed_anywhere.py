"""On server stores: readers and deliverers are killed before each call to the store.

On SQLite, other tests kill them before each statement.
"""

from __future__ import annotations

import os
import signal
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from conformance.harness import HARNESSES
from dibs.chat.conversation.reader import LEASE
from dibs.desk import Desk
from dibs.mail import LEASE as HANDING_OVER
from interleave import chat_acts

from .test_crashes import SAID, assert_read_once
from .test_telling_crashes import HEADS, assert_told_once, lived

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from conformance.harness import StoreHarness
    from dibs.stores.port import Store


class Mortal:
    """A store that ends the process after a number of calls."""

    def __init__(self, store: Store, calls: int) -> None:
        self._store = store
        self._left = calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._store, name)
        return self._counted(found) if callable(found) else found

    def _counted(self, verb: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            self._left -= 1
            return verb(*given, **named)

        return counted


def survives(harness: StoreHarness, store: Store, act: Callable[[Desk], object], calls: int) -> bool:
    """Whether the act finishes in a new process that may make this many calls."""
    child = os.fork()
    if child == 0:
        try:
            act(Desk(Mortal(harness.join(store), calls)))
        except BaseException:  # noqa: BLE001 - reported to the parent by the status
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, -signal.SIGKILL}
    return status == 0


def deaths(
    harness: StoreHarness, before: Callable[[Desk], None], act: Callable[[Desk], object]
) -> Iterator[tuple[Desk, bool]]:
    """A desk for each call at which the process died, and one for the process that finished."""
    calls, survived = 0, False
    while not survived:
        with harness.open() as store:
            desk = Desk(store)
            before(desk)
            survived = survives(harness, store, act, calls)
            yield desk, survived
            assert store.check(fix=False) == []
        calls += 1
    assert calls > 2, "it asks for more than that"


@pytest.fixture(params=("neo4j", "postgres"))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoreHarness]:
    made = HARNESSES[request.param](str(tmp_path))
    yield made
    made.close()


def test_message_of_a_killed_reader_is_read_once(harness: StoreHarness) -> None:
    def said(desk: Desk) -> None:
        for text in SAID:
            chat_acts.say(desk, text)
            harness.clock.advance(seconds=1)
        harness.clock.advance(minutes=1)

    for desk, _ in deaths(harness, said, chat_acts.flush):
        harness.clock.advance(seconds=LEASE.total_seconds())
        chat_acts.tick(desk, "next")
        assert_read_once(desk)


def all_told_once(harness: StoreHarness, tell: Callable[[Desk], object]) -> None:
    for desk, _ in deaths(harness, lived, tell):
        chat_acts.tell(desk, "next")
        assert_told_once(desk)


def test_delivery_killed_at_any_statement_reports_each_fact_once(harness: StoreHarness) -> None:
    all_told_once(harness, chat_acts.tell)


def test_careless_delivery_is_detected(harness: StoreHarness) -> None:
    with pytest.raises(AssertionError):
        all_told_once(harness, chat_acts.tell_carelessly)


def test_notes_survive_a_killed_listener(harness: StoreHarness) -> None:
    """The next process may show a note again, because it cannot know whether the dead one showed it."""

    def told(desk: Desk) -> None:
        lived(desk)
        chat_acts.tell(desk)

    for desk, survived in deaths(harness, told, chat_acts.hear):
        harness.clock.advance(seconds=HANDING_OVER.total_seconds())
        assert len(chat_acts.hear(desk, "next")) == (0 if survived else len(HEADS))
