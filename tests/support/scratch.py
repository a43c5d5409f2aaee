"""Where tests leave their files: in memory, where there is room, so that thousands of stores never wait for a disk.

All of it is removed when the tests are over, however they end. `TMPDIR` chooses another place, and `--basetemp` one
where the folders of the tests are kept.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from janitor import janitor_of

if TYPE_CHECKING:
    from subprocess import Popen

_MEMORY = "/dev/shm"  # noqa: S108 - no secrets
_ROOM = 6 << 30  # bytes; a whole run needs about a third of them

_janitors: list[Popen[bytes]] = []  # not to be forgotten, or they would believe that we have gone


def in_memory() -> None:
    """Use this folder for temporary files of this process and its children."""
    if "TMPDIR" in os.environ or not os.path.isdir(_MEMORY) or shutil.disk_usage(_MEMORY).free < _ROOM:
        return
    folder = tempfile.mkdtemp(prefix="dibs-", dir=_MEMORY)
    os.chmod(folder, 0o711)  # noqa: S103 - PostgreSQL does not run as root, and has to get to its own
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    _janitors.append(janitor_of(folder))
