"""The geometry of the SVG: where each card stands, and along which curve each line runs."""

from __future__ import annotations

from itertools import pairwise
from math import ceil, sqrt
from typing import TYPE_CHECKING, NamedTuple

from dibs.draw.layout import arrange

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.draw.layout import Layout
    from dibs.draw.picture import Picture

CARD_WIDTH, CARD_HEIGHT, MARGIN, HEAD = 240, 76, 32, 68
_GAP, _ROW = 88, 92
_PORT_GAP, _PORT_ROOM = 11.0, 48.0
_BULGE, _CLEAR = 40, 8
_WIDEST_ALONE = 6


class Scene(NamedTuple):
    """`cards` are top left corners by task; `paths` belong to the picture's edges."""

    width: float
    bottom: float
    cards: dict[str, tuple[float, float]]
    paths: list[str]
    notes: tuple[float, ...] = ()  # where a line of words sets those without any links apart


def scene(drawn: Picture) -> Scene:
    linked = {end for edge in drawn.edges for end in (edge.first, edge.then)}
    columns = [[node.task.id for node in phase if node.task.id in linked] for phase in (*drawn.phases, drawn.stuck)]
    columns = [column for column in columns if column]
    column_of = {task: at for at, column in enumerate(columns) for task in column}
    index = {task: at for at, task in enumerate(column_of)}
    # Only what may run side by side can point to the left, and it has no direction.
    ends = (sorted((edge.first, edge.then), key=lambda task: column_of[task]) for edge in drawn.edges)
    layout = arrange(list(column_of.values()), [(index[first], index[then]) for first, then in ends])
    layout, bottom = _shifted(layout, len(index))
    cards = {task: (_x(column_of[task]), layout.heights[at] - CARD_HEIGHT / 2) for task, at in index.items()}
    laid = Scene(_width(len(columns)), bottom, cards, _paths(layout))
    loose = [node.task.id for node in drawn.nodes if node.task.id not in linked]
    return _with_loose(laid, loose, len(columns)) if loose else laid


def _x(column: int) -> float:
    return MARGIN + column * (CARD_WIDTH + _GAP)


def _width(columns: int) -> float:
    return _x(columns) - _GAP + MARGIN


def _shifted(layout: Layout, boxes: int) -> tuple[Layout, float]:
    """Everything moved to below the heading, and where it ends."""
    if not boxes:
        return layout, HEAD
    halves = [CARD_HEIGHT / 2 if point < boxes else _CLEAR for point in range(len(layout.heights))]
    by = HEAD - min(height - half for height, half in zip(layout.heights, halves, strict=True))
    heights = [height + by for height in layout.heights]
    return layout._replace(heights=heights), max(height + half for height, half in zip(heights, halves, strict=True))


def _with_loose(laid: Scene, loose: Sequence[str], columns: int) -> Scene:
    """Tasks without any line stand below the rest, in rows."""
    across = max(columns, min(_WIDEST_ALONE, ceil(sqrt(len(loose)))))
    top = laid.bottom + (64 if laid.cards else 0)
    corners = {task: (_x(at % across), top + at // across * _ROW) for at, task in enumerate(loose)}
    bottom = top + (len(loose) - 1) // across * _ROW + CARD_HEIGHT
    notes = (top - 16,) if laid.cards else ()
    return Scene(_width(across), bottom, {**laid.cards, **corners}, laid.paths, notes)


def _paths(layout: Layout) -> list[str]:
    starts, ends = _ports(layout)
    return [_path(layout, route, starts[at], ends[at]) for at, route in enumerate(layout.routes)]


def _ports(layout: Layout) -> tuple[dict[int, float], dict[int, float]]:
    """Where on its card's side each line starts and ends: spread out, in the order in which they come in."""
    sides: dict[tuple[int, bool], list[tuple[float, int, bool]]] = {}
    for at, route in enumerate(layout.routes):
        beside = layout.columns[route[0]] == layout.columns[route[-1]]
        sides.setdefault((route[0], True), []).append((layout.heights[route[1]], at, True))
        sides.setdefault((route[-1], beside), []).append((layout.heights[route[-2]], at, False))
    starts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for (point, _), lines in sides.items():
        gap = min(_PORT_GAP, _PORT_ROOM / len(lines))
        for place, (_, at, starting) in enumerate(sorted(lines)):
            offset = (place - (len(lines) - 1) / 2) * gap
            (starts if starting else ends)[at] = layout.heights[point] + offset
    return starts, ends


def _path(layout: Layout, route: Sequence[int], start: float, end: float) -> str:
    """Level at every card and every bend, and a soft curve in between."""
    first, last = layout.columns[route[0]], layout.columns[route[-1]]
    x, goal = _x(first) + CARD_WIDTH, _x(last)
    if first == last:
        return f"M{x:g} {start:.1f}C{x + _BULGE:g} {start:.1f} {x + _BULGE:g} {end:.1f} {x:g} {end:.1f}"
    stops = [(x, start)]
    for bend in route[1:-1]:
        left = _x(layout.columns[bend])
        stops += [(left, layout.heights[bend]), (left + CARD_WIDTH, layout.heights[bend])]
    stops.append((goal, end))
    steps = [f"M{x:g} {start:.1f}"]
    for number, ((x, y), (to_x, to_y)) in enumerate(pairwise(stops)):
        middle = (x + to_x) / 2
        curve = f"C{middle:g} {y:.1f} {middle:g} {to_y:.1f} {to_x:g} {to_y:.1f}"
        steps.append(f"H{to_x:g}" if number % 2 else curve)
    return "".join(steps)
