"""Workers that are killed, stopped or cut off: their commands end, and they do not report results for them."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreReplaced
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.stores.opening import open_store
from dibs.stores.port import Query
from support.workers import LONG, lines_of, shell, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.workers import Place

# A command that logs which attempt runs, for as long as it lives, and ignores SIGTERM.
_GOES_ON = "trap '' TERM; while :; do echo $DIBS_ATTEMPT >> log; sleep 0.02; done"


def _at_work(place: Place, attempt: int = 1) -> None:
    until(lambda: str(attempt) in lines_of(place.folder / "log"), lambda: place.workers[-1].said)


def test_killed_worker_takes_its_command_along(place: Place) -> None:
    """The task becomes claimable when the lease ends, not before."""
    place.add("a")
    one = place.work(*LONG, "--grace", "0.3s", *shell(_GOES_ON))
    _at_work(place)
    one.signal(signal.SIGKILL)
    place.nothing_runs()
    assert place.task("a").status is Status.ACTIVE
    assert place.worked("--once", *shell("true")).status == 4
    two = place.work(*shell("true"), agent="bob")
    two.says("is at work")
    assert place.told("a") == ["claim"]
    place.clock.advance(hours=1)
    two.says("done a")
    assert place.told("a") == ["claim", "claim", "done"]
    assert (place.task("a").attempt, place.task("a").retries) == (2, 1)


def test_killed_supervisor_takes_its_command_along(place: Place) -> None:
    """The worker continues with the next task."""
    place.add("a")
    forks = f'setsid sh -c "{_GOES_ON.replace("$", chr(92) + "$")}" & {_GOES_ON}'
    one = place.work("--retry-in", "1h", "--until-empty", *shell(f"test -e log || {{ {forks}; }}"))
    _at_work(place)
    place.add("b")
    for supervisor in place.supervisors():
        os.kill(supervisor, signal.SIGKILL)
    one.says("done b")
    assert one.leaves() == 0
    assert place.told("a") == ["claim", "fail"]
    assert place.commands() == {}


def test_stopped_worker_has_its_command_ended_before_expiry(place: Place) -> None:
    """The resumed worker reports nothing, as another worker has finished the task."""
    place.add("a")
    one = place.work(*LONG, "--grace", "0.3s", *shell(_GOES_ON))
    _at_work(place)
    one.signal(signal.SIGSTOP)
    two = place.work(*shell("echo mine"), agent="bob")
    two.says("is at work")
    place.stop_clock_before_expiry("a")
    place.commands_end()
    assert place.told("a") == ["claim"]
    place.clock.advance(seconds=1)
    two.says("done a")
    assert set(lines_of(place.folder / "log")) == {"1"}
    one.signal(signal.SIGCONT)
    one.says("lost a after")
    assert place.told("a") == ["claim", "claim", "done"]
    assert place.task("a").result == "mine"


def test_result_of_a_host_that_slept_is_rejected(place: Place) -> None:
    """The command finished before its supervisor could end it."""
    place.add("a")
    one = place.work(*LONG, *shell("touch here; while [ ! -e go ]; do sleep 0.02; done; echo old"))
    until((place.folder / "here").exists, lambda: one.said)
    for pid in (one.process.pid, *place.supervisors()):
        os.kill(pid, signal.SIGSTOP)
    (place.folder / "go").touch()
    place.commands_end()
    slept = place.supervisors()
    place.clock.advance(hours=1)
    two = place.work(*shell("echo new"), agent="bob")
    two.says("done a")
    for pid in (*slept, one.process.pid):
        os.kill(pid, signal.SIGCONT)
    one.says("lost a after")
    assert place.told("a") == ["claim", "claim", "done", "done lost"]
    assert place.task("a").result == "new"


def test_task_taken_away_by_a_person_ends_its_command(place: Place) -> None:
    place.add("a", "b")
    one = place.work(*LONG, "--grace", "0.2s", "--slots", "2", *shell(_GOES_ON))
    _at_work(place)
    one.says("took a")
    one.says("took b")
    with place.desk() as desk:
        desk.move(Verb.CANCEL, "a", force=True, reason="no need")
        desk.move(Verb.PAUSE, "b", force=True)
    place.clock.advance(minutes=30)  # time for a renewal, but not for the end of the lease
    one.says("lost a after")
    one.says("lost b after")
    assert "could not be renewed in time" not in one.said
    assert [place.task(name).status for name in "ab"] == [Status.CANCELED, Status.PAUSED]
    assert place.commands() == {}


def _deleted(place: Place) -> None:
    for path in _store_files(place):
        path.unlink()
    assert place.workers[-1].process.poll() is None


def _replaced(place: Place) -> None:
    other = place.folder / "other.db"
    open_store(str(other), create=True).close()
    other.replace(_store_files(place)[0])


def _store_files(place: Place) -> list[Path]:
    return sorted(place.folder.glob("desk.db*"))


@pytest.mark.parametrize("happens", [_deleted, _replaced])
def test_worker_without_its_store_stops_its_commands(place: Place, happens: Callable[[Place], None]) -> None:
    """The worker notices it at the next renewal."""
    place.add("a", "b")
    one = place.work(*LONG, "--grace", "0.2s", "--slots", "2", *shell(_GOES_ON))
    one.says("took a")
    one.says("took b")
    _at_work(place)
    happens(place)
    place.clock.advance(minutes=30)  # time for a renewal, but not for the end of the lease
    assert one.leaves() == StoreReplaced.exit_status
    assert any(f"lost {name} after" in one.said for name in "ab"), one.said
    assert "Nothing was written." in one.said
    assert place.commands() == {}
    if happens is _replaced:
        with place.desk() as desk:
            assert desk.find(Query()) == []


@pytest.mark.parametrize("once", [["--once"], []], ids=["once", "for good"])
def test_ending_without_a_store_is_reported(place: Place, once: list[str]) -> None:
    place.add("a")
    one = place.work(*once, *LONG, *shell("touch here; while [ ! -e go ]; do sleep 0.02; done"))
    until((place.folder / "here").exists, lambda: one.said)
    _deleted(place)
    (place.folder / "go").touch()
    assert one.leaves() == StoreReplaced.exit_status, "and does not try until the lease ends"
    assert "could not report its result" in one.said
    assert _store_files(place) == [], "nothing is made anew"


def test_idle_worker_without_its_store_stops(place: Place) -> None:
    one = place.work(*shell("true"))
    one.says("is at work")
    _deleted(place)
    assert one.leaves() == StoreReplaced.exit_status
    assert "is gone" in one.said


def test_first_signal_lets_commands_finish(place: Place) -> None:
    place.add("a", "b")
    one = place.work(*shell("touch here; while [ ! -e go ]; do sleep 0.02; done"))
    until((place.folder / "here").exists, lambda: one.said)
    one.signal(signal.SIGTERM)
    one.says("leaving: 1 still running")
    (place.folder / "go").touch()
    assert one.leaves() == 0
    assert [place.task(name).status for name in "ab"] == [Status.DONE, Status.READY]


def test_second_signal_stops_commands_and_releases_tasks(place: Place) -> None:
    place.add("a", "b")
    one = place.work("--slots", "2", "--grace", "0.2s", *shell(_GOES_ON))
    one.says("took a")
    one.says("took b")
    _at_work(place)
    one.signal(signal.SIGINT)
    one.says("leaving: 2 still running")
    one.signal(signal.SIGINT)
    assert one.leaves() == 128 + signal.SIGINT
    assert [place.told(name) for name in "ab"] == [["claim", "release"]] * 2
    assert [place.task(name).retries for name in "ab"] == [0, 0]
    assert place.commands() == {}


def test_command_that_outlasts_its_lease_keeps_its_task(place: Place) -> None:
    place.add("a")
    one = place.work("--once", *LONG, *shell("while [ ! -e go ]; do sleep 0.02; done"))
    one.says("took a")
    two = place.work(*shell("true"), agent="bob")
    two.says("is at work")
    began = place.clock()
    for _ in range(6):
        before = place.expires_at("a")
        place.clock.advance(minutes=30)
        until(lambda before=before: place.expires_at("a") > before, lambda: one.said)  # type: ignore[misc]
    assert place.clock() - began >= timedelta(hours=3)
    place.add("b")
    two.says("done b")  # it keeps looking for work
    (place.folder / "go").touch()
    one.says("done a")
    assert "took a" not in two.said
    assert (place.task("a").attempt, place.task("a").finished_by) == (1, "ann")
