"""Workers that are killed, stopped or cut off: their commands do not go on, and they say nothing for them."""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from dibs.core.lifecycle import Verb
from dibs.core.task import Status

from .place import lines_of, shell, until

if TYPE_CHECKING:
    from .place import Place

# It writes down which attempt is at work, for as long as it lives, and it does not listen.
_GOES_ON = "trap '' TERM; while :; do echo $DIBS_ATTEMPT >> log; sleep 0.02; done"


def _at_work(place: Place, attempt: int = 1) -> None:
    until(lambda: str(attempt) in lines_of(place.folder / "log"), lambda: place.workers[-1].said)


def _stands_still(place: Place) -> None:
    before = lines_of(place.folder / "log")
    time.sleep(0.3)
    assert lines_of(place.folder / "log") == before


def _minders(place: Place) -> list[int]:
    return [pid for pid, line in place.marked().items() if "dibs.fleet.minder" in line]


def test_a_worker_that_is_killed_takes_its_command_along_and_its_task_is_picked_up_after_the_lease(
    place: Place,
) -> None:
    place.add("a")
    one = place.work("--lease", "2s", "--grace", "0.3s", *shell(_GOES_ON))
    _at_work(place)
    one.signal(signal.SIGKILL)
    place.nothing_runs()
    _stands_still(place)
    assert place.task("a").status is Status.ACTIVE
    assert place.worked("--once", *shell("true")).status == 4
    two = place.work(*shell("true"), agent="bob")
    two.says("done a")
    assert place.told("a") == ["claim", "claim", "done"]
    assert (place.task("a").attempt, place.task("a").retries) == (2, 1)


def test_a_minder_that_is_killed_takes_its_command_along_and_the_worker_goes_on(place: Place) -> None:
    place.add("a")
    forks = f'setsid sh -c "{_GOES_ON.replace("$", chr(92) + "$")}" & {_GOES_ON}'
    one = place.work("--retry-in", "1h", "--until-empty", *shell(f"test -e log || {{ {forks}; }}"))
    _at_work(place)
    place.add("b")
    for minder in _minders(place):
        os.kill(minder, signal.SIGKILL)
    one.says("done b")
    assert one.leaves() == 0
    assert place.told("a") == ["claim", "fail"]
    _stands_still(place)


def test_a_worker_that_is_stopped_past_its_lease_has_its_command_ended_and_says_nothing_for_it(place: Place) -> None:
    place.add("a")
    one = place.work("--lease", "2s", "--grace", "0.3s", *shell(_GOES_ON))
    _at_work(place)
    one.signal(signal.SIGSTOP)
    two = place.work(*shell("echo mine"), agent="bob")
    two.says("done a")
    assert set(lines_of(place.folder / "log")) == {"1"}
    _stands_still(place)
    one.signal(signal.SIGCONT)
    one.says("lost a after")
    assert place.told("a") == ["claim", "claim", "done"]
    assert place.task("a").result == "mine"


def test_what_a_worker_brings_that_slept_past_its_lease_with_all_it_runs_is_refused(place: Place) -> None:
    """As when a machine sleeps: the command is through before anybody could end it."""
    place.add("a")
    one = place.work("--lease", "1s", *shell("touch here; while [ ! -e go ]; do sleep 0.02; done; echo old"))
    until((place.folder / "here").exists, lambda: one.said)
    for pid in (one.process.pid, *_minders(place)):
        os.kill(pid, signal.SIGSTOP)
    (place.folder / "go").touch()
    two = place.work(*shell("echo new"), agent="bob")
    two.says("done a")
    for pid in (*_minders(place), one.process.pid):
        os.kill(pid, signal.SIGCONT)
    one.says("lost a after")
    assert place.told("a") == ["claim", "claim", "done", "done lost"]
    assert place.task("a").result == "new"


def test_a_person_who_takes_a_task_away_ends_its_command(place: Place) -> None:
    place.add("a", "b")
    one = place.work("--lease", "1s", "--grace", "0.2s", "--slots", "2", *shell(_GOES_ON))
    _at_work(place)
    until(lambda: place.task("b").lease, lambda: one.said)
    with place.desk() as desk:
        desk.move(Verb.CANCEL, "a", force=True, reason="no need")
        desk.move(Verb.PAUSE, "b", force=True)
    one.says("lost a after")
    one.says("lost b after")
    assert [place.task(name).status for name in "ab"] == [Status.CANCELED, Status.PAUSED]
    _stands_still(place)


def test_the_first_signal_lets_what_is_running_finish(place: Place) -> None:
    place.add("a", "b")
    one = place.work(*shell("touch here; while [ ! -e go ]; do sleep 0.02; done"))
    until((place.folder / "here").exists, lambda: one.said)
    one.signal(signal.SIGTERM)
    one.says("leaving: 1 still running")
    (place.folder / "go").touch()
    assert one.leaves() == 0
    assert [place.task(name).status for name in "ab"] == [Status.DONE, Status.READY]


def test_the_second_signal_ends_what_is_running_and_gives_the_tasks_back(place: Place) -> None:
    place.add("a", "b")
    one = place.work("--slots", "2", "--grace", "0.2s", *shell(_GOES_ON))
    until(lambda: place.task("a").lease and place.task("b").lease, lambda: one.said)
    _at_work(place)
    one.signal(signal.SIGINT)
    one.says("leaving: 2 still running")
    one.signal(signal.SIGINT)
    assert one.leaves() == 128 + signal.SIGINT
    assert [place.told(name) for name in "ab"] == [["claim", "release"]] * 2
    assert [place.task(name).retries for name in "ab"] == [0, 0]
    _stands_still(place)


def test_a_command_that_outlasts_its_lease_many_times_keeps_its_task(place: Place) -> None:
    place.add("a")
    one = place.work("--once", "--lease", "1s", *shell("sleep 2.5"))
    one.says("took a")
    two = place.work(*shell("true"), agent="bob")
    one.says("done a")
    assert "took" not in two.said
    assert (place.task("a").attempt, place.task("a").finished_by) == (1, "ann")
