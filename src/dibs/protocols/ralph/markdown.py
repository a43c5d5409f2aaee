r"""A task as ralph prints it, and Markdown-KV: tasks as `## Task id` sections of `key: value` lines, in a fixed order.

A value is one line. Characters that would break the line, be invisible or be trimmed are escaped: `\\`, `\|`, `\n`,
`\r`, `\t`, `\xNN`, `\uNNNN` or `\UNNNNNNNN`. JSON uses its own escapes, so that it stays JSON. Keys without a value are
left out. So no text of a task can look like a key or another task, and `parse_kv` returns the input of `render`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.errors import InvalidInput
from dibs.core.task import LinkKind, Status
from dibs.core.times import time_text
from dibs.protocols.ralph.settings import RALPH

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from dibs.core.task import Input, Json, Link, Task

_HEADING = "## Task "
_LISTS = frozenset({"steps", "blocker_results"})
_SHORT = {"\\": "\\\\", "|": "\\|", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LONG = {escape: char for char, escape in _SHORT.items()}

# Control characters, line separators and marks of the writing direction.
_HIDING = r"\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff\ufffe\uffff"
_ESCAPE = r"\\(?:[\\|nrt]|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))"


def render(sections: Iterable[Section], *, ascii_only: bool = False) -> str:
    """All sections, one empty line between each two; no line break at the end. `ascii_only` is about JSON."""
    return "\n\n".join("\n".join(_lines(section, ascii_only=ascii_only)) for section in sections)


def _lines(section: Section, *, ascii_only: bool) -> Iterator[str]:
    yield f"{_HEADING}{escaped(section.id)}"
    for key, value in zip(Section._fields, section, strict=True):
        if key == "result" and value is not None:
            yield f"result: {json_line(section.result, ascii_only=ascii_only)}"
        elif value is None or value in ("", ()):
            continue
        elif key == "deps":
            yield f"deps: {','.join(escaped(on).replace(',', _coded(',')) for on in section.deps)}"
        elif key == "steps":
            yield from ("steps:", *(f"- {escaped(step)}".rstrip(" ") for step in section.steps))
        elif key == "blocker_results":
            yield "blocker_results:"
            for task, result in section.blocker_results:
                yield f"- {escaped(task)}: {json_line(result, ascii_only=ascii_only)}"
        else:
            yield f"{key}: {escaped(str(value))}"


def escaped(text: str) -> str:
    """The text on one line, with nothing at its ends that could be trimmed off."""
    if text.isprintable() and "\\" not in text and "|" not in text and text == text.strip():
        return text
    import re

    safe = re.sub(rf"[{_HIDING}\\|]", lambda found: _SHORT.get(found[0]) or _coded(found[0]), text)
    if safe[:1].isspace():
        safe = _coded(safe[0]) + safe[1:]
    return safe[:-1] + _coded(safe[-1]) if safe[-1:].isspace() else safe


def _coded(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"  # noqa: PLR2004 - the sizes of the escapes


def unescaped(text: str) -> str:
    """What `escaped` was given; a stray backslash is a ValueError."""
    if "\\" not in text:
        return text
    import re

    if "\\" in re.sub(_ESCAPE, "", text):
        raise ValueError("a backslash that begins no escape")
    return re.sub(_ESCAPE, _meant, text)


def _meant(found: re.Match[str]) -> str:
    return _LONG.get(found[0]) or chr(int(found[found.lastindex or 0], 16))


def json_line(value: Json, *, ascii_only: bool = False) -> str:
    """JSON on one line that is still JSON: outside its strings nothing is unsafe, inside them JSON can say it all."""
    import json
    import re

    text = json.dumps(value, ensure_ascii=ascii_only, separators=(",", ":"))
    return re.sub(f"[{_HIDING}|]", lambda found: f"\\u{ord(found[0]):04x}", text)


def parse_kv(text: str) -> list[Section]:
    """Read sections back. Whatever `render` could not have written is InvalidInput, with its line."""
    reader = _Reader()
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            reader.take(line.removesuffix("\r"))
        except (ValueError, OverflowError, RecursionError):
            raise InvalidInput(f"line {number} is not Markdown-KV: {line[:60]!r}") from None
    return reader.done()


class _Reader:
    """The sections read so far, and the one that is being read."""

    def __init__(self) -> None:
        self._found: list[dict[str, Any]] = []
        self._list: list[object] | None = None

    def take(self, line: str) -> None:
        if line.startswith(_HEADING):
            self._found.append({"heading": unescaped(line.removeprefix(_HEADING))})
            self._list = None
        elif line.startswith("-"):
            self._item(line[1:].removeprefix(" "))
        elif line:
            self._key(*_parted(line, ":"))

    def _key(self, key: str, value: str) -> None:
        section = self._found[-1] if self._found else {}
        last = max((Section._fields.index(name) for name in section if name != "heading"), default=-1)
        if not section or Section._fields.index(key) <= last:
            raise ValueError(key)
        if key in _LISTS:
            self._list = []
            section[key] = self._list
        else:
            self._list = None
            section[key] = _value(key, value)
        if key == "id" and section[key] != section["heading"]:
            raise ValueError(key)

    def _item(self, text: str) -> None:
        if self._list is None:
            raise ValueError(text)
        if "blocker_results" in self._found[-1]:
            task, result = _parted(text, ": ")
            self._list.append((unescaped(task), _value("result", result)))
        else:
            self._list.append(unescaped(text))

    def done(self) -> list[Section]:
        for found in self._found:
            if "id" not in found or "title" not in found:
                raise InvalidInput(f"The section of {found['heading']!r} lacks its id or its title.")
            del found["heading"]
            found.update({key: tuple(found[key]) for key in _LISTS & found.keys()})
        return [Section(**found) for found in self._found]


def _parted(line: str, by: str) -> tuple[str, str]:
    key, colon, value = line.partition(by)
    if not colon:
        raise ValueError(line)
    return key, value.removeprefix(" ")


def _value(key: str, text: str) -> object:
    if key == "result":
        import json

        return json.loads(text)
    if key == "deps":
        return tuple(unescaped(on.strip(" ")) for on in text.split(","))
    if key in {"priority", "retry_count"}:
        return int(text) if key == "retry_count" or text.lstrip("-").isdigit() else float(text)
    return unescaped(text)


class Section(NamedTuple):
    """`reason` and `result` are for one task that is shown, the two times for a task that was claimed."""

    id: str
    title: str
    description: str = ""
    priority: float = 2
    status: str = "open"
    category: str | None = None
    spec: str | None = None
    ref: str | None = None
    assignee: str | None = None
    lease_expires_at: str | None = None
    retry_count: int = 0
    deps: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    blocker_results: tuple[tuple[str, Json], ...] = ()
    reason: str | None = None
    result: Json = None
    created_at: str | None = None
    updated_at: str | None = None

    def as_json(self) -> dict[str, Json]:
        return {**self._asdict(), "blocker_results": dict(self.blocker_results)}


def section_of(task: Task, deps: Iterable[str] = (), inputs: Iterable[Input] = ()) -> Section:
    lease = task.lease
    return Section(
        id=task.id,
        title=task.title,
        description=task.description,
        priority=task.priority,
        status=RALPH.say(task.status),
        category=task.category,
        spec=task.spec_ref,
        ref=task.ref or None,
        assignee=assignee_of(task),
        lease_expires_at=time_text(lease.expires_at) if lease is not None and lease.expires_at else None,
        retry_count=task.retries,
        deps=tuple(deps),
        steps=task.steps,
        blocker_results=tuple((given.id, given.result) for given in inputs),
    )


def in_landscape(section: Section, task: Task, now: datetime) -> Section:
    """The status as ralph shows it: an abandoned task is open and unassigned."""
    if task.held(now):
        return section
    return section._replace(status=RALPH.say(Status.READY), assignee=None, lease_expires_at=None)


def assignee_of(task: Task) -> str | None:
    """The holder; of a done task, the agent that finished it."""
    if task.lease is not None:
        return task.lease.agent
    return task.finished_by if task.status is Status.DONE else None


def deps_among(links: Iterable[Link]) -> dict[str, list[str]]:
    """What each task is blocked by."""
    found: dict[str, list[str]] = {}
    for link in links:
        if link.kind is LinkKind.BLOCKS:
            found.setdefault(link.task, []).append(link.on)
    return found
