"""Our entries in a JSON file of the user's: whether they are there, how they get in, and how they come out again."""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from dibs.core.errors import InvalidInput
from dibs.core.task import Json
from dibs.onboarding.json_text import Node, blank, empty_at, parse, push, put, take_out, value_at
from dibs.onboarding.products import Entry


class Inserted(NamedTuple):
    """What was put into a file: each piece with its place, how deep the path to it led before, and the file's hash.

    As long as nobody else has written the file since, taking the pieces out gives back every byte.
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
    """Whether somebody has put something else in its place."""
    return entry.mark is None and not own(entry, root) and value_at(root, entry.path) is not None


def insert(text: str | None, name: str, entries: Sequence[Entry]) -> tuple[str, Inserted]:
    """With all entries that are not there in one form or another."""
    now, pieces, depths = text or "", [], []
    for entry in entries:
        root = None if blank(now) else parse(now, name)
        if root is not None and (own(entry, root) or foreign(entry, root)):
            depths.append(len(entry.path))
            continue
        depths.append(_depth(root, entry))
        longer = (put if entry.mark is None else push)(now, name, entry.path, entry.value)
        pieces.append(_piece(now, longer))
        now = longer
    return now, Inserted(text is None, hash_of(now), tuple(pieces), tuple(depths))


def undo(text: str, inserted: Inserted) -> str | None:
    """What was there before, to the byte; for a file that nobody else has written since."""
    for at, piece in reversed(inserted.pieces):
        text = text[:at] + text[at + len(piece) :]
    return None if inserted.made else text


def remove(text: str, name: str, entries: Sequence[Entry], inserted: Inserted | None) -> str | None:
    """Without our entries, where the file was changed since; what we made around them goes with them if it is empty."""
    whole = tuple(len(entry.path) for entry in entries)
    depths = inserted.depths if inserted and len(inserted.depths) == len(entries) else whole
    for entry, depth in zip(entries, depths, strict=True):
        root = parse(text, name)
        if foreign(entry, root):
            raise InvalidInput(f"{name} has another {'.'.join(entry.path)} by now; take it out by hand if it is ours.")
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


def _piece(before: str, after: str) -> tuple[int, str]:
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
