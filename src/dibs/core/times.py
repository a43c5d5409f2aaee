"""Times and durations as text, and how long a failed task waits for its retry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from dibs.core.errors import InvalidInput

_UNITS = {"w": 604_800, "d": 86_400, "h": 3_600, "m": 60, "s": 1}
_LONGEST_SPAN = 36_500 * 86_400  # a century: within what a date can be moved by
_PART = r"(\d+(?:\.\d+)?)([wdhms]?)"
_WHOLE = r"(?:\d+(?:\.\d+)?[wdhms])+|\d+(?:\.\d+)?"
_FIRST_BACKOFF = timedelta(seconds=10)
_LONGEST_BACKOFF = timedelta(hours=1)
_DOUBLINGS = 16  # enough for a first second to exceed the hour


def time_text(moment: datetime) -> str:
    """ISO 8601 in UTC, `2026-01-31T12:00:00Z`, with a fraction only where there is one."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def time_from(text: str) -> datetime:
    """Read ISO 8601; a time without a zone is UTC, a date is its midnight."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(f"'{text[:40]}' is not a time; write it like 2026-01-31T12:00:00Z.") from None


def parse_duration(text: str) -> timedelta:
    """Read a span; refuse anything else, negative and absurdly long ones included."""
    import re

    if not re.fullmatch(_WHOLE, text):
        raise InvalidInput(f"'{text[:40]}' is not a span of time; write it like 45s, 20m, 1h30m or 2d.")
    seconds = sum(float(number) * _UNITS[unit or "s"] for number, unit in re.findall(_PART, text))
    if seconds > _LONGEST_SPAN:
        raise InvalidInput(f"'{text[:20]}' is too long.")
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


def backoff(retries: int, first: timedelta = _FIRST_BACKOFF) -> timedelta:
    """Twice as long after each failure as after the one before, up to an hour."""
    doubled: timedelta = first * 2 ** min(retries, _DOUBLINGS)
    return min(doubled, max(first, _LONGEST_BACKOFF))
