"""Input and output of a console script: stdout and stderr, JSON documents, tables, files, a progress bar."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

from dibs.core.errors import InvalidInput, StoreUnavailable

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dibs.core.task import Json


SCHEMA_VERSION = 1  # of the documents that --json prints

# A large plan is a million objects, all needed to its end: looking for garbage among them took a quarter of the time.
OBJECTS = 1_000_000


def leave(program: str, main: Callable[[], int], failed: int) -> NoReturn:
    """Run a program to its end, without tearing the interpreter down, which would take a tenth of a cold claim."""
    _make_streams_safe()
    gc.set_threshold(OBJECTS)
    try:
        status = main()
        sys.stdout.flush()
        sys.stderr.flush()
    except BrokenPipeError:
        status = 141  # the reader closed the pipe
    except OSError as error:
        # All other I/O errors are ours by now: this one is about stdout.
        status = failed
        with suppress(OSError):
            complain(program, f"cannot write the output: {error.strerror}. The command may have succeeded.")
            sys.stderr.flush()
    os._exit(status)


def _make_streams_safe() -> None:
    """A closed stream swallows what is written to it; one that lacks a character gets it escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - for the life of the process
        elif isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def pushed() -> None:
    """Flush stdout; raises OSError if that fails."""
    sys.stdout.flush()


def complain(program: str, message: str) -> None:
    """A line on stderr, after all that was printed before it."""
    with suppress(OSError):  # an error of stdout is reported at the end
        sys.stdout.flush()
    print(f"{program}: {printable(message)}", file=sys.stderr)


def printable(text: str) -> str:
    """Escape control characters: a message may quote another user's text."""
    if text.isprintable():
        return text
    from dibs.draw.picture import showable

    return showable(text.replace("\n", " "))


def emit(args: argparse.Namespace, data: Callable[[], Json], text: Callable[[], Iterable[str]]) -> int:
    """Print one JSON document or lines for a person; only the requested one is built."""
    if args.json:
        print(json_document(data()))
    else:
        for line in text():
            print(line)
    return 0


def json_document(data: Json) -> str:
    return compact_json({"schema_version": SCHEMA_VERSION, "data": data})


def compact_json(document: Json) -> str:
    import json

    return json.dumps(document, ensure_ascii=not speaks_utf8(), separators=(",", ":"))


def speaks_utf8() -> bool:
    """Where stdout cannot show all characters, JSON has its own way to write them."""
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"


MOST_BYTES = 2 << 30


def read_text(name: str) -> str:
    """A whole file, or stdin for '-', as UTF-8."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES)
        else:
            with open(name, "rb") as file:
                raw = file.read(MOST_BYTES)
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"Cannot read {name}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InvalidInput(
            f"{name} is not UTF-8 (line {line}, byte {error.start}). Convert it, then try again."
        ) from None


def write_text(name: str, text: str) -> None:
    try:
        with open(name, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise StoreUnavailable(f"Cannot write {name}: {error.strerror}.") from None


_WORTH_WATCHING = 500


@contextmanager
def watched(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much got done."""
    if not sys.stderr.isatty() or (total is not None and total < _WORTH_WATCHING):
        from dibs.desk import quiet

        yield quiet
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)


# Columns for a person. Colour only where a terminal shows it and NO_COLOR does not forbid it.

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
