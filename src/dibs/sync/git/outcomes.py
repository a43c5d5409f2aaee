"""What a clone answers."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dibs.sync.git.outbox import Group


class Published(StrEnum):
    ACCEPTED = "accepted"  # the remote has it
    REFUSED = "refused"  # someone was first: the remote's version lies in the folder now
    OFFLINE = "offline"  # the remote was not reached: the change is in this folder only, and may be undone


class Pulled(NamedTuple):
    """What came in. Paths are relative to the vault."""

    reached: bool  # False: the remote was not reached, and nothing has changed
    changed: bool = False
    dropped: tuple[str, ...] = ()  # changes made here that gave way to the remote's version
    set_aside: tuple[str, ...] = ()  # copies of what people had written here and the remote had changed as well


class Standing(NamedTuple):
    """How a clone stands, as far as can be told without asking the remote."""

    branch: str
    remote: str
    ahead: int = 0  # commits that the remote does not have, made by people
    behind: int = 0  # commits of the remote that are not in the folder
    unpublished: tuple[str, ...] = ()  # finished or returned here, and not at the remote yet
    trouble: str | None = None  # why nothing can be pulled or published, and what to do


class Flushed(NamedTuple):
    """What came of publishing all that waited."""

    reached: bool  # False: the remote was not reached, and everything still waits
    published: tuple[Group, ...] = ()
    refused: tuple[Group, ...] = ()  # the remote had a later state: that lies in the folder now
