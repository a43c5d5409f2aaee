"""What a console script does with its streams: whatever happens to them, it ends with a status and no traceback."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

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
        status = 141  # whoever read our output has seen enough
    except OSError as error:
        # All other I/O errors are ours by now: this one is about stdout.
        status = failed
        with suppress(OSError):
            complain(program, f"cannot write the output: {error.strerror}. What was asked for may have been done.")
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
    """What was printed has left this process, or OSError says why not."""
    sys.stdout.flush()


def complain(program: str, message: str) -> None:
    """A line on stderr, after all that was printed before it."""
    with suppress(OSError):  # what keeps stdout from being written is told at the end
        sys.stdout.flush()
    print(f"{program}: {printable(message)}", file=sys.stderr)


def printable(text: str) -> str:
    """A message may quote what others wrote: nothing in it may move the cursor, change colours or turn lines around."""
    if text.isprintable():
        return text
    from dibs.core.draw.wording import showable

    return showable(text.replace("\n", " "))


def emit(args: argparse.Namespace, data: Callable[[], Json], text: Callable[[], Iterable[str]]) -> int:
    """Print as asked for: one JSON document, or lines for a person. Only the one that is wanted gets made."""
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
