"""Convert property values between Notion's form and plain values, by property type."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeAlias

from dibs.core.errors import InvalidInput
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# Texts, numbers, option names, times, ids of related pages.
Plain: TypeAlias = "str | float | bool | datetime | tuple[str, ...] | None"

PIECE_MAX = 2000  # characters in one item of a text property
PIECES_MAX = 100
_MINUTE = timedelta(minutes=1)
_MOST = 1e15  # larger numbers are not exact

# People write 9999-12-31 for "never". Lease arithmetic on such times must not overflow.
_EARLIEST, _LATEST = datetime(1900, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)


class Unreadable(ValueError):
    """A value is present but invalid, such as a malformed date."""


def decode(value: Mapping[str, Any]) -> Plain:
    """Return a property's value; None if it is empty or of an unsupported type."""
    kind = value.get("type")
    read = _DECODERS.get(str(kind))
    return None if read is None or kind is None else read(value.get(kind))


def encode(kind: str, value: Plain) -> dict[str, Any]:
    """Return the value to send for a property of this type; an empty value clears it."""
    return {kind: _ENCODERS[kind](value)}


def text_of(pieces: Any) -> str:
    if not isinstance(pieces, list):
        return ""
    return "".join(_piece(piece) for piece in pieces if isinstance(piece, dict))


def _piece(piece: Mapping[str, Any]) -> str:
    plain = piece.get("plain_text")
    if isinstance(plain, str):
        return plain
    text = piece.get("text")
    return str(text.get("content", "")) if isinstance(text, dict) else ""


def pieces_of(text: str) -> list[dict[str, Any]]:
    """Split a text into items: Notion rejects one above 2,000 characters."""
    cut = [{"type": "text", "text": {"content": piece}} for piece in _cut(text)]
    if len(cut) > PIECES_MAX:
        raise InvalidInput(f"A text of {len(text)} characters is too long for a property of Notion.")
    return cut


def _cut(text: str) -> list[str]:
    """Cut a text by Notion's count, in UTF-16 units as in JavaScript."""
    pieces, start, room = [], 0, PIECE_MAX
    for place, character in enumerate(text):
        width = 2 if ord(character) > 0xFFFF else 1  # noqa: PLR2004 - the end of the basic plane
        if width > room:
            pieces.append(text[start:place])
            start, room = place, PIECE_MAX
        room -= width
    return [*pieces, text[start:]] if text else []


def moment_of(text: object) -> datetime:
    """Parse a time, with fractions and offsets, or a date."""
    if not isinstance(text, str):
        raise Unreadable(str(text)[:40])
    try:
        return min(max(time_from(text.strip()), _EARLIEST), _LATEST)
    except InvalidInput:
        raise Unreadable(text[:40]) from None


def ceil_minute(moment: datetime) -> datetime:
    """Round up to a full minute, so that Notion never cuts a lease short."""
    whole = moment.astimezone(UTC).replace(second=0, microsecond=0)
    return whole if whole == moment else whole + _MINUTE


def _option(value: Any) -> str | None:
    return str(value["name"]) if isinstance(value, dict) and value.get("name") is not None else None


def _date(value: Any) -> datetime | None:
    return None if not isinstance(value, dict) or not value.get("start") else moment_of(value["start"])


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MOST < value < _MOST:
        return None
    return value


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _names(value: Any) -> tuple[str, ...]:
    return tuple(str(option.get("name")) for option in _listing(value) if isinstance(option, dict))


def _ids(value: Any) -> tuple[str, ...]:
    return tuple(str(page["id"]) for page in _listing(value) if isinstance(page, dict) and page.get("id"))


def _listing(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _numbered(value: Any) -> str | None:
    if not isinstance(value, dict) or value.get("number") is None:
        return None
    return f"{value['prefix']}-{value['number']}" if value.get("prefix") else str(value["number"])


def _outcome(value: Any) -> Plain:
    """Decode a formula's result, a value with its own type, which is never computed again."""
    if not isinstance(value, dict) or str(value.get("type")) in {"formula", "rollup"}:
        return None
    return decode(value)


def _gathered(value: Any) -> Plain:
    """Decode a rollup's result, or the joined texts of several."""
    if not isinstance(value, dict) or value.get("type") != "array":
        return _outcome(value)
    values = [each for each in _listing(value.get("array")) if isinstance(each, dict)]
    return tuple(str(decode(each)) for each in values if each.get("type") != "rollup")


_DECODERS: Mapping[str, Callable[[Any], Plain]] = {
    "title": text_of,
    "rich_text": text_of,
    "number": _number,
    "select": _option,
    "status": _option,
    "multi_select": _names,
    "people": _names,
    "date": _date,
    "checkbox": bool,
    "url": _text,
    "string": _text,
    "boolean": bool,
    "relation": _ids,
    "rollup": _gathered,
    "formula": _outcome,
    "unique_id": _numbered,
    "created_time": lambda value: moment_of(value) if value else None,
    "last_edited_time": lambda value: moment_of(value) if value else None,
}


def _written_text(value: Plain) -> list[dict[str, Any]]:
    return pieces_of(_said(value))


def _said(value: Plain) -> str:
    if isinstance(value, tuple):
        return "\n".join(value)
    if isinstance(value, datetime):
        return time_text(value)
    return "" if value is None else str(value)


def option_name(name: str) -> str:
    """Return an option's name without commas, which Notion does not allow."""
    return name.replace(",", " ")


def _chosen(value: Plain) -> dict[str, str] | None:
    name = option_name(_said(value))
    return {"name": name} if name else None


def _written_date(value: Plain) -> dict[str, str] | None:
    return {"start": time_text(value)} if isinstance(value, datetime) else None


def _listed(value: Plain) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (_said(value),) if value else ()


_ENCODERS: Mapping[str, Callable[[Plain], Any]] = {
    "title": _written_text,
    "rich_text": _written_text,
    "number": lambda value: value,
    "select": _chosen,
    "status": _chosen,
    "multi_select": lambda value: [{"name": option_name(name)} for name in _listed(value)],
    "date": _written_date,
    "checkbox": bool,
    "url": lambda value: _said(value) or None,
    "relation": lambda value: [{"id": page} for page in _listed(value)],
}
