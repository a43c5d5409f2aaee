"""What a database must have for a layout, and what a given one has: every difference by name."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from dibs.core.errors import Misconfigured
from dibs.core.task import Status
from dibs.stores.notion.layout import AGENT, HUMAN, Layout, Property
from dibs.stores.reports import HealthCheck

_NAMES = {"rich_text": "text", "unique_id": "ID"}  # as Notion's own menus call them


class Carried(NamedTuple):
    """A property as a database or a page really has it."""

    name: str
    type: str


Shape = Mapping[str, Carried]


def shape_of(layout: Layout, properties: Mapping[str, Any]) -> dict[str, Carried]:
    """Which field is where. Names match in any case, and the title is the title whatever it is called."""
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
    """What a database that nobody has looked at yet most likely has."""
    return {field: Carried(carrier.name, carrier.types[0]) for field, carrier in layout.properties.items()}


def problems(layout: Layout, properties: Mapping[str, Any]) -> dict[str, str]:
    """What keeps dibs from working with such a database, by the property's name."""
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
    """Each property, and the options of those that have some."""
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
    """A select makes an option when it is first used; a status refuses one that it does not know."""
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
        label, False, f"add {', '.join(missing)} in Notion: a status property takes no new words by itself"
    )


def refuse_word(layout: Layout, status: Status) -> str:
    """The word for a status; a layout that has none cannot keep it."""
    from dibs.core.errors import Unsupported

    word = layout.words.get(status)
    if word is None:
        raise Unsupported(f"This store cannot do that: the layout '{layout.name}' has no word for '{status}'.")
    return word


def _called(kind: str) -> str:
    return _NAMES.get(kind, kind)


def _types(carrier: Property) -> str:
    return " or ".join(_called(kind) for kind in carrier.types)
