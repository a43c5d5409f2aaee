"""Columns: parse those of a request, all or none, and render them in answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator import formulas
from dibs.lab.emulator.formulas import ROLLUP_FUNCTIONS
from dibs.lab.emulator.model import (
    Property,
    fix_one,
    invalid,
    new_id,
    new_property_id,
    plain_property_id,
    should,
    should_line,
    shown_property_id,
    whole_id,
)
from dibs.lab.emulator.values import option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.lab.emulator.model import DataSource
    from dibs.lab.emulator.workspace import Workspace

_PLAIN = (
    *("title", "rich_text", "url", "email", "phone_number", "date", "checkbox", "people", "files"),
    *("created_time", "created_by", "last_edited_time", "last_edited_by"),
)
_CHOICES = ("select", "multi_select", "status")
# Relations come before the rollups that need them.
_TYPES = (*_PLAIN, "number", *_CHOICES, "unique_id", "relation", "formula", "rollup")
_USUAL_STATUSES = [{"name": "Not started"}, {"name": "In progress"}, {"name": "Done"}]
_GROUPS = (("To-do", "gray"), ("In progress", "blue"), ("Complete", "green"))


class Draft:
    """Columns after a change; the table is not changed until `apply`."""

    def __init__(self, workspace: Workspace, source: DataSource) -> None:
        self._workspace = workspace
        self._source = source
        self._staged: dict[str, dict[str, Property]] = {source.id: dict(source.properties)}

    def take(self, raw: object, path: str, *, itself: bool = False) -> None:
        """Parse columns by name or id. `itself` is the target of a relation that names none."""
        if not isinstance(raw, dict):
            raise should(path, "an object", raw)
        asked = [(name, wanted, _type_of(f"{path}.{name}", wanted)) for name, wanted in raw.items()]
        for name, wanted, kind in sorted(asked, key=lambda item: _TYPES.index(item[2]) if item[2] else -1):
            if wanted is None:
                self._drop(name)
            elif kind is None:
                self._rename(name, wanted["name"])
            else:
                self._put(name, kind, wanted, f"{path}.{name}.{kind}", itself=itself)

    def apply(self) -> None:
        if not any(prop.type == "title" for prop in self._mine.values()):
            raise invalid("Title is not provided")
        for source_id, columns in self._staged.items():
            self._workspace.sources[source_id].properties = columns

    @property
    def _mine(self) -> dict[str, Property]:
        return self._staged[self._source.id]

    def _columns(self, source_id: str) -> dict[str, Property]:
        return self._staged.setdefault(source_id, dict(self._workspace.sources[source_id].properties))

    def _find(self, name: str, source_id: str | None = None) -> Property | None:
        columns = self._columns(source_id or self._source.id)
        named = next((prop for prop in columns.values() if prop.name == name), None)
        return named or columns.get(plain_property_id(name))

    def _must_find(self, name: str) -> Property:
        known = self._find(name)
        if known is None:
            raise invalid(f"{name} is not a property that exists.")
        return known

    def _drop(self, name: str) -> None:
        known = self._must_find(name)
        if known.type == "title":
            raise invalid("Cannot delete the title property.")
        del self._mine[known.id]

    def _rename(self, name: str, new_name: str) -> None:
        known = self._must_find(name)
        if any(prop.name == new_name and prop.id != known.id for prop in self._mine.values()):
            raise invalid(f"A property with the name {new_name} exists already.")
        self._mine[known.id] = known._replace(name=new_name)

    def _put(self, name: str, kind: str, wanted: Mapping[str, Any], path: str, *, itself: bool) -> None:
        known = self._find(name)
        if kind == "title" and "title" in self._mine and (known is None or known.id != "title"):
            raise invalid("Only one title property is allowed.")
        property_id = known.id if known else self._new_id(kind)
        said = wanted[kind]
        if not isinstance(said, dict):
            raise should(path, "an object", said)
        kept = known if known and known.type == kind else None
        config = self._config(kind, said, path, kept, itself=itself)
        new_name = wanted.get("name", known.name if known else name)
        self._mine[property_id] = Property(property_id, new_name, kind, config)
        if kind == "relation" and "dual_property" in said and kept is None:
            self._add_other_side(self._mine[property_id], said["dual_property"], path)

    def _new_id(self, kind: str) -> str:
        return "title" if kind == "title" else new_property_id(self._workspace.rng)

    def _config(
        self, kind: str, said: Mapping[str, Any], path: str, known: Property | None, *, itself: bool
    ) -> Mapping[str, Any]:
        match kind:
            case "number":
                return {"format": said.get("format", "number")}
            case "select" | "multi_select":
                return {"options": self._options(said.get("options") or [], path, known)}
            case "status":
                return self._status(said, path, known)
            case "unique_id":
                return {"prefix": said.get("prefix")}
            case "relation":
                return self._relation(said, path, itself=itself)
            case "formula":
                return self._formula(said, path)
            case "rollup":
                return self._rollup(said, path)
        return {}

    def _options(self, said: object, path: str, known: Property | None) -> list[dict[str, Any]]:
        if not isinstance(said, list):
            raise should(f"{path}.options", "an array", said)
        before = {one["name"]: one for one in known.config["options"]} if known else {}
        found = []
        for number, one in enumerate(said):
            if not isinstance(one, dict) or not isinstance(one.get("name"), str) or not one["name"]:
                raise should(f"{path}.options[{number}].name", "a string", ...)
            found.append(before.get(one["name"]) or option(one["name"], self._workspace.rng, one.get("color")))
        return found

    def _status(self, said: Mapping[str, Any], path: str, known: Property | None) -> Mapping[str, Any]:
        options = self._options(said.get("options") or _USUAL_STATUSES, path, known)
        ids = [one["id"] for one in options]
        parts = (ids[:1], ids[1:-1], ids[-1:] if len(ids) > 1 else [])
        groups = [
            {"id": new_id(self._workspace.rng), "name": name, "color": color, "option_ids": part}
            for (name, color), part in zip(_GROUPS, parts, strict=True)
        ]
        return {"options": options, "groups": groups}

    def _relation(self, said: Mapping[str, Any], path: str, *, itself: bool) -> Mapping[str, Any]:
        if itself and not {"data_source_id", "database_id"} & set(said):
            target = self._source
        else:
            target = self._target(said, path)
        return {"data_source_id": target.id, "synced": None}

    def _target(self, said: Mapping[str, Any], path: str) -> DataSource:
        key = "data_source_id" if "data_source_id" in said else "database_id"
        if key not in said:
            raise should(f"{path}.data_source_id", "defined", ...)
        wanted = whole_id(said[key])
        if wanted is None:
            raise should(f"{path}.{key}", "a valid uuid", said[key])
        return self._workspace.source_of(key, wanted)

    def _add_other_side(self, mine: Property, said: object, path: str) -> None:
        """Add the other end of a two-way relation to the target."""
        if not isinstance(said, dict):
            raise should(f"{path}.dual_property", "an object", said)
        target_id = mine.config["data_source_id"]
        name = said.get("synced_property_name") or f"Related to {self._source.title} ({mine.name})"
        other_id = new_property_id(self._workspace.rng)
        back = {"data_source_id": self._source.id, "synced": mine.id}
        self._columns(target_id)[other_id] = Property(other_id, name, "relation", back)
        self._mine[mine.id] = mine._replace(config={"data_source_id": target_id, "synced": other_id})

    def _formula(self, said: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        expression = said.get("expression", ...)
        if not isinstance(expression, str):
            raise should(f"{path}.expression", "a string", expression)
        formulas.parsed(expression)
        for name in formulas.names_in(expression):
            if self._find(name) is None:
                raise invalid(f'Type error with formula: property "{name}" not found.')
        return {"expression": expression}

    def _rollup(self, said: Mapping[str, Any], path: str) -> Mapping[str, Any]:
        function = said.get("function", ...)
        if not isinstance(function, str) or function not in ROLLUP_FUNCTIONS:
            raise should(f"{path}.function", " or ".join(f'`"{name}"`' for name in sorted(ROLLUP_FUNCTIONS)), function)
        relation = self._find(str(_named(said, "relation_property", path)))
        if relation is None or relation.type != "relation":
            raise invalid("Could not find relation property for the rollup.")
        looked = self._find(str(_named(said, "rollup_property", path)), relation.config["data_source_id"])
        if looked is None:
            raise invalid("Could not find property to roll up.")
        return {"function": function, "relation_property_id": relation.id, "rollup_property_id": looked.id}


def _named(said: Mapping[str, Any], what: str, path: str) -> object:
    for key in (f"{what}_name", f"{what}_id"):
        if key in said:
            return said[key]
    raise should(f"{path}.{what}_name", "defined", ...)


def _type_of(path: str, wanted: object) -> str | None:
    """Return a column's new type; None for a deleted or only renamed one."""
    if wanted is None:
        return None
    if not isinstance(wanted, dict):
        raise should(path, "an object", wanted)
    found = [kind for kind in _TYPES if kind in wanted]
    if found:
        return found[0]
    if isinstance(wanted.get("name"), str):
        return None
    raise fix_one([should_line(f"{path}.{kind}", "defined") for kind in _TYPES])


