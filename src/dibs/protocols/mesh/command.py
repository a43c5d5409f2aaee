"""The options that several commands of `dibs mesh` share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dibs.console.arguments import whole
from dibs.core.scores import FULL_RATING

if TYPE_CHECKING:
    from dibs.console.arguments import Parser


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands of the mesh")
    shared.add_argument("--store", metavar="URL", help="where the tasks are (MESH_STORE; else MESH_TASKS_DB_ID)")
    shared.add_argument("--scope", metavar="NAME", help="which set of tasks in it (DIBS_SCOPE; else 'default')")
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_id(parser: Parser, *, optional: bool = False) -> None:
    hint = "the task's id" + ("; without: the next one" if optional else "")
    parser.add_argument("id", metavar="ID", nargs="?" if optional else None, help=hint)


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="who you are (MESH_AGENT)")


def add_nonce(parser: Parser) -> None:
    parser.add_argument("--nonce", metavar="N", help="the proof that claim gave you (MESH_NONCE)")


def add_scores(parser: Parser, *, required: bool = False) -> None:
    for name in ("confidence", "coherence"):
        parser.add_argument(f"--{name}", metavar="N", type=score, required=required, help=f"its {name}, 0 to 100")
    parser.add_argument("--reworks", metavar="N", type=whole, default=0, help="how often it had to be done again")
    parser.add_argument("--notes", metavar="TEXT", help="what is to be said about it")


def score(text: str) -> float:
    """An argparse type for scores."""
    try:
        number = float(text)
    except ValueError:
        number = -1
    if not 0 <= number <= FULL_RATING:
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number from 0 to {FULL_RATING}")
    return number
