"""`dibs kurultai COMMAND …`: its commands, and the options that several of them share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dibs.console.commands import Group

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.console.arguments import Parser

PACKAGE = "dibs.protocols.kurultai.commands"
COMMANDS = {
    "init": ("project", "make the store, and register the six agents in it"),
    "sender": ("project", "the hash of a sender, under the secret"),
    "config": ("project", "what a sender has set: look at it, or change it"),
    "create": ("tasks", "add a task, and say what it waits for"),
    "depend": ("tasks", "say that a task has to come after another"),
    "priority": ("tasks", "weigh a task anew, or put it first"),
    "claim": ("work", "take the next task, or the one you name"),
    "renew": ("work", "keep a task for another lease"),
    "complete": ("work", "finish a task, and see what that made ready"),
    "fail": ("work", "give a task back, because the attempt failed"),
    "block": ("work", "set a task aside until something outside changes"),
    "reassign": ("tasks", "put a blocked task up again, for the same agent or another"),
    "pause": ("tasks", "put a task on hold"),
    "resume": ("tasks", "take a task off hold"),
    "abort": ("tasks", "call a task off"),
    "ready": ("project", "what could be started now, in order"),
    "list": ("project", "a sender's tasks"),
    "show": ("project", "one task, with all it says and what it depends on"),
    "agents": ("project", "the six agents, and how busy they are"),
}

_MORE = (
    "NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD lead to the tasks, or",
    "KURULTAI_STORE names another store, such as sqlite:///kurultai.db. KURULTAI_SENDER_HASH says whose tasks,",
    "KURULTAI_AGENT who you are, KURULTAI_CLAIM_ATTEMPT_ID which claim is yours.",
)


def main(words: Sequence[str]) -> int:
    about = "The Task Dependency Engine: six agents on the tasks of many senders, in the order of what depends on what."
    return Group("kurultai", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)


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
