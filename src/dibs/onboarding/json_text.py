"""JSON as its owner wrote it: entries of ours go in and come out again, and every other byte stays."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple, TypeAlias

from dibs.core.errors import InvalidInput
from dibs.core.task import Json
from dibs.onboarding.products import Entry

Path: TypeAlias = tuple[str, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][-+]?\d+)?")
_BOM = "\ufeff"


class Node(NamedTuple):
    """A value and its place: `parts` are an object's members by key or an array's items by number."""

    start: int
    end: int
    value: Json
    parts: "tuple[Part, ...]" = ()


class Part(NamedTuple):
    """A member or an item: where it begins (a member with its key), and its value."""

    key: str | int
    start: int
    node: Node


def parse(text: str, name: str) -> Node:
    """What the text says and where; InvalidInput names the place where it is broken. `name` is the file's."""
    return _Reader(text, name).document()


def value_at(root: Node, path: Path) -> Json:
    value = root.value
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def blank(text: str) -> bool:
    """Nothing but space: a file that was made, and not written yet."""
    return not text.removeprefix(_BOM).strip()


def empty_at(text: str, name: str, path: Path) -> bool:
    """Whether there is nothing inside the object or array that the path leads to, not even a comment."""
    node, deep = _nearest(parse(text, name), path)
    return deep == len(path) and not text[node.start + 1 : node.end - 1].strip()


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self._text, self._name = text, name
        self._at = len(_BOM) if text.startswith(_BOM) else 0

    def document(self) -> Node:
        try:
            root = self._value()
        except RecursionError:
            raise self._error("nested too deeply") from None
        self._blank()
        if self._at < len(self._text):
            raise self._error("expected the end")
        return root

    def _value(self) -> Node:
        self._blank()
        start, first = self._at, self._text[self._at : self._at + 1]
        if first == "{":
            parts = tuple(self._parts("}", self._member))
            return Node(start, self._at, {str(part.key): part.node.value for part in parts}, parts)
        if first == "[":
            parts = tuple(self._parts("]", self._item))
            return Node(start, self._at, [part.node.value for part in parts], parts)
        text = self._take(_STRING if first == '"' else _SCALAR, "a value")
        return Node(start, self._at, self._loaded(text, start))

    def _parts(self, closes: str, one: Callable[[int], Part]) -> Iterator[Part]:
        self._at += 1
        number = 0
        while not self._met(closes):
            yield one(number)
            number += 1
            if not self._met(",") and not self._ahead(closes):
                raise self._error(f"expected ',' or '{closes}'")

    def _member(self, _number: int) -> Part:
        self._blank()
        start = self._at
        key = self._loaded(self._take(_STRING, "a key in double quotes"), start)
        if not self._met(":"):
            raise self._error("expected ':'")
        return Part(str(key), start, self._value())

    def _item(self, number: int) -> Part:
        node = self._value()
        return Part(number, node.start, node)

    def _loaded(self, text: str, start: int) -> Json:
        try:
            loaded: Json = json.loads(text)
        except ValueError:
            self._at = start
            raise self._error("this is not valid") from None
        return loaded

    def _take(self, pattern: re.Pattern[str], wanted: str) -> str:
        met = pattern.match(self._text, self._at)
        if met is None:
            raise self._error(f"expected {wanted}")
        self._at = met.end()
        return met[0]

    def _met(self, mark: str) -> bool:
        found = self._ahead(mark)
        self._at += found
        return found

    def _ahead(self, mark: str) -> bool:
        self._blank()
        return self._text.startswith(mark, self._at)

    def _blank(self) -> None:
        met = _BLANK.match(self._text, self._at)
        self._at = met.end() if met else self._at

    def _error(self, what: str) -> InvalidInput:
        return InvalidInput(
            f"{self._name} is broken JSON at {place(self._text, self._at)}: {what}. Nothing was changed."
        )


def place(text: str, at: int) -> str:
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    line = bisect_right(starts, at)
    return f"line {line}, column {at - starts[line - 1] + 1}"


