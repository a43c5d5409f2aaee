"""inbox: what a sender is to hear."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from dibs.chat.opening import chosen_unify
from dibs.chat.wire import note_json
from dibs.cli.command import add_agent, open_desk
from dibs.cli.commands.chatting import add_sender, sender_of
from dibs.cli.output import warn
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import compact_json, emit, printable, pushed
from dibs.core.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from dibs.console.arguments import Parser
    from dibs.core.task import Task
    from dibs.desk import Desk

EVERY = 1.0  # seconds between looks
_TROUBLE = 5.0  # the same while the store cannot be asked


def _inbox_options(parser: Parser) -> None:
    add_sender(parser)
    parser.add_argument("--follow", action="store_true", help="go on, and print whatever comes, until stopped")
    parser.add_argument("--all", action="store_true", help="what was printed before, too, as far as it is kept")
    add_agent(parser)


def inbox(args: argparse.Namespace) -> int:
    """What has become due is told first, so that it is all there although no timer runs."""
    from dibs.chat.conversation.delivery import deliver
    from dibs.mail import sender_box

    sender = sender_of(args)
    if sender is None:
        raise InvalidInput("Whose inbox? Give --sender, or --sender-hash.")
    with Stop() if args.follow else nullcontext() as stop, open_desk(args) as desk:
        box = sender_box(desk, sender)
        deliver(desk, sender, chosen_unify())
        before = box.history() if args.all else []
        with box.fetch() as new:
            _show(args, [*before, *new])
            pushed()
        if stop is not None:
            _follow(args, desk, sender, stop)
            return stop.status
    return 0


def _follow(args: argparse.Namespace, desk: Desk, sender: str, stop: Stop) -> None:
    """Only news is worth a look at all of a sender's tasks."""
    from dibs.chat.conversation.delivery import ChangedSenders, deliver
    from dibs.mail import sender_box

    box, news, unify = sender_box(desk, sender), ChangedSenders(desk), chosen_unify()

    def step() -> None:
        if sender in news.senders():
            deliver(desk, sender, unify)
        with box.fetch() as new:
            _show(args, new)
            pushed()

    again_and_again(step, stop)


def again_and_again(step: Callable[[], None], stop: Stop) -> None:
    """Repeat a step until stopped. A store that cannot be reached is asked again."""
    pause = 0.0
    while not stop.wait(pause):
        pause = EVERY
        try:
            step()
        except StoreError as error:
            warn(error.message)
            pause = _TROUBLE


def _show(args: argparse.Namespace, notes: Sequence[Task]) -> None:
    if args.follow and args.json:
        for note in notes:
            print(compact_json(note_json(note)))
    elif notes or not args.follow:
        emit(args, lambda: {"notes": [note_json(note) for note in notes]}, lambda: _lines(notes))


def _lines(notes: Sequence[Task]) -> Iterable[str]:
    if not notes:
        yield "nothing new"
    for note in notes:
        first, *more = note.description.split("\n")
        yield f"[{note.created_at:%Y-%m-%d %H:%M} UTC] {printable(first)}"
        yield from (printable(line) for line in more)
        yield ""


COMMANDS = {"inbox": Command(_inbox_options, inbox)}
