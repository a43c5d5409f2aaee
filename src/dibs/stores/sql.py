"""What the SQL stores share: named queries from a file, and a task's row, made from the table of its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.fields import BY_NAME, STATED, Kind
from dibs.core.task import Holder, Lease, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.core.fields import Field


def load_queries(path: str, lists: Mapping[str, str], *, comment: str = "--") -> dict[str, str]:
    """The queries of a file by name, with placeholders such as `{task}` replaced by their column lists.

    Each starts with `-- name: what_it_is` (in Cypher `// name: …`) and a line of intent.
    """
    with open(path, encoding="utf-8") as file:
        whole = file.read()
    for placeholder, columns in lists.items():
        whole = whole.replace(placeholder, columns)
    queries = {}
    for part in whole.split(f"\n{comment} name: ")[1:]:
        name, _, text = part.partition("\n")
        while text.startswith(comment):  # the lines of intent
            text = text.partition("\n")[2]
        queries[name] = text.strip()
    return queries


class Codec(NamedTuple):
    """How a column holds a value, if not as it is. Neither function sees None."""

    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None


_AS_IT_IS = Codec()
_COLUMNS = {"service_class": "class_rank", "override": "override_rank", "lease": "holder", "spent_token": "token"}
_HOLDERS: Mapping[str, Holder] = {holder.value: holder for holder in Holder}


class TaskColumns:
    """The columns of a task's row, how they are read into a task, and how what its author states is written.

    A row begins with `key` and `last_event`; a query may ask for more after `names`. The token stands for the lease, or
    for the one that was spent; `holder` says which.
    """

    KEY = 0
    LAST_EVENT = 1

    def __init__(self, of_kinds: Mapping[Kind, Codec], of_fields: Mapping[str, Codec]) -> None:
        def codec(field: Field) -> Codec:
            return of_fields.get(field.name) or of_kinds.get(field.kind, _AS_IT_IS)

        columns = [_COLUMNS.get(name, name) for name in Task._fields]
        self.names = ("key", "last_event", *columns, "agent", "run", "claimed_at", "expires_at")
        self.stated = (*(_COLUMNS.get(field.name, field.name) for field in _AUTHORED),)
        self._time = of_kinds.get(Kind.TIME, _AS_IT_IS).read or _same
        self._end = 2 + len(columns)
        self._reads = [
            (place, read)
            for place, name in enumerate(Task._fields)
            if (read := codec(BY_NAME[name]).read) is not None and name != "lease"
        ]
        self._writes = [(Task._fields.index(field.name), codec(field).write) for field in _AUTHORED]

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
