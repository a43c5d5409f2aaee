"""How far a reader of events has come.

Where many write at once, an event's number may be given before another's and be seen after it. So a place is the
highest number seen and, below it, the numbers that have not turned up: `10~9` has seen all up to 10 but 9. Some never
turn up, because whoever was given them gave up.
"""

import re
from typing import NamedTuple, Self

from dibs.core.errors import InvalidInput

_TEXT = re.compile(r"(\d{1,18})(?:~(\d{1,18}(?:-\d{1,18})?(?:,\d{1,18}(?:-\d{1,18})?)*))?", re.ASCII)
_MOST = 200  # ranges


class Cursor(NamedTuple):
    """`missing` are ranges, both ends included, in their order."""

    high: int = 0
    missing: tuple[tuple[int, int], ...] = ()

    def covers(self, seq: int) -> bool:
        """Whether it was seen."""
        return seq <= self.high and not any(low <= seq <= top for low, top in self.missing)

    def past(self, seq: int) -> Self:
        """The same, having seen this one."""
        if seq == self.high + 1:
            return self._replace(high=seq)
        if seq > self.high:
            return self._replace(high=seq, missing=(*self.missing, (self.high + 1, seq - 1)))
        parts = (part for gap in self.missing for part in _without(gap, seq))
        return self._replace(missing=tuple(parts))

    def only(self, missing: "tuple[tuple[int, int], ...]") -> Self:
        return self._replace(missing=missing)

    def up_to(self, seq: int) -> Self:
        """The place at this number, as far as this one knows what is missing below it."""
        return type(self)(seq, tuple((low, min(top, seq)) for low, top in self.missing if low <= seq))

    def __str__(self) -> str:
        if not self.missing:
            return str(self.high)
        ranges = (str(low) if low == top else f"{low}-{top}" for low, top in self.missing[-_MOST:])
        return f"{self.high}~{','.join(ranges)}"


def _without(gap: tuple[int, int], seq: int) -> list[tuple[int, int]]:
    low, top = gap
    if not low <= seq <= top:
        return [gap]
    return [part for part in ((low, seq - 1), (seq + 1, top)) if part[0] <= part[1]]


def cursor_from(text: str) -> Cursor:
    found = _TEXT.fullmatch(text.strip())
    if found is None:
        raise InvalidInput("after: give back the cursor, or the id of the last event, as it was.")
    high = int(found[1])
    ranges = []
    for part in (found[2] or "").split(",") if found[2] else ():
        low, _, top = part.partition("-")
        ranges.append((int(low), int(top or low)))
    rising = all(low <= top < high for low, top in ranges) and ranges == sorted(ranges)
    if not rising or len(ranges) > _MOST:
        raise InvalidInput("after: give back the cursor, or the id of the last event, as it was.")
    return Cursor(high, tuple(ranges))
