"""The end of what a command says, however much that is."""

from __future__ import annotations

_CONTINUES = range(0x80, 0xC0)  # bytes that are not the first of a character


class Tail:
    """Keeps the last `most` bytes, and counts all."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept = bytearray()
        self._seen = 0

    def add(self, piece: bytes) -> None:
        self._seen += len(piece)
        self._kept += piece
        if len(self._kept) > 2 * self._most:
            del self._kept[: -self._most]

    @property
    def dropped(self) -> int:
        """How many bytes came before those that are kept."""
        return self._seen - len(self._last())

    def text(self) -> str:
        """What is kept, as text; bytes that are none are replaced, and the one that no store can hold is left out."""
        return self._last().decode(errors="replace").replace("\0", "")

    def _last(self) -> bytes:
        kept = bytes(self._kept[-self._most :])
        if len(kept) == self._seen:
            return kept
        cut = next((at for at, byte in enumerate(kept[:4]) if byte not in _CONTINUES), 0)
        return kept[cut:]  # not from the middle of a character on
