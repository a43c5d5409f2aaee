"""Processes that claim from one vault as fast as they can, some of them under the same name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .folder import Folder

TESTS = Path(__file__).parents[2]

RACER = """
import json, os, sys
from dibs.core.lifecycle import ClaimRequest
from dibs.desk import mint_token
from dibs.stores.vault.store import VaultStore

folder, agent = sys.argv[1:]
got = []
with VaultStore(folder, durable=False) as store:
    store.counts(None)
    print("ready", flush=True)
    sys.stdin.readline()
    while claimed := store.claim(ClaimRequest(agent, (mint_token(),), None)):
        got.append(claimed[0].task.id)
print(json.dumps(got))
"""


def race(folder: Folder, processes: int, files: int) -> list[list[str]]:
    for number in range(files):
        (folder.path / f"Needs_Action/t{number:05}.md").write_text(f"Text {number}.\n", encoding="utf-8")
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(folder.path), f"agent{number % 4}"],
            env=os.environ | {"PYTHONPATH": str(TESTS)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    won = []
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        out, _ = racer.communicate(timeout=800)
        assert racer.returncode == 0
        won.append(json.loads(out))
    return won


def assert_each_was_won_once(folder: Folder, won: list[list[str]]) -> None:
    names = sorted(name for one in won for name in one)
    assert len(names) == len(set(names))
    assert sum(bool(one) for one in won) > 1, "there was no race"
    held = {path.stem: path for path in (folder.path / "In_Progress").rglob("*.md")}
    assert sorted(held) == names
    assert not list((folder.path / "Needs_Action").glob("*.md"))
    for number, name in enumerate(names):
        text = held[name].read_text(encoding="utf-8")
        assert f"\nText {number}.\n" in text
        assert text.count("# Claimed Task:") == 1
    with folder.open() as store:
        assert {task.attempt for task in store.graph("default", finished=True).tasks} == {1}
        assert store.check(fix=False) == []
