"""The history of a run: each worker logs a line before each request and a line after its answer.

The lines carry the machine's monotonic time. A worker that is killed between them leaves a request without an answer,
which may or may not have been executed; the checker allows both.
"""

import json
import mmap
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dibs.core.errors import DibsError, StoreError

Outcome = Literal["ok", "refused", "unknown"]

ROOM = 256 << 20  # bytes of a log, in a sparse file

ENDINGS = frozenset({"done", "fail", "release", "block", "cancel"})  # what a holder says last


class Operation(NamedTuple):
    """A request and its answer.

    `given` maps each claimed task to its attempt and token. `made` are added tasks with priority and prerequisites.
    `seen` is the final state. `repeated`: an earlier request had been executed already.
    """

    worker: str
    agent: str
    number: int
    verb: str
    begin: float
    end: float | None = None
    outcome: Outcome = "unknown"
    code: str = ""
    task: str = ""
    on: str = ""
    token: str = ""
    lease: float = 0.0
    named: bool = False
    repeated: bool = False
    given: Mapping[str, tuple[int, str]] = {}
    made: Mapping[str, tuple[float, Sequence[str]]] = {}
    seen: Mapping[str, Any] = {}

    @property
    def key(self) -> tuple[str, int]:
        """No other has it."""
        return self.worker, self.number

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def possible(self) -> bool:
        """Whether it was executed, or may have been."""
        return self.outcome != "refused"

    @property
    def over(self) -> float:
        """The time of its answer, or NEVER."""
        return self.end if self.end is not None and self.outcome != "unknown" else float("inf")


class Log:
    """The log of one worker, in a memory-mapped file: it survives a kill, and needs no room on a full disk."""

    def __init__(self, path: str, worker: str, agent: str) -> None:
        self._who = {"worker": worker, "agent": agent}
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), ROOM)
        self._number = self._at = 0

    @property
    def full(self) -> bool:
        return self._at > ROOM - (8 << 20)

    def now(self) -> float:
        return now()

    def asked(self, verb: str, **said: object) -> int:
        self._number += 1
        self._write({"number": self._number, **self._who, "verb": verb, "begin": self.now(), **said})
        return self._number

    def answered(self, number: int, outcome: Outcome, **heard: object) -> None:
        self._write({"number": number, "end": self.now(), "outcome": outcome, **heard})

    def failed(self, number: int, error: DibsError) -> None:
        """The outcome of an error: refusals are answers; after store errors, the effect is unknown."""
        unknown = error.exit_status == StoreError.exit_status
        self.answered(number, "unknown" if unknown else "refused", code=error.code)

    def _write(self, fields: Mapping[str, object]) -> None:
        line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        self._memory[self._at : self._at + len(line)] = line
        self._at += len(line)


def new_log(path: str) -> str:
    """Create an empty log. Call it in a process whose files may grow."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.ftruncate(file, ROOM)
    os.close(file)
    return path


def has_begun(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(1) not in {b"", b"\0"}


def now() -> float:
    return time.clock_gettime(time.CLOCK_MONOTONIC)


def read(paths: Iterable[str]) -> list[Operation]:
    """All logs as one history, in the order of the requests."""
    return in_order(operation for path in paths for operation in operations(_lines(path)))


def in_order(found: Iterable[Operation]) -> list[Operation]:
    return sorted(found, key=lambda operation: operation.begin)


def operations(lines: Iterable[dict[str, Any]]) -> Iterator[Operation]:
    """The requests of one worker, with their answers."""
    asked: dict[int, dict[str, Any]] = {}
    for fields in lines:
        asked.setdefault(fields.pop("number"), {}).update(fields)
    for number, fields in asked.items():
        yield operation_from({"number": number, **fields})


def _lines(path: str) -> Iterator[dict[str, Any]]:
    """The complete lines. A killed writer may leave a partial one; the unused rest is zeros."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        written = memory.find(b"\0")
        text = memory[: len(memory) if written < 0 else written]
    yield from map(json.loads, text[: text.rfind(b"\n") + 1].splitlines())


def operation_from(fields: Mapping[str, Any]) -> Operation:
    given = {task: (attempt, token) for task, (attempt, token) in fields.get("given", {}).items()}
    made = {task: (priority, tuple(after)) for task, (priority, after) in fields.get("made", {}).items()}
    return Operation(**{**fields, "given": given, "made": made})


def without_tokens(operations: Sequence[Operation]) -> list[Operation]:
    """Replace each token by its attempt, for publication."""
    names: dict[str, str] = {}
    times = Counter[str]()
    for each in operations:
        for task, (attempt, token) in each.given.items():
            if token not in names:
                times[f"{task}#{attempt}"] += 1  # a number with two tokens
                names[token] = f"{task}#{attempt}" + "'" * (times[f"{task}#{attempt}"] - 1)
    return [
        each._replace(
            token=names.get(each.token, "?") if each.token else "",
            given={task: (attempt, names[token]) for task, (attempt, token) in each.given.items()},
        )
        for each in operations
    ]


def save(operations: Iterable[Operation], path: str, judged: Mapping[str, Any]) -> None:
    """Write the history; its first line has the assumptions, so that it can be checked again."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(judged) + "\n")
        for each in operations:
            said = {
                name: value for name, value in each._asdict().items() if value != Operation._field_defaults.get(name)
            }
            file.write(json.dumps(said, separators=(",", ":")) + "\n")


def load(path: str) -> tuple[Mapping[str, Any], list[Operation]]:
    with open(path, encoding="utf-8") as file:
        judged, *lines = map(json.loads, file)
    return judged, [operation_from(line) for line in lines]
