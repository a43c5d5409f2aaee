"""The installed program in real processes: statuses, pipes, signals, bytes, and concurrent terminals."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Actor, Draft
from dibs.stores.sqlite.store import SqliteStore
from support.cli import PATIENCE, SCRIPT, Script, snapshot

if TYPE_CHECKING:
    from pathlib import Path

    from support.cli import Ran

_LATIN1 = b"caf\xe9"


def _clean(ran: Ran) -> Ran:
    assert "Traceback" not in ran.err, ran.err
    assert "Exception ignored" not in ran.err, ran.err
    return ran


def test_exit_status_shows_the_kind_of_answer(script: Script) -> None:
    tasks = '{"id":"job","t":"Job"}\n{"id":"after","t":"After","deps":["job"]}\n'
    assert script("plan", "-", stdin=tasks.encode()).status == 0
    assert script("claim", "job").status == 0
    expected = {
        0: ("list",),
        2: ("claim", "--lease", "soon"),
        3: ("show", "ghost"),
        4: ("claim", "job"),
        5: ("done", "job", "--token", "wrong"),
        6: ("link", "job", "--blocked-by", "after"),
        7: ("list", "--store", "nowhere.db"),
    }
    for status, words in expected.items():
        ran = _clean(script(*words))
        assert ran.status == status
        assert bool(ran.err) == (status != 0)


def test_module_runs_the_same_program(script: Script) -> None:
    assert script.run([sys.executable, "-m", "dibs", "version"]) == script("version")


def test_help_loads_nothing_it_does_not_need(script: Script) -> None:
    probe = (
        "import sys\nfrom dibs.cli.main import main\nmain(['--help'])\n"
        "heavy = {'sqlite3', 'yaml', 'rich', 'argparse', 'json', 'dibs.desk'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    ran = script.run([sys.executable, "-c", probe])
    assert ran.status == 0, ran.err


def test_plan_and_export_work_through_pipes(script: Script) -> None:
    ran = script.sh(
        "dibs init --store two.db >&2 && printf '%s\\n' '- {id: a, title: Ä}' | dibs plan - && "
        "dibs export | dibs import - --store two.db && dibs list --store two.db --json"
    )
    assert ran.status == 0, ran.err
    assert json.loads(ran.out.splitlines()[-1])["data"][0]["title"] == "Ä"


def _many(script: Script) -> None:
    lines = "".join(
        json.dumps({"id": f"t{number}", "t": f"Task {number} " + "x" * 100}) + "\n" for number in range(1500)
    )
    assert script("plan", "-", stdin=lines.encode()).status == 0


def test_reader_may_close_the_pipe_early(script: Script) -> None:
    _many(script)
    for words in ("list -n 9999", "list -n 9999 --json", "export", "graph --format svg"):
        ran = script.bash(f"dibs {words} | head -c 10 >/dev/null; echo ${{PIPESTATUS[0]}}")
        assert ran.out.strip() == "141", words
        assert ran.err == ""


@pytest.mark.parametrize("words", [("--help",), ("claim", "--help"), ("list",), ("version", "--json")])
def test_reader_that_left_before_any_output_causes_no_noise(words: tuple[str, ...], script: Script) -> None:
    script("add", "A task")
    reading, writing = os.pipe()
    os.close(reading)
    with subprocess.Popen(
        [str(SCRIPT), *words], stdout=writing, stderr=subprocess.PIPE, cwd=script.folder, env=script.environment
    ) as process:
        os.close(writing)
        _, err = process.communicate(timeout=PATIENCE)
    assert err == b""
    assert process.returncode == 141


def test_command_works_without_a_stdout(script: Script) -> None:
    assert _clean(script.sh("dibs add 'A task' --id job >&-")).status == 0
    assert _clean(script.sh("dibs list >&-")).status == 0
    assert _clean(script.sh("dibs show ghost >&- 2>&-")).status == 3
    assert script("show", "job").status == 0


def test_full_disk_under_stdout_is_reported_by_the_script(script: Script) -> None:
    script("add", "A task")
    for words in ("list", "list --json", "export"):
        ran = _clean(script.sh(f"dibs {words} >/dev/full"))
        assert ran.status not in {0, 1}, words
        assert "space" in ran.err


@pytest.mark.parametrize(
    "environment",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}],
    ids=["ascii output", "C locale"],
)
def test_ascii_terminal_gets_escaped_output(environment: dict[str, str], script: Script) -> None:
    script("add", "Ünïcödé 🎉", "--id", "job")
    for words in (("list",), ("show", "job"), ("list", "--json"), ("graph",), ("log",), ("--help",), ("show", "ü")):
        ran = _clean(script(*words, env=environment))
        assert ran.status in ({2, 3} if words[-1] == "ü" else {0}), words


@pytest.mark.parametrize("style", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize(
    "words",
    [
        ("add", _LATIN1),
        ("show", _LATIN1),
        (_LATIN1,),
        ("list", b"--text=" + _LATIN1),
        ("add", "x", "--agent", _LATIN1),
        ("plan", _LATIN1),
    ],
    ids=["title", "id", "command", "text", "agent", "file"],
)
def test_arguments_that_are_not_utf8_are_refused(
    words: tuple[str | bytes, ...], style: tuple[str, ...], script: Script
) -> None:
    ran = _clean(script(*words, *style))
    assert ran.status in {0, 2, 3}, ran
    if style:
        json.loads(ran.out)
    assert snapshot(script.folder / ".dibs" / "dibs.db").tasks == []


def test_project_folder_may_have_a_non_utf8_name(script: Script) -> None:
    odd = os.fsencode(script.folder) + b"/caf\xe9"
    os.mkdir(odd)
    place = os.fsdecode(odd)
    ran = script.sh(f"cd '{place}' && dibs init && dibs add 'A task' && dibs list && dibs doctor && dibs doctor --json")
    assert _clean(ran).status == 0


def test_interrupt_during_a_wait_for_the_lock_exits_quietly(script: Script) -> None:
    lock = script.folder / ".dibs" / "dibs.db-lock"
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        process = script.start("add", "A task")
        _wait_until_it_waits(process.pid, lock)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode in {130, -signal.SIGINT}
    assert out == b""
    assert b"Traceback" not in err
    assert snapshot(script.folder / ".dibs" / "dibs.db").tasks == []


def _wait_until_it_waits(pid: int, lock: Path) -> None:
    """A helper thread waits for the lock; once it exists, the process waits."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        threads = len(os.listdir(f"/proc/{pid}/task"))
        if threads > 1 and str(lock) in _opened_by(pid):
            return
        time.sleep(0.01)
    pytest.fail("it never came to wait")


