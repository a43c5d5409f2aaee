"""Reading a command line: a parser whose complaints are our errors, types of values, and settings by name."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from dibs.console.commands import nearest
from dibs.core.errors import InvalidInput
from dibs.core.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
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

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Name a mistyped option, never a value: it may be a secret."""
        words = list(sys.argv[1:] if args is None else args)
        for word in words[: words.index("--")] if "--" in words else words:
            option = word.partition("=")[0]
            if _is_option(option) and option not in self._option_string_actions:
                raise InvalidInput(f"{unknown_option(option, self._option_string_actions)} See '{self.prog} --help'.")
        found, left = self.parse_known_args(words, namespace)
        if left:
            raise InvalidInput(f"There is a word too many. See '{self.prog} --help'.")
        return found

    def error(self, message: str) -> NoReturn:
        raise InvalidInput(f"{message}. See '{self.prog} --help'.")


def _is_option(word: str) -> bool:
    """As argparse has it: a number, or a text with spaces, is a value."""
    return len(word) > 1 and word[0] == "-" and " " not in word and not word[1:].replace(".", "", 1).isdigit()


def unknown_option(word: str, known: Iterable[str]) -> str:
    """A sentence that names an option that does not exist, but nothing that may be a value glued to its name."""
    option, known = word.partition("=")[0], list(known)
    if glued := [name for name in known if len(name) > len("-h") and option.startswith(name)]:
        return f"'{max(glued, key=len)}' and its value are separate words."
    shown = f"'{option}' " if _NAME.issuperset(option) and len(option) <= _LONGEST_NAME else ""
    return f"There is no option {shown}here.{nearest(option, known)}"


_NAME = frozenset("-abcdefghijklmnopqrstuvwxyz")
_LONGEST_NAME = 24


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
