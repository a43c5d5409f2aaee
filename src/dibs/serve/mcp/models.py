"""What each tool takes and answers, for a model that has never seen dibs, and the JSON Schemas of both.

Every client carries the schemas in its model's context, so each word costs tokens. Answers leave out empty fields.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, model_validator

from dibs.console.commands import nearest
from dibs.core.errors import DibsError
from dibs.core.fields import EVERY, Filter
from dibs.core.task import Status

MOST_ROWS = 50
MOST_PAGES = 200
MOST_TASKS = 100


class Arguments(BaseModel):
    """Strict: unknown arguments and wrong types are refused. Null counts as absent."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)

    @model_validator(mode="before")
    @classmethod
    def _without_nulls(cls, given: Any) -> Any:
        """Drop nulls: some clients send them for optional arguments."""
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if value is not None}


Time = Annotated[datetime, Field(strict=False)]
Next = Annotated[bool, Field(description="also claim the next task in the same step")]
Token = Annotated[str | None, Field(description="from claim; needed if another session claimed the task")]


class HeldTaskArguments(Arguments):
    """A held task. `task` may be omitted while the session holds only one."""

    task: str | None = Field(default=None, description="id; needed only if you hold several")
    token: Token = None


class FilterArguments(Arguments):
    """A choice of tasks."""

    labels: list[str] = Field(default=[], description="only tasks with all of these labels")

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


class Claim(FilterArguments):
    task: str | None = Field(default=None, description="id; without it, the first ready task")


class Progress(HeldTaskArguments):
    note: str | None = Field(default=None, description="progress so far, for the next agent")


class Outcome(HeldTaskArguments):
    result: Any = Field(default=None, description="text or JSON; passed to the tasks that need this one")
    artifacts: list[str] = Field(default=[], description="files or links")
    next: Next = False


class Finish(Outcome):
    pass


class Block(HeldTaskArguments):
    reason: str
    action: str | None = Field(default=None, description="what a person has to do to unblock it")
    check_at: Time | None = Field(default=None, description="ISO time to look again")
    next: Next = False


class AskReview(Outcome):
    note: str | None = Field(default=None, description="what the reviewer should look at")


class GiveBack(HeldTaskArguments):
    reason: str = Field(description="for the next agent")
    failed: bool = Field(default=False, description="the attempt failed: counts as a retry")
    next: Next = False


class NewTask(Arguments):
    title: str
    description: str = ""
    id: str | None = Field(default=None, description="generated if omitted")
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
    dry_run: bool = Field(default=False, description="report the changes without making them")
    page: int = Field(default=1, ge=1, le=MOST_PAGES)


class Show(Arguments):
    task: str = Field(description="id, or the beginning of it")
    offset: int = Field(default=0, ge=0, description="read a long description from this character on")


class Find(FilterArguments):
    text: str | None = Field(default=None, description="words of title or description")
    status: list[Annotated[Status, Field(strict=False)]] = Field(
        default=[], description="default: all unfinished tasks"
    )
    mine: bool = Field(default=False, description="only tasks held under your agent name")
    limit: int = Field(default=20, ge=1, le=MOST_ROWS)
    cursor: str | None = Field(default=None, description="next of the previous page")


class Search(Arguments):
    text: str = Field(description="words, or beginnings of words; all have to match")
    unfinished: bool = Field(default=False, description="leave out done and canceled tasks")
    limit: int = Field(default=10, ge=1, le=MOST_ROWS)


class Comment(Arguments):
    task: str
    text: str


class Reopen(Arguments):
    task: str
    reason: str | None = None


class Say(Arguments):
    text: str
    preview: bool = Field(default=False, description="report the effect without applying it")


# Answers


class Row(BaseModel):
    """A task in one row. `about` is its holder, the reason it stopped, or how many tasks it waits for."""

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
    """A task in full."""

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


class ClaimedTask(Brief):
    """A claimed task. The session keeps the token; the model needs it only to continue after a restart."""

    token: str
    minutes: float
    inputs: list[Input] | None = None
    notes: list[str] | None = None
    failed_before: list[str] | None = None


class Answer(BaseModel):
    """`news` reports tasks that the session has lost; `note` explains the answer."""

    news: str | None = None
    note: str | None = None


class Overview(Answer):
    holding: list[Row]
    ready: list[Row]
    counts: dict[str, int]


class Claimed(Answer):
    claimed: ClaimedTask | None = None


class Ended(Answer):
    """`unblocked` are the tasks that waited for it and can be claimed now."""

    task: Row
    unblocked: list[str] | None = None
    claimed: ClaimedTask | None = None


class Renewed(Answer):
    task: Row
    minutes: float


class Added(Answer):
    tasks: list[Row]
    links: int


class Planned(Answer):
    """Unfinished tasks by phase, or the changes that a plan made."""

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


