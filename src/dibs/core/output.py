"""What the attempts at a task print: how much of it a store keeps, and in which pieces.

Places are counted in bytes of UTF-8, from the first byte that the attempt printed. Of long output a store keeps the
head and the tail; a gap between two pieces says how much was dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import LostLock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from dibs.core.task import Json, Task

HEAD = 64 << 10  # bytes kept from the beginning of an attempt's output
TAIL = 192 << 10  # bytes kept from its end
PIECE = 16 << 10  # bytes of a piece at most; a store drops whole pieces
ATTEMPTS = 5  # how many attempts at a task keep their output, the latest

_CONTINUES = range(0x80, 0xC0)  # bytes that are not the first of a character


class OutputPiece(NamedTuple):
    """A part of the output as one text, and the place of its first byte."""

    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start + len(self.text.encode())


class OutputPage(NamedTuple):
    """The pieces of an attempt's output from a place on. `end` is where to go on reading.

    `over`: the attempt has ended, so little or nothing will follow. `attempts` are those whose output is kept.
    """

    attempt: int
    pieces: tuple[OutputPiece, ...]
    end: int
    over: bool
    attempts: tuple[int, ...] = ()


def pieces(start: int, text: str, known: int) -> Iterator[OutputPiece]:
    """Cut a text that begins at `start` into pieces. Text before `known` is skipped: it is stored already."""
    raw = text.encode()[max(0, known - start) :]
    at = max(start, known)
    while raw:
        length = _whole(raw, PIECE)
        yield OutputPiece(at, raw[:length].decode(errors="replace"))
        at, raw = at + length, raw[length:]


def _whole(raw: bytes, most: int) -> int:
    """How many bytes to take so that no character is split."""
    length = min(len(raw), most)
    while length < len(raw) and raw[length] in _CONTINUES:
        length -= 1
    return length


def page(
    task: Task, attempt: int, kept: Iterable[OutputPiece], after: int, attempts: Iterable[int], now: datetime
) -> OutputPage:
    found = tuple(kept)
    over = attempt != task.attempt or not task.held(now)
    return OutputPage(attempt, found, max((piece.end for piece in found), default=after), over, tuple(attempts))


def refuse_other_attempt(task: Task, token: str) -> None:
    """Raise LostLock unless the token is that of the task's latest attempt, which may have ended."""
    latest = task.spent_token if task.lease is None else task.lease.token
    if token != latest:
        raise LostLock(f"{task.id} is in a later attempt, so output of yours is no longer stored.")


def page_json(page: OutputPage) -> dict[str, Json]:
    return {
        "attempt": page.attempt,
        "pieces": [piece._asdict() for piece in page.pieces],
        "end": page.end,
        "over": page.over,
        "attempts": list(page.attempts),
    }
