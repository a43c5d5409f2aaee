"""What the colours and lines of an SVG mean: only those that occur in it, in as many rows as they need."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from dibs.draw.palette import LINES, LOOKS
from dibs.draw.picture import EdgeKind
from dibs.draw.scene import MARGIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.draw.picture import Picture

_ROW, _LETTER, _SPACE = 24, 6.4, 22

HEADS = {
    EdgeKind.BLOCKS: "dibs-arrow",
    EdgeKind.FEEDS_INTO: "dibs-arrow",
    EdgeKind.PART_OF: "dibs-diamond",
}


class Entry(NamedTuple):
    sign: str
    sign_width: int
    words: str

    @property
    def width(self) -> float:
        return self.sign_width + len(self.words) * _LETTER + _SPACE


def legend(drawn: Picture, width: float, top: float) -> tuple[list[str], float]:
    """The elements, and the height at which they end."""
    found = []
    x, y = float(MARGIN), top
    for entry in _entries(drawn):
        if x + entry.width > width - MARGIN and x > MARGIN:
            x, y = float(MARGIN), y + _ROW
        words = f'<text class="note" x="{entry.sign_width}" y="4">{entry.words}</text>'
        found.append(f'<g transform="translate({x:g} {y:g})">{entry.sign}{words}</g>')
        x += entry.width
    return found, y if found else top - _ROW


def _entries(drawn: Picture) -> Iterator[Entry]:
    looks = Counter(node.look for node in drawn.nodes)
    for look in LOOKS.values():
        if look.name in looks:
            icon = f'<use class="{look.name}" href="#dibs-{look.name}" y="-7" width="14" height="14"/>'
            yield Entry(icon, 20, f"{look.word} {looks[look.name]}")
    kinds = {edge.kind for edge in drawn.edges}
    for kind, words in LINES.items():
        if kind in kinds:
            yield Entry(f'<path class="line {kind}" d="M0 0H30"{head(kind)}/>', 38, words)
    if any(node.critical for node in drawn.nodes):
        arrow = head(EdgeKind.BLOCKS, critical=True)
        yield Entry(f'<path class="line critical" d="M0 0H30"{arrow}/>', 38, "longest open chain")


def head(kind: EdgeKind, *, critical: bool = False) -> str:
    """What a line ends in, as an attribute."""
    if kind not in HEADS:
        return ""
    emphasis = "-critical" if critical and kind is not EdgeKind.PART_OF else ""
    return f' marker-end="url(#{HEADS[kind]}{emphasis})"'
