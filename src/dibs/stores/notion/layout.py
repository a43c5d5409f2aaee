"""Which property of a Notion database carries which field of a task, as data.

A layout names the properties, the types they may have, which of them can be missing, the words of each status, and how
a lease is written down. What is not a property has no place in a database of that layout, except where a text property
holds `rest`: then all the other fields of a task are in there, as JSON.
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from dibs.core.errors import InvalidInput
from dibs.core.task import ServiceClass, Status


class Property(NamedTuple):
    """One property: what it is called, and the types it may have, the first being what a new database gets."""

    name: str
    types: tuple[str, ...]
    required: bool = True


class Layout(NamedTuple):
    """`lease` says how its end is known: written as such, or as its begin and a number of minutes.

    `queue` is what stands for the place in the queue, and `keeps_claim` leaves a finished task the name of its last
    holder, for whoever counts.
    """

    name: str
    properties: Mapping[str, Property]
    words: Mapping[Status, str]
    aliases: Mapping[str, Status] = {}
    classes: Mapping[ServiceClass, str] = {}
    priority: float = 0  # of a task that states none, as the database counts: higher first
    lease: Literal["end", "begin and minutes"] = "end"
    minutes: float = 20
    queue: Literal["edited", "created"] = "edited"
    keeps_claim: bool = False

    @property
    def rest(self) -> bool:
        """Every field of a task finds a place."""
        return "rest" in self.properties

    @property
    def assigns_ids(self) -> bool:
        """Notion gives the ids: its own numbers, or those of its pages."""
        carrier = self.properties.get("id")
        return carrier is None or carrier.types == ("unique_id",)

    def status(self, word: str | None) -> Status | None:
        """Understand a status word in any case; None for one that means nothing here."""
        said = (word or "").strip().casefold()
        known = {text.casefold(): status for status, text in self.words.items()}
        known.update({text.casefold(): status for text, status in self.aliases.items()})
        return known.get(said)

    def service_class(self, word: str | None) -> ServiceClass:
        said = (word or "").strip().casefold()
        known = {text.casefold(): each for each, text in self.classes.items()}
        return known.get(said, ServiceClass.STANDARD)


AGENT, HUMAN = "AGENT", "HUMAN"  # the two words of `Claimed By`

_TEXT = ("rich_text",)
_DATE = ("date",)
_WORD = ("select", "status")


def _optional(name: str, types: tuple[str, ...]) -> Property:
    return Property(name, types, required=False)


_NTASK_PROPERTIES: Mapping[str, Property] = {
    "id": Property("ID", ("unique_id",)),
    "title": Property("Task name", ("title",)),
    "status": Property("Status", _WORD),
    "priority": Property("Priority", ("number",)),
    "service_class": Property("Class", ("select",)),
    "holder": Property("Claimed By", ("select",)),
    "agent": Property("Agent", ("select", "rich_text")),
    "run": Property("Agent Run", _TEXT),
    "token": Property("Lock Token", _TEXT),
    "expires_at": Property("Lock Expires", _DATE),
    "children": Property("Sub-tasks", ("relation",)),
    "parent": Property("Parent-task", ("relation",)),
    "open_children": Property("Dependencies", ("rollup", "formula", "number")),
    "labels": _optional("Labels", ("multi_select",)),
    "artifacts": _optional("Artifacts", _TEXT),
    "reason": _optional("BlockerReason", _TEXT),
    "unblock_action": _optional("UnblockAction", _TEXT),
    "next_check_at": _optional("NextCheckAt", _DATE),
    "started_at": _optional("StartedAt", _DATE),
    "finished_at": _optional("DoneAt", _DATE),
}

_NTASK_WORDS: Mapping[Status, str] = {
    Status.BACKLOG: "BACKLOG",
    Status.READY: "READY",
    Status.ACTIVE: "IN_PROGRESS",
    Status.BLOCKED: "BLOCKED",
    Status.REVIEW: "REVIEW",
    Status.DONE: "DONE",
    Status.CANCELED: "CANCELED",
}

_CLASSES: Mapping[ServiceClass, str] = {each: each.value.upper() for each in ServiceClass}
_SPELLINGS = {"IN PROGRESS": Status.ACTIVE, "CANCELLED": Status.CANCELED, "IN REVIEW": Status.REVIEW}

NTASK = Layout("ntask", _NTASK_PROPERTIES, _NTASK_WORDS, _SPELLINGS, _CLASSES)

DIBS = Layout(
    "dibs",
    {
        **{field: carrier for field, carrier in _NTASK_PROPERTIES.items() if field != "open_children"},
        "id": Property("Key", _TEXT),
        "rest": Property("Dibs", _TEXT),
    },
    {**_NTASK_WORDS, Status.PAUSED: "PAUSED", Status.ESCALATED: "ESCALATED"},
    _SPELLINGS,
    _CLASSES,
    queue="created",
)

MESH = Layout(
    "mesh",
    {
        "title": Property("title", ("title",)),
        "status": Property("status", _WORD),
        "agent": Property("claimed_by", ("rich_text", "select")),
        "claimed_at": Property("claimed_at", _DATE),
        "minutes": Property("claim_timeout_minutes", ("number",)),
        "token": Property("claim_nonce", _TEXT),
        "priority": _optional("priority", ("number",)),
        "reason": _optional("blocked_reason", _TEXT),
        "finished_at": _optional("completed_at", _DATE),
        "artifacts": _optional("artifacts", _TEXT),
        "labels": _optional("labels", ("multi_select",)),
    },
    {
        Status.READY: "OPEN",
        Status.ACTIVE: "IN_PROGRESS",
        Status.BLOCKED: "BLOCKED",
        Status.DONE: "COMPLETED",
        Status.CANCELED: "CANCELLED",
    },
    {"IN PROGRESS": Status.ACTIVE, "CANCELED": Status.CANCELED, "DONE": Status.DONE},
    lease="begin and minutes",
    minutes=30,
    queue="created",
    keeps_claim=True,
)

LAYOUTS: Mapping[str, Layout] = {layout.name: layout for layout in (NTASK, DIBS, MESH)}


def layout_named(name: str) -> Layout:
    if name not in LAYOUTS:
        raise InvalidInput(f"No layout of a Notion database is called '{name[:40]}'. Known are: {', '.join(LAYOUTS)}.")
    return LAYOUTS[name]


def renamed(layout: Layout, said: Mapping[str, Any]) -> Layout:
    """The layout with other names for its properties and statuses, as a TOML file states them.

    `[properties]` maps what the preset calls a property to what yours is called, `[statuses]` does so for the words.
    """
    unknown = sorted(set(said) - {"properties", "statuses"})
    if unknown:
        raise InvalidInput(f"A file of property names has [properties] and [statuses], not [{unknown[0][:40]}].")
    names = _names(said.get("properties", {}), {carrier.name for carrier in layout.properties.values()}, "property")
    words = _names(said.get("statuses", {}), set(layout.words.values()), "status")
    return layout._replace(
        properties={
            field: carrier._replace(name=names.get(carrier.name, carrier.name))
            for field, carrier in layout.properties.items()
        },
        words={status: words.get(word, word) for status, word in layout.words.items()},
    )


def _names(said: Any, known: set[str], what: str) -> dict[str, str]:
    if not isinstance(said, dict) or not all(isinstance(name, str) and name for name in said.values()):
        raise InvalidInput(f'The new names of each {what} are texts: "Old name" = "New name".')
    for old in said:
        if old not in known:
            raise InvalidInput(f"The layout has no {what} '{old[:40]}'. It has: {', '.join(sorted(known))}.")
    return said
