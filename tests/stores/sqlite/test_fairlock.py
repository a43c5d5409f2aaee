"""The queue of writers: first come first served, bounded in time, and nothing left behind."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreBusy, StoreReadOnly, StoreUnavailable
from dibs.stores.sqlite.commits import FairLock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import FrameType

PATIENCE = 120.0


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path / "dibs.db-lock")


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def queue_length(place: str) -> int:
    """How many the kernel has in line for this file."""
    found = os.stat(place)
    file_id = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    with open("/proc/locks", encoding="ascii") as file:
        waiting = [words for words in map(str.split, file) if words[1] == "->"]
    return sum(words[6] == file_id for words in waiting)


def descriptors(place: str) -> int:
    """How many descriptors of ours lead to this file."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}") == place
        except FileNotFoundError:
            continue
    return found


@contextmanager
def lock(place: str, timeout: float = PATIENCE) -> Iterator[FairLock]:
    opened = FairLock(place, timeout)
    try:
        yield opened
    finally:
        opened.close()


def can_be_taken(place: str, timeout: float = PATIENCE) -> bool:
    with lock(place, timeout) as another:
        try:
            another.take()
        except StoreBusy:
            return False
        return True


def test_free_turn_is_taken_at_once_and_released(place: str) -> None:
    with lock(place) as mine:
        mine.take()
        assert not can_be_taken(place, 0.01)
        mine.give()
        assert can_be_taken(place)
        mine.take()
        mine.give()
    assert can_be_taken(place)


def test_waiting_writers_are_served_in_order(place: str) -> None:
    served: list[int] = []

    def wait(number: int) -> None:
        with lock(place) as theirs:
            theirs.take()
            served.append(number)
            theirs.give()

    with lock(place) as mine:
        mine.take()
        threads = []
        for number in range(5):
            thread = threading.Thread(target=wait, args=(number,))
            thread.start()
            threads.append(thread)
            until(lambda: queue_length(place) == len(threads))
        assert served == []
        mine.give()
        for thread in threads:
            thread.join(PATIENCE)
    assert served == [0, 1, 2, 3, 4]


def test_wait_times_out_with_a_retry_hint(place: str) -> None:
    with lock(place) as mine, lock(place, 0.2) as hasty:
        mine.take()
        began = time.monotonic()
        with pytest.raises(StoreBusy) as busy:
            hasty.take()
        assert 0.2 <= time.monotonic() - began < PATIENCE / 2
        assert busy.value.retry_after_ms == 1000
        assert place.removesuffix("-lock") in busy.value.message


def test_writer_that_timed_out_gets_no_turn_later(place: str) -> None:
    with lock(place) as mine, lock(place, 0.05) as hasty:
        mine.take()
        with pytest.raises(StoreBusy):
            hasty.take()
        until(lambda: queue_length(place) == 1)  # the kernel still has it in line
        mine.give()
        until(lambda: descriptors(place) == 1)
        assert can_be_taken(place)
        hasty.take()
        assert not can_be_taken(place, 0.01)
        hasty.give()
        assert can_be_taken(place)


def test_writer_that_timed_out_does_not_block_the_next(place: str) -> None:
    served: list[str] = []

    def wait() -> None:
        with lock(place) as theirs:
            theirs.take()
            served.append("patient")
            theirs.give()

    with lock(place) as mine, lock(place, 0.05) as hasty:
        mine.take()
        with pytest.raises(StoreBusy):
            hasty.take()
        thread = threading.Thread(target=wait)
        thread.start()
        until(lambda: queue_length(place) == 2)
        mine.give()
        thread.join(PATIENCE)
    assert served == ["patient"]


def test_repeated_timeouts_leak_no_descriptors_or_threads(place: str) -> None:
    threads = threading.active_count()
    with lock(place) as mine, lock(place, 0.01) as hasty:
        mine.take()
        for _ in range(10):
            with pytest.raises(StoreBusy):
                hasty.take()
        until(lambda: queue_length(place) == 10)
        mine.give()
        until(lambda: queue_length(place) == 0)
        until(lambda: threading.active_count() <= threads)
        until(lambda: descriptors(place) == 1)
        hasty.take()
    assert descriptors(place) == 0


def test_waiting_keeps_one_thread_until_the_lock_is_closed(place: str) -> None:
    before = set(threading.enumerate())  # threads of earlier tests may still be ending
    with lock(place) as mine, lock(place) as theirs:
        for _ in range(20):
            mine.take()
            waiter = threading.Thread(target=theirs.take)
            waiter.start()
            until(lambda: queue_length(place) == 1)
            mine.give()
            waiter.join(PATIENCE)
            theirs.give()
        assert descriptors(place) == 2
        assert len(set(threading.enumerate()) - before) == 1
    until(lambda: set(threading.enumerate()) <= before)
    assert descriptors(place) == 0


def test_closing_releases_the_turn_and_is_idempotent(place: str) -> None:
    mine = FairLock(place, PATIENCE)
    mine.close()
    mine.give()
    mine.take()
    mine.close()
    mine.close()
    assert can_be_taken(place)
    mine.take()
    mine.close()


def test_a_started_program_does_not_inherit_the_turn(place: str) -> None:
    with lock(place) as mine:
        mine.take()
        assert not os.get_inheritable(mine._fd)


class Interrupted(Exception):
    pass


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


def test_interrupted_wait_does_not_take_the_turn(place: str) -> None:
    """Otherwise a program that survives Ctrl-C would get the turn later and never release it."""
    usual = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with lock(place) as mine, lock(place) as theirs:
            mine.take()
            threading.Thread(target=wake_main_when_queued, args=(place,)).start()
            with pytest.raises(Interrupted):
                theirs.take()
            mine.give()
            until(lambda: can_be_taken(place))
            theirs.take()
            theirs.give()
            assert can_be_taken(place)
    finally:
        signal.signal(signal.SIGUSR1, usual)


def wake_main_when_queued(place: str) -> None:
    until(lambda: queue_length(place) == 1)
    main = threading.main_thread().ident
    assert main is not None
    signal.pthread_kill(main, signal.SIGUSR1)


def test_folder_at_the_lock_path_is_unavailable(place: str) -> None:
    os.mkdir(place)
    with lock(place) as mine, pytest.raises(StoreUnavailable) as error:
        mine.take()
    assert place in error.value.message


def test_a_missing_folder_is_unavailable(tmp_path: Path) -> None:
    place = str(tmp_path / "nowhere" / "dibs.db-lock")
    with lock(place) as mine, pytest.raises(StoreUnavailable) as error:
        mine.take()
    assert place in error.value.message


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(30, "Read-only file system")])
def test_lock_file_that_cannot_be_created_means_read_only(
    place: str, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def refuse(*_args: object) -> int:
        raise error

    monkeypatch.setattr(os, "open", refuse)
    with lock(place) as mine, pytest.raises(StoreReadOnly) as refused:
        mine.take()
    assert place in refused.value.message
