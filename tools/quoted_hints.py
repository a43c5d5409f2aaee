"""Suggested commands are quoted in one place: a lint rule.

A value in the text of a command, such as f"dibs show {task.id}", would let an id run something in the reader's shell.
`command("dibs", "show", task.id)` of dibs.core.messages quotes it.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

from dibs.cli.catalogue import COMMANDS, GROUPS
from dibs.protocols.ntask.main import COMMANDS as NTASK
from dibs.protocols.ralph.main import COMMANDS as RALPH

_HOLE = "\0"
_VERBS = "|".join(sorted({*COMMANDS, *GROUPS, *NTASK, *RALPH}))
# A script, a command of it, more words, then a value before the text closes the command.
_RAW = re.compile(rf"(?<![\w./-])(?:dibs|ntask|ralph task) +(?:{_VERBS})\b[^'\"`\n;:,.()]*{_HOLE}")
_QUOTES = frozenset({"command", "quoted"})


def broken(source: str) -> Iterator[int]:
    """The lines that put a raw value into a command."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.expr) and (text := _with_holes(node)) is not None and _RAW.search(text):
            yield node.lineno


def _with_holes(node: ast.expr) -> str | None:
    """The text that an expression makes, with a hole for each value that is not quoted."""
    match node:
        case ast.JoinedStr():
            return "".join(map(_part, node.values))
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _part(left) + _part(right)
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text))):
            return re.sub(r"%[sdr]", _HOLE, text)
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            return re.sub(r"\{[^{}]*\}", _HOLE, text)
        case _:
            return None


def _part(node: ast.expr) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value):
            return _part(value)
        case ast.Call(func=ast.Name(id=name)) if name in _QUOTES:
            return "…"
        case _:
            made = _with_holes(node)
            return _HOLE if made is None else made


def main(root: str) -> int:
    found = 0
    for path in sorted(Path(root).rglob("*.py")):
        for line in broken(path.read_text(encoding="utf-8")):
            print(f"{path}:{line}: a raw value in a command; quote it with dibs.core.messages.command")
            found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "src/dibs"))
