"""A block in a user's text file, such as AGENTS.md: between two markers, with a hash. The rest is never touched."""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from hashlib import sha256
from tempfile import mkstemp
from typing import NamedTuple

from dibs.core.errors import InvalidInput, StoreReadOnly
from dibs.fleet.instructions import briefing

VERSION = 1
NEW = "new"  # how a block was joined to a file that was not there before

_HASH_LENGTH = 12
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$", re.DOTALL)


class Style(NamedTuple):
    """How a comment begins and ends in this kind of file, and whether it has fenced code."""

    opens: str
    closes: str
    fences: bool


MARKDOWN = Style("<!-- ", " -->", fences=True)
TOML = Style("# ", "", fences=False)


class Unfit(Exception):
    """The block cannot be added or removed; the message gives the reason, as the end of a sentence."""


class Block(NamedTuple):
    """The position of a block with its line breaks, and whether it is unchanged."""

    start: int
    end: int
    body: str
    joined: str
    pristine: bool


class _Open(NamedTuple):
    start: int
    body_start: int
    line: int
    hash: str
    joined: str


def find(text: str, style: Style) -> Block | None:
    """Our block, if there is one; Unfit if the markers are inconsistent."""
    begins, ends = _patterns(style)
    found: list[Block] = []
    opened: _Open | None = None
    for number, (start, line, fenced) in enumerate(_lines(text, style), start=1):
        if fenced:
            continue
        if begun := begins.fullmatch(line.rstrip("\r\n")):
            if opened is not None:
                raise Unfit(f"a block of dibs begins in line {opened.line} and again in line {number}")
            opened = _Open(start, start + len(line), number, begun["hash"], begun["joined"])
        elif ends.fullmatch(line.rstrip("\r\n")):
            if opened is None:
                raise Unfit(f"a block of dibs ends in line {number} that has not begun")
            body = text[opened.body_start : start]
            pristine = _hash(body) == opened.hash
            found.append(Block(opened.start, start + len(line), body, opened.joined, pristine))
            opened = None
    if opened is not None:
        raise Unfit(f"the block of dibs that begins in line {opened.line} has no end")
    if len(found) > 1:
        raise Unfit(f"there are {len(found)} blocks of dibs; leave one of them")
    return found[0] if found else None


def with_block(text: str | None, body: str, style: Style, *, force: bool = False) -> str:
    """The text with this body in our block, appended if there is none. None is a missing file."""
    before = text or ""
    there = find(before, style)
    newline = "\r\n" if "\r\n" in before else "\n"
    if there is not None:
        if not there.pristine and not force:
            raise Unfit("the block of dibs was edited; --force replaces it")
        if there.pristine and _plain(there.body) == body:
            return before
        return before[: there.start] + _written(body, there.joined, style, newline) + before[there.end :]
    if _ends_in_a_fence(before, style):
        raise Unfit("it ends within a fenced code block")
    joint = "" if not before else newline if before.endswith("\n") else 2 * newline
    joined = NEW if text is None else str(joint.count("\n"))
    return before + joint + _written(body, joined, style, newline)


def without_block(text: str, style: Style, *, force: bool = False) -> str | None:
    """The text without the block; None if the file was created for it and holds nothing else."""
    there = find(text, style)
    if there is None:
        return text
    if not there.pristine and not force:
        raise Unfit("the block of dibs was edited; --force removes it anyway")
    newline = "\r\n" if "\r\n" in text[there.start : there.end] else "\n"
    left = _unjoined(text[: there.start], there.joined, newline) + text[there.end :]
    return None if there.joined == NEW and not left.strip() else left


def _unjoined(before: str, joined: str, newline: str) -> str:
    """The text without our line breaks, unless the user has written there since."""
    for nth in range(0 if joined == NEW else int(joined), 0, -1):
        rest = before.removesuffix(newline)
        if rest == before or (nth == 1 and joined == "1" and not rest.endswith("\n")):
            return before
        before = rest
    return before


def _written(body: str, joined: str, style: Style, newline: str) -> str:
    begin = f"{style.opens}dibs:begin v{VERSION} {_hash(body)} after={joined}{style.closes}\n"
    return f"{begin}{body}{style.opens}dibs:end{style.closes}\n".replace("\n", newline)


def _patterns(style: Style) -> tuple[re.Pattern[str], re.Pattern[str]]:
    opens, closes = re.escape(style.opens.rstrip()), re.escape(style.closes.lstrip())
    begin = rf"{opens}\s*dibs:begin v\d+ (?P<hash>[0-9a-f]+) after=(?P<joined>new|[0-2])\s*{closes}\s*"
    return re.compile(begin), re.compile(rf"{opens}\s*dibs:end\s*{closes}\s*")


