"""What each tool takes, told to a model that has never seen dibs. Every word of it costs that model's context."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

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
