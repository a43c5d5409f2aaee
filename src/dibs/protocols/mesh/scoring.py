"""Points for finished work, as the Agent Task Log keeps them."""

from typing import TYPE_CHECKING, NamedTuple

from dibs.protocols.mesh.policy import FULL_SCORE, LEAST_SCORE, MESH, REWORK_COST
from dibs.protocols.mesh.tasks import claimed_by, priority_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dibs.core.task import Json, Task
    from dibs.protocols.mesh.books import Entry


class Scores(NamedTuple):
    """How well it was done; `reworks` is how often it had to be done again."""

    confidence: float
    coherence: float
    reworks: int = 0

    @property
    def good(self) -> bool:
        """Only work that is good in both respects earns points."""
        return min(self.confidence, self.coherence) >= LEAST_SCORE


class Standing(NamedTuple):
    """What an agent has earned so far."""

    agent: str
    tasks: int
    points: float
    confidence: float
    coherence: float


def points(priority: float, scores: Scores) -> float:
    earned = priority * (scores.confidence + scores.coherence) / (2 * FULL_SCORE) - REWORK_COST * scores.reworks
    return round(earned, 6)


def scored(task: "Task", scores: Scores, notes: str | None) -> "Entry":
    priority = priority_of(task)
    return {
        "Task": task.title,
        "Agent": claimed_by(task),
        "Priority Score": priority,
        "Confidence": scores.confidence,
        "Coherence": scores.coherence,
        "Points Earned": points(priority, scores),
        "Completed At": task.finished_at,
        "Status": MESH.say(task.status),
        "Notes": notes,
    }


def standings(entries: "Iterable[Mapping[str, Json]]") -> list[Standing]:
    """Each agent's, the one with the most points first. Names are the same in any case."""
    by_agent: dict[str, list[Mapping[str, Json]]] = {}
    for entry in entries:
        by_agent.setdefault(str(entry.get("Agent") or "").casefold(), []).append(entry)
    found = [_standing(rows) for rows in by_agent.values()]
    return sorted(found, key=lambda one: (-one.points, one.agent))


def _standing(rows: "list[Mapping[str, Json]]") -> Standing:
    return Standing(
        str(rows[-1].get("Agent") or ""),
        len(rows),
        round(sum(_numbers(rows, "Points Earned")), 6),
        _mean(_numbers(rows, "Confidence")),
        _mean(_numbers(rows, "Coherence")),
    )


def _numbers(rows: "list[Mapping[str, Json]]", column: str) -> list[float]:
    return [value for row in rows if isinstance(value := row.get(column), int | float)]


def _mean(numbers: list[float]) -> float:
    return round(sum(numbers) / len(numbers), 1) if numbers else 0
