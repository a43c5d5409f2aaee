"""`python ahead.py FILE WORD …`: `dibs WORD …` with vaults whose clock is ahead of the machine's.

FILE says by how many seconds. The test moves that clock, so that leases expire when it wants them to.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from dibs.cli.main import main
from dibs.stores.vault.store import VaultStore
from dibs.stores.vault.vault import host_clock

if TYPE_CHECKING:
    from datetime import datetime


class Ahead:
    """The clock of all agents. It is as far ahead as the file says."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> datetime:
        return host_clock() + timedelta(seconds=self._seconds())

    def advance(self, seconds: float) -> None:
        new = self._path.with_suffix(".new")
        new.write_text(str(self._seconds() + seconds))
        os.replace(new, self._path)

    def _seconds(self) -> float:
        return float(self._path.read_text())


if __name__ == "__main__":
    defaults = VaultStore.__init__.__kwdefaults__
    assert defaults is not None
    defaults["clock"] = Ahead(Path(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
