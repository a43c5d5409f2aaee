"""Tasks from other tools' files, and our tasks in files that other tools read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.exchange.documents import File
    from dibs.exchange.items import Notes, Reading

FORMATS = ("beads", "github", "task-master", "backlog-md", "markdown", "csv", "linear-csv")
TARGETS = ("markdown", "csv", "github", "mermaid")


def read(tool: str, files: Sequence[File], notes: Notes) -> Reading:
    """What the files of one of FORMATS say. Only Backlog.md has more than one."""
    from dibs.exchange import documents, trackers

    if tool == "backlog-md":
        return documents.read_backlog(files, notes)
    readers = {
        "beads": trackers.read_beads,
        "github": trackers.read_github,
        "task-master": trackers.read_task_master,
        "markdown": documents.read_markdown,
        "csv": documents.read_csv,
        "linear-csv": documents.read_linear,
    }
    return readers[tool](files[0].text, notes)
