"""What each tool answers: small objects, without what is not set."""

from typing import Annotated, Any

from pydantic import BaseModel, WithJsonSchema

from dibs.core.errors import DibsError


class Row(BaseModel):
    """A task in a line. `about`: who holds it, what it waits for, or why it stopped."""

    id: str
    title: str
    status: str
    priority: Annotated[int | float, WithJsonSchema({"type": "number"})]
    about: str | None = None


class Input(BaseModel):
    """The result of a finished prerequisite."""

    id: str
    title: str
    result: Any = None
    artifacts: list[str] | None = None


class Brief(Row):
    """All that a task says."""

    description: str | None = None
    more_at: int | None = None  # where a long description goes on
    steps: list[str] | None = None
    needs: list[str] | None = None
    needed_by: list[str] | None = None
    parent: str | None = None
    parts: list[str] | None = None
    category: str | None = None
    labels: list[str] | None = None
    deliverable: str | None = None
    spec: str | None = None
    ref: str | None = None
    assigned_to: str | None = None
    attempt: int | None = None
    result: Any = None
    artifacts: list[str] | None = None
    extra: Any = None
    history: list[str] | None = None


class Mine(Brief):
    """A task that was claimed. The session knows the token; it is told for the case that the session ends."""

    token: str
    minutes: float
    inputs: list[Input] | None = None
    notes: list[str] | None = None
    failed_before: list[str] | None = None


class Answer(BaseModel):
    """`news` is what became of your tasks meanwhile; `note` is what to make of the answer."""

    news: str | None = None
    note: str | None = None


class Lookout(Answer):
    holding: list[Row]
    ready: list[Row]
    counts: dict[str, int]


class Claimed(Answer):
    claimed: Mine | None = None


class Ended(Answer):
    """`unblocked` are the tasks that waited for it and can be claimed now."""

    task: Row
    unblocked: list[str] | None = None
    claimed: Mine | None = None


class Kept(Answer):
    task: Row
    minutes: float


class Added(Answer):
    tasks: list[Row]
    links: int


class Planned(Answer):
    """How the tasks stand, phase after phase; or what a plan has changed."""

    phases: list[list[Row]] | None = None
    critical_path: list[str] | None = None
    next_page: int | None = None
    dry_run: bool | None = None
    changed: dict[str, list[str]] | None = None


class Shown(Answer):
    task: Brief


class Found(Answer):
    tasks: list[Row]
    next: str | None = None


class Heard(Answer):
    kind: str
    reply: str


# What a model can do about each kind of trouble, with the tools it has.
NEXT_STEPS = {
    "INVALID_INPUT": "Correct the arguments and call again.",
    "PLAN_INVALID": "Correct the plan at that line and call again; nothing was changed.",
    "NOT_FOUND": "Use find to see which tasks there are.",
    "AMBIGUOUS_ID": "Give more of the id.",
    "REFUSED": "Leave it; what_next shows what you can do.",
    "NOTHING_READY": "End your turn, or ask what_next again later.",
    "HELD": "If you claimed it, call again with its token; else leave it: claim without an id takes another.",
    "WAITING": "Claim without an id; show tells what it needs first.",
    "NOT_FOR_YOU": "Claim without an id: you get what is for you.",
    "ILLEGAL_MOVE": "Use show to see how it stands.",
    "CHANGED": "Use show to see how it is now, then decide again.",
    "OVER_QUOTA": "Try again later.",
    "OVER_LIMIT": "Finish or give back one of yours first.",
    "LOST_LOCK": "Stop working on it and do not report it again; claim takes another.",
    "BROKEN_RULE": "Use show to see its links; nothing was changed.",
    "CYCLE": "Turn a link around or leave it out; nothing was changed.",
    "INCOMPLETE_SUBTASKS": "Finish its parts first; show lists them.",
    "ALREADY_EXISTS": "Choose another id, or use the task that is there.",
    "STORE_BUSY": "Call again in a moment.",
    "STORE_UNAVAILABLE": "Call again in a moment; what you hold is kept meanwhile if that is possible.",
    "UNCONFIRMED": "Use what_next to see whether you hold it.",
    "UNSUPPORTED": "Do without it: this kind of store cannot.",
    "SERVICE_UNAVAILABLE": "Call again later.",
    "FORBIDDEN": "Ask for a token with that right, or do without.",
}
_ASK_A_PERSON = "Tell the person you work for; you cannot put this right yourself."


class Trouble(BaseModel):
    code: str
    message: str
    next: str
    holder: str | None = None
    retry_after_ms: int | None = None


class Refusal(BaseModel):
    news: str | None = None
    error: Trouble


def refusal(error: DibsError, news: str | None = None) -> Refusal:
    step = NEXT_STEPS.get(error.code, _ASK_A_PERSON)
    trouble = Trouble(
        code=error.code, message=error.message, next=step, holder=error.holder, retry_after_ms=error.retry_after_ms
    )
    return Refusal(news=news, error=trouble)
