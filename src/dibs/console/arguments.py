"""Reading a command line: a parser whose complaints are our errors, types of values, and settings by name."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from dibs.console.commands import did_you_mean
from dibs.core.errors import InvalidInput
from dibs.core.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime, timedelta

    from dibs.core.settings import Options
    from dibs.core.task import Json


def _formatter(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, width=help_width())


def help_width() -> int:
    """As wide as the terminal, but no wider than is easy to read."""
    if not sys.stdout.isatty():
        return _WIDEST
    return max(_NARROWEST, min(_WIDEST, os.get_terminal_size(sys.stdout.fileno()).columns - 2))


_WIDEST, _NARROWEST = 110, 60


class Parser(argparse.ArgumentParser):
    """An argument parser that raises our errors, so that they are printed as JSON too."""

    def __init__(self, name: str, summary: str) -> None:
        # With a given width, argparse need not import shutil to find it, for a help text that is not printed.
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

    def format_help(self) -> str:
        from dibs.console.examples import EXAMPLES

        shown = [f"  {example}" for example in EXAMPLES.get(self.prog, ())]
        return "\n".join([super().format_help(), *(["examples:", *shown, ""] if shown else [])])

    def error(self, message: str) -> NoReturn:
        _, _, missing = message.partition("the following arguments are required: ")
        if missing:
            needed = [str(each.metavar) for each in self._actions if not each.option_strings and each.nargs != "?"]
            needed += [
                f"{each.option_strings[0]} {each.metavar}"
                for each in self._actions
                if each.option_strings and each.required
            ]
            raise InvalidInput(
                f"{missing} is missing; '{self.prog} --help' has examples. Type: {self.prog} {' '.join(needed)}"
            )
        one_of, mark, _ = message.partition(" is required")
        if mark and one_of.startswith(_ONE_OF):
            *others, last = one_of.removeprefix(_ONE_OF).split()
            message = f"Give {', '.join(others)} or {last}"
        raise InvalidInput(f"{message}. See '{self.prog} --help'.")


_ONE_OF = "one of the arguments "


def _is_option(word: str) -> bool:
    """As argparse has it: a number, or a text with spaces, is a value."""
    return len(word) > 1 and word[0] == "-" and " " not in word and not word[1:].replace(".", "", 1).isdigit()


def unknown_option(word: str, known: Iterable[str]) -> str:
    """A sentence that names an option that does not exist, but nothing that may be a value glued to its name."""
    option, known = word.partition("=")[0], list(known)
    if glued := [name for name in known if len(name) > len("-h") and option.startswith(name)]:
        return f"'{max(glued, key=len)}' and its value are separate words."
    shown = f"option '{option}'" if _NAME.issuperset(option) and len(option) <= _LONGEST_NAME else "such option"
    return f"There is no {shown} here.{did_you_mean(option, known)}"


_NAME = frozenset("-abcdefghijklmnopqrstuvwxyz")
_LONGEST_NAME = 24


def whole(text: str) -> int:
    """An argparse type for numbers from zero up that a store can hold."""
    if not (text.isascii() and text.isdigit() and len(text) < 19):  # noqa: PLR2004 - below 2⁶³
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a whole number")
    return int(text)


def rank(text: str) -> float:
    """An argparse type for priorities: a number, `P1`, or a word such as `high`."""
    try:
        return float(text)
    except ValueError:
        word = text.strip().lower()
    if word in _RANKS:
        return _RANKS[word]
    if word[:1] == "p" and word[1:].isascii() and word[1:].isdigit():
        return float(word[1:])
    raise argparse.ArgumentTypeError(f"'{text[:20]}' is no priority: a number (lower comes first), P0 to P4, or high")


_RANKS = {
    **dict.fromkeys(("critical", "urgent", "highest", "blocker", "asap"), 0.0),
    **dict.fromkeys(("high", "h", "major", "important", "a"), 1.0),
    **dict.fromkeys(("medium", "normal", "m", "default", "b"), 2.0),
    **dict.fromkeys(("low", "l", "minor", "c"), 3.0),
    **dict.fromkeys(("lowest", "trivial", "someday", "d"), 4.0),
}


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


MOMENT_HINT = "2026-01-31T12:00Z, or 2h for two hours from now"


def moment_or_span(text: str) -> datetime | timedelta:
    """An argparse type for a point in time, or a span from now such as `2h` or `tomorrow`."""
    try:
        return moment(text)
    except argparse.ArgumentTypeError as error:
        try:
            return parse_duration("1d" if text.lower() == "tomorrow" else text.removeprefix("+"))
        except InvalidInput:
            raise argparse.ArgumentTypeError(f"{error}. A span from now, such as 2h, is fine too") from None


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
    parser.add_argument("name", metavar="NAME", nargs="?", help="the setting to show or change (default: show all)")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="the new value")
    parser.add_argument("--reset", action="store_true", help="remove the setting, so that its default applies")


def wanted_change(args: argparse.Namespace, options: Options) -> dict[str, Json]:
    """The unchecked change, or nothing if the settings are only shown."""
    from dibs.core.settings import option_named, value_from

    if args.reset and (args.name is None or args.value is not None):
        raise InvalidInput("--reset takes the name of a setting, and no value.")
    if args.name is not None:
        option_named(args.name, options)
    if args.reset:
        return {args.name: None}
    return {} if args.value is None else {args.name: value_from(args.name, args.value, options)}


def setting_lines(found: Mapping[str, object], options: Options, name: str | None) -> list[str]:
    from dibs.console.streams import table

    shown = {each: value for each, value in found.items() if each in options and name in {None, each}}
    rows = [(each, _setting_text(value), options[each].does) for each, value in shown.items()]
    return table(("SETTING", "VALUE", "MEANS"), rows)


def _setting_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