# Putting something in


def put(text: str, name: str, path: Path, value: Json) -> str:
    """With a new first member of the object that the path leads to; objects that are missing are made."""
    return _put(text, name, path[:-1], value, key=path[-1])


def push(text: str, name: str, path: Path, value: Json) -> str:
    """With a new first item of the array that the path leads to."""
    return _put(text, name, path, value, key=None)


def _put(text: str, name: str, path: Path, value: Json, key: str | None) -> str:
    if blank(text):
        return text + json.dumps(_wrapped(path, value, key), indent=2, ensure_ascii=False) + "\n"
    node, deep = _nearest(parse(text, name), path)
    wanted, closes = (list, "an array") if deep == len(path) and key is None else (dict, "an object")
    if not isinstance(node.value, wanted):
        where = ".".join(path[:deep]) or "the whole of it"
        raise InvalidInput(f"In {name}, {place(text, node.start)}, {where} is not {closes}. Nothing was changed.")
    if deep < len(path):
        key, value = path[deep], _wrapped(path[deep + 1 :], value, key)
    at = node.start + 1
    return text[:at] + _piece(text, node, key, value) + text[at:]


def _nearest(node: Node, path: Path) -> tuple[Node, int]:
    """As far along the path as there is something; where a key is there twice, programs take the last."""
    for deep, key in enumerate(path):
        met = [part.node for part in node.parts if part.key == key]
        if not met:
            return node, deep
        node = met[-1]
    return node, len(path)


def _wrapped(path: Path, value: Json, key: str | None) -> Json:
    inner: Json = [value] if key is None else {key: value}
    for outer in reversed(path):
        inner = {outer: inner}
    return inner


def _piece(text: str, node: Node, key: str | None, value: Json) -> str:
    """The text to insert after the node's opening bracket, in the style of the file."""
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    inside = text[node.start : node.end]
    if node.parts and "\n" not in inside:
        gap = " " if inside[1].isspace() else ""
        return f"{gap}{name}{json.dumps(value, ensure_ascii=False)}," + ("" if gap else " ")
    newline = "\r\n" if "\r\n" in text else "\n"
    unit, outer = _unit(text), _margin(text, node.start)
    inner = _margin(text, node.parts[0].start) if node.parts else outer + unit
    if len(inner) <= len(outer):
        inner = outer + unit
    lines = (name + json.dumps(value, indent=unit, ensure_ascii=False)).split("\n")
    piece = "".join(f"{newline}{inner}{line}" for line in lines)
    if node.parts:
        return piece + ","
    return piece if "\n" in inside else piece + newline + outer


