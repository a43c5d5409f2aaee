"""Titles as labels: made safe to show, cut to the room there is, broken into lines."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


# Controls and non-characters no format can hold, and the overrides with which a title could turn its neighbours around.
_UNSHOWABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_ELLIPSIS = "…"
_INVISIBLE = frozenset({"Mn", "Me", "Cf"})
_FROM_THE_RIGHT = frozenset({"R", "AL"})


def showable(text: str) -> str:
    return _UNSHOWABLE.sub("", text)


def cells(char: str) -> float:
    """How many columns of a terminal a character takes."""
    if char.isascii():
        return 1
    if unicodedata.category(char) in _INVISIBLE:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def shortened(text: str, room: float, measure: Callable[[str], float] = cells) -> str:
    """The text if it fits, else as much of it as does, and an ellipsis."""
    text = showable(text)
    if sum(map(measure, text)) <= room:
        return text
    return _head(text, room - measure(_ELLIPSIS), measure).rstrip() + _ELLIPSIS


def in_lines(text: str, room: float, count: int, measure: Callable[[str], float] = cells) -> list[str]:
    """Broken between words where possible; what does not fit into so many lines ends in an ellipsis."""
    lines: list[str] = []
    rest = showable(text).strip()
    while rest and len(lines) < count - 1 and sum(map(measure, rest)) > room:
        line = _head(rest, room, measure)
        if not rest[len(line)].isspace() and " " in line:
            line = line[: line.rindex(" ")]
        lines.append(line.rstrip())
        rest = rest[len(line) :].lstrip()
    return [*lines, shortened(rest, room, measure)] if rest else lines


def isolated(text: str) -> str:
    """Text from right to left, set apart so that what follows it on the line stays where it is."""
    if any(unicodedata.bidirectional(char) in _FROM_THE_RIGHT for char in text):
        return f"\N{FIRST STRONG ISOLATE}{text}\N{POP DIRECTIONAL ISOLATE}"
    return text


def _head(text: str, room: float, measure: Callable[[str], float]) -> str:
    """As much as fits; at least one character, and no emoji or accent torn apart."""
    end = 0
    while end < len(text) and (end == 0 or measure(text[end]) <= room):
        room -= measure(text[end])
        end += 1
    while 1 < end < len(text) and (text[end - 1] == "\u200d" or unicodedata.category(text[end]) in _INVISIBLE):
        end -= 1
    return text[:end]
