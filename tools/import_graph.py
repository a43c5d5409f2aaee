"""Draw which part of dibs imports which, from the code: this writes docs/explanation/imports.svg.

The rows are the layers of pyproject.toml, which import-linter enforces. A line goes from a part to one that it imports,
unless others lead there already.
"""

from __future__ import annotations

import re
import sys
import tomllib
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "explanation" / "imports.svg"

_WIDTH, _BOX, _HEIGHT, _ROW = 900, 108, 34, 92


def layers() -> list[list[str]]:
    """The parts of dibs from top to bottom, as the linter's contract has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(each for each in project["tool"]["importlinter"]["contracts"] if each["containers"] == ["dibs"])
    return [re.findall(r"\w+", layer) for layer in contract["layers"] if layer != "__main__"]


def imports() -> dict[str, set[str]]:
    """Each part with those that it imports, anywhere in its modules."""
    graph = grimp.build_graph("dibs", cache_dir=None)
    there = {_part(module) for module in graph.modules}
    found: dict[str, set[str]] = {part: set() for layer in layers() for part in layer if part in there}
    for module in graph.modules:
        part = _part(module)
        if part in found:
            found[part] |= {_part(other) for other in graph.find_modules_directly_imported_by(module)} & set(found)
    return {part: others - {part} for part, others in found.items()}


def _part(module: str) -> str:
    return (*module.split("."), "")[1]


def shortest(found: dict[str, set[str]]) -> dict[str, set[str]]:
    """Without what follows from the rest."""
    beyond: dict[str, set[str]] = {}
    for layer in reversed(layers()):
        for part in layer:
            others = found.get(part, set())
            beyond[part] = others.union(*(beyond[other] for other in others))
    return {part: others - set().union(*(beyond[other] for other in others)) for part, others in found.items()}


def picture() -> str:
    found = imports()
    rows = [[part for part in layer if part in found] for layer in layers()]
    middle = {part: _middle(layer, part, row) for row, layer in enumerate(rows) for part in layer}
    drawn = [(part, other) for part, others in shortest(found).items() for other in others]
    lines = [_line(middle[part], middle[other]) for part, other in sorted(drawn)]
    boxes = [_box(part, *place) for part, place in middle.items()]
    height = len(rows) * _ROW - (_ROW - _HEIGHT) + 20
    place = f'viewBox="0 0 {_WIDTH} {height}" font-family="sans-serif" font-size="14"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {place}>'
    return "\n".join([head, "<title>Which part of dibs imports which</title>", *lines, *boxes, "</svg>"]) + "\n"


def _middle(layer: list[str], part: str, row: int) -> tuple[int, int]:
    gap = _WIDTH // len(layer)
    return gap * layer.index(part) + gap // 2, row * _ROW + _HEIGHT // 2 + 10


def _box(part: str, x: int, y: int) -> str:
    box = f'<rect x="{x - _BOX // 2}" y="{y - _HEIGHT // 2}" width="{_BOX}" height="{_HEIGHT}" rx="6"'
    words = f'<text x="{x}" y="{y + 5}" text-anchor="middle" fill="#134e4a">{escape(part)}</text>'
    return f'{box} fill="#ccfbf1" stroke="#0d9488"/>{words}'


def _line(above: tuple[int, int], below: tuple[int, int]) -> str:
    """A curve from the bottom of one box to the top of the other."""
    (x, y), (to_x, to_y) = (above[0], above[1] + _HEIGHT // 2), (below[0], below[1] - _HEIGHT // 2)
    bend = (to_y - y) // 2
    return f'<path d="M{x} {y} C{x} {y + bend} {to_x} {to_y - bend} {to_x} {to_y}" fill="none" stroke="#94a3b8"/>'


def main() -> int:
    PICTURE.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
