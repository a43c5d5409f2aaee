"""A command and everything it has started: finding it, and ending it.

On Linux nothing gets away. Who starts a process and leaves it to itself hands it to the nearest ancestor that adopts,
and that is us. Elsewhere what has left the command's process group is out of reach.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_PR_SET_CHILD_SUBREAPER = 36
_prctl = getattr(ctypes.CDLL(None), "prctl", None)

ADOPTS = _prctl is not None


def adopt() -> None:
    """From now on, what our descendants leave to itself becomes our child."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def below(pid: int, without: Collection[int] = ()) -> list[int]:
    """All descendants of a process as far as the system tells, but for some of its children and theirs."""
    children: dict[int, list[int]] = {}
    for one, parent in _parents():
        children.setdefault(parent, []).append(one)
    found: list[int] = []
    waiting = [child for child in children.get(pid, []) if child not in without]
    while waiting:
        one = waiting.pop()
        found.append(one)
        waiting += children.get(one, [])
    return found


def _parents() -> Iterator[tuple[int, int]]:
    """Every process and its parent. The name between the two may have blanks and brackets in it."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{name}/stat", "rb") as file:
                yield int(name), int(file.read().rpartition(b")")[2].split()[1])


def send(number: int, group: int | None, others: Collection[int] = ()) -> None:
    """A signal to a process group at once, and to others that are not of it one by one."""
    if group is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, number)
    for pid in others:
        with suppress(ProcessLookupError, PermissionError):
            if group is None or os.getpgid(pid) != group:
                os.kill(pid, number)
