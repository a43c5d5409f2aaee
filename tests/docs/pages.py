"""The pages of the documentation, and the parts of them that can be run.

A fenced block is run by its language: in `console` blocks, the text after `$ ` is typed into a shell, and the lines
below are the expected output; `python` blocks are run as programs. HTML comments give instructions for the next block:

    <!-- file: plan.yaml -->    save the block under this name instead of running it
    <!-- new project -->        start again in an empty folder
    <!-- setup                  commands to run first, line by line
    dibs init
    -->
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "$ "
MORE = "> "

_COMMENT = re.compile(r"<!--\s*(file|new project|setup)\b:?\s*(.*?)\s*-->", re.DOTALL)
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


class Block(NamedTuple):
    """A fenced block or a comment: `line` is where its text begins, counted from 1."""

    kind: str
    text: str
    line: int


class Exchange(NamedTuple):
    """A command and the answer that the page promises."""

    command: str
    answer: tuple[str, ...]
    line: int


def sessions() -> list[Path]:
    """Sessions like those of the pages, for options that no page needs to show."""
    return sorted((ROOT / "tests" / "docs" / "sessions").glob("*.md"))


def pages() -> list[Path]:
    return [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")] + sorted(
        (ROOT / "docs").rglob("*.md")
    )


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    """Fenced blocks by language and comments by keyword, in the order of the page."""
    fences = [(found.start(3), found[2], found[3]) for found in _FENCE.finditer(text)]
    within = [found.span() for found in _FENCE.finditer(text)]
    notes = [
        (found.start(2), found[1], found[2])
        for found in _COMMENT.finditer(text)
        if not any(start <= found.start() < end for start, end in within)
    ]
    return [Block(kind, body, text.count("\n", 0, at) + 1) for at, kind, body in sorted(fences + notes)]


def exchanges(block: Block) -> list[Exchange]:
    """A console block, command by command. Lines that begin with `> ` go on with the command above."""
    found: list[Exchange] = []
    for offset, line in enumerate(block.text.splitlines()):
        last = found[-1] if found else None
        if line.startswith(PROMPT):
            found.append(Exchange(line.removeprefix(PROMPT), (), block.line + offset))
        elif last is None:
            raise ValueError(f"line {block.line + offset}: a console block starts with '{PROMPT}'")
        elif line.startswith(MORE) and not last.answer:
            found[-1] = last._replace(command=f"{last.command}\n{line.removeprefix(MORE)}")
        else:
            found[-1] = last._replace(answer=(*last.answer, line))
    return found
