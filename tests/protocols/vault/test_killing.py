"""Agents that die at any moment: every task ends in one place, finished once, with its text as it was."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest

from dibs.stores.opening import open_store
from support.vault import PATIENCE, alive, until

if TYPE_CHECKING:
    from support.vault import Running, Vault

TASKS = 200
NAMES = ("ann", "bob", "cid", "dan")


def text_of(number: int) -> str:
    """Something that is easily damaged: no line end at the end, odd letters, lines that look like ours."""
    return f"# Task {number}\r\n\n---\nzahl: {number}\n---\n\n## Completion\n\n{'żółć ' * number}\n\tend"


def started(vault: Vault, name: str) -> Running:
    record = vault.beside / "record"
    work = f'grep -c zahl > /dev/null && sleep 0.02 && echo "$DIBS_TASK_ID $DIBS_ATTEMPT" >> {record}'
    words = ("--lease", "2s", "--max-retries", "1000", "--retry-in", "0.1s", "--interval", "1s", "--", "sh", "-c", work)
    return vault.agent(*words, name=name)


@pytest.mark.parametrize("killed", [False, True])
def test_no_process_of_a_command_survives(vault: Vault, *, killed: bool) -> None:
    pid = vault.beside / "pid"
    goes_on = f"setsid sh -c 'echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 600; :' & until [ -s {pid} ]; do :; done"
    vault.task("a")
    one = vault.agent("--", "sh", "-c", f"{goes_on}; sleep {600 if killed else 0}")
    until(pid.exists, lambda: one.said)
    if killed:
        one.kill()
    else:
        one.says("done a")
    until(lambda: not alive(int(pid.read_text())), lambda: "it goes on")


@pytest.mark.slow
@pytest.mark.timeout(2400)
@pytest.mark.xdist_group("torture")
def test_four_agents_killed_at_random_finish_every_task_once(vault: Vault) -> None:
    for number in range(TASKS):
        (vault.root / f"Needs_Action/t{number}.md").write_bytes(text_of(number).encode())
    agents = {name: started(vault, name) for name in NAMES}
    dice = random.Random(os.environ.get("DIBS_SEED", "4"))
    kills = 0
    end = time.monotonic() + 18 * PATIENCE
    while len(list((vault.root / "Done").glob("*.md"))) < TASKS:
        assert time.monotonic() < end, sorted(vault.tree())
        time.sleep(dice.uniform(0.05, 0.4))
        name = dice.choice(NAMES)
        if kills < 40:
            agents[name].kill()
            agents[name] = started(vault, name)
            kills += 1
    for one in agents.values():
        one.leave()
    assert kills >= 10, "they were too quick to be killed"
    with open_store(f"vault:///{vault.root}") as store:
        assert store.check(fix=True) == []  # the next agent completes the work of the last killed one
    assert_each_is_finished_once(vault)


def assert_each_is_finished_once(vault: Vault) -> None:
    worked = [line.split()[0] for line in (vault.beside / "record").read_text().splitlines()]
    assert set(worked) == {f"t{number}" for number in range(TASKS)}
    for number in range(TASKS):
        assert vault.places(f"t{number}") == [f"Done/t{number}.md"]
        raw = (vault.root / f"Done/t{number}.md").read_bytes().decode()
        assert text_of(number) in raw
        notes = raw.partition("<!-- dibs: the task ends here")[2]
        assert notes.count("**Next State**: Done") == 1
    status = vault("status", "--json").data
    assert status["folders"]["Done"] == TASKS
    assert status["problems"] == []
