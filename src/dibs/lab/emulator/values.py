"""Property values: validate those of a request, store them, and render them in answers.

The form is validated before anything is looked up, as the API does. Stored values: option ids for select, status and
multi_select; ids of pages and users; dates and text items as they will be read back.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.model import fix_one, invalid, new_id, not_emulated, should, should_line, whole_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from random import Random

    from dibs.lab.emulator.model import Property


TEXT_LIMIT = 2000
ARRAY_LIMIT = 100
ADDRESS_LIMIT = 200


def known_keys(body: Mapping[str, Any], allowed: frozenset[str], path: str = "body") -> None:
    for key, value in body.items():
        if key not in allowed:
            raise should(f"{path}.{key}", "not present", value)


def property_values(properties: object) -> dict[str, tuple[str, Any]]:
    """Return the validated values by property name, each with the type it was written as."""
    if not isinstance(properties, dict):
        raise should("body.properties", "an object", properties)
    return {name: _property_value(f"body.properties.{name}", raw) for name, raw in properties.items()}


def _property_value(path: str, raw: object) -> tuple[str, Any]:
    if not isinstance(raw, dict):
        raise should(path, "an object", raw)
    kinds = [kind for kind in CHECKS if kind in raw]
    if not kinds:
        raise fix_one([should_line(f"{path}.{kind}", "defined") for kind in CHECKS])
    kind = kinds[0]
    CHECKS[kind](f"{path}.{kind}", raw[kind])
    return kind, raw[kind]


def rich_text(path: str, value: object) -> None:
    for number, item in enumerate(_array(path, value)):
        here = f"{path}[{number}]"
        if not isinstance(item, dict):
            raise should(here, "an object", item)
        if "mention" in item:
            _mention(f"{here}.mention", item["mention"])
            continue
        if "equation" in item:
            raise not_emulated("An equation in a text")
        if "text" not in item:
            raise should(f"{here}.text", "defined", ...)
        text = item["text"]
        content = text.get("content", ...) if isinstance(text, dict) else ...
        if not isinstance(content, str):
            raise should(f"{here}.text.content", "a string", content)
        _at_most(f"{here}.text.content.length", _units(content), TEXT_LIMIT)


def _mention(path: str, value: object) -> None:
    if not isinstance(value, dict):
        raise should(path, "an object", value)
    kind = next((one for one in ("user", "page", "date") if one in value), None)
    if kind is None:
        raise not_emulated(f"A mention of a {next(iter(value), 'thing')}")
    if kind == "date":
        _date(f"{path}.date", value["date"])
    else:
        _references(path, [value[kind]])


def _files(path: str, value: object) -> None:
    for number, item in enumerate(_array(path, value)):
        here = f"{path}[{number}]"
        if not isinstance(item, dict) or not isinstance(item.get("name"), str):
            raise should(f"{here}.name", "defined", ...)
        if "external" not in item:
            raise not_emulated("An uploaded file")
        _address(f"{here}.external", item["external"])


def _address(path: str, value: object) -> None:
    address = value.get("url", ...) if isinstance(value, dict) else ...
    if not isinstance(address, str):
        raise should(f"{path}.url", "a string", address)


def image(path: str, value: object, *, emoji: bool) -> dict[str, Any] | None:
    """Return an icon or a cover as it will be read back."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise should(path, "an object or `null`", value)
    if emoji and "emoji" in value:
        if not isinstance(value["emoji"], str) or value["emoji"].isascii():
            raise should(f"{path}.emoji", "an emoji", value["emoji"])
        return {"type": "emoji", "emoji": value["emoji"]}
    if "external" in value:
        _address(f"{path}.external", value["external"])
        return {"type": "external", "external": {"url": value["external"]["url"]}}
    raise not_emulated(f"{'An icon' if emoji else 'A cover'} of that type")


def _number(path: str, value: object) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise should(path, "a number or `null`", value)


def _checkbox(path: str, value: object) -> None:
    if not isinstance(value, bool):
        raise should(path, "a boolean", value)


def _text(limit: int) -> Callable[[str, object], None]:
    def check(path: str, value: object) -> None:
        if value is None:
            return
        if not isinstance(value, str):
            raise should(path, "a string or `null`", value)
        _at_most(f"{path}.length", _units(value), limit)

    return check


