"""Points in time as text."""

from __future__ import annotations

from datetime import UTC, datetime

from dibs.core.errors import InvalidInput


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
