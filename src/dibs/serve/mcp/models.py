"""What each tool takes and answers, for a model that has never seen dibs, and the JSON Schemas of both.

Every client carries the schemas in its model's context, so each word costs tokens. Answers leave out empty fields.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from dibs.core.errors import DibsError
from dibs.core.fields import EVERY, Filter
from dibs.core.task import Status

MOST_ROWS = 50
MOST_PAGES = 200
MOST_TASKS = 100


class Arguments(BaseModel):
    """Nothing is guessed: what a tool does not know, or what is of another kind, is refused. Null says nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _said(cls, given: Any) -> Any:
        """Some clients fill in null for whatever may be left out."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


Time = Annotated[datetime, Field(strict=False)]
Next = Annotated[bool, Field(description="also claim the next task, in the same step")]
Token = Annotated[str | None, Field(description="as claim told it; needed if this session did not claim it")]


class OfMine(Arguments):
    """A task that is held; which one goes without saying while there is only one."""

    task: str | None = Field(default=None, description="id; needed only if you hold several")
    token: Token = None


class Narrowed(Arguments):
    """Some of the tasks."""

    labels: list[str] = Field(default=[], description="only with all of these")

    @property
    def only(self) -> Filter:
        given: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in self
            if name in Filter._fields and value
        }
        return Filter(**given) if given else EVERY


class WhatNext(Arguments):
    limit: int = Field(default=5, ge=1, le=MOST_ROWS)


class Claim(Narrowed):
    task: str | None = Field(default=None, description="id; without it, whatever comes first")


class Progress(OfMine):
    note: str | None = Field(default=None, description="what is done so far, for whoever comes next")


class Outcome(OfMine):
    result: Any = Field(default=None, description="text or JSON; the tasks that need this one get it")
    artifacts: list[str] = Field(default=[], description="files or links")
    next: Next = False


class Finish(Outcome):
    pass


class Block(OfMine):
    reason: str
    action: str | None = Field(default=None, description="what somebody has to do about it")
    check_at: Time | None = Field(default=None, description="ISO time to look again")
    next: Next = False


class AskReview(Outcome):
    note: str | None = Field(default=None, description="what to look at")


class GiveBack(OfMine):
    reason: str = Field(description="for whoever takes it next")
    failed: bool = Field(default=False, description="the attempt failed: counts as a retry")
    next: Next = False


class NewTask(Arguments):
    title: str
    description: str = ""
    id: str | None = Field(default=None, description="yours to choose, else made up")
    needs: list[str] = Field(default=[], description="ids that must be done BEFORE this task")
    needed_by: list[str] = Field(default=[], description="ids that must wait until this task is done")
    parent: str | None = Field(default=None, description="id of the task this is a part of")
    priority: float = Field(default=2, description="lower is sooner")
    category: str | None = None
    labels: list[str] = []
    steps: list[str] = []
    assigned_to: str | None = Field(default=None, description="only this agent may claim it")


class NewLink(Arguments):
    task: str
    needs: str = Field(description="id that must be done BEFORE 'task'")


class Add(Arguments):
    tasks: list[NewTask] = Field(default=[], max_length=MOST_TASKS)
    links: list[NewLink] = Field(default=[], max_length=MOST_TASKS, description="between tasks that exist already")


class Plan(Arguments):
    text: str | None = Field(
        default=None,
        description="YAML: spec: name, tasks: a list of {id, title, deps: [ids that must be done BEFORE it]}",
    )
    dry_run: bool = Field(default=False, description="only tell what would change")
    page: int = Field(default=1, ge=1, le=MOST_PAGES)


class Show(Arguments):
    task: str = Field(description="id, or the beginning of it")
    offset: int = Field(default=0, ge=0, description="read a long description from this character on")


class Find(Narrowed):
    text: str | None = Field(default=None, description="words of title or description")
    status: list[Status] = Field(default=[], description="without it, all that is unfinished")
    mine: bool = Field(default=False, description="only what your agent name holds")
    limit: int = Field(default=20, ge=1, le=MOST_ROWS)
    cursor: str | None = Field(default=None, description="next of the page before")


class Say(Arguments):
    text: str
    preview: bool = Field(default=False, description="only tell what would happen")


# Answers


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


class Overview(Answer):
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


class Renewed(Answer):
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


class Reply(Answer):
    kind: str
    reply: str


# What a model can do about each error, with the tools it has.
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
    "STORE_REPLACED": "Stop: the store was replaced. A person has to start the server again.",
    "UNCONFIRMED": "Use what_next to see whether you hold it.",
    "UNSUPPORTED": "Do without it: this kind of store cannot.",
    "SERVICE_UNAVAILABLE": "Call again later.",
    "FORBIDDEN": "Ask for a token with that right, or do without.",
}
_ASK_A_PERSON = "Tell the person you work for; you cannot put this right yourself."


class ErrorDetail(BaseModel):
    code: str
    message: str
    next: str
    holder: str | None = None
    retry_after_ms: int | None = None


class ErrorAnswer(BaseModel):
    news: str | None = None
    error: ErrorDetail


def error_answer(error: DibsError, news: str | None = None) -> ErrorAnswer:
    step = NEXT_STEPS.get(error.code, _ASK_A_PERSON)
    trouble = ErrorDetail(
        code=error.code, message=error.message, next=step, holder=error.holder, retry_after_ms=error.retry_after_ms
    )
    return ErrorAnswer(news=news, error=trouble)


# JSON Schemas

_NOTHING = {"type": "null"}


def arguments_schema(model: type[BaseModel]) -> dict[str, Any]:
    return _slim(model.model_json_schema())


def answer_schema(model: type[BaseModel]) -> dict[str, Any]:
    """What a client can rely on: the parts of the answer, and of each object in it what is always there."""
    slim = _slim(model.model_json_schema(mode="serialization"))
    inner = {name: _outline(each) for name, each in slim.pop("$defs", {}).items()}
    slim.pop("description", None)
    return {**slim, "properties": {name: _inlined(each, inner) for name, each in slim["properties"].items()}}


def _outline(part: dict[str, Any]) -> dict[str, Any]:
    return {name: part[name] for name in ("type", "required") if name in part}


def _inlined(part: dict[str, Any], inner: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if "$ref" in part:
        return inner[part["$ref"].rpartition("/")[2]]
    return {**part, "items": _inlined(part["items"], inner)} if "items" in part else part


def _slim(schema: dict[str, Any]) -> dict[str, Any]:
    """Without titles, nulls and empty defaults: what is not required may be left out, and that says it."""
    kept = _without_null(schema)
    if isinstance(kept.get("title"), str):
        del kept["title"]
    if kept.get("default", ...) in (None, [], False, ""):
        del kept["default"]
    for name in ("properties", "$defs"):
        if name in kept:
            kept[name] = {field: _slim(each) for field, each in kept[name].items()}
    for name in ("items", "additionalProperties"):
        if isinstance(kept.get(name), dict):
            kept[name] = _slim(kept[name])
    if kept.get("additionalProperties") is False:
        del kept["additionalProperties"]  # who gives more is told so
    return kept


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """One that may be missing is what it is where it is there."""
    choices = [each for each in part.get("anyOf", ()) if each != _NOTHING]
    if len(choices) != 1:
        return dict(part)
    rest = {name: each for name, each in part.items() if name != "anyOf"}
    return {**choices[0], **rest}
