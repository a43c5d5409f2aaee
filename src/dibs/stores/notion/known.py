"""What never changes about a database, kept on disk so that a fresh process need not ask for it again.

A database's data source, the page of a task's id, the id of a page's task. All of it is checked against the page that
is read in the end, and all of it may be deleted at any time: it is asked for anew.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress


class Known:
    """Facts of one database at one address, each in a small file, so that processes need not wait for each other."""

    def __init__(self, address: str, database: str, folder: str | None = None) -> None:
        cache = folder or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self._folder = os.path.join(cache, "dibs", "notion", _digest(f"{address} {database}"))
        self._facts: dict[str, str] = {}
        self._noted: dict[str, str] = {}

    def get(self, kind: str, name: str = "") -> str | None:
        key = f"{kind} {name}"
        return self._kept(key) or self._noted.get(key)

    def put(self, kind: str, name: str, fact: str) -> None:
        """Remember; that there is no place to write it down is no reason to stop."""
        key = f"{kind} {name}"
        if self._kept(key) == fact:
            return
        self._facts[key] = fact
        path = self._path(key)
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            draft = f"{path}.{os.getpid()}-{id(self):x}"
            with open(draft, "w", encoding="utf-8") as file:
                file.write(fact)
            os.replace(draft, path)

    def note(self, kind: str, name: str, fact: str) -> None:
        """Remember as long as this process lives: there may be thousands of them."""
        self._noted[f"{kind} {name}"] = fact

    def _kept(self, key: str) -> str | None:
        if key not in self._facts:
            with suppress(OSError, ValueError), open(self._path(key), encoding="utf-8") as file:
                self._facts[key] = file.read()
        return self._facts.get(key) or None

    def forget(self, kind: str, name: str = "") -> None:
        key = f"{kind} {name}"
        self._facts.pop(key, None)
        with suppress(OSError):
            os.unlink(self._path(key))

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, _digest(key))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
