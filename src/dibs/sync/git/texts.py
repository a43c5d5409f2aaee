"""What a person, or an agent's command, has written into a task's file, apart from what the desk notes there."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput
from dibs.core.task import Edit, Task
from dibs.stores.vault import reading
from dibs.stores.vault.page import Page
from dibs.stores.vault.places import IN_PROGRESS, place_from
from dibs.sync.git.units import is_task, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dibs.stores.vault.reading import Reading

    File = tuple[str, bytes]  # a path, and what lies there

_FIELDS = tuple(name for name in Edit._fields if name in Task._fields and name != "queued_at")
_NO_TIME = os.stat_result((0,) * 10, {"st_mtime_ns": 0, "st_ctime_ns": 0})
_NOTED = re.compile(
    r"# Claimed Task: .*|## (Progress|Completion)|<!-- Agent adds progress notes here -->"
    r"|\*\*(Claimed By|Claimed At|Status|Completed At|Duration|Result|Reason|Next State)\*\*: .*"
)


def read(file: File) -> Reading | None:
    """What a task's file says, or None if it is no task or cannot be read as one."""
    path, data = file
    if not is_task(unit_of(path)):
        return None
    try:
        return reading.read(Page(data.decode()), place_from(path), _NO_TIME)
    except (ValueError, InvalidInput):
        return None


def loses(file: File, others: Iterable[File]) -> bool:
    """Something is written here that stands in none of the others."""
    said, notes = _words(file)
    known = [_words(other) for other in others]
    return all(said != other for other, _ in known) or not notes <= set().union(*(more for _, more in known))


def _words(file: File) -> tuple[object, set[str]]:
    """What the task says, and the lines that were added to the notes."""
    found = read(file)
    if found is None:
        return file[1], set()
    lines = (line.strip() for line in Page(file[1].decode()).notes.splitlines())
    said = [getattr(found.task, name) for name in _FIELDS], sorted(found.links)
    return said, {line for line in lines if line and not _NOTED.fullmatch(line)}


def goes_on(file: File, published: File) -> bool:
    """This is what the holder of a published claim made of it: a renewal, or the claim's end."""
    claimed, now = read(published), read(file)
    if claimed is None or now is None or any(one.by_hand or one.edited for one in (claimed, now)):
        return False
    if claimed.proof is None or not published[0].startswith(f"{IN_PROGRESS}/"):
        return False
    return claimed.proof == (now.proof if file[0].startswith(f"{IN_PROGRESS}/") else now.task.spent_token)
