"""Where the boxes of a layered drawing stand: few crossings, short and mostly straight lines.

The usual way (Sugiyama's): a line that passes a column gets a place of its own there, each column is sorted by where
its neighbours stand, then boxes move as close to their neighbours as those above and below them allow.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    """Place boxes that stand in these columns; edges never lead back to the left."""
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
    """The heights nearest to the wanted ones (least squares) at which nothing overlaps and the order stays.

    Without the room that the points above take, that is a rising sequence: whenever one wants to stand above its
    predecessor, both stand where they want to on average. Lines weigh more than boxes, for they should be straight.
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
