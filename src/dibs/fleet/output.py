"""Output of a worker's command: secrets in it masked, and kept by the store while the command runs."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, StoreError, StoreReplaced
from dibs.core.output import TAIL
from dibs.fleet.supervisor.protocol import clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dibs.desk import Desk

SHORTEST = 6  # characters of a secret: shorter values are ordinary words too often
MARK = b"***"

_NAMES = re.compile(r"(?:(?:^|_)KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)$", re.IGNORECASE)
_IN_URL = re.compile(r"://[^/\s:@]*:([^/\s@]+)@")
_TRY_AGAIN = 5.0  # seconds until a store that gave no answer is asked again


def secrets_in(variables: Mapping[str, str]) -> Iterator[str]:
    """The values of variables such as GITHUB_TOKEN or API_KEY, and the passwords in URLs such as DIBS_STORE."""
    for name, value in variables.items():
        if _NAMES.search(name):
            yield value
        else:
            yield from _IN_URL.findall(value)


class Mask:
    """Masks secrets in a stream of bytes. The possible beginning of a secret is held until more bytes arrive.

    A secret of several lines is masked line by line.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        texts = {form.strip() for secret in secrets for line in secret.splitlines() for form in (line, _quoted(line))}
        known = {text.encode(errors="surrogateescape") for text in texts if len(text) >= SHORTEST}
        self._secrets = sorted(known, key=lambda secret: (-len(secret), secret))
        self._longest = len(self._secrets[0]) if self._secrets else 0
        self._pattern = re.compile(b"|".join(map(re.escape, self._secrets)) or rb"(?!)")
        self._held = b""
        self._unsure = 0  # bytes to drop after a gap, as they may be the end of a secret
        self.left_out = 0  # the number of those in the latest piece

    def whole(self, text: str) -> str:
        """Mask a complete text."""
        raw = text.encode(errors="surrogateescape")
        return self._pattern.sub(MARK, raw).decode(errors="replace")

    def feed(self, piece: bytes) -> bytes:
        """The output that is certainly free of secrets."""
        self.left_out = min(self._unsure, len(piece))
        self._unsure -= self.left_out
        raw = self._held + piece[self.left_out :]
        open_from = self._open_from(raw)
        shown, at = bytearray(), 0
        for found in self._pattern.finditer(raw):
            if found.start() >= open_from:
                break
            shown += raw[at : found.start()] + MARK
            at = found.end()
        end = max(at, open_from)
        self._held = raw[end:]
        return bytes(shown + raw[at:end])

    def gap(self) -> bytes:
        """Drop the held bytes, and the following ones that may end a secret."""
        shown = self.finish()
        self._unsure = max(0, self._longest - 1)
        return shown

    def finish(self) -> bytes:
        """Return the held bytes. A long beginning of a secret is masked like a whole one."""
        held, self._held = self._held, b""
        return held if len(held) < SHORTEST else MARK

    def _open_from(self, raw: bytes) -> int:
        """The position of an incomplete secret at the end."""
        for length in range(min(self._longest - 1, len(raw)), 0, -1):
            tail = raw[-length:]
            if any(secret.startswith(tail) and len(secret) > length for secret in self._secrets):
                return len(raw) - length
        return len(raw)


def _quoted(text: str) -> str:
    """The value as a JSON string contains it."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class OutputRecorder:
    """Appends a command's output to its attempt. Errors of the store never stop the command.

    While the store does not answer, the latest output waits in memory, and older output is dropped.
    """

    def __init__(self, desk: Desk, task: str, token: str, mask: Mask, trouble: Callable[[str], None]) -> None:
        self._desk = desk
        self._task = task
        self._token = token
        self._mask = mask
        self._trouble = trouble
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._start = 0
        self._waiting = ""
        self._again_at = 0.0
        self._open = True
        self._troubled = False

    def add(self, skipped: int, piece: bytes) -> None:
        """Add output, after a number of dropped bytes."""
        if skipped:
            self._take(self._mask.gap(), final=True)
            self._append()
            self._start += len(self._waiting.encode()) + skipped
            self._waiting = ""
        shown = self._mask.feed(piece)
        if self._mask.left_out:  # they follow a gap, so no output waits
            self._start += self._mask.left_out
        self._take(shown)
        if clock() >= self._again_at:
            self._append()

    def flush(self) -> None:
        """Append the rest after the command has ended."""
        self._take(self._mask.finish(), final=True)
        self._append()

    def _take(self, shown: bytes, *, final: bool = False) -> None:
        self._waiting += self._decoder.decode(shown, final).replace("\0", "")
        if len(self._waiting) > TAIL:
            dropped = self._waiting[:-TAIL]
            self._start += len(dropped.encode())
            self._waiting = self._waiting[-TAIL:]

    def _append(self) -> None:
        if not self._waiting or not self._open:
            return
        try:
            self._start = self._desk.append_output(self._task, self._token, self._start, self._waiting)
            self._waiting, self._troubled = "", False
        except StoreReplaced:
            self._open = False  # the next renewal reports it
        except StoreError as error:
            self._again_at = clock() + _TRY_AGAIN
            if not self._troubled:
                self._trouble(f"its output cannot be kept now: {error.message}")
            self._troubled = True
        except DibsError:
            self._open = False  # another attempt has the task, or it is gone
