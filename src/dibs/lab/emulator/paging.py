"""Lists in pieces of up to a hundred, with cursors that tell nothing."""

import base64
import threading
from collections import OrderedDict
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple

from dibs.lab.emulator.errors import invalid, should

PIECE = 100
_REMEMBERED = 512


class Found(NamedTuple):
    """All that a request found; `cut` where there was more than one query may have."""

    place: str
    items: list[Any]
    cut: bool = False


class Piece(NamedTuple):
    """What one answer gives of it; `cut` is told with the last."""

    items: list[Any]
    next_cursor: str | None
    cut: bool = False


class Cursors:
    """What was found is remembered under a secret name; a cursor is that name and how far the client has read."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._lock = threading.Lock()
        self._found: OrderedDict[str, Found] = OrderedDict()

    def first(self, found: Found, size: int) -> Piece:
        if len(found.items) <= size:
            return Piece(found.items, None, found.cut)
        with self._lock:
            name = f"{self._rng.getrandbits(96):024x}"
            self._found[name] = found
            while len(self._found) > _REMEMBERED:
                self._found.popitem(last=False)
        return Piece(found.items[:size], _cursor(name, size))

    def resume(self, place: str, cursor: str, size: int) -> Piece:
        name, start = _read(cursor)
        with self._lock:
            found = self._found.get(name)
        if found is None or found.place != place:
            raise invalid(f"The start_cursor provided is invalid: {cursor}")
        end = start + size
        more = end < len(found.items)
        return Piece(found.items[start:end], _cursor(name, end) if more else None, found.cut and not more)


def page_size(said: Mapping[str, Any], part: str) -> int:
    size = said.get("page_size", PIECE)
    if isinstance(size, str) and size.isdecimal():
        size = int(size)
    if isinstance(size, bool) or not isinstance(size, int):
        raise should(f"{part}.page_size", "a number", size)
    if size < 1:
        raise should(f"{part}.page_size", "≥ `1`", size)
    if size > PIECE:
        raise should(f"{part}.page_size", f"≤ `{PIECE}`", size)
    return size


def start_cursor(said: Mapping[str, Any], part: str) -> str | None:
    cursor = said.get("start_cursor")
    if cursor is not None and not isinstance(cursor, str):
        raise should(f"{part}.start_cursor", "a string or `undefined`", cursor)
    return cursor


def _cursor(name: str, start: int) -> str:
    return base64.urlsafe_b64encode(f"{name}.{start}".encode()).decode().rstrip("=")


def _read(cursor: str) -> tuple[str, int]:
    try:
        name, _, start = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode().partition(".")
        return name, int(start)
    except ValueError:
        raise invalid(f"The start_cursor provided is invalid: {cursor}") from None
