"""Errors under the names of kurultai's document, and the desk's errors in its words.

Codes and exit statuses are those of dibs.
"""

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
    """Whatever is wrong with a dependency."""


class CycleDetectedError(CycleDetected, TaskDependencyError):
    """A task would wait for itself."""


class DependencyNotFoundError(NotFound, TaskDependencyError):
    """One end of the dependency is no task of this sender."""


class NoPendingTaskError(NothingReady):
    """Nothing is pending that this agent could claim now."""


class RaceConditionError(Held):
    """Another was quicker: the task that was asked for is held by somebody else."""


_WHERE = "'dibs kurultai list' shows what there is"


@contextmanager
def about(desk: Desk, ref: str) -> Iterator[None]:
    """What went wrong with a task, after another look at it."""
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
            f"{_named(task)} waits for {task.blockers} task(s) that block it; 'dibs kurultai show' names them.",
            retry_after_ms=error.retry_after_ms,
        ) from None
    except LostLock:
        task = desk.get(ref)
        if task.lease is not None:
            raise
        raise LostLock(
            f"{_named(task)} is {_state(task)}, and not yours. Nothing was changed; stop working on it."
        ) from None
    except IllegalMove:
        task = desk.get(ref)
        raise IllegalMove(
            f"{_named(task)} is {_state(task)}; that cannot be done with it. Nothing was changed."
        ) from None


@contextmanager
def racing() -> Iterator[None]:
    """Of two who want the same task, one is told so."""
    try:
        yield
    except Held as error:
        raise RaceConditionError(error.message, holder=error.holder, retry_after_ms=error.retry_after_ms) from None


@contextmanager
def unproven(desk: Desk, ref: str) -> Iterator[None]:
    """What someone holds is theirs to change: they have the proof."""
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
        raise DependencyNotFoundError(
            f"'{task_id}' and '{depends_on_id}' are not both tasks of this sender; {_WHERE}."
        ) from None
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
