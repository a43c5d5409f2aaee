"""Settings of a scope: names with JSON values."""

from collections.abc import Mapping
from typing import NamedTuple

from dibs.core.task import Json


class Setting(NamedTuple):
    """One of them, as an export has it."""

    name: str
    value: Json


def differing(before: Mapping[str, Json], changes: Mapping[str, Json]) -> dict[str, Json]:
    """Those of the changes that change anything; None is for a setting that is not there."""
    return {name: value for name, value in changes.items() if not _same(value, before.get(name))}


def _same(one: Json, other: Json) -> bool:
    """To JSON, unlike to Python, 1 and 1.0 and true are three things."""
    import json

    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
