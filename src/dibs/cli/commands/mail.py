"""mail send, read and watch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, add_token, open_desk, warn
from dibs.cli.commands.chat import again_and_again
from dibs.console.arguments import moment
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import compact_json, emit, printable, pushed
from dibs.core.errors import InvalidInput
from dibs.core.times import time_text
from dibs.mail import ROLE_PREFIX, Context, Mail, delegate, roles_of, send, unknown

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.mail import Letter

# send


def _send_options(parser: Parser) -> None:
    parser.add_argument(
        "to", metavar="TO", nargs="*", help="an agent, or a role as role:NAME; give several to send each a copy"
    )
    parser.add_argument("text", metavar="TEXT", help="the text of the letter")
    parser.add_argument("--task", metavar="ID", help="the task that the letter is about")
    parser.add_argument(
        "--reply-to", metavar="MAIL", help="the letter you answer; without TO, your answer goes to its sender"
    )
    parser.add_argument(
        "--deadline",
        metavar="TIME",
        type=moment,
        help="the time by which you need an answer, such as 2026-01-31T12:00Z",
    )
    parser.add_argument("--delegated-by", metavar="WHO", help="the person or agent on whose behalf you write")
    parser.add_argument("--delegate", metavar="ROLE", help="hand the task over to this role, with this letter")
    add_token(parser)
    add_role(parser)
    add_agent(parser)


def send_(args: argparse.Namespace) -> int:
    if args.delegate is not None and args.task is None:
        raise InvalidInput("--delegate hands a task over; say which with --task.")
    with open_desk(args) as desk:
        answered = None if args.reply_to is None else _mail(desk, args).find(args.reply_to)
        task = None if args.task is None else desk.get(args.task)
        to = [*args.to, *([] if args.delegate is None else [ROLE_PREFIX + args.delegate])]
        to = to or ([answered.sender] if answered else [])
        if args.delegate is not None and task is not None:
            delegate(desk, task, args.delegate, _token(args, task))
        reply_to = answered.id if answered else None
        context = Context(task, reply_to, args.deadline, args.delegated_by)
        letter = send(desk, to, args.text, context)
        strangers = unknown(desk, to)
    for one in strangers:
        warn(f"No agent is enrolled as {one}: the letter waits until an agent of that name reads it.")
    data: dict[str, Json] = {"id": letter, "to": to, "delegated": None if args.delegate is None else args.delegate}
    return emit(args, lambda: data, lambda: [f"sent {letter} to {printable(', '.join(to))}"])


def _token(args: argparse.Namespace, task: Task) -> str | None:
    """The given token, else DIBS_TOKEN, which is valid only for DIBS_TASK_ID."""
    if args.token:
        return str(args.token)
    return os.environ.get("DIBS_TOKEN") if os.environ.get("DIBS_TASK_ID") == task.id else None


# read and watch


def add_role(parser: Parser) -> None:
    hint = "another role whose mail you read too (repeatable)"
    parser.add_argument("--role", metavar="ROLE", action="append", default=[], help=hint)


def _mail(desk: Desk, args: argparse.Namespace) -> Mail:
    return Mail(desk, [*args.role, *roles_of(desk, desk.by.agent or "")])


def _read_options(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="print mail that you have read before too")
    add_role(parser)
    add_agent(parser)


def read(args: argparse.Namespace) -> int:
    with open_desk(args) as desk:
        mail = _mail(desk, args)
        before = mail.history() if args.all else []
        with mail.fetch() as new:
            letters = [*before, *new]
            emit(args, lambda: {"mail": [_data(each) for each in letters]}, lambda: _lines(letters))
            pushed()
    return 0


def _watch_options(parser: Parser) -> None:
    add_role(parser)
    add_agent(parser)


def watch(args: argparse.Namespace) -> int:
    """Print a letter as text, or one object a line, until stopped."""
    with Stop() as stop, open_desk(args) as desk:
        mail = _mail(desk, args)

        def step() -> None:
            with mail.fetch() as new:
                for letter in new:
                    print(compact_json(_data(letter)) if args.json else "\n".join(_letter_lines(letter)))
                pushed()

        again_and_again(step, stop)
        return stop.status


def _lines(letters: Sequence[Letter]) -> Iterable[str]:
    if not letters:
        yield "no mail"
    for letter in letters:
        yield from _letter_lines(letter)


def _letter_lines(letter: Letter) -> Iterable[str]:
    about = [f"for {letter.to}"] if letter.to.startswith(ROLE_PREFIX) else []
    about += [f"about {letter.task.id} ({letter.task.title})"] if letter.task else []
    about += [f"in reply to {letter.reply_to}"] if letter.reply_to else []
    about += [f"until {letter.deadline:%Y-%m-%d %H:%M} UTC"] if letter.deadline else []
    about += [f"on behalf of {letter.delegated_by}"] if letter.delegated_by else []
    yield printable(", ".join([f"[{letter.at:%Y-%m-%d %H:%M} UTC] {letter.id} from {letter.sender}", *about]))
    yield from (printable(f"  {line}") for line in letter.text.split("\n"))
    yield ""


def _data(letter: Letter) -> dict[str, Json]:
    return {
        "id": letter.id,
        "from": letter.sender,
        "to": letter.to,
        "at": time_text(letter.at),
        "text": letter.text,
        "task": None if letter.task is None else letter.task._asdict(),
        "reply_to": letter.reply_to,
        "deadline": None if letter.deadline is None else time_text(letter.deadline),
        "delegated_by": letter.delegated_by,
    }


COMMANDS = {
    "send": Command(_send_options, send_),
    "read": Command(_read_options, read),
    "watch": Command(_watch_options, watch),
}
