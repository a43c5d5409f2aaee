"""Reading and writing what the user points at."""

from __future__ import annotations

import sys

from dibs.core.errors import InvalidInput, StoreUnavailable

MOST_BYTES = 2 << 30


def read_text(name: str) -> str:
    """A whole file, or stdin for '-', as UTF-8."""
    try:
        if name == "-":
            raw = sys.stdin.buffer.read(MOST_BYTES)
        else:
            with open(name, "rb") as file:
                raw = file.read(MOST_BYTES)
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"Cannot read {name}: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not UTF-8 (byte {error.start}).") from None


def write_text(name: str, text: str) -> None:
    try:
        with open(name, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as error:
        raise StoreUnavailable(f"Cannot write {name}: {error.strerror}.") from None
