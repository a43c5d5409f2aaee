"""The block of `key: value` lines at the top of a Markdown file, changed line by line.

It is YAML to whoever else reads it. We never write it out as a whole: a key of ours is put in, replaced or taken out,
and every other line, comment and space stays as a person wrote it. What we write is YAML that is JSON at the same time;
what we read is whatever YAML a person, or their editor, made of it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from dibs.core.errors import PlanInvalid

if TYPE_CHECKING:
    from dibs.core.task import Json

_FENCE = "---"
_KEY = re.compile(r"""([A-Za-z_][\w .-]*|"[^"]*"|'[^']*')\s*:(?=\s|$)""", re.ASCII)
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,300})(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: dict[str, Json] = {"": None, "~": None, "null": None, "true": True, "false": False}
_ITEM = re.compile(r"\s*-\s+(.*)")

# Text that means itself to every reader of YAML: words, times, digests.
_PLAIN = re.compile(r"[A-Za-z][\w./@+-]*(?: [\w./@+-]+)*|\d{4}-\d\d-\d\dT[\d:.]+Z|sha256:[0-9a-f]+", re.ASCII)
_SPOKEN_FOR = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n", "inf", "nan"})


class FrontMatter:
    """The lines of one block, each under its key; comments and blank lines stand under none."""

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
        if key is not None and key not in self._where:  # said twice: the first counts, the other is left alone
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
        """What a key says; None if it is not there, or says nothing."""
        place = self._where.get(key)
        if place is None:
            return None
        if key not in self._values:
            self._values[key] = decoded(self._chunks[place])
        return self._values[key]

    def put(self, key: str, value: Json) -> None:
        """Say this under the key. Leaves the line alone if it says so already, in whatever words."""
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
    """What opens the block (with a byte order mark, if there is one), its lines, what closes it, and what follows.

    The block is None where there is none. ValueError means that one is opened but never closed.
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


def joined(opening: str, front: FrontMatter, closing: str, body: str) -> str:
    """The text of these parts; without what closes it, the block gets fences of its own."""
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
    """What the lines of a key say. Text that is no YAML at all is taken as it stands."""
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
    """The rare rest, at the price of a real parser."""
    from dibs.core.yaml_reading import read_yaml

    try:
        root = read_yaml(chunk)
    except PlanInvalid:
        return raw
    plain = None if root is None else root.plain()
    return next(iter(plain.values())) if isinstance(plain, dict) else raw


def _same(one: Json, other: Json) -> bool:
    """Equal also as JSON, where 1, 1.0 and true are three things."""
    if one != other or isinstance(one, str | None):
        return one == other
    return type(one) is type(other) and json.dumps(one) == json.dumps(other)


def _lines(text: str) -> list[str]:
    return [f"{line}\n" for line in text.split("\n")[:-1]]
