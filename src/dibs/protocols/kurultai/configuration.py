"""What a sender can set: the UserConfig of kurultai's document, with what holds where nothing is set."""

from collections.abc import Mapping
from typing import NamedTuple, TypedDict

from dibs.core.errors import InvalidInput
from dibs.core.task import Json


class UserConfig(TypedDict):
    sender_hash: str
    notion_integration_enabled: bool
    notion_database_id: str | None
    notion_poll_enabled: bool
    notion_poll_interval: int
    notion_notify_on_change: bool
    sync_preference: str


class Option(NamedTuple):
    """`kind` is what its values are; `choices` are all of them, where that can be said."""

    kind: type[bool] | type[int] | type[str]
    default: Json
    does: str
    choices: tuple[str, ...] = ()


OPTIONS: Mapping[str, Option] = {
    "notion_integration_enabled": Option(bool, False, "whether tasks are kept in step with Notion"),
    "notion_database_id": Option(str, None, "which Notion database"),
    "notion_poll_enabled": Option(bool, False, "whether Notion is looked at again and again, without being asked"),
    "notion_poll_interval": Option(int, 60, "how many seconds pass between two looks"),
    "notion_notify_on_change": Option(bool, False, "whether the user is told of every change from Notion"),
    "sync_preference": Option(
        str, "safe", "aggressive lets Notion also complete or cancel idle tasks", ("safe", "aggressive")
    ),
}

_LONGEST_INTERVAL = 86_400
_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}


def config_of(sender_hash: str, kept: Mapping[str, Json]) -> UserConfig:
    """All options, set or not; what others keep beside them is theirs."""
    filled = {name: kept.get(name, option.default) for name, option in OPTIONS.items()}
    return {"sender_hash": sender_hash, **filled}  # type: ignore[typeddict-item]  # each is of its option's kind


def checked(changes: Mapping[str, Json]) -> dict[str, Json]:
    """The changes, if every one of them makes sense. None puts an option back to its default."""
    return {name: None if value is None else _checked(name, value) for name, value in changes.items()}


def option_named(name: str) -> Option:
    if name not in OPTIONS:
        raise InvalidInput(f"There is no setting {name[:40]!r}; there is {', '.join(OPTIONS)}.")
    return OPTIONS[name]


def _checked(name: str, value: Json) -> Json:
    option = option_named(name)
    good = type(value) is option.kind and (not option.choices or value in option.choices) and value != ""
    if good and name == "notion_poll_interval":
        good = isinstance(value, int) and 1 <= value <= _LONGEST_INTERVAL
    if not good:
        raise InvalidInput(f"{name} is {_wanted(name, option)}, not {str(value)[:40]!r}.")
    return value


def _wanted(name: str, option: Option) -> str:
    if name == "notion_poll_interval":
        return f"a whole number of seconds from 1 to {_LONGEST_INTERVAL}"
    return " or ".join(option.choices) or {bool: "true or false", str: "a text"}[option.kind]


def value_from(name: str, text: str) -> Json:
    """A value as it is typed."""
    option = option_named(name)
    if option.kind is bool:
        return _TRUTHS.get(text.strip().casefold(), text)
    digits = option.kind is int and text.isascii() and text.isdigit() and len(text) < 10  # noqa: PLR2004 - far too many
    return int(text) if digits else text.strip()
