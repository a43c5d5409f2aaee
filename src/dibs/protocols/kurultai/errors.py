"""What can go wrong, under the names of kurultai's own document. Codes and exit statuses are those of dibs."""

from __future__ import annotations

from dibs.core.errors import CycleDetected, DibsError, Held, NotFound, NothingReady


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
