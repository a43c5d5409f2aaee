"""Errors with the names of kurultai's document. Codes and exit statuses are those of dibs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from dibs.core.errors import (
    AmbiguousId,
    CycleDetected,
    DibsError,
    Held,
    IllegalMove,
    InvalidInput,
    LostLock,
    NotFound,
    NothingReady,
    Waiting,
)
from dibs.protocols.kurultai.policy import blocked_reason_of, status_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.core.task import Task
    from dibs.desk import Desk


class TaskDependencyError(DibsError):
    """A dependency is wrong."""


class CycleDetectedError(CycleDetected, TaskDependencyError):
    """A task would wait for itself."""


class DependencyNotFoundError(NotFound, TaskDependencyError):
    """One of the two tasks does not exist, or belongs to another sender."""


class NotionSyncError(TaskDependencyError):
    """A sync with Notion failed. Code and exit status are those of the cause. The next sync tries again."""

    @classmethod
    def because(cls, cause: DibsError) -> NotionSyncError:
        error = cls(cause.message, holder=cause.holder, retry_after_ms=cause.retry_after_ms)
        error.code, error.exit_status = cause.code, cause.exit_status
        return error


class NoPendingTaskError(NothingReady):
    """No pending task that this agent may claim."""


class RaceConditionError(Held):
    """Another agent claimed the task first."""


_WHERE = "'dibs kurultai list' shows its tasks"


@contextmanager
def about(desk: Desk, ref: str) -> Iterator[None]:
    """Reword errors about a task, with its present state."""
    try:
        yield
    except AmbiguousId:
        raise
    except NotFound:
        raise NotFound(f"This sender has no task '{ref}'; {_WHERE}.") from None
    except Waiting as error:
        task = desk.get(ref)
        if not task.blockers:
            raise
        raise Waiting(
            f"{_named(task)} waits for {task.blockers} unfinished task(s); 'dibs kurultai show' names them.",
            retry_after_ms=error.retry_after_ms,
        ) from None
    except LostLock:
        task = desk.get(ref)
        if task.lease is not None:
            raise
        raise LostLock(
            f"{_named(task)} is {_state(task)}, and your claim has ended. Nothing was changed. Stop working on it."
        ) from None
    except IllegalMove:
        task = desk.get(ref)
        raise IllegalMove(
            f"{_named(task)} is {_state(task)}, which does not allow this. Nothing was changed."
        ) from None


@contextmanager
def racing() -> Iterator[None]:
    """Raise RaceConditionError if another agent holds the task."""
    try:
        yield
    except Held as error:
        raise RaceConditionError(error.message, holder=error.holder, retry_after_ms=error.retry_after_ms) from None


@contextmanager
def unproven(desk: Desk, ref: str) -> Iterator[None]:
    """Reword the error for a caller without the holder's proof."""
    try:
        yield
    except Held as error:
        raise Held(
            f"{_named(desk.get(ref))} is in progress: {error.holder} holds it, and only its claim_attempt_id proves "
            "the right to do that. Nothing was changed.",
            holder=error.holder,
            retry_after_ms=error.retry_after_ms,
        ) from None


@contextmanager
def depending(desk: Desk, task_id: str, depends_on_id: str) -> Iterator[None]:
    try:
        yield
    except AmbiguousId:
        raise
    except NotFound:
        raise DependencyNotFoundError(f"This sender lacks '{task_id}' or '{depends_on_id}'; {_WHERE}.") from None
    except CycleDetected as error:
        raise CycleDetectedError(error.path) from None
    except InvalidInput:
        itself = desk.resolve(task_id)
        if itself != desk.resolve(depends_on_id):
            raise
        raise CycleDetectedError([itself, itself]) from None


def _named(task: Task) -> str:
    return f"'{task.title[:40]}' ({task.id[:8]})"


def _state(task: Task) -> str:
    why = blocked_reason_of(task)
    return f"{status_of(task)} ({why})" if why else status_of(task)
