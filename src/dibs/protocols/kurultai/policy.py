"""kurultai's words, weights, limits and agents, as data."""

from datetime import timedelta
from typing import NamedTuple

from dibs.core.errors import InvalidInput
from dibs.core.fleet import ANY_ROLE, NAMES
from dibs.core.policy import CanceledBlocker, Policy
from dibs.core.task import Status, Task
from dibs.fleet.routing import ROUTING, role_for

# Its five statuses. kurultai shows all others as `blocked`, with a reason.
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

# The reasons of tasks that kurultai shows as `blocked` but dibs does not.
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
LINK_WEIGHT = 0.5  # of a dependency without a weight

ESCALATION_LIMIT = 3  # reassignments before the user must decide
READY_LIMIT = 50

MAIN, RESEARCHER, WRITER, DEVELOPER, ANALYST, OPS = "main", "researcher", "writer", "developer", "analyst", "ops"
ANYONE = ANY_ROLE

DELIVERABLE_TYPES = frozenset(ROUTING)


class Profile(NamedTuple):
    """One agent of the fleet. `failover_for` is the agent that it replaces."""

    id: str
    name: str
    role: str
    does: str
    failover_for: str | None = None


FLEET = (
    Profile(MAIN, NAMES[MAIN], "router", "talks to the user, splits requests into tasks and delegates them"),
    Profile(RESEARCHER, NAMES[RESEARCHER], "researcher", "researches and gathers sources"),
    Profile(WRITER, NAMES[WRITER], "writer", "writes and edits texts"),
    Profile(DEVELOPER, NAMES[DEVELOPER], "developer", "writes and tests code"),
    Profile(ANALYST, NAMES[ANALYST], "analyst", "analyses and plans strategy"),
    Profile(OPS, NAMES[OPS], "operations", "operates and monitors; failover for Kublai", MAIN),
)


def status_of(task: Task) -> str:
    return KURULTAI.say(task.status)


def blocked_reason_of(task: Task) -> str | None:
    """The reason of a blocked or escalated task, or the status that kurultai shows as blocked."""
    if task.status in BLOCKED_REASON:
        return BLOCKED_REASON[task.status]
    return task.reason if task.status in {Status.BLOCKED, Status.ESCALATED} else None


def status_from(word: str, blocked_reason: str | None = None) -> Status:
    """The status for kurultai's word and reason."""
    status = KURULTAI.read(word)
    if status is None:
        raise InvalidInput(f"{word[:40]!r} is not a status. Use one of: {', '.join(sorted(status_words()))}.")
    if status is Status.BLOCKED:
        return _MEANT_BY_REASON.get(blocked_reason or "", status)
    return status


def statuses_called(word: str) -> tuple[Status, ...]:
    """All statuses that a word covers: `blocked` includes paused and aborted tasks."""
    meant = status_from(word)
    return tuple(status for status, said in KURULTAI.words.items() if said == word.casefold()) or (meant,)


def status_words() -> set[str]:
    return {*KURULTAI.words.values(), *KURULTAI.aliases}


def clamped(weight: float) -> float:
    """The weight, limited to 0 and 1. Raise InvalidInput for NaN and bool."""
    if isinstance(weight, bool) or weight != weight:  # noqa: PLR0124 - true of nothing but NaN
        raise InvalidInput("A priority weight must be a number from 0 to 1. Higher weights come first.")
    return min(1.0, max(0.0, float(weight)))


def priority_of(weight: float | None) -> float:
    """The core's priority, of which the lower comes first."""
    return -clamped(DEFAULT_WEIGHT if weight is None else weight)


def weight_of(task: Task) -> float:
    return clamped(-task.priority)


def deliverable_type(word: str) -> str:
    known = word.strip().casefold()
    if known not in DELIVERABLE_TYPES:
        raise InvalidInput(
            f"{word[:40]!r} is not a deliverable type. Use one of: {', '.join(sorted(DELIVERABLE_TYPES))}."
        )
    return known


def agent_for(deliverable: str | None) -> str:
    """The agent that a deliverable is routed to."""
    return role_for(deliverable)


def agent_id(said: str) -> str:
    """The id of an agent, by id or name, in any case, with or without diacritics."""
    wanted = _plain(said)
    for profile in FLEET:
        if wanted in {_plain(profile.id), _plain(profile.name)}:
            return profile.id
    known = ", ".join(f"{profile.id} ({profile.name})" for profile in FLEET)
    raise InvalidInput(f"There is no agent {said[:40]!r}. The agents are: {known}.")


def _plain(name: str) -> str:
    from unicodedata import combining, normalize

    return "".join(letter for letter in normalize("NFKD", name.strip()) if not combining(letter)).casefold()
