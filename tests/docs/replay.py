"""A page, run from top to bottom: each block where the page has it, each answer beside what the page promises."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from docs.matching import ANYTHING, Matcher
from docs.pages import Exchange, blocks, exchanges
from docs.shell import Shell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from docs.pages import Block


class Answered(NamedTuple):
    """A command of the page, its real output, and whether the page agrees."""

    exchange: Exchange
    typed: str
    answer: tuple[str, ...]
    fits: bool


def replay(text: str, folder: Path) -> Iterator[Answered]:
    """Run a page's blocks in projects below `folder`. Set-up and programs must succeed; commands answer."""
    numbers = iter(range(1000))
    matcher = Matcher()
    found = blocks(text)
    while found:
        with _project(folder / f"project{next(numbers)}") as (project, shell):
            while found:
                block = found.pop(0)
                yield from _play(block, found, project, shell, matcher)
                if found and found[0].kind == "new project":
                    found.pop(0)
                    break


@contextmanager
def _project(folder: Path) -> Iterator[tuple[Path, Shell]]:
    folder.mkdir()
    with Shell(folder) as shell:
        yield folder, shell


def _play(block: Block, rest: list[Block], project: Path, shell: Shell, matcher: Matcher) -> Iterator[Answered]:
    match block.kind:
        case "file":
            (project / block.text).write_text(rest.pop(0).text, encoding="utf-8")
        case "setup":
            for number, command in enumerate(block.text.splitlines()):
                _must(shell, command, block.line + number)
        case "python":
            program = project.parent / f"{project.name}-line{block.line}.py"
            program.write_text(block.text, encoding="utf-8")
            _must(shell, f"python {program}", block.line)
        case "console":
            for exchange in exchanges(block):
                typed = matcher.typed(exchange.command)
                promised = [line for line in exchange.answer if line.strip(f" {ANYTHING}")]
                answer, _ = shell.run(typed, lines=len(promised))
                yield Answered(exchange, typed, tuple(answer), matcher.matches(_trimmed(exchange.answer), answer))


def _must(shell: Shell, command: str, line: int) -> None:
    answer, status = shell.run(command)
    assert status == 0, f"line {line}: {command} ended with {status}:\n" + "\n".join(answer)


def _trimmed(answer: tuple[str, ...]) -> tuple[str, ...]:
    while answer and not answer[-1].strip():
        answer = answer[:-1]
    return answer