def _option(path: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise should(path, "an object or `null`", value)
    named = [value[key] for key in ("id", "name") if key in value]
    if not named:
        raise fix_one([should_line(f"{path}.{key}", "defined") for key in ("id", "name")])
    if not all(isinstance(name, str) for name in named):
        raise should(f"{path}.name", "a string", named[0])
    if value.get("name") == "":
        raise should(f"{path}.name.length", "≥ `1`", 0)


def _options(path: str, value: object) -> None:
    for number, item in enumerate(_array(path, value)):
        if not isinstance(item, dict):
            raise should(f"{path}[{number}]", "an object", item)
        _option(f"{path}[{number}]", item)


def _references(path: str, value: object) -> None:
    for number, item in enumerate(_array(path, value)):
        if not isinstance(item, dict) or "id" not in item:
            raise should(f"{path}[{number}].id", "defined", ...)
        if whole_id(item["id"]) is None:
            raise should(f"{path}[{number}].id", "a valid uuid", item["id"])


def _date(path: str, value: object) -> None:
    if value is None:
        return
    if not isinstance(value, dict):
        raise should(path, "an object or `null`", value)
    if not is_iso(value.get("start")):
        raise should(f"{path}.start", "a valid ISO 8601 date string", value.get("start", ...))
    if value.get("end") is not None and not is_iso(value["end"]):
        raise should(f"{path}.end", "a valid ISO 8601 date string, `null`, or `undefined`", value["end"])


def is_iso(text: object) -> bool:
    if not isinstance(text, str):
        return False
    try:
        moment_of(text)
    except ValueError:
        return False
    return True


def moment_of(text: str) -> date | datetime:
    """Parse a day or a time, with or without a zone."""
    only_day = len(text) == len("2026-01-31")
    return date.fromisoformat(text) if only_day else datetime.fromisoformat(text)


def _array(path: str, value: object) -> list[Any]:
    if not isinstance(value, list):
        raise should(path, "an array", value)
    _at_most(f"{path}.length", len(value), ARRAY_LIMIT)
    return value


def _at_most(path: str, size: int, limit: int) -> None:
    if size > limit:
        raise should(path, f"≤ `{limit}`", size)


def _units(text: str) -> int:
    """Count UTF-16 units as the API does: an emoji is two."""
    return len(text.encode("utf-16-le")) // 2


CHECKS: dict[str, Callable[[str, object], None]] = {
    "title": rich_text,
    "rich_text": rich_text,
    "number": _number,
    "url": _text(TEXT_LIMIT),
    "select": _option,
    "multi_select": _options,
    "people": _references,
    "email": _text(ADDRESS_LIMIT),
    "phone_number": _text(ADDRESS_LIMIT),
    "date": _date,
    "checkbox": _checkbox,
    "relation": _references,
    "status": _option,
    "files": _files,
}


COMPUTED = frozenset(
    {"unique_id", "created_time", "last_edited_time", "created_by", "last_edited_by", "formula", "rollup"}
)
SHOWN_REFERENCES = 25
_COLORS = ("default", "gray", "brown", "orange", "yellow", "green", "blue", "purple", "pink", "red")
_PLAIN = {
    "bold": False,
    "italic": False,
    "strikethrough": False,
    "underline": False,
    "code": False,
    "color": "default",
}


def text_items(raw: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return text items as they will be read back, without empty ones."""
    return [
        _mention_item(item) if "mention" in item else _text_item(item)
        for item in raw
        if "mention" in item or item["text"]["content"]
    ]


def _mention_item(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mention. Its plain text is the id, because names are not looked up."""
    said = item["mention"]
    kind = next(one for one in ("user", "page", "date") if one in said)
    if kind == "date":
        date_said = said["date"]
        mention: dict[str, Any] = {"start": date_said["start"], "end": date_said.get("end"), "time_zone": None}
        plain, href = str(date_said["start"]), None
    else:
        found = str(whole_id(said[kind]["id"]))
        mention = {"object": "user", "id": found} if kind == "user" else {"id": found}
        plain = f"@{found}" if kind == "user" else found
        href = f"https://www.notion.so/{found.replace('-', '')}" if kind == "page" else None
    return {
        "type": "mention",
        "mention": {"type": kind, kind: mention},
        "annotations": {**_PLAIN, **(item.get("annotations") or {})},
        "plain_text": plain,
        "href": href,
    }


def _text_item(item: Mapping[str, Any]) -> dict[str, Any]:
    content, link = item["text"]["content"], item["text"].get("link")
    return {
        "type": "text",
        "text": {"content": content, "link": link},
        "annotations": {**_PLAIN, **(item.get("annotations") or {})},
        "plain_text": content,
        "href": link["url"] if link else None,
    }


def text_of(content: str) -> list[dict[str, Any]]:
    return text_items([{"text": {"content": content}}])


def plain_text(items: Iterable[Mapping[str, Any]]) -> str:
    return "".join(item["plain_text"] for item in items)


def option(name: str, rng: Random, color: str | None = None) -> dict[str, Any]:
    if "," in name:
        raise invalid(f"Invalid select option, commas not allowed: {name}")
    return {"id": new_id(rng), "name": name, "color": color or rng.choice(_COLORS), "description": None}


def option_named(prop: Property, name: str) -> dict[str, Any] | None:
    return next((known for known in prop.config["options"] if known["name"] == name), None)


def option_with(prop: Property, option_id: str | None) -> dict[str, Any] | None:
    return next((known for known in prop.config["options"] if known["id"] == option_id), None)


class Keeper:
    """Converts validated values to stored ones. New options go to `grown`, the columns after the write."""

    def __init__(self, rng: Random, *, drop_seconds: bool) -> None:
        self._rng = rng
        self._drop_seconds = drop_seconds
        self.grown: dict[str, Property] = {}

    def kept(self, prop: Property, raw: Any) -> Any:
        match prop.type:
            case "title" | "rich_text":
                return text_items(raw)
            case "select":
                return None if raw is None else self._choice(prop, raw)
            case "status":
                return default_status(prop) if raw is None else _status(prop, raw)
            case "multi_select":
                return list(dict.fromkeys(self._choice(prop, item) for item in raw))
            case "date":
                return None if raw is None else self._date(prop, raw)
            case "people" | "relation":
                return list(dict.fromkeys(str(whole_id(item["id"])) for item in raw))
            case "files":
                return [
                    {"name": item["name"], "type": "external", "external": {"url": item["external"]["url"]}}
                    for item in raw
                ]
        return raw

    def _choice(self, prop: Property, raw: Mapping[str, Any]) -> str:
        """Return the option's id; an unknown name becomes a new option."""
        now = self.grown.get(prop.id, prop)
        known = option_with(now, raw["id"]) if "id" in raw else option_named(now, raw["name"])
        if known is None and "name" not in raw:
            raise invalid(f'Select option with ID "{raw["id"]}" does not exist.')
        if known is None:
            if "," in raw["name"]:
                raise invalid(f"Invalid {prop.type} option, commas not allowed: {raw['name']}")
            known = option(raw["name"], self._rng, raw.get("color"))
            options = [*now.config["options"], known]
            self.grown[prop.id] = now._replace(config={**now.config, "options": options})
        return str(known["id"])

    def _date(self, prop: Property, raw: Mapping[str, Any]) -> dict[str, Any]:
        zone = raw.get("time_zone")
        ends = [raw["start"], raw.get("end")]
        if zone is not None and any(end and not isinstance(moment_of(end), datetime) for end in ends):
            must = "If time zone is explicitly provided, start and end must contain date and time"
            raise invalid(f"{prop.name} has an invalid date. {must}.")
        start, end = (None if one is None else self._read_back(one, zone) for one in ends)
        return {"start": start, "end": end, "time_zone": zone}

    def _read_back(self, text: str, zone: str | None) -> str:
        moment = moment_of(text)
        if not isinstance(moment, datetime):
            return text
        if self._drop_seconds:
            moment = moment.replace(second=0, microsecond=0)
        if zone is None and moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.isoformat(timespec="milliseconds")


def default_status(prop: Property) -> str:
    """A status is never empty: its default is the first option."""
    return str(prop.config["options"][0]["id"])


def _status(prop: Property, raw: Mapping[str, Any]) -> str:
    known = option_with(prop, raw["id"]) if "id" in raw else option_named(prop, raw["name"])
    if known is None:
        said = raw.get("name", raw.get("id"))
        raise invalid(f'Invalid status option. Status option "{said}" does not exist".')
    return str(known["id"])


def empty(prop: Property) -> Any:
    """The value of a property that was never set."""
    match prop.type:
        case "title" | "rich_text" | "multi_select" | "people" | "relation" | "files":
            return []
        case "checkbox":
            return False
        case "status":
            return default_status(prop)
    return None


def shown_option(known: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if known is None else {"id": known["id"], "name": known["name"], "color": known["color"]}


def shown_options(prop: Property, ids: Iterable[str]) -> list[dict[str, Any]]:
    found = (shown_option(option_with(prop, one)) for one in ids)
    return [one for one in found if one is not None]
