"""Find duplicate code: runs of lines that two functions have in common, with the same names.

`python tools/twice.py` searches src and fails if it finds one. Signatures, imports and docstrings do not count, because
stores of one port share them.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
LINES = 8


class Place(NamedTuple):
    file: str
    function: str

    def __str__(self) -> str:
        return f"{self.file}: {self.function}"


class Pair(NamedTuple):
    first: Place
    second: Place
    text: str


def pairs(folder: Path) -> list[Pair]:
    """The longest run that each two functions share, if it is long enough."""
    seen: dict[tuple[str, ...], set[Place]] = defaultdict(set)
    for place, lines in _functions(folder):
        for start in range(len(lines) - LINES + 1):
            seen[tuple(lines[start : start + LINES])].add(place)
    found = {
        (first, second): "\n".join(run)
        for run, places in seen.items()
        for first in places
        for second in places
        if first < second
    }
    return sorted(Pair(*both, text) for both, text in found.items())


def _functions(folder: Path) -> Iterator[tuple[Place, list[str]]]:
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                body = node.body[1:] if ast.get_docstring(node) else node.body
                name = f"{node.name} (line {node.lineno})"
                yield Place(path.relative_to(folder).as_posix(), name), _lines(body)


def _lines(body: list[ast.stmt]) -> list[str]:
    """As they would be written without comments and with one style of breaking lines."""
    return [line for statement in body for line in ast.unparse(statement).splitlines()]


def main() -> int:
    found = pairs(ROOT / "src")
    for pair in found:
        print(f"{pair.first}\n{pair.second}\n{pair.text}\n")
    if found:
        print(f"{len(found)} pairs of functions have {LINES} lines or more in common. One of them should be enough.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
