"""Dashboard.md: what a person who opens the vault reads first."""

from __future__ import annotations

import os

from dibs.core.errors import StoreUnavailable

_TEXT = """\
# Dashboard

Every Markdown file in these folders is a task, and where it lies tells how it stands.

- `Needs_Action`: put new tasks here. Sub-folders are domains. `action:` in the front matter says what kind.
- `In_Progress/<agent>`: an agent works on it. Move, edit or delete the file, and the agent stops: you win.
- `Pending_Approval`: waits for you. To approve a draft, write `APPROVED` as its last line, or move it to `Done`.
  To reject it, write `REJECTED:` and why as its last line, or move it to `Rejected`.
- `Done`, `Rejected`: finished, or called off.

`dibs vault status` tells what lies where, who is at work and what waits for approval. This page is yours to change.
"""


def write_dashboard(root: str) -> None:
    """Once; a page that is there already is a person's."""
    try:
        with open(os.path.join(root, "Dashboard.md"), "x", encoding="utf-8") as file:
            file.write(_TEXT)
    except FileExistsError:
        return
    except OSError as error:
        raise StoreUnavailable(f"Dashboard.md cannot be written in {root}: {error.strerror}.") from None
