"""`dibs kurultai COMMAND …`: its commands, and the options that several of them share."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dibs.console.commands import Group

if TYPE_CHECKING:
    from dibs.console.arguments import Parser

PACKAGE = "dibs.protocols.kurultai.commands"
COMMANDS = {
    "init": ("tasks", "create the store and register the six agents"),
    "run": ("run", "read messages, dispatch, poll Notion and deliver results for all senders, until stopped"),
    "sender": ("tasks", "print the hash of a sender"),
    "config": ("tasks", "show or change a sender's settings"),
    "create": ("tasks", "add a task, with its dependencies"),
    "depend": ("tasks", "make a task depend on another"),
    "priority": ("tasks", "change a task's weight, or put it first"),
    "claim": ("tasks", "claim the next task, or a named one"),
    "renew": ("tasks", "renew the lease of a task"),
    "complete": ("tasks", "complete a task and list the tasks that it unblocks"),
    "fail": ("tasks", "report a failed attempt"),
    "block": ("tasks", "block a task until something outside changes"),
    "reassign": ("tasks", "make a blocked task pending again, for the same agent or another"),
    "pause": ("tasks", "pause a task"),
    "resume": ("tasks", "resume a paused task"),
    "abort": ("tasks", "abort a task"),
    "ready": ("tasks", "list tasks that can start now, in order"),
    "list": ("tasks", "list a sender's tasks"),
    "show": ("tasks", "show a task and its dependencies"),
    "agents": ("tasks", "list the six agents and their load"),
}

_MORE = (
    "NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD name the store, or",
    "KURULTAI_STORE names another one, such as sqlite:///kurultai.db. KURULTAI_SENDER_HASH is the sender,",
    "KURULTAI_AGENT the agent, KURULTAI_CLAIM_ATTEMPT_ID the proof of its claim.",
)


def add_shared(parser: Parser) -> None:
    shared = parser.add_argument_group("shared by all commands of kurultai")
    shared.add_argument("--store", metavar="URL", help="the store (KURULTAI_STORE, DIBS_STORE, NEO4J_URI)")
    shared.add_argument(
        "--sender", metavar="WHO", help="the sender of the tasks, such as a phone number (KURULTAI_SENDER)"
    )
    shared.add_argument("--sender-hash", metavar="HASH", help="the sender's hash (KURULTAI_SENDER_HASH)")
    shared.add_argument("--json", action="store_true", help="print one JSON document instead of text")


def add_id(parser: Parser, *, optional: bool = False) -> None:
    hint = "a task id or its beginning" + ("; by default the next task" if optional else "")
    parser.add_argument("id", metavar="ID", nargs="?" if optional else None, help=hint)


def add_agent(parser: Parser) -> None:
    parser.add_argument("--agent", metavar="NAME", help="the acting agent, by id or name (KURULTAI_AGENT)")


def add_proof(parser: Parser) -> None:
    parser.add_argument(
        "--claim-attempt-id", metavar="ID", help="the proof that claim printed (KURULTAI_CLAIM_ATTEMPT_ID)"
    )


def add_reason(parser: Parser, *, required: bool = False) -> None:
    parser.add_argument("--reason", metavar="TEXT", required=required, help="the reason")


def add_force(parser: Parser) -> None:
    parser.add_argument(
        "--force", action="store_true", help="act as the user, even while an agent works on it; recorded"
    )


def number(text: str) -> float:
    """An argparse type for weights and scores. The memory checks their range."""
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if found != found:  # noqa: PLR0124 - true of nothing but NaN
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number from 0 to 1")
    return found


_ABOUT = "The Task Dependency Engine: six agents work on the tasks of many senders, in the order of dependencies."

GROUP = Group("kurultai", PACKAGE, COMMANDS, add_shared, _ABOUT, _MORE)
