"""The options that several commands of `dibs kurultai` share, and numbers as they take them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dibs.console.arguments import Parser


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands of kurultai")
    shared.add_argument("--store", metavar="URL", help="where the tasks are (KURULTAI_STORE, DIBS_STORE, NEO4J_URI)")
    shared.add_argument("--sender", metavar="WHO", help="whose tasks: a phone number, say (KURULTAI_SENDER)")
    shared.add_argument("--sender-hash", metavar="HASH", help="the same as a hash (KURULTAI_SENDER_HASH)")
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_id(parser: Parser, *, optional: bool = False) -> None:
    hint = "the task's id, or the beginning of it" + ("; without: the next one" if optional else "")
    parser.add_argument("id", metavar="ID", nargs="?" if optional else None, help=hint)


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="who you are, by id or name (KURULTAI_AGENT)")


def add_proof(parser: Parser) -> None:
    parser.add_argument(
        "--claim-attempt-id", metavar="ID", help="the proof that claim gave you (KURULTAI_CLAIM_ATTEMPT_ID)"
    )


def add_reason(parser: Parser, *, required: bool = False) -> None:
    parser.add_argument("--reason", metavar="TEXT", required=required, help="why")


def add_force(parser: Parser) -> None:
    parser.add_argument("--force", action="store_true", help="as the user, also while an agent works on it; on record")


def number(text: str) -> float:
    """An argparse type for weights and scores; how far they may go is the memory's to say."""
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if found != found:  # noqa: PLR0124 - true of nothing but NaN
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number from 0 to 1")
    return found
