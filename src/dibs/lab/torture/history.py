"""What the workers saw, written down by themselves: a line before each question, a line after its answer.

The lines carry the machine's monotonic time, which all its processes share. A worker that is killed in between leaves a
question without an answer: nobody can tell what became of it, and the checker takes it for both.
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

ROOM = 256 << 20  # bytes of a log; as long as nobody writes them, they take no room on the disk

ENDINGS = frozenset({"done", "fail", "release", "block", "cancel"})  # what a holder says last


class Operation(NamedTuple):
    """One question and its answer.

    `given` maps each task that a claim gave to its attempt and token; `made` are tasks that were added, each with its
    priority and what it waits for; `seen` is all that was there when everybody had gone. What was `repeated`
    had been carried out before it was asked for this time.
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
        """It took place, or may have."""
        return self.outcome != "refused"

    @property
    def over(self) -> float:
        """When its answer was there; of one that has none, never."""
        return self.end if self.end is not None and self.outcome != "unknown" else float("inf")


class Log:
    """One worker's lines. They go into memory that is shared with a file: what was written survives a kill, and goes on
    being written where no file may grow any more."""

    def __init__(self, path: str, worker: str, agent: str) -> None:
        self._who = {"worker": worker, "agent": agent}
        with open(path, "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), ROOM)
        self._number = self._at = 0

    @property
    def full(self) -> bool:
        return self._at > ROOM - (8 << 20)

    def asked(self, verb: str, **said: object) -> int:
        self._number += 1
        self._write({"number": self._number, **self._who, "verb": verb, "begin": now(), **said})
        return self._number

    def answered(self, number: int, outcome: Outcome, **heard: object) -> None:
        self._write({"number": number, "end": now(), "outcome": outcome, **heard})

    def failed(self, number: int, error: DibsError) -> None:
        """A refusal is an answer. Trouble with the store leaves open what it has done."""
        unknown = error.exit_status == StoreError.exit_status
        self.answered(number, "unknown" if unknown else "refused", code=error.code)

    def _write(self, fields: Mapping[str, object]) -> None:
        line = json.dumps(fields, separators=(",", ":")).encode() + b"\n"
        self._memory[self._at : self._at + len(line)] = line
        self._at += len(line)


def new_log(path: str) -> str:
    """An empty log, made by somebody whose files may grow."""
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
    """All logs as one history, in the order in which the questions were asked."""
    found = [operation for path in paths for operation in _operations(path)]
    return sorted(found, key=lambda operation: operation.begin)


def _operations(path: str) -> Iterator[Operation]:
    asked: dict[int, dict[str, Any]] = {}
    for fields in _lines(path):
        asked.setdefault(fields.pop("number"), {}).update(fields)
    for number, fields in asked.items():
        yield operation_from({"number": number, **fields})


def _lines(path: str) -> Iterator[dict[str, Any]]:
    """Whole ones only: the writer may have died in the middle of one. What was never written is zeros."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        written = memory.find(b"\0")
        text = memory[: len(memory) if written < 0 else written]
    yield from map(json.loads, text[: text.rfind(b"\n") + 1].splitlines())


def operation_from(fields: Mapping[str, Any]) -> Operation:
    given = {task: (attempt, token) for task, (attempt, token) in fields.get("given", {}).items()}
    made = {task: (priority, tuple(after)) for task, (priority, after) in fields.get("made", {}).items()}
    return Operation(**{**fields, "given": given, "made": made})


def without_tokens(operations: Sequence[Operation]) -> list[Operation]:
    """For eyes other than the lab's: each token by the attempt that it belongs to."""
    names: dict[str, str] = {}
    times = Counter[str]()
    for each in operations:
        for task, (attempt, token) in each.given.items():
            if token not in names:
                times[f"{task}#{attempt}"] += 1  # a number that was given twice stands for two tokens
                names[token] = f"{task}#{attempt}" + "'" * (times[f"{task}#{attempt}"] - 1)
    return [
        each._replace(
            token=names.get(each.token, "?") if each.token else "",
            given={task: (attempt, names[token]) for task, (attempt, token) in each.given.items()},
        )
        for each in operations
    ]


def save(operations: Iterable[Operation], path: str, judged: Mapping[str, Any]) -> None:
    """With what it was judged by in the first line, so that anybody can judge it again."""
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
