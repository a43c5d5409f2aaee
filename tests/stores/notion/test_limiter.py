"""One pace for all processes of a host, in a file."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dibs.core.errors import Misconfigured, StoreBusy
from dibs.stores.notion.gateway import BURST, Limiter
from support.notion import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = os.path.join(os.path.dirname(__file__), "pacing.py")
FAST = 1_208  # per minute: one request per 50 ms


class Time:
    """A clock that moves only by sleeping."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def limiter(path: Path, at: Time, per_minute: int = 180, patience: float = 60) -> Limiter:
    return Limiter(str(path / "pace"), per_minute=per_minute, patience=patience, clock=at.clock, sleep=at.sleep)


def sent(one: Limiter, at: Time, count: int) -> list[float]:
    moments = []
    for _ in range(count):
        one.reserve()
        moments.append(at.now)
    return moments


def test_burst_goes_at_once_and_the_rest_waits(tmp_path: Path) -> None:
    at = Time()
    moments = sent(limiter(tmp_path, at), at, 20)
    assert moments[BURST - 1] == pytest.approx(1_000)
    gaps = [later - one for one, later in zip(moments[BURST - 1 :], moments[BURST:], strict=False)]
    assert min(gaps) > 1 / 3


def test_limiter_stays_below_notions_limits(tmp_path: Path) -> None:
    at = Time()
    moments = sent(limiter(tmp_path, at, patience=300), at, 900)
    for begin in moments:
        assert sum(begin <= one < begin + 60 for one in moments) <= 180
    assert 2.5 < 899 / (moments[-1] - moments[0]) < 3


def test_reserved_requests_stay_together(tmp_path: Path) -> None:
    """Other requests come before or after both."""
    at = Time()
    one, other = limiter(tmp_path, at), limiter(tmp_path, at)
    sent(one, at, BURST + 3)
    before = at.now
    one.reserve(2)
    together = at.now
    other.reserve()
    assert together - before == pytest.approx(2 * 60 / 172)
    assert at.now - together == pytest.approx(60 / 172)


def test_retry_after_holds_for_all_processes(tmp_path: Path) -> None:
    at = Time()
    limiter(tmp_path, at).hold(30)
    other = limiter(tmp_path, at)
    other.reserve()
    assert at.now == 1_030
    other.hold(10)
    other.hold(2)  # a shorter silence does not shorten it
    other.reserve()
    assert at.now == 1_040


def test_sleeping_process_keeps_retry_after(tmp_path: Path) -> None:
    at = Time()
    warned = limiter(tmp_path, at)
    sent(warned, at, BURST)

    def sleep(seconds: float) -> None:
        if at.now < 1_001:
            warned.hold(20)
        at.now += seconds

    Limiter(str(tmp_path / "pace"), clock=at.clock, sleep=sleep).reserve()
    assert at.now >= 1_020


def test_too_long_wait_is_refused_without_a_booking(tmp_path: Path) -> None:
    at = Time()
    hasty = limiter(tmp_path, at, patience=5)
    limiter(tmp_path, at).hold(30)
    for _ in range(3):
        with pytest.raises(StoreBusy) as busy:
            hasty.reserve()
        assert busy.value.retry_after_ms == 30_000
    limiter(tmp_path, at).reserve()
    assert at.now == 1_030


def test_limiter_file_from_before_a_restart_is_ignored(tmp_path: Path) -> None:
    """The machine's clock restarts; the file does not."""
    old = Time(500_000.0)
    limiter(tmp_path, old).hold(60)
    new = Time(20.0)
    limiter(tmp_path, new).reserve()
    assert new.now == 20


def test_silence_is_never_longer_than_five_minutes(tmp_path: Path) -> None:
    at = Time()
    one = limiter(tmp_path, at, patience=1_000)
    one.hold(86_400)
    one.reserve()
    assert at.now == 1_300


@pytest.mark.parametrize("content", [b"", b"\0" * 24, b"\0" * 7])
def test_an_empty_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    at = Time()
    (tmp_path / "pace").write_bytes(content)
    limiter(tmp_path, at).reserve()
    assert at.now == 1_000


@pytest.mark.parametrize("content", [b"my diary", b"dibspace" + b"x" * 17, b"x" * 24])
def test_foreign_limiter_file_is_refused_unchanged(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pace").write_bytes(content)
    with pytest.raises(Misconfigured, match="not a limiter's file"):
        limiter(tmp_path, Time()).reserve()
    assert (tmp_path / "pace").read_bytes() == content


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="nowhere/pace"):
        limiter(tmp_path / "nowhere", Time()).reserve()


def test_a_pace_at_which_nothing_can_be_claimed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="too slow"):
        limiter(tmp_path, Time(), per_minute=11)


def test_stopped_lock_holder_delays_others_only_seconds(tmp_path: Path) -> None:
    at = Time()
    one = limiter(tmp_path, at)
    one.reserve()
    with open(tmp_path / "pace", "rb") as stopped:
        fcntl.flock(stopped, fcntl.LOCK_EX)
        with pytest.raises(StoreBusy, match="locked"):
            one.reserve()
    assert at.now == pytest.approx(1_005)
    one.reserve()


def start(folder: Path, per_minute: int, count: int, at_once: int = 1) -> subprocess.Popen[bytes]:
    log = str(folder / "log")
    words = [sys.executable, SCRIPT, str(folder / "pace"), log, str(per_minute), str(count), str(at_once)]
    return subprocess.Popen(words)


class Sent(NamedTuple):
    """One request. Its turn, as booked by the limiter, is between `asked` and `at`."""

    asked: float
    at: float
    pid: str


def sent_by_all(folder: Path) -> list[Sent]:
    lines = (folder / "log").read_text(encoding="ascii").splitlines()
    return [Sent(float(asked), float(at), pid) for asked, at, pid in (line.split() for line in lines)]


def assert_pace_kept(requests: list[Sent]) -> None:
    """Check that the turns booked in any span keep the pace."""
    for begin in (one.asked for one in requests):
        within = sum(begin <= one.asked and one.at < begin + 1 for one in requests)
        assert within <= FAST / 60 + 2 * BURST, "more in a second than the pace allows"
    took = max(one.at for one in requests) - min(one.asked for one in requests)
    assert took >= (len(requests) - BURST) * 0.049


def test_eight_processes_keep_one_pace_and_all_get_their_turn(tmp_path: Path) -> None:
    processes = [start(tmp_path, FAST, 12) for _ in range(8)]
    assert [process.wait(PATIENCE) for process in processes] == [0] * 8
    requests = sent_by_all(tmp_path)
    assert len(requests) == 96
    assert len({one.pid for one in requests}) == 8
    assert_pace_kept(requests)


def test_pairs_of_eight_processes_stay_together(tmp_path: Path) -> None:
    processes = [start(tmp_path, FAST, 8, at_once=2) for _ in range(8)]
    assert [process.wait(PATIENCE) for process in processes] == [0] * 8
    requests = sent_by_all(tmp_path)
    assert len(requests) == 64
    assert_pace_kept(requests)


def test_killed_processes_leave_one_booked_turn_each(tmp_path: Path) -> None:
    doomed = [start(tmp_path, FAST, 10_000) for _ in range(4)]
    while not (tmp_path / "log").exists() or len(sent_by_all(tmp_path)) < 20:
        time.sleep(0.01)
    for process in doomed:
        process.send_signal(signal.SIGKILL)
        process.wait()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        time.sleep(seconds)

    Limiter(str(tmp_path / "pace"), per_minute=FAST, sleep=sleep).reserve()
    assert sum(waits) <= (len(doomed) + BURST) * 0.05
