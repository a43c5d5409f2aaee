"""A progress bar on stderr, when a person watches and there is enough to do."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.desk import quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_WORTH_WATCHING = 500


@contextmanager
def watched(label: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much got done."""
    if not sys.stderr.isatty() or (total is not None and total < _WORTH_WATCHING):
        yield quiet
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.advance(task, done)
