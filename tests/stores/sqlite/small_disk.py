"""A disk that fills up or is mounted read-only, for one child process.

It is a tmpfs in a separate mount namespace, which needs root or user namespaces. Without them, the test is skipped. A
limit on the size of files (`limited`) is a different fault.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sqlite3
import subprocess
import sys
from typing import TYPE_CHECKING, NamedTuple

import pytest

from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.sqlite import database
from dibs.stores.sqlite.store import SqliteStore
from interleave.stepper import PATIENCE, child_environment

if TYPE_CHECKING:
    from collections.abc import Callable

_NEW_NAMESPACE, _NEW_USER = 0x00020000, 0x10000000
_PRIVATE = 0x4000 | 0x40000  # recursive, private: nothing of it reaches the machine
_READ_ONLY, _REMOUNT = 1, 32
SIZE = 4 << 20
NO_DISK = 77  # the exit status of a child that could not have one
FILLER = "filler"
LONG = "x" * 20_000


class Told(NamedTuple):
    """What an act raised, or `ok`."""

    kind: str
    message: str = ""


def run(scenario: str, folder: str) -> dict[str, Told]:
    """Run a scenario on a small disk in a child process, since a namespace or limit cannot be undone."""
    finished = subprocess.run(
        [sys.executable, "-c", "from stores.sqlite.small_disk import main; main()", scenario, folder],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    leave_out_without_a_disk(finished)
    assert finished.returncode == 0, finished.stderr
    return {step: Told(*told) for step, told in json.loads(finished.stdout).items()}


def leave_out_without_a_disk(finished: subprocess.CompletedProcess[str]) -> None:
    if finished.returncode == NO_DISK:
        pytest.skip("This machine lends no small disk: only root may mount one here.")


def main() -> None:
    scenario, folder = sys.argv[1:]
    sys.stdout.write(json.dumps({step: told(act) for step, act in SCENARIOS[scenario](folder).items()}))


def told(act: Callable[[], object]) -> Told:
    try:
        act()
    except Exception as error:  # noqa: BLE001 - the test checks it
        return Told(type(error).__name__, str(error))
    return Told("ok")


def mount(folder: str) -> bool:
    """Make the folder a small disk, seen by this process alone; False where that is not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NAMESPACE):
        ours = {
            "setgroups": "deny",
            "uid_map": f"{os.getuid()} {os.getuid()} 1",
            "gid_map": f"{os.getgid()} {os.getgid()} 1",
        }
        if libc.unshare(_NEW_NAMESPACE | _NEW_USER):
            return False
        for name, said in ours.items():  # without a mapped id, the process cannot create files
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(said)
    options = f"size={SIZE},mode=0777".encode()
    private = libc.mount(b"none", b"/", None, _PRIVATE, None)
    return bool(private == 0 and libc.mount(b"tmpfs", folder.encode(), b"tmpfs", 0, options) == 0)


