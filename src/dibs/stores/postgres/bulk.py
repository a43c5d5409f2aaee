"""Many values at once, in the forms that PostgreSQL reads fastest: array literals, and the text that COPY takes."""

from __future__ import annotations

from datetime import datetime
from types import NoneType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"})


def array(values: Iterable[object]) -> str:
    """`{1,2,NULL}`: parsed in one go, where `ARRAY[1, 2, NULL]` would be an expression per value."""
    return "{" + ",".join(["NULL" if value is None else _element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return str(value)


def copy_line(values: Iterable[object]) -> str:
    """A row as a line of COPY's text."""
    return "\t".join([_FIELDS[type(value)](value) for value in values]) + "\n"


def copy_field(value: str | None) -> str:
    """One text of such a line."""
    if value is None:
        return "\\N"
    return value.translate(_ESCAPES) if not value.isprintable() or "\\" in value else value


def _copy_list(value: list[object]) -> str:
    return array(value).translate(_ESCAPES) if value else "{}"


# By exact type, as this runs for every column of every row.
_FIELDS: dict[type, Callable[[Any], str]] = {
    NoneType: copy_field,
    str: copy_field,
    int: str,
    bool: str,
    float: repr,
    datetime: datetime.isoformat,
    list: _copy_list,
}


class Lines:
    """Lines as a file that can only be read: what COPY wants. `going_on` is called whenever more of it is."""

    def __init__(self, lines: Iterable[str], going_on: Callable[[], None]) -> None:
        self._lines: Iterator[str] = iter(lines)
        self._going_on = going_on
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        self._going_on()
        parts = [self._rest]
        length = len(self._rest)
        for line in self._lines:
            parts.append(line.encode())
            length += len(parts[-1])
            if 0 <= size <= length:
                break
        whole = b"".join(parts)
        self._rest = whole[size:] if size >= 0 else b""
        return whole[:size] if size >= 0 else whole

    def readline(self, size: int = -1) -> bytes:
        """For the driver's idea of a file; COPY does not ask for it."""
        return self.read(size)
