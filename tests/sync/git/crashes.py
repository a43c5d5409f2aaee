"""Worlds in which a process is killed at some step, and checks that other processes can continue."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.core.lifecycle import Verb
from dibs.sync.git import Published

from .actor import SURVIVED
from .clones import Machine, git
from .soundness import assert_sound, twice_in_one_commit

if TYPE_CHECKING:
    from support.clock import Clock

TESTS = Path(__file__).parents[2]
TEXTS = {name: f"# Task {name}\n\nThe text of {name}.\n" for name in ("a", "b")}  # few: worlds are many
ACTS = [("claim", "git"), ("lose", "git"), ("lose", "disk"), ("done", "git"), ("pull", "git"), ("pull", "disk")]
ACTS += [("settle", "git"), ("settle", "disk")]

_MANY = 200


def killed(where: Machine, what: str, kind: str, step: int, clock: Clock) -> bool:
    """Run the actor; False once it has got through all its steps."""
    words = [sys.executable, str(TESTS / "sync/git/actor.py"), str(where.path), what, kind, str(step)]
    done = subprocess.run(
        [*words, clock().isoformat()],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode in {SURVIVED, -signal.SIGKILL}, done.stderr.decode()
    return done.returncode != SURVIVED


def copied(origin: Path, target: Path, clock: Clock) -> tuple[Path, Machine, Machine]:
    """The whole world again, with clones that know the new remote."""
    for name in ("remote.git", "here", "there"):
        shutil.copytree(origin / name, target / name, symlinks=True)
    for name in ("here", "there"):
        git(target / name, "remote", "set-url", "origin", str(target / "remote.git"))
    return target / "remote.git", Machine(target / "here", clock=clock), Machine(target / "there", clock=clock)


def prepare(what: str, here: Machine, there: Machine) -> None:
    if what == "lose":
        there.hold("bob", "a")
    if what == "settle":
        claimed = here.hold("ann", "a")
        assert claimed.task.lease is not None
        with here.desk() as desk:
            desk.move(Verb.DONE, "a", token=claimed.task.lease.token)
    if what in {"pull", "settle"}:
        there.finish(there.hold("bob", "b"))
        there.put("Plans/new.md")
        there.commit()
        there.clone.settle()


def die_at_every_step(origin: Path, what: str, kind: str, clock: Clock, stride: int) -> int:
    """Kill it at each step, or at every `stride`-th, each time in a new world. Returns the number of steps."""
    step, more = 0, True
    while more:
        assert step < _MANY, "it never gets through"
        step += stride
        world = origin / f"{step}"
        remote, one, two = copied(origin, world, clock)
        more = killed(one, what, kind, step, clock)
        go_on(remote, one, two, clock, what)
        shutil.rmtree(world)
    return step


def go_on(remote: Path, one: Machine, two: Machine, clock: Clock, what: str) -> None:
    """The same clone goes on, then both work until nothing is left."""
    now = clock.time
    one.clone.settle()
    if what == "settle":
        assert one.find("a.md") == ["Done/a.md"]
    assert one.status() == [] or what in {"claim", "done"}
    clock.advance(hours=1)  # the claims of the dead are over
    try:
        while any(work(machine) for machine in (two, one)):
            pass
        assert_sound(remote, [one, two], TEXTS)
        assert all(machine.find(f"{task}.md") == [f"Done/{task}.md"] for machine in (one, two) for task in TEXTS)
        assert twice_in_one_commit(remote) == []
        assert one.find("* kept-*") == []
        left = os.listdir(one.path / ".git/dibs")
        assert not [name for name in left if name.startswith("index")], left
        assert not [name for name in os.listdir(one.path / ".dibs") if name.startswith("incoming")]
        assert not (one.path / ".git/index.lock").exists()
    finally:
        clock.time = now


def work(machine: Machine) -> bool:
    machine.clone.pull()
    with machine.desk() as desk:
        ready = desk.ready(limit=1)
    if not ready:
        return False
    assert machine.finish(machine.hold("cid", ready[0].id)) is Published.ACCEPTED
    return True
