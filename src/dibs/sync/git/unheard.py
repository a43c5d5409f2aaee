"""What was to be published while the remote was out of reach, kept for whoever comes next."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from dibs.sync.git.trees import Blob

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dibs.sync.git.trees import Places


class Unheard:
    """A small file beside git's own. Only who has the git lock writes it."""

    def __init__(self, home: str) -> None:
        self._path = os.path.join(home, "unheard")

    def all(self) -> dict[str, Places]:
        """By unit, the state that nobody has heard of. A file that was cut off by a crash says nothing."""
        try:
            with open(self._path, encoding="utf-8", errors="surrogateescape") as file:
                said = json.load(file)
            return {unit: {path: Blob(*blob) for path, blob in places.items()} for unit, places in said.items()}
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return {}

    def note(self, offered: Mapping[str, Places]) -> None:
        self._write({**self.all(), **offered})

    def forget(self, units: Iterable[str]) -> None:
        known = self.all()
        left = {unit: places for unit, places in known.items() if unit not in units}
        if len(left) < len(known):
            self._write(left)

    def _write(self, offered: Mapping[str, Places]) -> None:
        fresh = f"{self._path}-next"
        with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(offered, file)
        os.replace(fresh, self._path)
