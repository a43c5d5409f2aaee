"""What a sender can set: the UserConfig of kurultai's document, with what holds where nothing is set."""

from collections.abc import Mapping
from typing import TypedDict

from dibs.core.settings import Option, Options
from dibs.core.task import Json


class UserConfig(TypedDict):
    sender_hash: str
    notion_integration_enabled: bool
    notion_database_id: str | None
    notion_poll_enabled: bool
    notion_poll_interval: int
    notion_notify_on_change: bool
    sync_preference: str


OPTIONS: Options = {
    "notion_integration_enabled": Option(bool, False, "whether tasks are kept in step with Notion"),
    "notion_database_id": Option(str, None, "which Notion database"),
    "notion_poll_enabled": Option(bool, False, "whether Notion is looked at again and again, without being asked"),
    "notion_poll_interval": Option(
        int, 60, "how many seconds pass between two looks", least=1, most=86_400, unit="seconds"
    ),
    "notion_notify_on_change": Option(bool, False, "whether the user is told of every change from Notion"),
    "sync_preference": Option(
        str, "safe", "aggressive lets Notion also complete or cancel idle tasks", ("safe", "aggressive")
    ),
}


def config_of(sender_hash: str, kept: Mapping[str, Json]) -> UserConfig:
    """All options, set or not; what others keep beside them is theirs."""
    filled = {name: kept.get(name, option.default) for name, option in OPTIONS.items()}
    return {"sender_hash": sender_hash, **filled}  # type: ignore[typeddict-item]  # each is of its option's kind
