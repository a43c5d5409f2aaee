"""kurultai's rules, as data: its words, its weights, who does what, and what is too much."""

from datetime import timedelta
from typing import NamedTuple

from dibs.core.errors import InvalidInput
from dibs.core.policy import CanceledBlocker, Policy
from dibs.core.task import Status, Task
from dibs.fleet.routing import ROUTING, role_for

# Its five statuses. What else a task can be is `blocked` to kurultai, and the reason says which.
PENDING, IN_PROGRESS, COMPLETED, BLOCKED, ESCALATED = "pending", "in_progress", "completed", "blocked", "escalated"

KURULTAI = Policy(
    name="kurultai",
    lease=timedelta(minutes=20),
    canceled_blocker=CanceledBlocker.ESCALATES,
    words={
        Status.READY: PENDING,
        Status.ACTIVE: IN_PROGRESS,
        Status.DONE: COMPLETED,
        Status.BLOCKED: BLOCKED,
        Status.ESCALATED: ESCALATED,
        Status.PAUSED: BLOCKED,
        Status.CANCELED: BLOCKED,
        Status.BACKLOG: BLOCKED,
        Status.REVIEW: BLOCKED,
    },
    aliases={
        BLOCKED: Status.BLOCKED,
        "ready": Status.READY,
        "paused": Status.PAUSED,
        "aborted": Status.CANCELED,
        "backlog": Status.BACKLOG,
        "review": Status.REVIEW,
    },
)

# Why a task is `blocked` that is not simply blocked; a blocked one says so in words of its own.
BLOCKED_REASON = {
    Status.PAUSED: "paused",
    Status.CANCELED: "aborted",
    Status.BACKLOG: "backlog",
    Status.REVIEW: "review",
}
_MEANT_BY_REASON = {reason: status for status, reason in BLOCKED_REASON.items()}

ON_ABORT = {
    "escalate": CanceledBlocker.ESCALATES,
    "resolve": CanceledBlocker.RESOLVES,
    "cascade": CanceledBlocker.CASCADES,
}

DEFAULT_WEIGHT = 0.5
LINK_WEIGHT = 0.5  # of a dependency that somebody states

ESCALATION_LIMIT = 3  # so often reassigned, and a task is the user's to decide about
READY_LIMIT = 50

MAIN, RESEARCHER, WRITER, DEVELOPER, ANALYST, OPS = "main", "researcher", "writer", "developer", "analyst", "ops"
ANYONE = "any"

DELIVERABLE_TYPES = frozenset(ROUTING)


class Profile(NamedTuple):
    """One agent of the fleet. `failover_for` is whose part it takes while that one is away."""

    id: str
    name: str
    role: str
    does: str
    failover_for: str | None = None


FLEET = (
    Profile(MAIN, "Kublai", "router", "talks to the user, splits requests into tasks and hands them out"),
    Profile(RESEARCHER, "Möngke", "researcher", "finds out and gathers sources"),
    Profile(WRITER, "Chagatai", "writer", "writes and edits texts"),
    Profile(DEVELOPER, "Temüjin", "developer", "writes and tests code"),
    Profile(ANALYST, "Jochi", "analyst", "analyses, and works out strategy"),
    Profile(OPS, "Ögedei", "operations", "runs and watches what is running; stands in for Kublai", MAIN),
)


def status_of(task: Task) -> str:
    return KURULTAI.say(task.status)


def blocked_reason_of(task: Task) -> str | None:
    """Why it is blocked or escalated. What is not blocked in earnest says what it is."""
    if task.status in BLOCKED_REASON:
        return BLOCKED_REASON[task.status]
    return task.reason if task.status in {Status.BLOCKED, Status.ESCALATED} else None


def status_from(word: str, blocked_reason: str | None = None) -> Status:
    """The way back from a status and its reason."""
    status = KURULTAI.read(word)
    if status is None:
        raise InvalidInput(f"No task is {word[:40]!r}; a task is {', '.join(sorted(status_words()))}.")
    if status is Status.BLOCKED:
        return _MEANT_BY_REASON.get(blocked_reason or "", status)
    return status


def statuses_called(word: str) -> tuple[Status, ...]:
    """All that a word covers: `blocked` is also what is paused or aborted."""
    meant = status_from(word)
    return tuple(status for status, said in KURULTAI.words.items() if said == word.casefold()) or (meant,)


def status_words() -> set[str]:
    return {*KURULTAI.words.values(), *KURULTAI.aliases}


def clamped(weight: float) -> float:
    """A weight within 0 and 1. What is no number at all is refused."""
    if isinstance(weight, bool) or weight != weight:  # noqa: PLR0124 - true of nothing but NaN
        raise InvalidInput("A priority weight is a number from 0 to 1; the higher comes first.")
    return min(1.0, max(0.0, float(weight)))


def priority_of(weight: float | None) -> float:
    """The core counts the other way round: there the lower number comes first."""
    return -clamped(DEFAULT_WEIGHT if weight is None else weight)


def weight_of(task: Task) -> float:
    return clamped(-task.priority)


def deliverable_type(word: str) -> str:
    known = word.strip().casefold()
    if known not in DELIVERABLE_TYPES:
        raise InvalidInput(f"{word[:40]!r} is no type of deliverable; it is {', '.join(sorted(DELIVERABLE_TYPES))}.")
    return known


def agent_for(deliverable: str | None) -> str:
    """Who such work goes to, unless someone says otherwise."""
    return role_for(deliverable)


def agent_id(said: str) -> str:
    """An agent of the fleet by id or by name, with or without the dots and in any case."""
    wanted = _plain(said)
    for profile in FLEET:
        if wanted in {_plain(profile.id), _plain(profile.name)}:
            return profile.id
    known = ", ".join(f"{profile.id} ({profile.name})" for profile in FLEET)
    raise InvalidInput(f"There is no agent {said[:40]!r}; there is {known}.")


def _plain(name: str) -> str:
    from unicodedata import combining, normalize

    return "".join(letter for letter in normalize("NFKD", name.strip()) if not combining(letter)).casefold()
