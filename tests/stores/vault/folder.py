"""A vault as a person sees it: files to put in, move, edit and look for; and the store that shares it with them."""

from __future__ import annotations

import os
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Link
from dibs.desk import mint_token
from dibs.stores.vault.store import VaultStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dibs.core.task import Claimed
    from dibs.stores.port import Moved
    from dibs.stores.vault.disk import Disk
    from support.clock import Clock

SCOPE = "default"
_numbers = count()


class Folder:
    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self.clock = clock
        self.open(create=True).close()

    def open(self, *, create: bool = False, disk: Disk | None = None, **more: Any) -> VaultStore:
        options: dict[str, Any] = {"durable": False, "clock": self.clock, "timeout": 5.0} | more
        return VaultStore(str(self.path), create=create, disk=disk, **options)

    # What a person does

    def put(self, place: str, text: str = "# A task\n\nDo it.\n") -> Path:
        target = self.path / place
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text.encode())
        return target

    def read(self, place: str) -> str:
        return (self.path / place).read_bytes().decode()

    def move(self, source: str, target: str) -> None:
        goal = self.path / target
        goal.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.path / source, goal)

    def replace(self, place: str, text: str) -> None:
        """As editors do that write a new file and rename it over the old one."""
        fresh = self.path / f"{place}.{next(_numbers)}~"
        fresh.write_bytes(text.encode())
        os.rename(fresh, self.path / place)

    def append(self, place: str, text: str) -> None:
        with open(self.path / place, "a", encoding="utf-8") as file:
            file.write(text)

    def find(self, name: str) -> list[str]:
        """The path of a task's file."""
        found = (path.relative_to(self.path) for path in self.path.rglob(f"{name}.md"))
        return sorted(str(path) for path in found if not str(path).startswith("."))

    def only(self, name: str) -> str:
        (place,) = self.find(name)
        return place

    def left_over(self) -> list[str]:
        """New versions that were never put in place. A file kept for the next writing is none of them."""
        return [name for name in os.listdir(self.path / ".dibs/tmp") if not name.startswith("spare-")]


def add(store: VaultStore, *ids: str, links: Sequence[Link] = (), **fields: Any) -> None:
    store.add(SCOPE, [Draft(**{"title": f"Task {task}", "id": task} | fields) for task in ids], links, Actor())


def claim(store: VaultStore, agent: str = "ann", *ids: str, **more: Any) -> list[Claimed]:
    tokens = tuple(mint_token() for _ in ids or (1,))
    asked: dict[str, Any] = {"ids": ids, "scope": SCOPE, "lease": timedelta(minutes=20)} | more
    return store.claim(ClaimRequest(agent, tokens, **asked))


def hold(store: VaultStore, agent: str = "ann", *ids: str, **more: Any) -> str:
    """Claim one task, and the token that proves it."""
    (claimed,) = claim(store, agent, *ids, **more)
    assert claimed.task.lease is not None
    return claimed.task.lease.token


def move(store: VaultStore, verb: Verb, task: str, token: str | None = None, **more: Any) -> Moved:
    by = more.pop("by", Actor("ann"))
    return store.move(Move(verb, task, SCOPE, by, token=token, **more), CanceledBlocker.ESCALATES)
