"""The fields of a task, each declared once: its kind, its names, and who may set it.

Checks, JSON, plans, columns, the vault's keys, HTTP, the command line and the filters read this table. Only the Python
types are declared elsewhere, in `task.py`, because a type checker reads no tables; a test compares the two.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from dibs.core.task import Task


class Kind:
    """What a value is. Limits belong to the kind (`checks.py`), and so does the form in which a store keeps it.

    These are names for texts, not an enum: making an enum would cost a cold claim a third of a millisecond.
    """

    TITLE: Final = "title"  # one line, never empty
    TEXT: Final = "text"
    NAME: Final = "name"  # one short line
    ID: Final = "id"  # the id of a task
    TEXTS: Final = "texts"  # a list, in its author's order
    NAMES: Final = "names"  # a set, sorted
    NUMBER: Final = "number"
    COUNT: Final = "count"
    FLAG: Final = "flag"
    TIME: Final = "time"
    STATUS: Final = "status"
    CLASS: Final = "class"
    JSON: Final = "json"
    OBJECT: Final = "object"
    LEASE: Final = "lease"


LISTS = frozenset({Kind.TEXTS, Kind.NAMES})


class Field(NamedTuple):
    """`plan`: its keys in a plan, the short one first. `options`: its options in `dibs add` and `dibs edit`.

    `drafted`: it can be set when a task is added. `edited`: it can be changed later. `optional`: None clears it.
    """

    name: str
    kind: str  # one of Kind
    about: str = ""
    label: str = ""  # for people, where it differs from the name
    drafted: bool = False
    edited: bool = False
    optional: bool = False
    plan: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    metavar: str = ""

    @property
    def called(self) -> str:
        return self.label or self.name.replace("_", " ")


def _said(name: str, kind: str, about: str, *options: str, **other: object) -> Field:
    """A field that its author sets and may change."""
    return Field(name, kind, about, drafted=True, edited=True, options=options, **other)  # type: ignore[arg-type]


def _kept(kind: str, *names: str, optional: bool = True) -> list[Field]:
    """Fields that only the store sets."""
    return [Field(name, kind, optional=optional) for name in names]


FIELDS: tuple[Field, ...] = (
    Field("id", Kind.ID, "an id of your own (default: a short one is made)", drafted=True, plan=("id",)),
    _said("title", Kind.TITLE, "the title: one line", plan=("t", "title")),
    Field("status", Kind.STATUS, "ready by default", drafted=True),
    Field("reason", Kind.TEXT, drafted=True, optional=True),
    _said(
        "description", Kind.TEXT, "what to do", "-d", "--description",
        plan=("d", "description"), metavar="TEXT",
    ),
    _said(
        "priority", Kind.NUMBER, "lower comes first (default: 2)", "-p", "--priority", plan=("p", "priority"),
        metavar="N",
    ),
    _said(
        "service_class", Kind.CLASS, "expedite, fixed_date, standard (default) or intangible", "--class", label="class",
        plan=("class", "service_class"), metavar="CLASS",
    ),
    _said("override", Kind.FLAG, "put it ahead of its service class"),
    _said(
        "category", Kind.NAME, "the kind of work", "-c", "--category", plan=("cat", "category"), metavar="NAME",
        optional=True,
    ),
    _said("labels", Kind.NAMES, "a label (repeatable)", "--label", label="label", plan=("labels",), metavar="WORD"),
    _said(
        "deliverable", Kind.NAME, "the kind of result: code, research, content, …", "--deliverable",
        plan=("deliverable",), metavar="KIND", optional=True,
    ),
    _said("steps", Kind.TEXTS, "a step (repeatable)", "-s", "--step", plan=("steps",), metavar="TEXT"),
    _said(
        "spec_ref", Kind.NAME, "the specification it belongs to", "--spec", label="spec", plan=("spec", "spec_ref"),
        metavar="REF", optional=True,
    ),
    _said("ref", Kind.TEXT, "a reference, such as a file or URL", "--ref", plan=("ref",), metavar="REF", optional=True),
    _said("parent", Kind.ID, "the task it is a subtask of", "--parent", plan=("parent",), metavar="ID", optional=True),
    _said(
        "requires", Kind.NAMES, "a capability that an agent needs to claim it (repeatable)", "--requires",
        plan=("requires",), metavar="CAP",
    ),
    _said(
        "assigned_to", Kind.NAME, "the only agent that can claim it", "--assign", label="assignee",
        plan=("assigned_to",), metavar="AGENT", optional=True,
    ),
    _said(
        "not_before", Kind.TIME, "the time from which it can be claimed", "--not-before", metavar="TIME", optional=True,
    ),
    _said(
        "max_retries", Kind.COUNT, "the retry limit; then a person decides (default: none)", "--max-retries",
        plan=("max_retries",), metavar="N", optional=True,
    ),
    _said("extra", Kind.OBJECT, "fields of your own, as a JSON object", "--extra", plan=("extra",), metavar="JSON"),
    Field("queued_at", Kind.TIME, "its place among tasks of the same class and priority", edited=True),
    Field("origin", Kind.NAME, drafted=True, optional=True),
    *_kept(Kind.NAME, "scope", optional=False),
    *_kept(Kind.TIME, "created_at", "updated_at", optional=False),
    *_kept(Kind.TIME, "started_at", "finished_at", "next_check_at"),
    *_kept(Kind.STATUS, "paused_from"),
    *_kept(Kind.TEXT, "finished_by", "unblock_action", "merged_into", "ended", "spent_token", "reason_before"),
    *_kept(Kind.COUNT, "retries", "attempt", "blockers", optional=False),
    *_kept(Kind.TEXTS, "artifacts", optional=False),
    *_kept(Kind.JSON, "result"),
    *_kept(Kind.LEASE, "lease"),
)  # fmt: skip

BY_NAME = {field.name: field for field in FIELDS}

DRAFTED = tuple(field for field in FIELDS if field.drafted)
EDITED = tuple(field for field in FIELDS if field.edited)
STATED = tuple(field for field in FIELDS if field.drafted and field.edited)  # what `add` and `edit` have in common
PLANNED = {key: field for field in FIELDS for key in field.plan}


SETS = tuple(field.name for field in FIELDS if field.kind == Kind.NAMES)


def names_of(kinds: Iterable[str]) -> tuple[str, ...]:
    """The fields of these kinds, in the table's order."""
    wanted = frozenset(kinds)
    return tuple(field.name for field in FIELDS if field.kind in wanted)


class Filter(NamedTuple):
    """Selects tasks by their fields, in claims and listings. An unset field matches every task."""

    category: str | None = None
    spec_ref: str | None = None
    labels: tuple[str, ...] = ()  # all of them

    def __str__(self) -> str:
        """For people: `category docs, label web, label urgent`."""
        several = ((name, (value,) if isinstance(value, str) else value) for name, value in self.given().items())
        return ", ".join(f"{BY_NAME[name].called} {each}" for name, values in several for each in values)

    def given(self) -> dict[str, str | tuple[str, ...]]:
        """The fields that narrow, by name."""
        return {name: value for name, value in zip(self._fields, self, strict=True) if value}

    def matches(self, task: Task) -> bool:
        for name, wanted in self.given().items():
            found = getattr(task, name)
            if isinstance(wanted, tuple):
                if not set(found).issuperset(wanted):
                    return False
            elif found != wanted:
                return False
        return True


EVERY = Filter()
FILTERS = tuple(BY_NAME[name] for name in Filter._fields)
