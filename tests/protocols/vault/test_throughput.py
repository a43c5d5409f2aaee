"""Six agents in three clones of a remote whose pushes take a second: claims do not wait for each other."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from support.vault import Vault, until

from .test_publishing import Clones, git

TASKS = 18
# The remote notes when the push of a new claim begins and ends. It keeps them until four were there at once, so that a
# busy machine cannot spread them.
HOOK = """#!/bin/sh
read old new ref
case "$old $ref" in
  000*" refs/dibs/claims/"*) echo begin >> {log}
    for turn in $(seq 100); do
      [ ! -e {log}.met ] || break
      [ $(($(grep -c begin {log}) - $(grep -c end {log}))) -lt 4 ] || touch {log}.met
      sleep 0.1
    done
    sleep 1; echo end >> {log} ;;
  *) sleep 1 ;;
esac
"""


@pytest.mark.slow
def test_six_agents_claim_concurrently_from_a_slow_remote() -> None:
    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        clones = Clones(Path(place).resolve())
        third = clones.remote.parent / "three" / "vault"
        git(clones.remote.parent, "clone", "-q", str(clones.remote), str(third))
        vaults = [clones.one, clones.two, Vault(third)]
        try:
            log = clones.remote.parent / "pushes"
            hook = clones.remote / "hooks" / "pre-receive"
            hook.write_text(HOOK.format(log=log))
            hook.chmod(0o755)
            agents = {
                f"a{number}": vaults[number % 3].at_work(*clones.recording, name=f"a{number}", SYNC_INTERVAL="1")
                for number in range(6)
            }
            for number in range(TASKS):
                clones.one.task(f"t{number}")
            git(clones.one.root, "add", "-A")
            git(clones.one.root, "commit", "-q", "-m", "tasks")
            assert clones.one("sync").status == 0
            until(lambda: len(clones.worked) == TASKS, lambda: f"only {clones.worked} were done", 500)
            assert clones.worked == sorted(f"t{number}" for number in range(TASKS))
            assert all("done t" in agent.said or "claimed t" in agent.said for agent in agents.values())
            for agent in agents.values():
                assert agent.leave() == 0
            assert most_at_once(log.read_text().split()) > len(vaults)
        finally:
            for vault in vaults:
                vault.close()


def most_at_once(pushes: list[str]) -> int:
    most = now = 0
    for push in pushes:
        now += 1 if push == "begin" else -1
        most = max(most, now)
    return most
