"""Telling Notion: what changed here, and what it asked for in vain. A write whose answer got lost is looked up.

What people may have changed is read once more right before it is written over. If somebody was quicker, their word
stands, and the next sync decides.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from dibs.core.errors import DibsError, StoreBusy, StoreUnavailable
from dibs.core.task import Json, Status, Task
from dibs.stores.notion.gateway import Gateway
from dibs.stores.notion.values import encode
from dibs.sync.notion.fetch import Rows
from dibs.sync.notion.rows import Row, row_of
from dibs.sync.notion.words import Field

_TRIES = 4
_PAUSE = 0.5  # seconds, where Notion does not say how long
_LONGEST_PAUSE = 60.0
_LONGEST_RESULT = 2000
_CARRIER = {Field.TITLE: "title", Field.STATUS: "status", Field.PRIORITY: "priority", Field.AGENT: "agent"}


class Push(NamedTuple):
    """What a row is to say: `tell` what people may change too, `own` what is ours alone."""

    task: Task
    row: Row
    tell: Mapping[Field, str | None]
    own: Mapping[str, str]

    @property
    def needed(self) -> bool:
        return bool(self.tell or self.own)

    @property
    def written_over(self) -> list[tuple[str, str | None, str | None]]:
        """What people may miss: the kind of change, the old word and the new one."""
        told = [(str(field), self.row.fields[field], word) for field, word in self.tell.items()]
        there = {"id": self.row.id, "result": self.row.result}
        return [*told, *(("properties", there[name], word) for name, word in self.own.items() if there[name])]


def push_for(task: Task, row: Row, tell: Mapping[Field, str | None]) -> Push:
    """The id and, once there is one, the result: what differs of them."""
    wanted = {"id": task.id}
    if "result" in row.shape and task.status is Status.DONE:
        wanted["result"] = result_of(task, row.shape["result"].type)
    there = {"id": row.id, "result": row.result}
    return Push(task, row, tell, {field: value for field, value in wanted.items() if value != there[field]})


def result_of(task: Task, kind: str) -> str:
    """A link to what was made, if there is one; else what was said about it, where text has a place."""
    link = next((each for each in task.artifacts if each.startswith(("http://", "https://"))), "")
    if kind == "url":
        return link
    said = link or next(iter(task.artifacts), "") or _summary(task.result)
    return said[:_LONGEST_RESULT].strip()


def _summary(result: Json) -> str:
    if result is None or isinstance(result, str):
        return result or ""
    import json

    return json.dumps(result, ensure_ascii=False)


class Pusher:
    """Writes to the rows of one sender."""

    def __init__(self, gateway: Gateway, rows: Rows, sleep: Callable[[float], None]) -> None:
        self._gateway, self._rows, self._sleep = gateway, rows, sleep

    def unchanged(self, push: Push, now: datetime) -> bool:
        """Whether the row still says what it said when this was decided. To write what is ours alone answers that."""
        row = self.write(push._replace(tell={}), now) if push.own else self._rows.one(push.row.page)
        return row is not None and row.fields == push.row.fields

    def write(self, push: Push, now: datetime) -> Row:
        """Until it is there for certain, or an error says why not; the row as it is then."""
        properties = _properties(push, now)
        pause = _PAUSE
        for tries_left in reversed(range(_TRIES)):
            try:
                return row_of(self._gateway.update(push.row.page, properties))
            except (StoreBusy, StoreUnavailable) as error:
                if isinstance(error, StoreUnavailable) and (row := self._arrived(push)):
                    return row
                wait = (error.retry_after_ms or 1000 * pause) / 1000
                if not tries_left or wait > _LONGEST_PAUSE:
                    raise
                self._sleep(wait)
                pause *= 2
        raise AssertionError  # the last try has returned or raised

    def _arrived(self, push: Push) -> Row | None:
        """No answer came, or none that says anything: what does the page say? None where it does not say this."""
        try:
            row = self._rows.one(push.row.page)
        except DibsError:
            return None  # nor does it answer now; so it is written again, which does no harm
        if row is None:
            return None
        own = {"id": row.id, "result": row.result}
        there = all(row.fields[field] == word for field, word in push.tell.items())
        return row if there and all(own[field] == value for field, value in push.own.items()) else None


def _properties(push: Push, now: datetime) -> dict[str, Any]:
    wanted: dict[str, Any] = {_CARRIER[field]: word for field, word in push.tell.items()}
    wanted |= {**push.own, "synced_at": now}
    shape = push.row.shape
    return {shape[field].name: encode(shape[field].type, value) for field, value in wanted.items() if field in shape}