def shown_properties(workspace: Workspace, source: DataSource, *, new: bool) -> dict[str, Any]:
    return {prop.name: _shown(workspace, source, prop, new=new) for prop in source.properties.values()}


def _shown(workspace: Workspace, source: DataSource, prop: Property, *, new: bool) -> dict[str, Any]:
    config = dict(prop.config)
    if prop.type == "relation":
        config = _shown_relation(workspace, prop, new=new)
    elif prop.type == "rollup":
        config = _shown_rollup(workspace, source, prop)
    shown_id = shown_property_id(prop.id)
    return {"id": shown_id, "name": prop.name, "description": None, "type": prop.type, prop.type: config}


def _shown_relation(workspace: Workspace, prop: Property, *, new: bool) -> dict[str, Any]:
    target = workspace.sources[prop.config["data_source_id"]]
    said: dict[str, Any] = {"database_id": target.database_id}
    if new:
        said["data_source_id"] = target.id
    other = target.properties.get(prop.config["synced"] or "")
    if other is None:
        return {**said, "type": "single_property", "single_property": {}}
    synced = {"synced_property_name": other.name, "synced_property_id": shown_property_id(other.id)}
    return {**said, "type": "dual_property", "dual_property": synced}


def _shown_rollup(workspace: Workspace, source: DataSource, prop: Property) -> dict[str, Any]:
    relation = source.properties.get(prop.config["relation_property_id"])
    target = workspace.sources[relation.config["data_source_id"]] if relation else None
    looked = target.properties.get(prop.config["rollup_property_id"]) if target else None
    return {
        "function": prop.config["function"],
        "relation_property_name": relation.name if relation else "",
        "relation_property_id": shown_property_id(prop.config["relation_property_id"]),
        "rollup_property_name": looked.name if looked else "",
        "rollup_property_id": shown_property_id(prop.config["rollup_property_id"]),
    }
