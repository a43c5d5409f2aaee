"""On the stores with a server: whoever reads or tells is killed before any of the things it asks of it.

On SQLite the same is done before every single statement.
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
    """A store that ends the process at the call after so many others."""

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
    """Do it in a process of its own, with so many calls to live."""
    child = os.fork()
    if child == 0:
        try:
            act(Desk(Mortal(harness.join(store), calls)))
        except BaseException:  # noqa: BLE001 - told to who forked, by the status
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status in {0, -signal.SIGKILL}
    return status == 0


def deaths(
    harness: StoreHarness, before: Callable[[Desk], None], act: Callable[[Desk], object]
) -> Iterator[tuple[Desk, bool]]:
    """A desk for each call before which it died, and one where it died of nothing: then it says so."""
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


def test_each_message_is_read_exactly_once_whenever_its_reader_was_killed(harness: StoreHarness) -> None:
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


def test_each_thing_is_told_exactly_once_whenever_its_teller_was_killed(harness: StoreHarness) -> None:
    all_told_once(harness, chat_acts.tell)


def test_a_teller_that_is_careless_is_found_out(harness: StoreHarness) -> None:
    with pytest.raises(AssertionError):
        all_told_once(harness, chat_acts.tell_carelessly)


def test_nothing_is_left_unheard_when_a_listener_was_killed(harness: StoreHarness) -> None:
    """It may be heard again by the next one: who knows what the dead one had shown?"""

    def told(desk: Desk) -> None:
        lived(desk)
        chat_acts.tell(desk)

    for desk, survived in deaths(harness, told, chat_acts.hear):
        harness.clock.advance(seconds=HANDING_OVER.total_seconds())
        assert len(chat_acts.hear(desk, "next")) == (0 if survived else len(HEADS))
