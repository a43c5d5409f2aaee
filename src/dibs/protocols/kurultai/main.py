"""`dibs kurultai COMMAND …`: what commands there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.console.commands import Group
from dibs.protocols.kurultai.command import add_shared

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE = "dibs.protocols.kurultai.commands"
COMMANDS = {
    "init": ("project", "make the store, and register the six agents in it"),
    "sender": ("project", "the hash of a sender, under the secret"),
    "config": ("project", "what a sender has set: look at it, or change it"),
    "create": ("author", "add a task, and say what it waits for"),
    "depend": ("author", "say that a task has to come after another"),
    "priority": ("author", "weigh a task anew, or put it first"),
    "claim": ("work", "take the next task, or the one you name"),
    "renew": ("work", "keep a task for another lease"),
    "complete": ("work", "finish a task, and see what that made ready"),
    "fail": ("work", "give a task back, because the attempt failed"),
    "block": ("work", "set a task aside until something outside changes"),
    "reassign": ("steer", "put a blocked task up again, for the same agent or another"),
    "pause": ("steer", "put a task on hold"),
    "resume": ("steer", "take a task off hold"),
    "abort": ("steer", "call a task off"),
    "ready": ("look", "what could be started now, in order"),
    "list": ("look", "a sender's tasks"),
    "show": ("look", "one task, with all it says and what it depends on"),
    "agents": ("look", "the six agents, and how busy they are"),
}

_MORE = (
    "NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD lead to the tasks, or",
    "KURULTAI_STORE names another store, such as sqlite:///kurultai.db. KURULTAI_SENDER_HASH says whose tasks,",
    "KURULTAI_AGENT who you are, KURULTAI_CLAIM_ATTEMPT_ID which claim is yours.",
)


def main(words: Sequence[str]) -> int:
    about = "The Task Dependency Engine: six agents on the tasks of many senders, in the order of what depends on what."
    return Group("kurultai", PACKAGE, COMMANDS, add_shared, about, _MORE).run(words)