def _opened_by(pid: int) -> set[str]:
    opened = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since the folder was listed
            opened.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return opened


def test_long_wait_for_the_write_lock_is_store_busy(script: Script) -> None:
    store = script.folder / ".dibs" / "dibs.db"
    with store.with_name("dibs.db-lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        ran = script("add", "A task", "--store", f"sqlite:///{store}?timeout=1", "--json")
        assert script("list").status == 0, "a reader never waits"
    assert ran.status == 7
    assert ran.error.code == "STORE_BUSY"
    assert ran.error.retry_after_ms


def test_concurrent_terminals_never_get_the_same_task(script: Script) -> None:
    """All use the same name, as a name is no proof."""
    lines = "".join(json.dumps({"id": f"t{number}", "t": "x"}) + "\n" for number in range(4))
    script("plan", "-", stdin=lines.encode())
    started = [script.start("claim", "--json", "--agent", "same") for _ in range(6)]
    answers = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in started]
    statuses = [process.returncode for process in started]
    claimed = [answer["data"] for answer in answers if "data" in answer]
    assert sorted(statuses) == [0, 0, 0, 0, 4, 4]
    assert len({claim["task"]["id"] for claim in claimed}) == 4
    assert len({claim["token"] for claim in claimed}) == 4


def test_two_terminals_finish_and_continue_without_conflict(script: Script) -> None:
    lines = "".join(json.dumps({"id": f"t{number}", "t": "x"}) + "\n" for number in range(8))
    script("plan", "-", stdin=lines.encode())
    work = 'eval "$(dibs claim --export)"; dibs done --next --json'
    started = [
        subprocess.Popen(
            ["sh", "-c", work], stdout=subprocess.PIPE, cwd=script.folder, env=script.environment, text=True
        )
        for _ in range(2)
    ]
    answers = [json.loads(process.communicate(timeout=PATIENCE)[0])["data"] for process in started]
    touched = {answer["task"]["id"] for answer in answers} | {answer["next"]["task"]["id"] for answer in answers}
    assert len(touched) == 4


def test_claim_export_is_evaluated_by_a_shell(script: Script) -> None:
    with SqliteStore(str(script.folder / ".dibs" / "dibs.db")) as store:  # as an older dibs or an import left it
        store.add("default", [Draft("Odd name", "it's$(odd)`x`")], [], Actor("ann"))
    ran = script.sh('set -e; eval "$(dibs claim --export)"; echo "$DIBS_TASK_ID"; dibs renew; dibs done --note fine')
    assert ran.status == 0, ran.err
    task, renewed, done = ran.out.splitlines()
    assert task == "it's$(odd)`x`"
    assert renewed.startswith("renewed ")
    assert done == f"done {task}"


def test_claim_export_works_for_a_task_of_another_scope(script: Script) -> None:
    script("add", "Elsewhere", "--id", "job", "--scope", "north")
    for claim in ("dibs claim --export --any-scope", "dibs claim --export --scope north"):
        ran = script.sh(f'eval "$({claim})"; dibs release')
        assert ran.status == 0, ran.err


def test_claim_export_keeps_the_agents_name(script: Script) -> None:
    """Otherwise the log names another agent for the finish."""
    script("add", "A task", "--id", "job")
    assert script.sh('eval "$(dibs claim --export --agent bob --run r1)"; dibs done').status == 0
    finished = script("log", "job", "--json").data[-1]
    assert (finished["verb"], finished["agent"]) == ("done", "bob")


def test_shell_can_detect_that_nothing_is_claimable(script: Script) -> None:
    ran = script.sh('if claimed=$(dibs claim --export); then echo some; else echo none $?; fi; echo "[$claimed]"')
    assert ran.out == "none 4\n[unset DIBS_TASK_ID DIBS_TOKEN; (exit 4)]\n"
    assert "no open tasks" in ran.err.lower()


def test_diagnostics_never_mix_with_data(script: Script) -> None:
    for number in range(3):
        script("add", f"Task {number}")
    ran = script("list", "-n", "1", "--json")
    assert len(ran.data) == 1
    assert "-n" in ran.err
