"""The installed program: real processes, real streams."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

from support.ntask import PATIENCE, SCRIPT, Ran

if TYPE_CHECKING:
    from support.ntask import Ntask

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def ended(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=PATIENCE)
    return Ran(process.returncode, out, err)


def test_racing_processes_have_one_winner_and_conflicts(local: Ntask) -> None:
    task = local.script("create", "--title", "T").task["task_id"]
    racers = [
        local.start("claim", task, "--run-id", f"run-{number}", "--agent-name", "same-name") for number in range(4)
    ]
    came = [ended(racer) for racer in racers]
    assert sorted(ran.status for ran in came) == [0, 2, 2, 2]
    (won,) = [ran for ran in came if ran.status == 0]
    for ran in came:
        assert ran.code in {None, "CONFLICT"}
        if ran is not won:
            assert won.task["lock_token"] not in ran.out + ran.err
    run = won.task["agent_run"]
    words = (task, "--run-id", run, "--lock-token", won.task["lock_token"])
    assert local.script("complete", *words, "--artifacts", "x").task["status"] == "DONE"


def test_processes_that_follow_next_and_claim_share_the_tasks_out(local: Ntask) -> None:
    for number in range(6):
        local.script("create", "--title", f"T{number}")
    loop = (
        'while :; do t=$({0} next | {1} -c \'import json,sys; t=json.load(sys.stdin)["task"]; '
        'print(t["task_id"] if t else "")\'); [ -z "$t" ] && break; '
        '{0} claim "$t" --run-id $$ --agent-name a >/dev/null 2>&1 && echo "$t"; done; :'
    ).format(SCRIPT, os.path.join(os.path.dirname(SCRIPT), "python"))
    agents = [
        subprocess.Popen(["bash", "-c", loop], stdout=subprocess.PIPE, text=True, env=local.environment())
        for _ in range(2)
    ]
    got = [task for agent in agents for task in agent.communicate(timeout=PATIENCE)[0].split()]
    assert len(got) == len(set(got)) == 6


def test_day_of_work_shows_tokens_only_to_the_claimer(local: Ntask) -> None:
    task = local.script("create", "--title", "T").task["task_id"]
    claim = local.script("claim", task, "--run-id", "run-1", "--agent-name", "ann")
    token = claim.task["lock_token"]
    assert claim.err == ""
    lock = ("--run-id", "run-1", "--lock-token", token)
    wrong = ("--run-id", "run-1", "--lock-token", "00000000-0000-4000-8000-000000000000")
    said = [
        local.script(*words, NOTION_TOKEN="ntn_a_very_secret_key")  # noqa: S106 - made up
        for words in (
            ("get", task),
            ("list",),
            ("next",),
            ("doctor",),
            ("claim", task, "--run-id", "run-2", "--agent-name", "bob"),
            ("heartbeat", task, *lock),
            ("heartbeat", task, *wrong),
            ("heartbeat", task, "--run-id", "run-9", "--lock-token", token),
            ("heartbeat", task, "--lock-token", token),
            ("heartbeat", task, *lock, "--lease-min", token),
            ("heartbeat", task, *lock, token),
            ("cancel", task, "--reason", "x"),
            ("block", task, *lock, "--reason", "r", "--unblock-action", "u", "--next-check", "never"),
            ("complete", task, *lock, "--artifacts", "x"),
            ("heartbeat", task, *lock),
            ("claim", task, "--run-id", "r", "--agent-name", "a"),
            ("get", "ntn_a_very_secret_key"),
        )
    ]
    for ran in said:
        assert not _UUID.search(ran.out + ran.err), ran
        assert "ntn_a_very_secret_key" not in ran.out + ran.err
    assert {ran.code for ran in said} == {None, "CONFLICT", "LOST_LOCK", "MISCONFIGURED"}


def test_prime_prints_markdown_to_put_into_an_agents_instructions(local: Ntask) -> None:
    ran = local.script("prime", NTASK_STORE="")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("## ")
    for word in ("heartbeat", "lock_token", "CONFLICT", "LOST_LOCK", "API_ERROR", "30 s", "2, 4 and 8 s", "next"):
        assert word in ran.out


def test_version_is_json_too(local: Ntask) -> None:
    for words in (("version",), ("--version",)):
        assert local.script(*words, NTASK_STORE="").data["ok"] is True


def test_terminal_output_is_indented_and_printed_once(local: Ntask) -> None:
    local.script("create", "--title", "T")
    keeper, terminal = pty.openpty()
    ran = subprocess.run([SCRIPT, "next"], stdout=terminal, stderr=terminal, check=False, env=local.environment())
    os.close(terminal)
    shown = os.read(keeper, 100_000).decode()
    os.close(keeper)
    assert ran.returncode == 0
    assert len(shown.splitlines()) > 5
    assert json.loads(shown)["task"]["title"] == "T"


def test_a_reader_that_went_away_is_no_traceback(local: Ntask) -> None:
    local.script("create", "--title", "T")
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run(
            [SCRIPT, "next"], stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=local.environment()
        )
    assert ran.returncode == 5
    assert "Traceback" not in ran.stderr
