"""NAME, VALUE and --reset: settings looked at and changed, the same way wherever there are some."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.table import table
from dibs.core.errors import InvalidInput
from dibs.core.options import option_named, value_from

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from dibs.console.arguments import Parser
    from dibs.core.options import Options
    from dibs.core.task import Json


def add_setting(parser: Parser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="which setting; without: all of them")
    parser.add_argument("value", metavar="VALUE", nargs="?", help="what it is to be from now on")
    parser.add_argument("--reset", action="store_true", help="put it back to what holds where nothing is set")


def wanted_change(args: argparse.Namespace, options: Options) -> dict[str, Json]:
    """What is to be set, unchecked; nothing, if it is only looked at."""
    if args.reset and (args.name is None or args.value is not None):
        raise InvalidInput("--reset takes the name of a setting, and no value.")
    if args.name is not None:
        option_named(args.name, options)
    if args.reset:
        return {args.name: None}
    return {} if args.value is None else {args.name: value_from(args.name, args.value, options)}


def setting_lines(found: Mapping[str, object], options: Options, name: str | None) -> list[str]:
    shown = {each: value for each, value in found.items() if each in options and name in {None, each}}
    rows = [(each, _shown(value), options[each].does) for each, value in shown.items()]
    return table(("SETTING", "VALUE", "MEANS"), rows)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else "" if value is None else str(value)