def limit_file_size(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


class Disk:
    """A small disk, full or not."""

    def __init__(self, folder: str) -> None:
        self._filler = os.path.join(folder, FILLER)
        self._folder = folder
        if not mount(folder):
            sys.exit(NO_DISK)

    def fill(self, *, leave: int = 0) -> None:
        with open(self._filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
        os.truncate(self._filler, max(0, os.path.getsize(self._filler) - leave))

    def make_room(self) -> None:
        os.unlink(self._filler)

    def remount(self, *, read_only: bool) -> None:
        """The kernel refuses to make it read-only while a file is open for writing."""
        libc = ctypes.CDLL(None, use_errno=True)
        flags = _REMOUNT | (_READ_ONLY if read_only else 0)
        if libc.mount(b"none", self._folder.encode(), b"tmpfs", flags, None):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


Steps = dict[str, "Callable[[], object]"]


def _store(folder: str, *, create: bool = False) -> SqliteStore:
    return SqliteStore(os.path.join(folder, "dibs.db"), create=create, timeout=1)


def full(folder: str) -> Steps:
    """A store that is open while the disk fills up, and one that is opened then."""
    disk = Disk(folder)
    desk = Desk(_store(folder, create=True))
    desk.add([Draft("A", "a")])
    before = list(desk.dump())

    def unchanged() -> None:
        assert list(desk.dump()) == before

    def open_another() -> None:
        with Desk(_store(folder)) as another:
            assert another.get("a").title == "A"

    def sound() -> None:
        assert desk.check() == []
        desk.close()

    return {
        "fill": disk.fill,
        "add": lambda: desk.add([Draft("B", "b", description=LONG)]),
        "claim": lambda: desk.claim("ann"),
        "unchanged": unchanged,
        "open another": open_another,
        "make room": disk.make_room,
        "add again": lambda: desk.add([Draft("B", "b", description=LONG)]),
        "claim again": lambda: desk.claim("ann"),
        "sound": sound,
    }


def full_from_the_start(folder: str) -> Steps:
    """A store that is to be made on a full disk."""
    disk = Disk(folder)

    def make() -> None:
        _store(folder, create=True).close()

    def there_is_none() -> None:
        _store(folder)

    return {
        "fill": lambda: disk.fill(leave=32_768),
        "make": make,
        "look": there_is_none,
        "make room": disk.make_room,
        "make again": make,
        "look again": lambda: _store(folder).close(),
    }


def full_at_a_checkpoint(folder: str) -> Steps:
    """Leave room for writes, but not for a checkpoint."""
    disk = Disk(folder)
    database._COMMITS_PER_CHECKPOINT = 100
    desk = Desk(_store(folder, create=True))
    for number in range(99):
        desk.add([Draft("A", f"a{number}", description=LONG[:5000])])

    def leased() -> None:
        assert [task.lease is not None for task in (desk.get("a0"), desk.get("a1"))] == [True, False]

    def sound() -> None:
        assert desk.check() == []
        desk.close()

    return {
        "fill": lambda: disk.fill(leave=65_536),
        "claim": lambda: desk.claim("ann"),
        "leased": leased,
        "make room": disk.make_room,
        "sound": sound,
    }


def limited(folder: str) -> Steps:
    """No file may grow: what a quota or a `ulimit -f` looks like."""
    desk = Desk(_store(folder, create=True))
    desk.add([Draft("A", "a")])
    before = list(desk.dump())

    def unchanged() -> None:
        assert list(desk.dump()) == before

    def sound() -> None:
        assert desk.check() == []
        desk.close()

    return {
        "limit": lambda: limit_file_size(os.path.getsize(os.path.join(folder, "dibs.db-wal"))),
        "add": lambda: desk.add([Draft("B", "b", description=LONG)]),
        "unchanged": unchanged,
        "lift": lambda: limit_file_size(resource.RLIM_INFINITY),
        "add again": lambda: desk.add([Draft("B", "b", description=LONG)]),
        "sound": sound,
    }


def read_only(folder: str) -> Steps:
    """A store with one task, closed, or left behind by a process that was killed, and then its disk is read-only."""
    disk = Disk(folder)
    crashed = os.path.join(folder, "crashed")
    os.mkdir(crashed)
    with Desk(_store(folder, create=True)) as desk:
        desk.add([Draft("A", "a")])
    if not os.fork():
        Desk(_store(crashed, create=True)).add([Draft("A", "a")])
        os._exit(0)
    os.wait()
    assert os.path.getsize(os.path.join(crashed, "dibs.db-wal"))
    before = _content(folder)

    def act(on: str, act: Callable[[Desk], object]) -> None:
        with Desk(_store(on)) as desk:
            act(desk)

    def unchanged() -> None:
        assert _content(folder) == before

    def claim(desk: Desk) -> None:
        assert [claimed.task.id for claimed in desk.claim("ann")] == ["a"]
        assert desk.get("a").attempt == 1
        assert desk.check() == []

    def failed_write() -> None:
        """What SQLite says to a store that was open when the kernel itself made the disk read-only."""
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR | (3 << 8)  # SQLITE_IOERR_WRITE
        raise database.translated(error, os.path.join(folder, "dibs.db"))

    return {
        "remount": lambda: disk.remount(read_only=True),
        "look": lambda: act(folder, lambda desk: desk.get("a")),
        "claim": lambda: act(folder, claim),
        "claim after a crash": lambda: act(crashed, claim),
        "init": lambda: _store(folder, create=True).close(),
        "init elsewhere": lambda: SqliteStore(os.path.join(folder, "new.db"), create=True).close(),
        "failed write": failed_write,
        "unchanged": unchanged,
        "remount for writing": lambda: disk.remount(read_only=False),
        "claim again": lambda: act(folder, claim),
        "claim after a crash again": lambda: act(crashed, claim),
    }


def _content(folder: str) -> dict[str, bytes]:
    paths = [os.path.join(place, name) for place, _, names in os.walk(folder) for name in names]
    content = {}
    for path in paths:
        with open(path, "rb") as file:
            content[path] = file.read()
    return content


SCENARIOS: dict[str, Callable[[str], Steps]] = {
    scenario.__name__: scenario for scenario in (full, full_from_the_start, full_at_a_checkpoint, limited, read_only)
}
