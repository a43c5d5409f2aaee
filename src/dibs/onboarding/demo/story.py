"""The story as data: who is in it, the plan, what goes on after it, and what is said in the chat."""

import os
from typing import Any, NamedTuple

from dibs.core.plan import Plan, parse_yaml

_FILE = os.path.join(os.path.dirname(__file__), "story.yaml")


class Part(NamedTuple):
    """One of the cast."""

    agent: str
    role: str


class Chat(NamedTuple):
    """What is said, and how many seconds after the beginning."""

    at: float
    says: tuple[str, ...]


class Story(NamedTuple):
    cast: tuple[Part, ...]
    plan: Plan
    chat: tuple[Chat, ...]
    harbours: tuple[str, ...]
    template: tuple[dict[str, Any], ...]

    def sequel(self, number: int) -> tuple[str, Plan]:
        """What there is to do next, and for which harbour: when the plan is finished, there are always more."""
        lap, index = divmod(number, len(self.harbours))
        name = self.harbours[index] + (f" {lap + 1}" if lap else "")
        slug = name.lower().replace(" ", "-")
        tasks = [_told(task, name, slug) for task in self.template]
        return name, _plan({"spec": f"low-water/{slug}", "tasks": tasks})


def story() -> Story:
    import yaml

    with open(_FILE, encoding="utf-8") as file:
        told = yaml.safe_load(file)
    return Story(
        tuple(Part(**part) for part in told["cast"]),
        _plan(told["plan"]),
        tuple(Chat(chat["at"], tuple(chat["says"])) for chat in told["chat"]),
        tuple(told["harbours"]),
        tuple(told["harbour"]),
    )


def _told(task: dict[str, Any], name: str, slug: str) -> dict[str, Any]:
    plain = {key: value for key, value in task.items() if key != "takes"}
    return plain | {
        "id": f"{slug}-{task['id']}",
        "title": task["title"].format(name=name),
        "deps": [f"{slug}-{each}" for each in task.get("deps", ())],
        "extra": {"demo": {"takes": task["takes"]}},
    }


def _plan(told: dict[str, Any]) -> Plan:
    import json

    return parse_yaml(json.dumps(told))  # JSON is YAML, and the reader of plans checks it all