def _plain(body: str) -> str:
    return body.replace("\r\n", "\n")


def _hash(body: str) -> str:
    """The hash of the text without regard to line breaks."""
    return sha256(_plain(body).encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]


def _lines(text: str, style: Style) -> list[tuple[int, str, bool]]:
    """Where each line begins, the line with its end, and whether it belongs to a fenced code block."""
    found, at, fence = [], 0, ""
    for line in _split(text):
        before, fence = fence, _fence_after(line, fence) if style.fences else ""
        found.append((at, line, bool(before or fence)))
        at += len(line)
    return found


def _split(text: str) -> list[str]:
    """Lines as editors have them: the form feeds and separators that Python breaks at are text."""
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)


def _fence_after(line: str, fence: str) -> str:
    """The fence that is open after this line, given the one that was open before it."""
    met = _FENCE.match(line.rstrip("\r\n"))
    if met is None:
        return fence
    marks, rest = met.groups()
    if not fence:
        return "" if marks[0] == "`" and "`" in rest else marks
    return "" if marks.startswith(fence) and not rest.strip() else fence


def _ends_in_a_fence(text: str, style: Style) -> bool:
    fence = ""
    for line in _split(text) if style.fences else ():
        fence = _fence_after(line, fence)
    return bool(fence)


NAME = "AGENTS.md"
BODY = f"## Where the work comes from\n\n{briefing(tools=None)}"


def write_block(folder: str, *, force: bool = False) -> None:
    """Write our block into the file; raise a DibsError with the reason if that is refused."""
    path = of_project(folder, NAME)
    before = read(path)
    try:
        after = with_block(before, BODY, MARKDOWN, force=force)
    except Unfit as unfit:
        raise InvalidInput(f"{NAME} was left alone: {unfit}.") from None
    if after != before:
        write(path, after)


MOST_BYTES = 4 << 20


def read(path: str) -> str | None:
    """The exact text of a file; None if it is missing. Raise an error with the reason if it is no text file."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if os.path.islink(path):
            raise InvalidInput(f"{path} is a link to a missing file. Create the file, or remove the link.") from None
        return None
    except OSError as error:
        raise InvalidInput(f"Cannot read {path}: {error.strerror}.") from None
    if not stat.S_ISREG(mode):
        raise InvalidInput(f"{path} is not a file; dibs leaves it alone.")
    try:
        with open(path, "rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise InvalidInput(f"Cannot read {path}: {error.strerror}.") from None
    if len(raw) > MOST_BYTES:
        raise InvalidInput(f"{path} has more than {MOST_BYTES >> 20} MB; dibs leaves it alone.")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 (byte {error.start}); dibs leaves it alone.") from None


def of_project(folder: str, name: str) -> str:
    """The path of a file in a project. A link that leads out of the project is refused."""
    path, root = os.path.join(folder, name), os.path.realpath(_root(folder))
    end = os.path.realpath(path)
    if os.path.commonpath([root, end]) != root:
        raise InvalidInput(f"{path} leads to {end}, outside of the project; dibs leaves it alone.")
    return path


def _root(folder: str) -> str:
    """The top of the repository, or the folder itself."""
    above = os.path.abspath(folder)
    while not os.path.exists(os.path.join(above, ".git")):
        if above == os.path.dirname(above):
            return folder
        above = os.path.dirname(above)
    return above


def write(path: str, text: str | None) -> None:
    """Write this text in one step, or delete the file. Of a link, the target is written."""
    target = os.path.realpath(path)
    refuse_read_only(target)
    try:
        if text is None:
            os.unlink(target)
        else:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _replace(target, text.encode())
    except OSError as error:
        raise StoreReadOnly(f"Cannot write {path}: {error.strerror}.") from None


def refuse_read_only(path: str) -> None:
    """Respect a read-only file, even where a rename would replace it."""
    with suppress(OSError):
        if not stat.S_IMODE(os.stat(path).st_mode) & 0o222:
            raise StoreReadOnly(f"{path} is read-only; dibs leaves it alone.")


def _replace(target: str, raw: bytes) -> None:
    handle, draft = mkstemp(prefix=".dibs-", dir=os.path.dirname(target))
    try:
        with open(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(draft, _mode_of(target))
        os.replace(draft, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)
        raise


def _mode_of(target: str) -> int:
    """As the file is; a new one as any other program would make it."""
    try:
        return stat.S_IMODE(os.stat(target).st_mode)
    except FileNotFoundError:
        mask = os.umask(0)
        os.umask(mask)
        return 0o666 & ~mask
