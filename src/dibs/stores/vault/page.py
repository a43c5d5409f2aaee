"""A task's page: its front matter, its text, and the notes on attempts below it."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TYPE_CHECKING

from dibs.core.errors import PlanInvalid
from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.stores.vault.places import FOLDER_OF

if TYPE_CHECKING:
    from dibs.core.task import Json, Task

PAGE_PROOF = "claim_page"  # what the task said when it was claimed, as a digest

_FENCE = "---"
_KEY = re.compile(r"""([A-Za-z_][\w .-]*|"[^"]*"|'[^']*')\s*:(?=\s|$)""", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, Json] = {"": None, "~": None, "null": None, "true": True, "false": False}
_ITEM = re.compile(r"\s*-\s+(.*)")

# Text that every YAML reader takes for itself: words, times, digests.
_PLAIN = re.compile(r"[A-Za-z][\w./@+-]*(?: [\w./@+-]+)*|\d{4}-\d\d-\d\dT[\d:.]+Z|sha256:[0-9a-f]+", re.ASCII)
_SPOKEN_FOR = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan"})


class FrontMatter:
    """The lines of a front matter by key. Comments and blank lines have no key."""

    def __init__(self, text: str = "", newline: str = "\n") -> None:
        self.newline = newline
        self._chunks: list[str] = []
        self._where: dict[str, int] = {}  # a key's place among the chunks
        self._values: dict[str, Json] = {}
        self._latest: str | None = None
        for line in text.splitlines(keepends=True) if "\r" in text else _lines(text):
            self._take(line)

    def _take(self, line: str) -> None:
        if line[0] in " \t-" and self._latest is not None:
            self._chunks[self._where[self._latest]] += line
            return
        found = _KEY.match(line)
        key = found.group(1).strip("\"'") if found else None
        self._latest = None
        if key is not None and key not in self._where:  # of a repeated key the first counts
            self._where[key] = len(self._chunks)
            self._latest = key
        self._chunks.append(line)

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __contains__(self, key: str) -> bool:
        return key in self._where

    def names(self) -> list[str]:
        return list(self._where)

    def get(self, key: str) -> Json:
        """The value of a key; None if it is missing or empty."""
        place = self._where.get(key)
        if place is None:
            return None
        if key not in self._values:
            self._values[key] = decoded(self._chunks[place])
        return self._values[key]

    def put(self, key: str, value: Json) -> None:
        """Set a key. A line that already has this value keeps its wording."""
        place = self._where.get(key)
        if place is None:
            self._where[key] = len(self._chunks)
            self._chunks.append(f"{key}: {encoded(value)}{self.newline}")
        elif _same(self.get(key), value):
            return
        else:
            self._chunks[place] = f"{key}: {encoded(value)}{self.newline}"
        self._values[key] = value

    def drop(self, key: str) -> None:
        place = self._where.pop(key, None)
        if place is not None:
            self._chunks[place] = ""
            self._values.pop(key, None)

    def text(self, without: str = "") -> str:
        left_out = self._where.get(without)
        return "".join(chunk for place, chunk in enumerate(self._chunks) if place != left_out)


def split(text: str) -> tuple[str, str | None, str, str]:
    """The opening line (with any byte order mark), the block, the closing line and the body.

    The block is None if there is no front matter. ValueError if it is opened but never closed.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    rest = text[len(mark) :]
    first, newline, after = rest.partition("\n")
    if first.rstrip() != _FENCE or not newline:
        return mark, None, "", rest
    opening, start = f"{mark}{first}\n", 0
    while True:
        end = after.find("\n", start)
        line = after[start:] if end < 0 else after[start:end]
        if line.rstrip() == _FENCE:
            body = after[end + 1 :] if end >= 0 else ""
            return opening, after[:start], after[start : len(after) - len(body)], body
        if end < 0:
            raise ValueError("the front matter is opened by --- but never closed")
        start = end + 1


def said_at_top(top: bytes, key: str) -> Json:
    """The value of a key, from a file's first bytes. ValueError if the front matter is longer than those."""
    if key.encode() not in top:
        if top.find(b"\n---", 4) < 0 and top.startswith((b"---", b"\xef\xbb\xbf---")):
            raise ValueError("the front matter is longer than that")
        return None
    _, block, _, _ = split(top.decode(errors="replace"))
    return FrontMatter(block).get(key) if block else None


def joined(opening: str, front: FrontMatter, closing: str, body: str) -> str:
    """The text of these parts. Adds fences if there was no front matter before."""
    fence = _FENCE + front.newline
    if not closing:
        return f"{opening}{fence}{front.text()}{fence}{body}"
    apart = front.newline if body and not closing.endswith("\n") else ""
    return f"{opening}{front.text()}{closing}{apart}{body}"


def encoded(value: Json) -> str:
    """A value on one line."""
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _SPOKEN_FOR:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if text.isprintable() else json.dumps(value)


def decoded(chunk: str) -> Json:
    """The value of a key's lines. Text that is not YAML is taken literally."""
    said = chunk.partition(":")[2].rstrip()
    raw = said.strip()
    if "\n" not in said:
        return _scalar(raw, chunk)
    items = [_ITEM.fullmatch(line.rstrip()) for line in raw.split("\n")]
    if all(items) and not any(":" in item.group(1) for item in items if item):
        return [_scalar(item.group(1), f"x: {item.group(1)}\n") for item in items if item]
    return _yaml(chunk, raw)


