"""The layered layout of a drawing: columns of cards, few crossings, short and mostly straight lines.

Sugiyama's method: a line that crosses a column gets a place there, each column is sorted by the places of its
neighbours, then boxes move as close to their neighbours as the boxes above and below allow.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import pairwise
from math import ceil, sqrt
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dibs.draw.picture import Picture


Neighbours: TypeAlias = "list[list[int]]"

_SWEEPS = 12
_BENDS_MAX = 8_000  # beyond that a drawing is no longer read line by line, and has to be quick
_BOX, _LINE = 46.0, 11.0  # half of the height that a box, or a line passing by, keeps free for itself


class Layout(NamedTuple):
    """The height of each point's middle, and for each edge the points it runs through. Boxes come before bends."""

    heights: list[float]
    columns: list[int]
    routes: list[list[int]]


def arrange(columns: Sequence[int], edges: Sequence[tuple[int, int]]) -> Layout:
    """Place boxes in these columns; no edge leads back to the left."""
    column_of, routes = _with_bends(columns, edges)
    left: Neighbours = [[] for _ in column_of]
    right: Neighbours = [[] for _ in column_of]
    for one, other in (step for route in routes for step in pairwise(route)):
        if column_of[one] < column_of[other]:
            left[other].append(one)
            right[one].append(other)
    grid: list[list[int]] = [[] for _ in range(max(column_of, default=-1) + 1)]
    for point, column in enumerate(column_of):
        grid[column].append(point)
    heights = _settled(_uncrossed(grid, left, right), left, right, len(columns))
    return Layout(heights, column_of, routes)


def _with_bends(columns: Sequence[int], edges: Sequence[tuple[int, int]]) -> tuple[list[int], list[list[int]]]:
    """Give long edges a point in every column they pass, the shorter ones first while there are not too many."""
    column_of = list(columns)
    routes = [[first, then] for first, then in edges]
    for route in sorted(routes, key=lambda route: columns[route[1]] - columns[route[0]]):
        passed = range(columns[route[0]] + 1, columns[route[1]])
        if len(column_of) + len(passed) > len(columns) + _BENDS_MAX:
            break
        route[1:1] = range(len(column_of), len(column_of) + len(passed))
        column_of += passed
    return column_of, routes


def _uncrossed(grid: list[list[int]], left: Neighbours, right: Neighbours) -> list[list[int]]:
    best, fewest = grid, _crossings(grid, right)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        grid = _swept(grid, left) if sweep % 2 == 0 else _swept(grid[::-1], right)[::-1]
        crossings = _crossings(grid, right)
        if crossings < fewest:
            best, fewest = grid, crossings
    return best


def _swept(grid: list[list[int]], near: Neighbours) -> list[list[int]]:
    """Sort each column by the mean place of its neighbours in those before it."""
    place = {point: (at + 0.5) / len(column) for column in grid for at, point in enumerate(column)}

    def wanted(point: int) -> float:
        return sum(place[other] for other in near[point]) / len(near[point]) if near[point] else place[point]

    swept = []
    for column in grid:
        ordered = sorted(column, key=wanted)
        place.update({point: (at + 0.5) / len(ordered) for at, point in enumerate(ordered)})
        swept.append(ordered)
    return swept


def _crossings(grid: list[list[int]], right: Neighbours) -> int:
    """Between neighbouring columns: pairs of lines whose ends are in opposite order."""
    found = 0
    for column, following in pairwise(grid):
        at = {point: place for place, point in enumerate(following)}
        ends: list[int] = []
        for point in column:
            reached = sorted(at[other] for other in right[point] if other in at)
            found += sum(len(ends) - bisect_right(ends, end) for end in reached)
            for end in reached:
                insort(ends, end)
    return found


def _settled(grid: list[list[int]], left: Neighbours, right: Neighbours, boxes: int) -> list[float]:
    """Let every point move towards its neighbours: to the left ones, to the right ones, in the end to both."""
    halves = [_BOX if point < boxes else _LINE for point in range(len(left))]
    heights = [0.0] * len(left)
    for column in grid:
        _move(column, _spaced([0.0] * len(column), [halves[point] for point in column]), heights)
    both = [one + other for one, other in zip(left, right, strict=True)]
    for near, columns in (*((left, grid), (right, grid[::-1])) * 2, *((both, grid), (both, grid[::-1])) * 4):
        for column in columns:
            wanted = [_pulled(point, near[point], heights, boxes) for point in column]
            _move(column, _spaced(wanted, [halves[point] for point in column]), heights)
    return heights


def _move(points: Iterable[int], to: Iterable[float], heights: list[float]) -> None:
    for point, height in zip(points, to, strict=True):
        heights[point] = height


def _pulled(point: int, near: list[int], heights: list[float], boxes: int) -> float:
    """The middle of the neighbours; bends pull harder, so that long lines run straight."""
    if not near:
        return heights[point]
    weights = [8 if point >= boxes and other >= boxes else 1 for other in near]
    return sum(weight * heights[other] for weight, other in zip(weights, near, strict=True)) / sum(weights)


def _spaced(wanted: Sequence[float], halves: Sequence[float]) -> list[float]:
    """The nearest heights to the wanted ones (least squares) without overlap and in this order.

    Minus the room of the points above, that is isotonic regression: two neighbours in the wrong order both move to
    their mean. Lines weigh more than boxes, because they should be straight.
    """
    taken, total = [], 0.0
    for at, half in enumerate(halves):
        total += half + (halves[at - 1] if at else 0.0)
        taken.append(total)
    groups: list[tuple[float, float, int]] = []
    for want, room, half in zip(wanted, taken, halves, strict=True):
        mean, weight, size = want - room, 1 / half, 1
        while groups and groups[-1][0] > mean:
            above, heavy, count = groups.pop()
            mean = (above * heavy + mean * weight) / (heavy + weight)
            weight, size = weight + heavy, size + count
        groups.append((mean, weight, size))
    settled = [mean for mean, _, size in groups for _ in range(size)]
    return [base + room for base, room in zip(settled, taken, strict=True)]


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
    """Place tasks without lines below the rest, in rows."""
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
