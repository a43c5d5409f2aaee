"""The chat's timer: while the server runs, what has been said is read when its window closes, and answers are told."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError
from dibs.core.task import Actor

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.desk import Desk

_AGAIN = 5.0  # seconds after which it is tried again
_log = logging.getLogger("dibs.serve")


class Timer:
    def __init__(self, open_desk: Callable[[], Desk]) -> None:
        self._open_desk = open_desk
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="chat", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        from dibs.chat.room import can_chat

        while not self._stop.is_set():
            try:
                with self._open_desk() as desk:
                    if not can_chat(desk):
                        return
                    self._watch(desk.at(desk.scope, by=Actor("chat")))
            except DibsError as error:
                _log.warning("chat: %s", error.message)
            except Exception:  # noqa: BLE001 - it is told, and tried again
                _log.exception("chat: a mistake in the timer")
            self._stop.wait(_AGAIN)

    def _watch(self, desk: Desk) -> None:
        from dibs.chat.choosing import chosen_reader, chosen_unify
        from dibs.chat.outbox import Deliverer
        from dibs.chat.timer import watch

        deliverer = Deliverer(desk, chosen_unify())
        watch(desk, chosen_reader(desk), deliverer, _quiet, _log.warning, self._stop.wait)


def _quiet(_what: object) -> None:
    """Whoever it is for hears it."""
