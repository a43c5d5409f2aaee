"""What the SQL stores share: named queries from a file, and a task's row, made from the table of its fields."""

from __future__ import annotations

from sys import intern
from typing import TYPE_CHECKING, Any, TypeAlias

from dibs.core.errors import StoreCorrupt
from dibs.core.fields import BY_NAME, STATED, Kind
from dibs.core.task import CLASS_RANK, Holder, Lease, Link, LinkKind, Status, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dibs.core.fields import Field
    from dibs.core.graph import Graph


class Queries(dict[str, str]):
    """The queries of a file by name, with placeholders such as `{task}` replaced by their column lists.

    Each starts with `-- name: what_it_is` (in Cypher `// name: …`) and a line of intent. A query is completed when it
    is first used: a cold command needs few of them, and completing all would cost it more than half a millisecond.
    """

    def __init__(self, path: str, lists: Mapping[str, str], *, comment: str = "--") -> None:
        super().__init__()
        with open(path, encoding="utf-8") as file:
            parts = file.read().split(f"\n{comment} name: ")[1:]
        self._raw = {name: text for name, _, text in (part.partition("\n") for part in parts)}
        self._lists = lists
        self._comment = comment

    def __missing__(self, name: str) -> str:
        text = self._raw[name]
        while text.startswith(self._comment):  # the lines of intent
            text = text.partition("\n")[2]
        for placeholder, columns in self._lists.items():
            text = text.replace(placeholder, columns)
        text = self[name] = text.strip()
        return text

    def all(self) -> dict[str, str]:
        return {name: self[name] for name in self._raw}


# How to read and write a column's value; None: unchanged. Neither function gets None.
Codec: TypeAlias = "tuple[Callable[[Any], Any] | None, Callable[[Any], Any] | None]"

_AS_IT_IS: Codec = (None, None)
_STATUSES: Mapping[str, Status] = {status.value: status for status in Status}
_CLASSES = {rank: service_class for service_class, rank in CLASS_RANK.items()}
_ALIKE: Mapping[str, Codec] = {
    Kind.STATUS: (_STATUSES.__getitem__, str),
    Kind.CLASS: (_CLASSES.__getitem__, CLASS_RANK.__getitem__),
    Kind.FLAG: (lambda rank: rank == 0, lambda first: 0 if first else 1),
    Kind.NUMBER: (lambda value: int(value) if value.is_integer() else value, float),
}
_COLUMNS = {"service_class": "class_rank", "override": "override_rank", "lease": "holder", "spent_token": "token"}
_HOLDERS: Mapping[str, Holder] = {holder.value: holder for holder in Holder}


class TaskColumns:
    """The columns of a task's row, and how to read and write them.

    A row begins with `key` and `last_event`; a query may add columns after `names`. The token is that of the current
    lease if `holder` is set, else of the last lease.
    """

    KEY = 0
    LAST_EVENT = 1

    def __init__(self, codecs: Mapping[str, Codec]) -> None:
        """`codecs` are those of the kinds that a database holds in its own way."""
        codecs = {**_ALIKE, **codecs}

        def codec(field: Field) -> Codec:
            return codecs.get(field.kind, _AS_IT_IS)

        columns = [_COLUMNS.get(name, name) for name in Task._fields]
        self.names = ("key", "last_event", *columns, "agent", "run", "claimed_at", "expires_at")
        self.stated = (*(_COLUMNS.get(field.name, field.name) for field in _AUTHORED),)
        self._time = codecs.get(Kind.TIME, _AS_IT_IS)[0] or _same
        self._end = 2 + len(columns)
        self._reads = [
            (place, read)
            for place, name in enumerate(Task._fields)
            if (read := codec(BY_NAME[name])[0]) is not None and name != "lease"
        ]
        self._writes = [(Task._fields.index(field.name), codec(field)[1]) for field in _AUTHORED]

    def place(self, column: str) -> int:
        """Where a column is in a row."""
        return self.names.index(column)

    def task(self, row: tuple[Any, ...]) -> Task:
        values = list(row[2 : self._end])
        for place, read in self._reads:
            value = values[place]
            if value is not None:
                values[place] = read(value)
        holder = values[_LEASE]
        if holder is not None:
            agent, run, claimed_at, expires_at = row[self._end : self._end + 4]
            values[_LEASE] = Lease(
                values[_TOKEN],
                values[_ATTEMPT],
                agent,
                run,
                _HOLDERS[holder],
                self._time(claimed_at),
                None if expires_at is None else self._time(expires_at),
            )
            values[_TOKEN] = None
        return Task._make(values)

    def stated_values(self, task: Task) -> tuple[Any, ...]:
        """Write the columns `stated`."""
        given = ((task[place], write) for place, write in self._writes)
        return tuple(value if write is None or value is None else write(value) for value, write in given)


_AUTHORED = tuple(field for field in (*STATED, BY_NAME["queued_at"]) if field.name != "not_before")
_LEASE, _TOKEN, _ATTEMPT = (Task._fields.index(name) for name in ("lease", "spent_token", "attempt"))


def _same(value: Any) -> Any:
    return value


def corrupt(what: str, name: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"The {what} {name} holds a value that dibs did not write. Restore it from an export or a backup."
    )


def link_from(row: tuple[Any, ...]) -> Link:
    """Read a link. Equal values are one object, because a graph may have many links."""
    task, on, kind, weight, detected_by, confidence = row
    try:
        return Link(
            task, on, LinkKind(kind), 1.0 if weight == 1 else weight, intern(detected_by),
            1.0 if confidence == 1 else confidence,
        )  # fmt: skip
    except ValueError as error:
        raise corrupt("link", f"{task} → {on}") from error


def graph_of(tasks: tuple[Task, ...], links: Iterable[tuple[Any, ...]]) -> Graph:
    """The tasks and the links between them. Each id is kept once in memory."""
    from dibs.core.graph import Graph

    ids = {task.id: task.id for task in tasks}
    between = (link_from((ids[row[0]], ids[row[1]], *row[2:])) for row in links if row[0] in ids and row[1] in ids)
    return Graph(tasks, tuple(between))
