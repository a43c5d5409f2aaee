"""A power cut while agents work in a vault: what was told to them is on the disk, and no text is lost or mixed up.

A file system of its own, in a file, is shut down from one moment to the next without writing out its journal, as
`xfstests` does it, and mounted anew. That takes root and loop devices, so it is part of `make torture` only.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import struct
import subprocess
import time
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dibs.core.errors import DibsError
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.desk import mint_token
from dibs.stores.vault.disk import Disk, file_system
from dibs.stores.vault.store import VaultStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_WITHOUT_THE_JOURNAL = 2
_TASKS = 400
_AGENTS = 4
_CUTS = 25


class Careless(Disk):
    """Does not wait for a text before it gets its name."""

    def _settle_content(self, fd: int) -> None:
        pass


class Told(NamedTuple):
    """What a worker heard before the lights went out."""

    task: str
    agent: str
    attempt: int
    done: bool


class Device:
    """A small ext4 that can be cut off."""

    def __init__(self, folder: Path) -> None:
        self._image, self.mount = folder / "image", folder / "mount"
        self.mount.mkdir()
        with self._image.open("wb") as file:
            file.truncate(64 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", self._image], check=True)

    @contextmanager
    def mounted(self) -> Iterator[Path]:
        subprocess.run(["mount", "-o", "loop", self._image, self.mount], check=True)
        try:
            yield self.mount / "vault"
        finally:
            _until_free(["umount", str(self.mount)])

    def cut(self) -> None:
        fd = os.open(self.mount, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _WITHOUT_THE_JOURNAL))
        finally:
            os.close(fd)


def _until_free(command: list[str]) -> None:
    for _ in range(100):
        if subprocess.run(command, capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    subprocess.run(command, check=True)


@pytest.fixture
def device(tmp_path: Path) -> Device:
    if os.geteuid() != 0:
        pytest.skip("Only root may mount a file system.")
    device = Device(tmp_path)
    try:
        with device.mounted():
            pass
    except subprocess.CalledProcessError:
        pytest.skip("This machine lends no loop device.")
    return device


def body(number: int) -> str:
    """Of any length, and unlike every other, so that a page with the wrong text shows."""
    return f"\n# Task {number}\n\n{f'text of {number}. ' * random.Random(number).randint(1, 900)}\nend of {number}.\n"


def _fill(folder: Path) -> None:
    with VaultStore(str(folder), create=True, durable=False):
        pass
    for number in range(_TASKS):
        (folder / f"Needs_Action/t{number}.md").write_text(f"---\npriority: high\n---\n{body(number)}")
    os.sync()


def _work(folder: str, agent: str, careless: bool, out: int) -> None:
    """Claim, and finish every other one; tell of it as soon as it is told."""
    try:
        with VaultStore(folder, disk=Careless(durable=True) if careless else None) as store:
            for number in range(_TASKS):
                token = mint_token()
                task = store.claim(ClaimRequest(agent, (token,)))[0].task
                os.write(out, f"{task.id} {agent} {task.attempt} \n".encode())
                if number % 2:
                    move = Move(Verb.DONE, task.id, task.scope, token=token)
                    store.move(move, CanceledBlocker.RESOLVES)
                    os.write(out, f"{task.id} {agent} {task.attempt} done\n".encode())
    except (DibsError, OSError, IndexError):
        return  # the lights are out, or there is nothing left to do


def _work_until_the_cut(device: Device, folder: Path, *, careless: bool, after: float) -> dict[str, Told]:
    context = get_context("fork")
    heard, out = os.pipe()
    workers = [
        context.Process(target=_work, args=(str(folder), f"agent-{number}", careless, out)) for number in range(_AGENTS)
    ]
    for worker in workers:
        worker.start()
    os.close(out)
    select.select([heard], [], [], 120)  # until one of them is at work
    time.sleep(after)
    device.cut()
    with os.fdopen(heard, encoding="utf-8") as lines:
        told = [Told(task, agent, int(attempt), done == "done") for task, agent, attempt, done in map(_split, lines)]
    for worker in workers:
        worker.join()
    return {one.task: one for one in told}


def _split(line: str) -> list[str]:
    return line.rstrip("\n").split(" ")


def lost(folder: Path, told: dict[str, Told]) -> list[str]:
    """What is not as it was told, or no longer says what it said."""
    found = {path.stem: path for path in folder.rglob("t*.md") if ".dibs" not in path.parts}
    wrong = [f"t{number} is gone" for number in range(_TASKS) if f"t{number}" not in found]
    for task, path in found.items():
        if body(int(task[1:])) not in path.read_text(encoding="utf-8", errors="replace"):
            wrong.append(f"{task} has lost its text")
    for one in told.values():
        places = {"Done"} if one.done else {"Done", one.agent}  # the last finish may have come to the disk, not to us
        there = found.get(one.task)
        if there is None or there.parent.name not in places or f"attempt: {one.attempt}\n" not in there.read_text():
            wrong.append(f"{one} is not on the disk: {there}")
    return wrong


def _cut_once(device: Device, *, careless: bool, after: float) -> tuple[int, list[str]]:
    with device.mounted() as folder:
        folder.mkdir()
        _fill(folder)
        assert file_system(os.stat(folder).st_dev) == "ext4"
        told = _work_until_the_cut(device, folder, careless=careless, after=after)
    with device.mounted() as folder:
        wrong = lost(folder, told)
        with VaultStore(str(folder)) as store:
            assert sum(store.counts(None).by_status.values()) == _TASKS
    return len(told), wrong


@pytest.mark.parametrize("cut", range(_CUTS))
def test_what_an_agent_was_told_survives_a_power_cut_and_every_text_does(device: Device, cut: int) -> None:
    told, wrong = _cut_once(device, careless=False, after=random.Random(cut).uniform(0.1, 0.5))
    assert told > 0
    assert wrong == []


def test_without_the_wait_for_the_text_a_power_cut_costs_texts(device: Device) -> None:
    """The test above can fail."""
    assert any("lost its text" in what for what in _cut_once(device, careless=True, after=0.3)[1])
