"""Reading a command line: a parser whose complaints are our errors, types of values, and settings by name."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from dibs.core.errors import InvalidInput
from dibs.core.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from dibs.core.settings import Options
    from dibs.core.task import Json


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=110)


class Parser(argparse.ArgumentParser):
    """An argument parser whose complaints are our errors, so that they come out as JSON too."""

    def __init__(self, name: str, summary: str) -> None:
        # Told its width, argparse need not import shutil to find out, for a help text nobody asked for.
        super().__init__(prog=name, description=summary, allow_abbrev=False, formatter_class=_formatter)

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message}. See '{self.prog} --help'.")


def whole(text: str) -> int:
    """An argparse type for numbers from zero up that a store can hold."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):  # noqa: PLR2004 - below 2⁶³
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a whole number")
    return int(text)


def span(text: str) -> timedelta:
    """An argparse type for spans of time."""
    try:
        return parse_duration(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(error.message.rstrip(".")) from None


def moment(text: str) -> datetime:
    """An argparse type for points in time."""
    from dibs.core.times import time_from

    try:
        return time_from(text)
    except InvalidInput as error:
        raise argparse.ArgumentTypeError(error.message.rstrip(".")) from None


def positive(text: str) -> int:
    """An argparse type for counts."""
    if not (text.isascii() and text.isdigit() and int(text) > 0 and len(text) < 10):  # noqa: PLR2004 - a sane count
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above zero")
    return int(text)


def json_text(field: str, text: str) -> object:
    """A JSON value from the command line."""
    import json

    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"--{field} is not valid JSON: {error}.") from None


def add_setting(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="which setting; without: all of them")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="what it is to be from now on")
    parser.add_argument("--reset", action="store_true", help="put it back to what holds where nothing is set")


def wanted_change(args: argparse.Namespace, options: Options) -> dict[str, Json]:
    """What is to be set, unchecked; nothing, if it is only looked at."""
    from dibs.core.settings import option_named, value_from

    if args.reset and (args.name is None or args.value is not None):
        raise InvalidInput("--reset takes the name of a setting, and no value.")
    if args.name is not None:
        option_named(args.name, options)
    if args.reset:
        return {args.name: None}
    return {} if args.value is None else {args.name: value_from(args.name, args.value, options)}


def setting_lines(found: Mapping[str, object], options: Options, name: str | None) -> list[str]:
    from dibs.console.table import table

    shown = {each: value for each, value in found.items() if each in options and name in {None, each}}
    rows = [(each, _setting_text(value), options[each].does) for each, value in shown.items()]
    return table(("SETTING", "VALUE", "MEANS"), rows)


def _setting_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
