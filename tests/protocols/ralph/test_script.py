"""The installed program in real processes: races, first use, streams."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from dibs.protocols.ralph.markdown import parse_kv
from support.ralph import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.ralph import Ralph

# Runs the commands that it reads, one per line, and prints the status and the task of each.
RACER = """
import io, sys
from contextlib import redirect_stdout, redirect_stderr
from dibs.protocols.ralph.main import main
print("ready", flush=True)
for line in sys.stdin:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        status = main(["task", *line.split()])
    print(status, (out.getvalue().splitlines() or ["-"])[0].removeprefix("## Task "), flush=True)
"""


class Racer:
    """A process that is warmed up and waits for commands."""

    def __init__(self, ralph: Ralph, agent: str) -> None:
        there = {**os.environ, "RALPH_DB_URL": ralph.place.url, "RALPH_AGENT_ID": agent}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RACER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=there
        )
        assert self._line() == "ready"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def go(self, *words: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()

    def came(self) -> tuple[int, str]:
        status, _, task = self._line().partition(" ")
        return int(status), task

    def end(self) -> None:
        self.process.communicate(timeout=240)


@pytest.fixture
def racers(ralph: Ralph) -> Iterator[list[Racer]]:
    """Four processes; two of them share a name."""
    ralph.ok("plan-status")
    with ExitStack() as ends:
        found = [Racer(ralph, agent) for agent in ("ann", "ann", "bob", "cid")]
        for racer in found:
            ends.callback(racer.end)
        yield found


def test_two_processes_never_claim_the_same_task_by_name(ralph: Ralph, racers: list[Racer]) -> None:
    tasks = [f"t{number}" for number in range(25)]
    ralph.sync(*({"id": task, "t": "T"} for task in tasks))
    for task in tasks:
        for racer in racers:
            racer.go("claim", task)
        came = sorted(racer.came() for racer in racers)
        assert came == [(0, task), (2, "-"), (2, "-"), (2, "-")]
    assert {ralph.task(task).attempt for task in tasks} == {1}


def test_processes_that_claim_whatever_is_next_share_the_tasks_out(ralph: Ralph, racers: list[Racer]) -> None:
    ralph.sync(*({"id": f"t{number}", "t": "T"} for number in range(50)))
    claimed = []
    for _ in range(15):
        for racer in racers:
            racer.go("claim")
        claimed += [racer.came() for racer in racers]
    won = [task for status, task in claimed if status == 0]
    assert len(won) == len(set(won)) == 50
    assert [status for status, _ in claimed if status != 0] == [2] * 10


def test_one_attempt_is_finished_once(ralph: Ralph, racers: list[Racer]) -> None:
    """Two processes share the name that holds the task; the second finds it done."""
    tasks = [f"t{number}" for number in range(10)]
    ralph.sync(*({"id": task, "t": "T"} for task in tasks))
    for task in tasks:
        racers[0].go("claim", task, "--lease", "1000")
        assert racers[0].came() == (0, task)
        for racer in racers:
            racer.go("done", task)
        assert sorted(racer.came() for racer in racers) == [(0, f"done {task}"), (1, "-"), (1, "-"), (1, "-")]


def test_of_several_who_create_the_same_task_one_does(ralph: Ralph, racers: list[Racer]) -> None:
    for number in range(10):
        for racer in racers:
            racer.go("create", f"t{number}", "Title")
        assert sorted(racer.came()[0] for racer in racers) == [0, 1, 1, 1]
    assert len(ralph.tasks()) == 10


def test_of_two_opposite_dependencies_one_is_refused(ralph: Ralph, racers: list[Racer]) -> None:
    for number in range(10):
        ralph.create(f"a{number}", f"b{number}")
        racers[0].go("block", f"a{number}", "--by", f"b{number}")
        racers[2].go("block", f"b{number}", "--by", f"a{number}")
        assert sorted(racer.came()[0] for racer in (racers[0], racers[2])) == [0, 1]


def test_the_same_plan_at_the_same_time_is_applied_once(ralph: Ralph) -> None:
    plan = "".join(f'{{"id": "t{number}", "t": "T", "spec": "s"}}\n' for number in range(100))
    ralph.ok("plan-status")
    there = {**os.environ, "RALPH_DB_URL": ralph.place.url}
    planners = [
        subprocess.Popen(
            [SCRIPT, "task", "plan-sync"], env=there, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(3)
    ]
    for planner in planners:
        assert planner.stdin is not None
        planner.stdin.write(plan)
    summaries = sorted(planner.communicate(timeout=240)[0] for planner in planners)
    nothing = "inserted: 0, updated: 0, deleted: 0, skipped (done): 0\n"
    assert summaries == [nothing, nothing, nothing.replace("0", "100", 1)]


def test_a_new_store_may_be_used_by_several_at_once(ralph: Ralph) -> None:
    there = {**os.environ, "RALPH_DB_URL": ralph.place.url}
    first = [
        subprocess.Popen([SCRIPT, "task", "create", f"t{number}", "T"], env=there, stderr=subprocess.PIPE)
        for number in range(4)
    ]
    told = [process.communicate(timeout=240)[1] for process in first]
    assert [process.returncode for process in first] == [0, 0, 0, 0], told
    assert set(ralph.tasks()) == {"t0", "t1", "t2", "t3"}


def test_the_program_claims_works_and_finishes(ralph: Ralph) -> None:
    plan = '{"id": "a", "t": "First"}\n{"id": "b", "t": "Second", "deps": ["a"]}\n'
    assert ralph.script("plan-sync", stdin=plan).out == "inserted: 2, updated: 0, deleted: 0, skipped (done): 0\n"
    name = ralph.script("agent", "register").out.strip()
    assert ralph.script("claim", RALPH_AGENT_ID=name).ids == ["a"]
    assert ralph.script("claim", RALPH_AGENT_ID=name).status == 2
    assert ralph.script("renew", "a", RALPH_AGENT_ID=name) == (0, "renewed a\n", "")
    assert ralph.script("done", "a", "--result", '{"x": 1}', RALPH_AGENT_ID=name) == (0, "done a\n", "")
    (claimed,) = ralph.script("claim", RALPH_AGENT_ID=name).tasks
    assert (claimed.id, claimed.blocker_results) == ("b", (("a", {"x": 1}),))
    assert ralph.script("agent", "deregister", name).status == 0


def test_a_registered_process_is_the_one_that_called(ralph: Ralph) -> None:
    ralph.script("agent", "register")
    assert [row["pid"] for row in ralph("agent", "list", "--json").data] == [os.getpid()]


def test_what_an_ascii_terminal_prints_can_be_read_back(ralph: Ralph) -> None:
    text = "日本語 👩‍👧 é | \\ \n## Task x"
    ralph.create("a", d=text)
    ralph.finish("a", '{"é": "👧"}')
    shown = ralph.script("show", "a", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert shown.out.isascii()
    (section,) = parse_kv(shown.out)
    assert (section.description, section.result) == (text, {"é": "👧"})
    assert ralph.script("show", "a", "--json", PYTHONIOENCODING="ascii").data["description"] == text


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_does_no_harm(ralph: Ralph, stream: str) -> None:
    ralph.create("a")
    there = {**os.environ, "RALPH_DB_URL": ralph.place.url, "RALPH_AGENT_ID": "ann"}
    number = {"stdout": 1, "stderr": 2}[stream]
    closed = f"{SCRIPT} task claim {number}>&-"
    assert subprocess.run(["bash", "-c", closed], env=there, capture_output=True, check=False).returncode == 0
    assert ralph.tasks() == {"a": "active"}


def test_a_reader_who_has_seen_enough_ends_it_quietly(ralph: Ralph) -> None:
    ralph.sync(*({"id": f"t{number}", "t": "T", "d": "x" * 200} for number in range(2000)))
    there = {**os.environ, "RALPH_DB_URL": ralph.place.url}
    piped = f"set -o pipefail; {SCRIPT} task list --markdown | head -1"
    ran = subprocess.run(["bash", "-c", piped], env=there, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (141, "## Task t0\n", "")


def test_full_disk_under_stdout_is_reported(ralph: Ralph) -> None:
    ralph.create("a")
    there = {**os.environ, "RALPH_DB_URL": ralph.place.url}
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run([SCRIPT, "task", "peek"], env=there, stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 1
    assert b"cannot write" in ran.stderr


def test_a_claim_loads_only_what_it_needs(ralph: Ralph) -> None:
    ralph.create("a")
    heavy = {"yaml", "rich", "dataclasses", "pathlib", "logging", "hashlib", "dibs.core.plan"}
    look = (
        "import sys; from dibs.protocols.ralph.main import main; main(['task', 'claim', '--agent', 'ann']);"
        f"print(sorted({heavy | {'dibs.cli'}} & set(sys.modules)), file=sys.stderr)"
    )
    there = {**os.environ, "RALPH_DB_URL": ralph.place.url}
    words = [sys.executable, "-S", "-c", look]
    ran = subprocess.run(words, env=_seeing(there), capture_output=True, text=True, check=False)
    assert parse_kv(ran.stdout)[0].id == "a", ran.stderr
    assert ran.stderr.strip() == "[]"


def _seeing(environment: dict[str, str]) -> dict[str, str]:
    """The same modules to import, without what the site's start files load."""
    return {**environment, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
