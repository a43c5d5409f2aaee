"""`desk.work`: a worker's loop in three lines, in one process and in several."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import dibs
from dibs import Status
from dibs.core.fleet import Profile
from support.host_clock import HostClock

if TYPE_CHECKING:
    from support.clock import Clock

PATIENCE = 240.0  # seconds
TASKS = 1000
HERE = Path(__file__).parent


def ids(*numbers: int) -> list[str]:
    return [f"t{number:04}" for number in numbers]


def test_loop_ends_when_nothing_is_ready(desk: dibs.Desk) -> None:
    desk.add("One", id="one")
    desk.add("Two", id="two", blocked_by=["one"])
    worked = []
    for claim in desk.work():
        with claim:
            worked.append(claim.id)
            claim.result = claim.inputs
    assert worked == ["one", "two"]
    assert desk.get("two").result == {"one": {}}


def test_limit_is_a_number_of_tasks(desk: dibs.Desk) -> None:
    for name in "abc":
        desk.add(name, id=name)
    assert [claim.done() or claim.id for claim in desk.work(limit=2)] == ["a", "b"]


def test_agent_capabilities_and_lease_are_used(desk: dibs.Desk, clock: Clock) -> None:
    desk.add("A", id="a", requires=["gpu"])
    assert list(desk.work()) == []
    for claim in desk.work(agent="bob", can=["gpu"], lease="5m"):
        with claim:
            lease = claim.task.lease
            assert lease is not None
            assert (lease.agent, lease.expires_at) == ("bob", clock.time + timedelta(minutes=5))


def fail_all(desk: dibs.Desk) -> None:
    for claim in desk.work():
        with claim:
            raise ValueError("no")


def test_error_ends_the_loop(desk: dibs.Desk) -> None:
    for name in "ab":
        desk.add(name, id=name)
    with pytest.raises(ValueError, match="no"):
        fail_all(desk)
    assert [desk.get(name).attempt for name in "ab"] == [1, 0]


def test_on_error_continue_goes_on(desk: dibs.Desk) -> None:
    for name in "abc":
        desk.add(name, id=name, max_retries=0)
    for claim in desk.work(on_error="continue"):
        with claim:
            if claim.id == "b":
                raise ValueError("no")
    assert [desk.get(name).status for name in "abc"] == [Status.DONE, Status.ESCALATED, Status.DONE]


def test_on_error_continue_survives_a_lost_lease(desk: dibs.Desk, clock: Clock) -> None:
    for name in "ab":
        desk.add(name, id=name)
    for claim in desk.work(lease="1m", on_error="continue", limit=2):
        with claim:
            if claim.id == "a" and claim.attempt == 1:
                clock.advance(minutes=2)
                assert desk.claim("a", agent="bob") is not None
    assert [desk.get(name).status for name in "ab"] == [Status.ACTIVE, Status.DONE]


def test_wrong_on_error_is_refused_at_once(desk: dibs.Desk) -> None:
    with pytest.raises(dibs.InvalidInput, match="'raise' or 'continue'"):
        desk.work(on_error="ignore")  # type: ignore[arg-type]


def test_unfinished_claim_goes_back(desk: dibs.Desk) -> None:
    for name in "ab":
        desk.add(name, id=name)
    for claim in desk.work(limit=1):
        assert claim.id == "a"
    assert desk.get("a").status is Status.READY


def test_break_outside_the_block_releases(desk: dibs.Desk) -> None:
    desk.add("A", id="a")
    work = desk.work()
    for _claim in work:
        break
    work.close()  # type: ignore[attr-defined]  # a generator; else its end comes when nothing refers to it
    assert desk.get("a").status is Status.READY


def test_ctrl_c_in_a_block_releases_and_ends_the_loop(desk: dibs.Desk) -> None:
    for name in "ab":
        desk.add(name, id=name)
    for claim in desk.work():
        with claim:
            signal.raise_signal(signal.SIGINT)
    assert [desk.get(name).status for name in "ab"] == [Status.READY, Status.READY]
    assert desk.get("b").attempt == 0


def test_ctrl_c_while_waiting_ends_the_loop(desk: dibs.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "_wait", lambda _seconds: signal.raise_signal(signal.SIGINT))
    assert list(desk.work(wait=True)) == []


def test_waiting_loop_gets_new_tasks(desk: dibs.Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    arriving = iter(("a", "b"))

    def wait(_seconds: float) -> None:
        if name := next(arriving, None):
            desk.add(name, id=name)
        else:
            raise KeyboardInterrupt

    monkeypatch.setattr(desk, "_wait", wait)
    assert [claim.done() or claim.id for claim in desk.work(wait=True)] == ["a", "b"]


def test_agent_at_its_limit_gets_no_task(desk: dibs.Desk) -> None:
    desk._desk.enrol(Profile("ann", "writer", (), 1))
    for name in "ab":
        desk.add(name, id=name)
    held = desk.claim("a")
    assert held is not None
    assert list(desk.work()) == []
    held.done()
    assert [claim.done() or claim.id for claim in desk.work()] == ["b"]


# Several processes


def planned(url: str) -> None:
    """A thousand tasks, a hundred of them ready at once; the others wait for two earlier ones."""
    with dibs.open(url) as desk:
        plan = [
            {"id": task, "title": "Task", "deps": ids(number - 100, number - 50) if number >= 100 else []}
            for number, task in enumerate(ids(*range(TASKS)))
        ]
        desk.plan("\n".join(map(json.dumps, plan)))


@pytest.fixture
def host(tmp_path: Path) -> HostClock:
    return HostClock(tmp_path)


def start(program: str, url: str, agent: str, host: HostClock) -> subprocess.Popen[bytes]:
    """Its output goes to a file named after the agent."""
    words = [sys.executable, str(HERE / program), url, agent]
    with output_of(url, agent).open("wb") as output:
        return subprocess.Popen(words, env=os.environ | host.environ, stdout=output, stderr=subprocess.STDOUT)


def output_of(url: str, agent: str) -> Path:
    return Path(url.removeprefix("sqlite:///").partition("?")[0]).with_name(agent)


def check_drained(url: str) -> None:
    with dibs.open(url) as desk:
        assert {task.status for task in desk.list()} == {Status.DONE}
        events = desk.events()
        finished = Counter(event.task for event in events if event.verb == "done" and event.outcome == "ok")
        order = {event.task: place for place, event in enumerate(events) if event.verb == "done"}
        links = desk.graph().links
    assert finished == dict.fromkeys(ids(*range(TASKS)), 1)
    assert all(order[link.on] < order[link.task] for link in links)


def test_program_has_at_most_twelve_lines() -> None:
    assert len((HERE / "drain.py").read_text().splitlines()) <= 12


def test_three_processes_drain_and_a_killed_one_loses_nothing(tmp_path: Path, host: HostClock) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db?durability=normal"
    planned(url)
    processes = [start("drain.py", url, f"agent-{number}", host) for number in range(3)]
    give_up_at = time.monotonic() + PATIENCE
    with dibs.open(url) as desk:
        while desk.counts().by_status[Status.DONE] < TASKS // 10:
            assert time.monotonic() < give_up_at
            time.sleep(0.01)
    processes[0].kill()
    for process in processes:
        process.wait(PATIENCE)
    host.advance(hours=2)  # the lease of the killed process expires
    assert start("drain.py", url, "agent-3", host).wait(PATIENCE) == 0, output_of(url, "agent-3").read_text()
    check_drained(url)


def test_asyncio_drains_without_stalling_the_loop(tmp_path: Path, host: HostClock) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db?durability=normal"
    planned(url)
    processes = [start("drain_async.py", url, f"agent-{number}", host) for number in range(3)]
    statuses = [process.wait(PATIENCE) for process in processes]
    outputs = [output_of(url, f"agent-{number}").read_text() for number in range(3)]
    assert statuses == [0, 0, 0], outputs
    check_drained(url)
    for usual, outside in (map(float, output.split()) for output in outputs):
        assert usual < 0.05 + 5 * outside, outputs