class TaskAnswer(Answer):
    task: Row


class Reply(Answer):
    kind: str
    reply: str


# What a model can do about each error with its tools.
NEXT_STEPS = {
    "INVALID_INPUT": "Correct the arguments and call again.",
    "PLAN_INVALID": "Correct the plan at that line and call again; nothing was changed.",
    "NOT_FOUND": "Use find to see which tasks there are.",
    "AMBIGUOUS_ID": "Give more of the id.",
    "REFUSED": "Leave it; what_next shows what you can do.",
    "NOTHING_READY": "End your turn, or ask what_next again later.",
    "HELD": "If you claimed it, call again with its token; otherwise claim without an id to get another task.",
    "WAITING": "Claim without an id; show lists its prerequisites.",
    "NOT_FOR_YOU": "Claim without an id to get a task that you may take.",
    "ILLEGAL_MOVE": "Use show to see its status.",
    "CHANGED": "Use show to read it again, then decide.",
    "OVER_QUOTA": "Try again later.",
    "OVER_LIMIT": "Finish or give back one of your tasks first.",
    "LOST_LOCK": "Stop working on it and do not report it again. Claim another task.",
    "BROKEN_RULE": "Use show to see its links; nothing was changed.",
    "CYCLE": "Reverse or omit a link; nothing was changed.",
    "INCOMPLETE_SUBTASKS": "Finish its parts first; show lists them.",
    "ALREADY_EXISTS": "Choose another id, or use the existing task.",
    "STORE_BUSY": "Call again in a moment.",
    "STORE_UNAVAILABLE": "Call again in a moment. Your leases are renewed as soon as the store answers.",
    "STORE_REPLACED": "Stop: the store was replaced. A person has to start the server again.",
    "UNCONFIRMED": "Use what_next to see whether you hold it.",
    "UNSUPPORTED": "Do without it: this kind of store does not support it.",
    "SERVICE_UNAVAILABLE": "Call again later.",
    "FORBIDDEN": "Ask for a token with that right, or do without.",
}
# Names that models use for arguments. The suggestion is the first name of the row that the tool has.
_SYNONYMS = (
    ("needs", "depends_on", "dependencies", "depends", "deps", "blocked_by", "after", "requires", "prerequisites"),
    ("needed_by", "blocks", "before", "required_by", "dependents"),
    ("task", "id", "task_id", "taskId", "ref", "issue", "issue_id", "ticket"),
    ("text", "query", "q", "search", "keywords", "comment", "body", "message", "content", "note", "plan", "yaml"),
    ("description", "desc", "body", "details", "content", "text"),
    ("title", "name", "summary", "subject"),
    ("assigned_to", "assignee", "owner", "assign", "assign_to", "agent"),
    ("labels", "label", "tags", "tag"),
    ("status", "state", "statuses"),
    ("priority", "prio", "importance"),
    ("reason", "why", "message", "comment", "note", "because", "text"),
    ("note", "message", "comment", "reason", "text"),
    ("result", "output", "outcome", "summary", "value", "note", "message"),
    ("artifacts", "files", "artifact", "links", "attachments"),
    ("limit", "max", "count", "n", "max_results", "page_size"),
    ("cursor", "page", "next", "offset"),
    ("tasks", "items", "issues", "task"),
    ("category", "type", "kind"),
    ("parent", "parent_id", "epic"),
    ("mine", "my", "held_by_me", "only_mine"),
    ("check_at", "next_check_at", "until"),
    ("action", "unblock_action"),
    ("dry_run", "preview", "dryRun"),
    ("token", "lease", "claim_token"),
)


def meant_argument(model: type[BaseModel], where: Sequence[str | int]) -> str | None:
    """The existing argument that an unknown one at this path probably means."""
    *path, last = (part for part in where if isinstance(part, str))
    for part in path:
        model = _within(model, part) or model
    fields = model.model_fields
    rows = (row for row in _SYNONYMS if last in row)
    found = next((name for row in rows for name in row if name in fields and name != last), None)
    return found or nearest(last, fields)


def _within(model: type[BaseModel], field: str) -> type[BaseModel] | None:
    """The model of the items of a list."""
    inner = get_args(model.model_fields[field].annotation) if field in model.model_fields else ()
    return next((kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


_ASK_A_PERSON = "Inform the person you work for: only a person can fix this."


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
    """The properties of the answer, and the required properties of each object in it."""
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
    """The schema without titles, nulls and empty defaults, which cost tokens."""
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
        del kept["additionalProperties"]
    return kept


def _without_null(part: dict[str, Any]) -> dict[str, Any]:
    """The schema of an optional value without its null."""
    choices = [each for each in part.get("anyOf", ()) if each != _NOTHING]
    if len(choices) != 1:
        return dict(part)
    rest = {name: each for name, each in part.items() if name != "anyOf"}
    return {**choices[0], **rest}
