"""config: how chat treats senders, everybody or one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, open_desk
from dibs.cli.commands.chatting import add_sender, sender_of
from dibs.console.arguments import add_setting, setting_lines, wanted_change
from dibs.console.commands import Command
from dibs.console.streams import emit

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser


def _options(parser: Parser) -> None:
    add_setting(parser)
    add_sender(parser)
    add_agent(parser)


def config(args: argparse.Namespace) -> int:
    from dibs.chat.conversation.settings import OPTIONS, configure, values

    changes, sender = wanted_change(args, OPTIONS), sender_of(args)
    with open_desk(args) as desk:
        found = configure(desk, sender, changes) if changes else values(desk, sender)
    return emit(args, lambda: {"config": found}, lambda: setting_lines(found, OPTIONS, args.name))


COMMANDS = {"config": Command(_options, config)}
