"""dibs mail from the command line, and its complete reference page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.cli.catalogue import PACKAGE, group
from dibs.cli.command import add_shared
from dibs.console.stopping import Stop
from dibs.core.errors import StoreUnavailable
from dibs.mail import Mailbox
from docs.command_page import CommandPage

if TYPE_CHECKING:
    from dibs.core.task import Task
    from support.cli import Cli

COMMANDS = group("mail").table
PAGE = CommandPage(
    "mail.md",
    "dibs mail",
    PACKAGE,
    COMMANDS,
    frozenset({"Shared by all commands"}),
    add_shared,
    frozenset({"--store", "--scope", "--json"}),
)


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    PAGE.has_a_section_for_each_command()


@pytest.mark.parametrize("name", COMMANDS)
def test_command_section_lists_its_arguments_with_an_example(name: str) -> None:
    PAGE.tells_all_of(name)


def test_letters_are_sent_and_answered(cli: Cli) -> None:
    cli.add("parser")
    sent = cli("mail", "send", "bob", "carol", "Look \x1b[2J at it", "--task", "pars", "--agent", "ann", "--json").data
    assert sent["to"] == ["bob", "carol"]
    text = cli.ok("mail", "read", "--agent", "bob")
    assert f"{sent['id']} from ann, about parser (" in text
    assert "\x1b" not in text
    assert cli.ok("mail", "read", "--agent", "bob") == "no mail\n"
    cli.ok("mail", "send", "--reply-to", sent["id"][:6], "I did", "--agent", "bob")
    (answer,) = cli("mail", "read", "--agent", "ann", "--json").data["mail"]
    assert (answer["from"], answer["text"], answer["reply_to"]) == ("bob", "I did", sent["id"])
    (again,) = cli("mail", "read", "--agent", "bob", "--all", "--json").data["mail"]
    assert (again["id"], again["task"]["id"]) == (sent["id"], "parser")


def test_holder_hands_over_a_task_with_its_token(cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    refused = cli("mail", "send", "--delegate", "writer", "--task", "job", "Yours", "--agent", "ann")
    assert (refused.status, "who alone can delegate it" in refused.err) == (4, True)
    assert cli("mail", "read", "--role", "writer", "--agent", "bob", "--json").data == {"mail": []}
    cli.ok("mail", "send", "--delegate", "writer", "--task", "job", "--token", token, "Yours", "--agent", "ann")
    task = cli("show", "job", "--json").data
    assert (task["status"], task["extra"]) == ("ready", {"role": "writer"})
    (letter,) = cli("mail", "read", "--role", "writer", "--agent", "bob", "--json").data["mail"]
    assert (letter["to"], letter["task"]["id"]) == ("role:writer", "job")


def test_watch_continues_after_a_store_outage(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.ok("mail", "send", "bob", "Are you there?", "--agent", "ann")
    rests: list[float] = []
    away = [StoreUnavailable("It is away.")]
    take = Mailbox.take

    def away_once(box: Mailbox, most: int = 100) -> list[Task]:
        if away:
            raise away.pop()
        return take(box, most)

    def stopped_within(_stop: Stop, seconds: float) -> bool:
        rests.append(seconds)
        return len(rests) > 2

    monkeypatch.setattr(Mailbox, "take", away_once)
    monkeypatch.setattr(Stop, "wait", stopped_within)
    ran = cli("mail", "watch", "--agent", "bob")
    assert (ran.status, "It is away." in ran.err, "Are you there?" in ran.out) == (0, True, True)
    assert rests[1] > rests[2]


@pytest.mark.parametrize(
    ("words", "status", "problem"),
    [
        (("send", "hello"), 2, "The letter has no recipient."),
        (("send", "bob", " "), 2, "The letter is empty"),
        (("send", "bob", "hi", "--task", "nothing"), 3, "no task 'nothing'"),
        (("send", "hi", "--reply-to", "nothing"), 3, "no letter 'nothing'"),
        (("send", "hi", "--delegate", "writer"), 2, "say which with --task"),
        (("send", "bob", "hi", "--deadline", "soon"), 2, "not a time"),
        (("burn",), 2, "There is no command 'mail burn'"),
    ],
)
def test_wrong_input_is_refused_with_advice(cli: Cli, words: tuple[str, ...], status: int, problem: str) -> None:
    ran = cli("mail", *words)
    assert (ran.status, problem in ran.err) == (status, True), ran
