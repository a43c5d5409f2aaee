"""Claims from a folder of Markdown files, compared with a bare loop of scandir and rename without order or events.

Both alternate, with the same number of processes and the same fsync setting. A process starts its clock when all have
read the folder once. The bare loop lists the folder for every claim and takes the first file.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from bench.measure import Figure, median, percentile
from dibs.console.streams import OBJECTS
from dibs.core.lifecycle import ClaimRequest
from dibs.desk import mint_token
from dibs.stores.vault.store import VaultStore

if TYPE_CHECKING:
    from multiprocessing.queues import SimpleQueue
    from multiprocessing.synchronize import Barrier

    Times = tuple[float, float]

_FILES = 10_000
_CLAIMS = {True: 2_000, False: 6_000}  # by durability: enough to be even, not so many that the folder runs dry
_PROCESSES = (1, 4, 8)
_ROUNDS = 3
_NEW_FILES = 51


def _fill(folder: Path, files: int) -> None:
    with VaultStore(str(folder), create=True, durable=False):
        pass
    for number in range(files):
        priority = ("low", "medium", "high", "urgent")[number % 4]
        text = f"---\npriority: {priority}\ncreated_at: 2026-01-01T00:00:00Z\n---\n\n# Task {number}\n\nDo it.\n"
        (folder / f"Needs_Action/t{number:05}.md").write_text(text, encoding="utf-8")


def _bare(folder: str, agent: str, durable: bool, start: Barrier, claims: int) -> Times:
    source, target = f"{folder}/Needs_Action", f"{folder}/In_Progress/{agent}"
    os.makedirs(target, exist_ok=True)
    folders = [os.open(path, os.O_RDONLY) for path in (source, target)]
    start.wait()
    began = time.monotonic()
    for _ in range(claims):
        with os.scandir(source) as listing:
            for found in listing:
                try:
                    os.rename(found.path, f"{target}/{found.name}")
                except FileNotFoundError:
                    continue
                break
        if durable:
            for fd in folders:
                os.fsync(fd)
    return began, time.monotonic()


def _ours(folder: str, agent: str, durable: bool, start: Barrier, claims: int) -> Times:
    gc.set_threshold(OBJECTS)  # as the command line does
    with VaultStore(folder, durable=durable) as store:
        store.counts(None)
        start.wait()
        began = time.monotonic()
        for _ in range(claims):
            store.claim(ClaimRequest(agent, (mint_token(),), None))
        return began, time.monotonic()


def _play(
    ours: bool,
    folder: str,
    agent: str,
    durable: bool,
    start: Barrier,
    claims: int,
    out: SimpleQueue[Times],
) -> None:
    out.put((_ours if ours else _bare)(folder, agent, durable, start, claims))


def _rate(*, ours: bool, processes: int, durable: bool, files: int = _FILES, claims: int = 0) -> float:
    """Claims per second of all processes together."""
    context = multiprocessing.get_context("fork")
    each = (claims or _CLAIMS[durable]) // processes
    with tempfile.TemporaryDirectory() as name:
        _fill(Path(name), files)
        start, out = context.Barrier(processes), context.SimpleQueue()
        players = [
            context.Process(target=_play, args=(ours, name, f"a{number}", durable, start, each, out))
            for number in range(processes)
        ]
        for player in players:
            player.start()
        times = [out.get() for _ in players]
        for player in players:
            player.join()
    took: float = max(end for _, end in times) - min(began for began, _ in times)
    return each * processes / took


def run() -> list[Figure]:
    figures = []
    for durable in (False, True):
        for processes in _PROCESSES:
            pairs = [
                (
                    _rate(ours=False, processes=processes, durable=durable),
                    _rate(ours=True, processes=processes, durable=durable),
                )
                for _ in range(_ROUNDS)
            ]
            ratio = median([ours / bare for bare, ours in pairs])
            figures.append(
                Figure(
                    f"vault: claims of {processes} process(es) from 10,000 files against scandir and rename, "
                    f"{'with' if durable else 'without'} fsync",
                    f"{ratio:.2f} ({median([ours for _, ours in pairs]):,.0f}/s)",
                    "≥ 0.5",
                    ratio >= 0.5,
                )
            )
    return [*figures, _flatness(), _pick_up()]


def _flatness() -> Figure:
    """The ratio of the seconds per claim in a large folder to those in a small one."""
    ratios = []
    for _ in range(_ROUNDS):
        small = _rate(ours=True, processes=1, durable=False, files=100, claims=90)
        large = _rate(ours=True, processes=1, durable=False, files=_FILES, claims=2_000)
        ratios.append(small / large)
    ratio = median(ratios)
    what = "vault: a claim from 10,000 files against one from 100"
    return Figure(what, f"{ratio:.2f} times as long", "≤ 2", ratio <= 2)


def _pick_up() -> Figure:
    """The time from a new file to its move into the folder of an idle agent."""
    with tempfile.TemporaryDirectory() as name:
        vault = Path(name) / "vault"
        _fill(vault, 0)
        agent = subprocess.Popen(
            [Path(sys.executable).with_name("dibs"), "vault", "agent", "--claim-only", "--vault", vault],
            env=os.environ | {"AGENT_NAME": "idle"},
            stdout=subprocess.DEVNULL,
        )
        try:
            times = [_picked_up(vault, f"t{number:03}.md") for number in range(_NEW_FILES)]
        finally:
            agent.terminate()
            agent.wait()
    p50, p99 = (1000 * percentile(times[1:], share) for share in (0.5, 0.99))  # the first waits for the agent's start
    what = "vault: a new file is picked up by an idle agent, p50"
    return Figure(what, f"{p50:.1f} ms (p99 {p99:.1f} ms)", "< 50 ms", p50 < 50)


def _picked_up(vault: Path, name: str) -> float:
    fresh = vault / name
    fresh.write_text("# A task\n\nDo it.\n", encoding="utf-8")
    began = time.monotonic()
    fresh.rename(vault / "Needs_Action" / name)
    while not (vault / "In_Progress/idle" / name).exists():
        time.sleep(0.0002)
    took = time.monotonic() - began
    time.sleep(0.4)  # until the agent is idle again
    return took
