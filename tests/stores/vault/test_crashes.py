"""Processes killed before each of their steps: no text is ever lost, nothing is half done, and work goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Status
from dibs.stores.vault.places import FOLDER_OF

from .actor import SURVIVED
from .folder import SCOPE, Folder, add, claim, hold, move

if TYPE_CHECKING:
    from dibs.stores.vault.store import VaultStore
    from support.clock import Clock

TESTS = Path(__file__).parents[2]
HELD = {"claim another's", "done", "renew", "release", "fail", "review"}
ASKED = [*sorted(HELD), "claim", "claim by name", "add", "edit", "link", "cancel", "block"]


def killed(folder: Folder, what: str, step: int, token: str) -> bool:
    """Run the actor; False once it has got through all its steps."""
    words = [sys.executable, str(TESTS / "stores/vault/actor.py"), str(folder.path), what, str(step), token]
    done = subprocess.run(
        [*words, folder.clock().isoformat()],
        env=os.environ | {"PYTHONPATH": str(TESTS)},
        capture_output=True,
        check=False,
    )
    assert done.returncode in {SURVIVED, -signal.SIGKILL}, done.stderr.decode()
    return done.returncode != SURVIVED


@pytest.mark.parametrize("what", ASKED)
def test_kill_at_any_step_loses_no_text_and_blocks_no_process(folder: Folder, clock: Clock, what: str) -> None:
    step = 0
    while True:
        step += 1
        here = Folder(folder.path.parent / f"{step}", clock)
        with here.open() as store:
            store.add(SCOPE, [Draft("A", "a", "The text.", priority=0), Draft("B", "b", priority=9)], [], Actor())
            token = hold(store, "ann", "a") if what in HELD else ""
        if what == "claim another's":
            clock.advance(hours=1)
        more = killed(here, what, step, token)
        with here.open() as store:
            go_on(here, store, what, token)
        if not more:
            break
    assert step > 5, "there was nothing to die at"


def go_on(folder: Folder, store: VaultStore, what: str, token: str) -> None:
    """Whatever the dead process left, the next one finds one sound file, and takes it on."""
    place = folder.only("a")
    assert "The text." in folder.read(place)
    before = store.get(SCOPE, "a")
    assert before.description == "The text."
    if what in {"done", "review", "fail", "release"}:
        again = move(store, Verb(what), "a", token, result={"n": 1}).task
        assert again.lease is None
        assert folder.only("a").startswith(FOLDER_OF[again.status])
        assert again.result == ({"n": 1} if what in {"done", "review"} else None)
    elif what == "renew":
        assert move(store, Verb.DONE, "a", token).task.status is Status.DONE
    elif what == "add":
        assert folder.find("new") in ([], ["Needs_Action/new.md"])
    else:
        if before.lease is not None and before.lease.expires_at is not None:
            folder.clock.time = max(folder.clock.time, before.lease.expires_at)
        taken = claim(store, "cid")[0].task
        assert taken.id == ("a" if before.status in {Status.READY, Status.ACTIVE} and not before.blockers else "b")
        assert taken.attempt > before.attempt or taken.id == "b"
    add(store, "last")  # a turn alone puts right what was left behind
    assert folder.left_over() == []
    assert folder.only("a")
    assert store.check(fix=False) == []