def _scalar(raw: str, chunk: str) -> Json:
    if raw[:1] in ('"', "[", "{"):
        try:
            value, end = json.JSONDecoder().raw_decode(raw)
        except (ValueError, RecursionError):
            return _yaml(chunk, raw)
        rest: Json = value if not raw[end:].strip() or raw[end:].lstrip().startswith("#") else _yaml(chunk, raw)
        return rest
    if raw[:1] in tuple("'|>&*!%@`"):
        return _yaml(chunk, raw)
    plain = "" if raw.startswith("#") else raw.partition(" #")[0].rstrip()
    if plain in _WORDS:
        return _WORDS[plain]
    if _NUMBER.fullmatch(plain):
        number: Json = json.loads(plain)
        return number
    return plain


def _yaml(chunk: str, raw: str) -> Json:
    """Values that need a real YAML parser."""
    from dibs.core.yaml_reading import read_yaml

    try:
        root = read_yaml(chunk)
    except PlanInvalid:
        return raw
    plain = None if root is None else root.plain()
    return next(iter(plain.values())) if isinstance(plain, dict) else raw


def _same(one: Json, other: Json) -> bool:
    """Whether two values are equal as JSON, where 1, 1.0 and true differ."""
    if one != other or isinstance(one, str | None):
        return one == other
    return type(one) is type(other) and json.dumps(one) == json.dumps(other)


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")[:-1]]


# The task is above this line, the record of the work and the agents' notes are below.
MARKER = "<!-- dibs: the task ends here, notes on the work follow -->"


class Page:
    """A file's text in its parts. Unchanged parts keep every byte."""

    def __init__(self, text: str) -> None:
        self._opening, block, self._closing, body = split(text)
        self.newline = "\r\n" if text[: text.find("\n")].endswith("\r") else "\n"
        self._had_front = block is not None
        self.front = FrontMatter(block or "", self.newline)
        self._head, self._marker, self.notes = _split_notes(body)

    @property
    def description(self) -> str:
        """The text between front matter and notes, without the empty line before it and the final line end."""
        text = self._head
        if self._had_front:
            text = text.removeprefix(self.newline)
        return text.removesuffix(self.newline)

    @description.setter
    def description(self, value: str) -> None:
        self._head = f"{self.newline}{value}{self.newline}"
        self._had_front = True

    def give_front(self) -> None:
        """Add an empty front matter if there is none. The text does not change."""
        if not self._had_front:
            self._head = f"{self.newline}{self._head}"
            self._had_front = True

    def add_note(self, note: str) -> None:
        if not self._marker:
            self._marker = f"\n{MARKER}\n"
        self.notes += f"\n{note}" if self.notes else note

    def text(self) -> str:
        body = f"{self._head}{self._marker}{self.notes}"
        if not self._had_front:
            return f"{self._opening}{body}"
        return joined(self._opening, self.front, self._closing, body)

    def heading(self) -> str | None:
        """The first heading of the task's text."""
        for line in self._head.split("\n"):
            if line.startswith("# "):
                return line[2:].strip().rstrip("#").strip() or None
        return None

    def digest(self) -> str:
        """A digest of front matter and text, without the key of the digest and the notes."""
        said = sha256(f"{self.front.text(without=PAGE_PROOF)}\n{self._head}".encode()).hexdigest()[:32]
        return f"sha256:{said}"


def _split_notes(body: str) -> tuple[str, str, str]:
    """Split a body into text, marker and notes. The marker includes the line break before it."""
    start = body.find(MARKER)
    if start < 0 or body[start - 1 : start] not in ("", "\n"):
        return body, "", ""
    end = body.find("\n", start) + 1 or len(body)
    before = 2 if body[:start].endswith("\r\n") else min(1, start)
    return body[: start - before], body[start - before : end], body[end:]


_SUCCESS = frozenset({Status.DONE, Status.REVIEW})


def claim_note(held: Task) -> str:
    lease = held.lease
    if lease is None:
        return ""
    return (
        f"# Claimed Task: {held.id}\n\n"
        f"**Claimed By**: {_line(lease.agent)}\n"
        f"**Claimed At**: {time_text(lease.claimed_at)}\n"
        f"**Status**: processing\n\n"
        "## Progress\n\n"
        "<!-- Agent adds progress notes here -->\n"
    )


def completion_note(before: Task, after: Task) -> str:
    """The note on the end of an attempt; empty if the move ends none."""
    lease = before.lease
    if lease is None or after.lease is not None:
        return ""
    seconds = (after.updated_at - lease.claimed_at).total_seconds()
    reason = f"**Reason**: {_line(after.reason)}\n" if after.reason else ""
    return (
        "## Completion\n\n"
        f"**Completed At**: {time_text(after.updated_at)}\n"
        f"**Duration**: {seconds:g}\n"
        f"**Result**: {'success' if after.status in _SUCCESS else 'failure'}\n"
        f"{reason}"
        f"**Next State**: {FOLDER_OF[after.status]}\n"
    )


def _line(text: str) -> str:
    return " ".join(text.split())
