"""Spans of time as people write them: `20m`, `1h30m`, `90s`, `2d`; a bare number is seconds."""

from __future__ import annotations

from datetime import timedelta

from dibs.core.errors import InvalidInput

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LONGEST = 36_500 * 86_400  # a century: far enough, and within what a date can be moved by
_PART = r"(\d+(?:\.\d+)?)([wdhms]?)"
_WHOLE = r"(?:\d+(?:\.\d+)?[wdhms])+|\d+(?:\.\d+)?"


def parse_duration(text: str) -> timedelta:
    """Read a span; refuse anything else, negative and absurdly long ones included."""
    import re

    if not re.fullmatch(_WHOLE, text):
        raise InvalidInput(f"'{text[:40]}' is not a span of time; write it like 45s, 20m, 1h30m or 2d.")
    seconds = sum(float(number) * _UNITS[unit or "s"] for number, unit in re.findall(_PART, text))
    if seconds > _LONGEST:
        raise InvalidInput(f"'{text[:20]}' is longer than anyone will wait.")
    return timedelta(seconds=seconds)


def in_words(span: timedelta) -> str:
    """The largest two units, `1h 5m`; below a second in milliseconds."""
    seconds = int(span.total_seconds())
    if seconds < 1:
        return f"{max(0, span // timedelta(milliseconds=1))}ms"
    parts = []
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return " ".join(parts[:2])