def _margin(text: str, at: int) -> str:
    """The blanks at the beginning of the line."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip(" \t"))]


def _unit(text: str) -> str:
    met = re.search(r"\{[ \t]*\r?\n([ \t]+)\S", text)
    return met[1] if met else "  "


# Taking something out


def take_out(text: str, name: str, path: Path, item: int | None = None) -> str:
    """Without the member that the path leads to, or without an item of the array there."""
    found, _ = _nearest(parse(text, name), path if item is not None else path[:-1])
    parts = found.parts
    key: str | int = path[-1] if item is None else item
    number = max(number for number, part in enumerate(parts) if part.key == key)
    start = len(text[: parts[number].start].rstrip(" \t\r\n"))
    comma = _comma(text, parts[number].node.end)
    if comma is not None:
        return text[:start] + text[comma + 1 :]
    rest = text[:start] + text[parts[number].node.end :]
    before = _comma(text, parts[number - 1].node.end) if number else None
    return rest if before is None else rest[:before] + rest[before + 1 :]


def _comma(text: str, at: int) -> int | None:
    """Where the comma is that follows."""
    met = _BLANK.match(text, at)
    after = met.end() if met else at
    return after if text.startswith(",", after) else None


class Insertions(NamedTuple):
    """The changes to a file: each insertion with its place and the earlier depth of its path, and the file's hash.

    While the file is unchanged, removing the insertions restores every byte.
    """

    made: bool
    sha256: str
    pieces: tuple[tuple[int, str], ...]
    depths: tuple[int, ...]


def hash_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def own(entry: Entry, root: Node) -> bool:
    """Whether it is there as we would write it."""
    found = value_at(root, entry.path)
    if entry.mark is None:
        return found == entry.value
    return any(_has(item, entry.mark) for item in _items(found))


def foreign(entry: Entry, root: Node) -> bool:
    """Whether the user has replaced it."""
    return entry.mark is None and not own(entry, root) and value_at(root, entry.path) is not None


def insert(text: str | None, name: str, entries: Sequence[Entry]) -> tuple[str, Insertions]:
    """With all entries that are not there in one form or another."""
    now, pieces, depths = text or "", [], []
    for entry in entries:
        root = None if blank(now) else parse(now, name)
        if root is not None and (own(entry, root) or foreign(entry, root)):
            depths.append(len(entry.path))
            continue
        depths.append(_depth(root, entry))
        longer = (put if entry.mark is None else push)(now, name, entry.path, entry.value)
        pieces.append(_entry(now, longer))
        now = longer
    return now, Insertions(text is None, hash_of(now), tuple(pieces), tuple(depths))


def undo(text: str, inserted: Insertions) -> str | None:
    """The earlier text, to the byte, of a file that is unchanged since."""
    for at, piece in reversed(inserted.pieces):
        text = text[:at] + text[at + len(piece) :]
    return None if inserted.made else text


def remove(text: str, name: str, entries: Sequence[Entry], inserted: Insertions | None) -> str | None:
    """Remove our entries from a changed file, with the objects that we added around them if they are empty."""
    whole = tuple(len(entry.path) for entry in entries)
    depths = inserted.depths if inserted and len(inserted.depths) == len(entries) else whole
    for entry, depth in zip(entries, depths, strict=True):
        root = parse(text, name)
        if foreign(entry, root):
            raise InvalidInput(f"{'.'.join(entry.path)} in {name} was changed; remove it by hand if setup wrote it.")
        if not own(entry, root):
            continue
        text = _taken_out(text, name, entry, root)
        text = _without_empty(text, name, entry, depth)
    made = inserted is not None and inserted.made
    return None if made and empty_at(text, name, ()) else text


def _taken_out(text: str, name: str, entry: Entry, root: Node) -> str:
    if entry.mark is None:
        return take_out(text, name, entry.path)
    items = _items(value_at(root, entry.path))
    return take_out(text, name, entry.path, next(n for n, item in enumerate(items) if _has(item, entry.mark)))


def _without_empty(text: str, name: str, entry: Entry, depth: int) -> str:
    """Take out the containers that we had made, from the inside, as long as nothing is in them."""
    containers = entry.path if entry.mark else entry.path[:-1]
    for size in range(len(containers), depth, -1):
        if not empty_at(text, name, containers[:size]):
            break
        text = take_out(text, name, containers[:size])
    return text


def _depth(root: Node | None, entry: Entry) -> int:
    """How many steps of its path are there."""
    if root is None:
        return 0
    steps = (entry.path[:size] for size in range(1, len(entry.path) + 1))
    return sum(value_at(root, step) is not None for step in steps)


def _entry(before: str, after: str) -> tuple[int, str]:
    size = len(after) - len(before)
    at = next((n for n, (old, new) in enumerate(zip(before, after, strict=False)) if old != new), len(before))
    return at, after[at : at + size]


def _items(value: Json) -> Sequence[Json]:
    return value if isinstance(value, list) else ()


def _has(value: Json, mark: str) -> bool:
    """Whether a text anywhere in it is, or begins with, the mark."""
    if isinstance(value, str):
        return value == mark or value.startswith(f"{mark} ")
    if isinstance(value, Mapping):
        return any(_has(inner, mark) for inner in value.values())
    return any(_has(inner, mark) for inner in _items(value))
