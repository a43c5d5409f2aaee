"""All errors, as one tree.

    DibsError
    ├── InvalidInput             2  INVALID_INPUT        the request itself is wrong
    │   └── PlanInvalid          2  PLAN_INVALID         … in a plan, at a line
    ├── NotFound                 3  NOT_FOUND            no such task
    │   └── AmbiguousId          3  AMBIGUOUS_ID         a prefix that fits several tasks
    ├── Refused                  4  REFUSED              valid request, but not now or not for you
    │   ├── NothingReady         4  NOTHING_READY        no task can be claimed now
    │   ├── Held                 4  HELD                 someone holds the task
    │   ├── Waiting              4  WAITING              its prerequisites are unfinished, or it is not due
    │   ├── NotForYou            4  NOT_FOR_YOU          assigned to another, or a capability is missing
    │   ├── IllegalMove          4  ILLEGAL_MOVE         its status does not allow this
    │   ├── Changed              4  CHANGED              the task has changed since you read it
    │   ├── OverQuota            4  OVER_QUOTA           too many tasks were added recently
    │   └── OverLimit            4  OVER_LIMIT           the agent has reached its limit
    ├── LostLock                 5  LOST_LOCK            the lease is not, or no longer, yours
    ├── RuleBroken               6  BROKEN_RULE          it would break a rule of the graph
    │   ├── CycleDetected        6  CYCLE                a task would wait for itself
    │   ├── IncompleteSubtasks   6  INCOMPLETE_SUBTASKS  its sub-tasks are unfinished
    │   └── AlreadyExists        6  ALREADY_EXISTS       the id is taken
    ├── StoreError               7  STORE_ERROR          the store cannot do it
    │   ├── NoStore              7  NO_STORE             there is no store here
    │   ├── StoreBusy            7  STORE_BUSY           others are writing; try again
    │   ├── StoreReadOnly        7  STORE_READ_ONLY      the store may not be written
    │   ├── StoreFull            7  STORE_FULL           no room left
    │   ├── StoreCorrupt         7  STORE_CORRUPT        not a store, or damaged
    │   ├── SchemaTooNew         7  SCHEMA_TOO_NEW       written by a newer dibs
    │   ├── StoreReplaced        7  STORE_REPLACED       the store is not the one that was opened
    │   ├── StoreUnavailable     7  STORE_UNAVAILABLE    cannot be reached or opened
    │   │   └── Unconfirmed      7  UNCONFIRMED          a claim was written, but could not be read back
    │   ├── Misconfigured        7  MISCONFIGURED        settings, rights or properties are missing or wrong
    │   │   └── CliMissing       7  CLI_MISSING          a program that is needed is not installed
    │   └── Unsupported          7  UNSUPPORTED          this kind of store has no such capability
    └── ServiceUnavailable       7  SERVICE_UNAVAILABLE  an embedder or a language model does not answer

The number is the exit status of `dibs`; a protocol's policy may map codes to its own. A message says what happened and
what to do next. It never shows a token, and never suggests taking a task from its holder.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.task import Task


class DibsError(Exception):
    """The base class: `code` is stable, and a command exits with `exit_status`."""

    code = "ERROR"
    exit_status = 1

    def __init__(self, message: str, *, holder: str | None = None, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.holder = holder
        self.retry_after_ms = retry_after_ms


class InvalidInput(DibsError):
    code = "INVALID_INPUT"
    exit_status = 2


class PlanInvalid(InvalidInput):
    code = "PLAN_INVALID"

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message if line is None else f"line {line}: {message}")
        self.line = line


class NotFound(DibsError):
    code = "NOT_FOUND"
    exit_status = 3


class AmbiguousId(NotFound):
    code = "AMBIGUOUS_ID"

    def __init__(self, prefix: str, candidates: Sequence[str]) -> None:
        shown = ", ".join(candidates)
        super().__init__(f"'{prefix}' fits more than one task: {shown}. Give more of the id.")
        self.candidates = tuple(candidates)


class Refused(DibsError):
    code = "REFUSED"
    exit_status = 4


class NothingReady(Refused):
    code = "NOTHING_READY"


class Held(Refused):
    code = "HELD"


class Waiting(Refused):
    code = "WAITING"


class NotForYou(Refused):
    code = "NOT_FOR_YOU"


class IllegalMove(Refused):
    code = "ILLEGAL_MOVE"


class Changed(Refused):
    code = "CHANGED"


class OverQuota(Refused):
    """`room` is the number of tasks that can still be added."""

    code = "OVER_QUOTA"

    def __init__(
        self, message: str, *, room: int = 0, holder: str | None = None, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message, holder=holder, retry_after_ms=retry_after_ms)
        self.room = room


class OverLimit(Refused):
    code = "OVER_LIMIT"


class LostLock(DibsError):
    code = "LOST_LOCK"
    exit_status = 5


class RuleBroken(DibsError):
    code = "BROKEN_RULE"
    exit_status = 6


class CycleDetected(RuleBroken):
    code = "CYCLE"

    def __init__(self, path: Sequence[str]) -> None:
        super().__init__(f"That would make a cycle: {' → '.join(path)}. Each waits for the next; nothing was changed.")
        self.path = tuple(path)


class IncompleteSubtasks(RuleBroken):
    code = "INCOMPLETE_SUBTASKS"


class AlreadyExists(RuleBroken):
    code = "ALREADY_EXISTS"


class StoreError(DibsError):
    code = "STORE_ERROR"
    exit_status = 7


class NoStore(StoreError):
    code = "NO_STORE"


class StoreBusy(StoreError):
    code = "STORE_BUSY"


class StoreReadOnly(StoreError):
    code = "STORE_READ_ONLY"


class StoreFull(StoreError):
    code = "STORE_FULL"


class StoreCorrupt(StoreError):
    code = "STORE_CORRUPT"


class SchemaTooNew(StoreError):
    code = "SCHEMA_TOO_NEW"


class StoreReplaced(StoreError):
    code = "STORE_REPLACED"


class StoreUnavailable(StoreError):
    code = "STORE_UNAVAILABLE"


class Unconfirmed(StoreUnavailable):
    """`token` proves the claim of `task` if it was stored after all. Only the claimer gets it, never a message."""

    code = "UNCONFIRMED"

    def __init__(
        self,
        message: str,
        *,
        token: str = "",
        task: Task | None = None,
        holder: str | None = None,
        retry_after_ms: int | None = None,
    ) -> None:
        super().__init__(message, holder=holder, retry_after_ms=retry_after_ms)
        self.token, self.task = token, task


class Misconfigured(StoreError):
    code = "MISCONFIGURED"


class CliMissing(Misconfigured):
    code = "CLI_MISSING"


class Unsupported(StoreError):
    code = "UNSUPPORTED"


class ServiceUnavailable(DibsError):
    """An optional service failed, not the store. No stored task depends on it."""

    code = "SERVICE_UNAVAILABLE"
    exit_status = 7
