"""Layouts, as data: which property of a database carries which field of a task, and how a database is checked and made.

A layout names the properties, their permitted types, the required ones, the words of each status, and how a lease is
written. A field without a property cannot be stored, unless a text property holds `rest`: the other fields as JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dibs.core.errors import InvalidInput, Misconfigured, StoreUnavailable
from dibs.core.task import ServiceClass, Status
from dibs.stores.reports import HealthCheck

if TYPE_CHECKING:
    from dibs.stores.notion.http import HttpGateway


class Property(NamedTuple):
    """A property's name and permitted types; a new database gets the first type."""

    name: str
    types: tuple[str, ...]
    required: bool = True


class Layout(NamedTuple):
    """A layout.

    `lease` says how the end is stored: as such, or as a start and a number of minutes. `queue` is the property that
    sets the place in the queue. With `keeps_claim`, a finished task keeps its last holder's name, for scores.
    """

    name: str
    properties: Mapping[str, Property]
    words: Mapping[Status, str]
    aliases: Mapping[str, Status] = {}
    classes: Mapping[ServiceClass, str] = {}
    priority: float = 0  # of a task without one, as the database counts: higher first
    lease: Literal["end", "begin and minutes"] = "end"
    minutes: float = 20
    queue: Literal["edited", "created"] = "edited"
    keeps_claim: bool = False

    @property
    def begins(self) -> bool:
        """Whether a page states its lease's start and length instead of its end."""
        return self.lease == "begin and minutes"

    @property
    def rest(self) -> bool:
        """Whether every field of a task can be stored."""
        return "rest" in self.properties

    @property
    def assigns_ids(self) -> bool:
        """Whether Notion assigns the ids: its own numbers, or its pages' ids."""
        carrier = self.properties.get("id")
        return carrier is None or carrier.types == ("unique_id",)

    def status(self, word: str | None) -> Status | None:
        """Return the status of a word, in any case; None for an unknown word."""
        said = (word or "").strip().casefold()
        known = {text.casefold(): status for status, text in self.words.items()}
        known.update({text.casefold(): status for text, status in self.aliases.items()})
        return known.get(said)

    def service_class(self, word: str | None) -> ServiceClass | None:
        """Return the class of a word, in any case; None for an unknown word. A page without one is STANDARD."""
        said = (word or "").strip().casefold()
        known = {text.casefold(): each for each, text in self.classes.items()}
        return known.get(said) if said else ServiceClass.STANDARD


AGENT, HUMAN = "AGENT", "HUMAN"  # the two options of `Claimed By`

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
    "written_at": _optional("HeartbeatAt", _DATE),
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
    """Return the layout with other property names and status words, from a TOML file.

    `[properties]` maps the layout's name of a property to yours; `[statuses]` does the same for status words.
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


_NAMES = {"rich_text": "text", "unique_id": "ID"}  # as Notion's menus call them


class Carried(NamedTuple):
    """A property as a database or a page has it."""

    name: str
    type: str


Shape = Mapping[str, Carried]


def shape_of(layout: Layout, properties: Mapping[str, Any]) -> dict[str, Carried]:
    """Return the property of each field. Names match in any case; the title matches under any name."""
    there = {
        name.casefold(): Carried(name, str(value.get("type")))
        for name, value in properties.items()
        if isinstance(value, dict)
    }
    titles = [each for each in there.values() if each.type == "title"]
    found = {field: there.get(carrier.name.casefold()) for field, carrier in layout.properties.items()}
    found["title"] = titles[0] if titles else None
    return {
        field: carried for field, carried in found.items() if carried and carried.type in layout.properties[field].types
    }


def guessed_shape(layout: Layout) -> dict[str, Carried]:
    """Return the shape that a database most likely has, before its schema is read."""
    return {field: Carried(carrier.name, carrier.types[0]) for field, carrier in layout.properties.items()}


def problems(layout: Layout, properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the problems that keep dibs from using a database, by property name."""
    shape = shape_of(layout, properties)
    there = {name.casefold(): value for name, value in properties.items() if isinstance(value, dict)}
    found = {}
    for field, carrier in layout.properties.items():
        if field in shape:
            continue
        stated = there.get(carrier.name.casefold())
        if stated is not None:
            found[carrier.name] = f"'{carrier.name}' is a {_called(str(stated.get('type')))}, not a {_types(carrier)}"
        elif carrier.required:
            found[carrier.name] = f"'{carrier.name}' is missing; it is a {_types(carrier)}"
    return found


