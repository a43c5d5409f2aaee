"""The looks of a task, one per status and one for what waits: the same mark and colour in every drawing."""

from __future__ import annotations

from typing import NamedTuple

from dibs.draw.picture import WAITING, EdgeKind
from dibs.core.task import Status


class Colour(NamedTuple):
    """For light and for dark surroundings."""

    light: str
    dark: str


class Look(NamedTuple):
    """`mark` stands for it in a terminal, `accent` outlines it, `tint` fills it where the text on it is dark."""

    name: str
    mark: str
    accent: Colour
    tint: str

    @property
    def word(self) -> str:
        return self.name.capitalize()


LOOKS: dict[str, Look] = {
    look.name: look
    for look in (
        Look(Status.ACTIVE.value, "●", Colour("#7c3aed", "#a78bfa"), "#ede9fe"),
        Look(Status.READY.value, "○", Colour("#2563eb", "#60a5fa"), "#dbeafe"),
        Look(WAITING, "◌", Colour("#64748b", "#94a3b8"), "#f1f5f9"),
        Look(Status.BLOCKED.value, "■", Colour("#dc2626", "#f87171"), "#fee2e2"),
        Look(Status.ESCALATED.value, "!", Colour("#be185d", "#f472b6"), "#fce7f3"),
        Look(Status.REVIEW.value, "◎", Colour("#0e7490", "#22d3ee"), "#cffafe"),
        Look(Status.PAUSED.value, "‖", Colour("#a16207", "#facc15"), "#fef9c3"),
        Look(Status.BACKLOG.value, "·", Colour("#78716c", "#a8a29e"), "#f5f5f4"),
        Look(Status.DONE.value, "✓", Colour("#15803d", "#4ade80"), "#dcfce7"),
        Look(Status.CANCELED.value, "✗", Colour("#6b7280", "#9ca3af"), "#e5e7eb"),
    )
}

CRITICAL = Colour("#ea580c", "#fb923c")
PART_OF = Colour("#0d9488", "#2dd4bf")
INK = "#0f172a"

# How a line is called, seen from the task it starts at.
LINES: dict[EdgeKind, str] = {
    EdgeKind.BLOCKS: "blocks",
    EdgeKind.FEEDS_INTO: "feeds into",
    EdgeKind.PARALLEL_OK: "may run beside",
    EdgeKind.PART_OF: "is part of",
}
