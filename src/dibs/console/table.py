"""Columns for a person. Colour only where a terminal shows it and NO_COLOR does not forbid it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_FAINT = "2"


def coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str) -> str:
    return f"\x1b[{colour}m{text}\x1b[0m" if coloured() else text


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str] | None = None, indent: int = 0
) -> list[str]:
    """Columns as wide as their widest cell, the wide ones cut to fit the terminal; the second is coloured."""
    cells = [[clean(cell) for cell in row] for row in rows]
    widths = [max(width(row[column]) for row in (head, *cells)) for column in range(len(head))]
    _squeeze(widths, _terminal_width() - indent)
    margin = " " * indent
    lines = [margin + paint("  ".join(_pad(head, widths)).rstrip(), _FAINT)]
    for number, row in enumerate(cells):
        padded = _pad(row, widths)
        if colours:
            padded[1] = paint(padded[1], colours[number])
        lines.append((margin + "  ".join(padded)).rstrip())
    return lines


def _squeeze(widths: list[int], room: int) -> None:
    """Take from the widest column, again and again, until the row fits or nothing can be spared."""
    while room > 0 and sum(widths) + 2 * (len(widths) - 1) > room and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1


_NARROWEST = 10


def _pad(cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    cut = [shorten(cell, size) for cell, size in zip(cells, widths, strict=True)]
    return [cell + " " * (size - width(cell)) for cell, size in zip(cut, widths, strict=True)]


def _terminal_width() -> int:
    """The width of the terminal; without one, nothing is cut."""
    if not sys.stdout.isatty():
        return 0
    return os.get_terminal_size(sys.stdout.fileno()).columns


_COMBINING = "\u0300"  # Latin letters come before it, each in one column
_NARROW = frozenset("·→…✓✗")  # what dibs itself prints


def width(text: str) -> int:
    """How many columns a terminal gives it."""
    if text.isascii() or all(char < _COMBINING or char in _NARROW for char in text):  # rich costs a cold start 3 ms
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def shorten(text: str, size: int) -> str:
    if width(text) <= size:
        return text
    from dibs.draw.picture import shortened

    return shortened(text, size)


def clean(text: str) -> str:
    """Without characters that could move the cursor, change colours or turn a line around: task text is not trusted."""
    if text.isprintable():
        return text
    from dibs.draw.picture import showable

    return showable(text)


def clean_lines(text: str) -> list[str]:
    return [clean(line.replace("\t", "    ")) for line in text.splitlines()]