def refuse_problems(layout: Layout, properties: Mapping[str, Any]) -> None:
    found = problems(layout, properties)
    if found:
        raise Misconfigured(
            f"The Notion database does not fit the layout '{layout.name}': {'; '.join(found.values())}. "
            "Change the properties in Notion, or name yours in a file (properties=FILE.toml in the store's URL)."
        )


def examine_properties(layout: Layout, properties: Mapping[str, Any]) -> list[HealthCheck]:
    """Report each property, and the options of selects."""
    shape, wrong = shape_of(layout, properties), problems(layout, properties)
    out = []
    for field, carrier in layout.properties.items():
        name = shape[field].name if field in shape else carrier.name
        message = wrong.get(carrier.name) or (_called(shape[field].type) if field in shape else "not there; optional")
        out.append(HealthCheck(f"property {name}", carrier.name not in wrong, message))
        if field in {"status", "holder"} and field in shape:
            out.append(_options(layout, field, shape[field], properties[name]))
    return out


def _options(layout: Layout, field: str, carried: Carried, stated: Mapping[str, Any]) -> HealthCheck:
    """Report missing options. A select adds an option at first use; a status property rejects an unknown one."""
    wanted = [AGENT, HUMAN] if field == "holder" else list(layout.words.values())
    said = stated.get(carried.type)
    options = said.get("options") if isinstance(said, dict) else None
    there = {str(option.get("name")) for option in options or () if isinstance(option, dict)}
    missing = [word for word in wanted if word not in there]
    label = f"options {carried.name}"
    if not missing:
        return HealthCheck(label, True, ", ".join(wanted))
    if carried.type == "select":
        return HealthCheck(label, True, f"{', '.join(missing)} will be made when first used")
    return HealthCheck(
        label, False, f"add {', '.join(missing)} in Notion: a status property does not accept new options"
    )


def refuse_word(layout: Layout, status: Status) -> str:
    """Return the word for a status; raise if the layout has none."""
    from dibs.core.errors import Unsupported

    word = layout.words.get(status)
    if word is None:
        raise Unsupported(f"This store cannot do that: the layout '{layout.name}' has no word for '{status}'.")
    return word


def _called(kind: str) -> str:
    return _NAMES.get(kind, kind)


def _types(carrier: Property) -> str:
    return " or ".join(_called(kind) for kind in carrier.types)


_OPEN = "Open"  # a formula that marks unfinished tasks, for the parent's rollup to count


def make_database(gateway: HttpGateway, parent: str, layout: Layout, title: str = "Tasks") -> str:
    """Make a database below a page and return its id. Relations to itself are added second, once it has an id."""
    made = gateway.create_database(parent, title, plain_properties(layout))
    sources = made.get("data_sources")
    if not isinstance(made.get("id"), str) or not isinstance(sources, list) or not sources:
        raise StoreUnavailable("Notion's answer lacks the id of the new database.")
    source = str(sources[0]["id"])
    for properties in _related_properties(layout, source):
        gateway.update_schema(source, properties)
    return str(made["id"])


def plain_properties(layout: Layout) -> dict[str, Any]:
    return {
        carrier.name: {carrier.types[0]: _definition(layout, field, carrier.types[0])}
        for field, carrier in layout.properties.items()
        if carrier.types[0] not in {"relation", "rollup"}
    }


def _definition(layout: Layout, field: str, kind: str) -> dict[str, Any]:
    if kind == "unique_id":
        return {"prefix": "TASK"}
    if kind != "select":
        return {}
    words = {"status": layout.words.values(), "holder": (AGENT, HUMAN), "service_class": layout.classes.values()}
    return {"options": [{"name": word} for word in words.get(field, ())]}


def _related_properties(layout: Layout, source: str) -> list[dict[str, Any]]:
    """Add sub-tasks and parents as two ends of one relation, and the count of open sub-tasks over it."""
    properties = layout.properties
    if "children" not in properties or "parent" not in properties:
        return []
    both = {"synced_property_name": properties["parent"].name}
    relation = {"data_source_id": source, "type": "dual_property", "dual_property": both}
    steps: list[dict[str, Any]] = [{properties["children"].name: {"relation": relation}}]
    if "open_children" in properties:
        steps += [{_OPEN: {"formula": {"expression": _unfinished(layout)}}}, _rollup(layout)]
    return steps


def _unfinished(layout: Layout) -> str:
    status = layout.properties["status"].name
    ended = (layout.words[Status.DONE], layout.words[Status.CANCELED])
    return " and ".join(f'prop("{status}") != "{word}"' for word in ended)


def _rollup(layout: Layout) -> dict[str, Any]:
    over = {
        "relation_property_name": layout.properties["children"].name,
        "rollup_property_name": _OPEN,
        "function": "checked",
    }
    return {layout.properties["open_children"].name: {"rollup": over}}
