"""Settings of a scope: names with JSON values, and the table of options that says which values make sense."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from dibs.core.errors import InvalidInput
from dibs.core.task import Json


class Option(NamedTuple):
    """`kind` is the type of its values. Either `choices` lists them, or `least` and `most` bound them."""

    kind: type[bool] | type[int] | type[float] | type[str]
    default: Json
    does: str
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    unit: str = ""


Options: TypeAlias = Mapping[str, Option]

_TRUTHS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
_MOST_DIGITS = 12


def option_named(name: str, options: Options) -> Option:
    if name not in options:
        raise InvalidInput(f"There is no setting {name[:40]!r}. Choose from {', '.join(options)}.")
    return options[name]


def checked(changes: Mapping[str, Json], options: Options) -> dict[str, Json]:
    """The changes, if every one of them makes sense. None puts an option back to its default."""
    return {name: None if value is None else _checked(name, value, options) for name, value in changes.items()}


def _checked(name: str, value: Json, options: Options) -> Json:
    option = option_named(name, options)
    if option.kind is float and type(value) is int:
        value = float(value)
    if type(value) is not option.kind or value == "" or not _within(value, option):
        raise InvalidInput(f"{name} must be {_wanted(option)}, not {str(value)[:40]!r}.")
    return value


def _within(value: Json, option: Option) -> bool:
    if option.choices:
        return value in option.choices
    if option.least is None or option.most is None or not isinstance(value, int | float):
        return True
    return option.least <= value <= option.most  # false for NaN


def _wanted(option: Option) -> str:
    if option.choices:
        return " or ".join(option.choices)
    what = {bool: "true or false", str: "a text", int: "a whole number", float: "a number"}[option.kind]
    between = "" if option.least is None else f" from {option.least:g} to {option.most:g}"
    return f"{what}{f' of {option.unit}' if option.unit else ''}{between}"


def value_from(name: str, text: str, options: Options) -> Json:
    """The value of a typed text. A text that is not a value is returned unchanged; `checked` refuses it."""
    kind, typed = option_named(name, options).kind, text.strip()
    if kind is bool:
        return _TRUTHS.get(typed.casefold(), typed)
    if kind is int:
        return int(typed) if typed.isascii() and typed.isdigit() and len(typed) <= _MOST_DIGITS else typed
    if kind is float:
        return _number(typed)
    return typed


def _number(typed: str) -> Json:
    try:
        return float(typed)
    except ValueError:
        return typed


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
