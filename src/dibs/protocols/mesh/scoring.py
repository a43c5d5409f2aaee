"""Points for finished work, as the Agent Task Log keeps them."""

from typing import TYPE_CHECKING, NamedTuple

from dibs.core.scores import AGENT, POINTS, points
from dibs.protocols.mesh.policy import MESH
from dibs.protocols.mesh.tasks import claimed_by, priority_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dibs.core.scores import Rating
    from dibs.core.task import Json, Task
    from dibs.protocols.mesh.books import Entry


class Standing(NamedTuple):
    """What an agent has earned so far."""

    agent: str
    tasks: int
    points: float
    confidence: float
    coherence: float


def scored(task: "Task", rating: "Rating", notes: str | None) -> "Entry":
    priority = priority_of(task)
    return {
        "Task": task.title,
        AGENT: claimed_by(task),
        "Priority Score": priority,
        "Confidence": rating.confidence,
        "Coherence": rating.coherence,
        POINTS: points(priority, rating),
        "Completed At": task.finished_at,
        "Status": MESH.say(task.status),
        "Notes": notes,
    }


def standings(entries: "Iterable[Mapping[str, Json]]") -> list[Standing]:
    """Each agent's, the one with the most points first. Names are the same in any case."""
    by_agent: dict[str, list[Mapping[str, Json]]] = {}
    for entry in entries:
        by_agent.setdefault(str(entry.get(AGENT) or "").casefold(), []).append(entry)
    found = [_standing(rows) for rows in by_agent.values()]
    return sorted(found, key=lambda one: (-one.points, one.agent))


def _standing(rows: "list[Mapping[str, Json]]") -> Standing:
    return Standing(
        str(rows[-1].get(AGENT) or ""),
        len(rows),
        round(sum(_numbers(rows, POINTS)), 6),
        _mean(_numbers(rows, "Confidence")),
        _mean(_numbers(rows, "Coherence")),
    )


def _numbers(rows: "list[Mapping[str, Json]]", column: str) -> list[float]:
    return [value for row in rows if isinstance(value := row.get(column), int | float)]


def _mean(numbers: list[float]) -> float:
    return round(sum(numbers) / len(numbers), 1) if numbers else 0
