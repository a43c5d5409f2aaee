"""sync: keep a sender's tasks in step with a Notion database."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import TYPE_CHECKING

from dibs.cli.command import open_desk, store_url, warn
from dibs.cli.commands.chat import add_sender, sender_of
from dibs.console.arguments import whole
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import compact_json, emit, printable
from dibs.core.errors import InvalidInput
from dibs.protocols.kurultai import notion

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.sync.notion.report import Report

_PORTS = 65_536


def _options(parser: Parser) -> None:
    parser.add_argument("what", metavar="notion", choices=["notion"], help="the system to sync with")
    parser.add_argument(
        "step", metavar="init", nargs="?", choices=["init"], help="create a database, or add missing properties to one"
    )
    add_sender(parser)
    parser.add_argument("--once", action="store_true", help="sync once and exit (the default)")
    parser.add_argument(
        "--watch", action="store_true", help="keep syncing all senders that have sync turned on, until stopped"
    )
    parser.add_argument("--dry-run", action="store_true", help="print what would happen, and change nothing")
    parser.add_argument(
        "--webhook", metavar="PORT", type=whole, help="with --watch: also listen for Notion's webhooks on this port"
    )
    parser.add_argument(
        "--database", metavar="ID", help="with init: the database to complete (default: NOTION_DATABASE_ID)"
    )
    parser.add_argument("--parent", metavar="PAGE", help="with init: the page that gets the new database")


def act(args: argparse.Namespace) -> int:
    _refuse_nonsense(args)
    if args.step == "init":
        return _init(args)
    return _watch(args) if args.watch else _once(args)


def _refuse_nonsense(args: argparse.Namespace) -> None:
    if args.watch and (args.once or args.dry_run):
        raise InvalidInput("--watch cannot be combined with --once or --dry-run.")
    if args.webhook is not None and not args.watch:
        raise InvalidInput("--webhook goes with --watch.")
    if args.webhook is not None and args.webhook >= _PORTS:
        raise InvalidInput(f"There is no port {args.webhook}: the last is {_PORTS - 1}.")
    if args.step != "init" and (args.database or args.parent):
        raise InvalidInput("--database and --parent go with 'dibs sync notion init'.")
    if args.step == "init" and args.watch:
        raise InvalidInput("init runs once. Remove --watch.")


def _once(args: argparse.Namespace) -> int:
    from dibs.sync.notion.report import as_json, text_of

    sender = sender_of(args)
    if sender is None:
        raise InvalidInput("Whose tasks? Give --sender, or --sender-hash.")
    with open_desk(args) as desk, notion.sync_for(desk, sender) as sync:
        report = sync.preview() if args.dry_run else sync.run()
    emit(args, lambda: as_json(report), lambda: map(printable, text_of(report).split("\n")))
    return 1 if report.failed or report.unwritten else 0


# --watch


def _watch(args: argparse.Namespace) -> int:
    """Sync until stopped."""
    from concurrent.futures import ThreadPoolExecutor

    from dibs.sync.notion.schedule import Listener, Poller

    sender = sender_of(args)
    args.store = store_url(args)
    open_desk(args).close()  # report a broken store at once
    poller = Poller(
        notion.Subscribers(lambda: open_desk(args), sender, notion.usual_interval()), lambda one: _tell(args, one), warn
    )
    with ExitStack() as stack:
        stop = stack.enter_context(Stop())
        if args.webhook is not None:
            token = os.environ.get("NOTION_WEBHOOK_TOKEN", "").strip()
            listener = stack.enter_context(Listener(args.webhook, token, poller.ring, _offered))
            warn(f"listening for webhooks at http://127.0.0.1:{listener.port}")
        # In a thread: the poller waits for webhooks, and a signal handler must not touch what it waits on.
        watching = stack.enter_context(ThreadPoolExecutor(1)).submit(poller.watch)
        watching.add_done_callback(lambda _ended: stop.request())
        stop.wait()
        poller.stop()
        watching.result()
        return stop.status


def _offered(token: str) -> None:
    warn(
        f"Notion offers the token {token}: enter it in the integration's settings, set NOTION_WEBHOOK_TOKEN to it, "
        "and start this again."
    )


def _tell(args: argparse.Namespace, report: Report) -> None:
    from dibs.sync.notion.report import as_json, text_of

    if args.json:
        print(compact_json(as_json(report)), flush=True)
    else:
        print(f"{report.sender[:12]}…\n{printable_lines(text_of(report))}\n", flush=True)


def printable_lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))


# init


def _init(args: argparse.Namespace) -> int:
    """Create a database below a page, or add missing properties to one, and print the next step."""
    from dibs.stores.notion.pages import is_page
    from dibs.sync.notion.database import complete, make

    database = args.database or os.environ.get("NOTION_DATABASE_ID", "").strip()
    if bool(args.parent) == bool(args.database) and not (database and not args.parent):
        raise InvalidInput("Give --parent PAGE to make a database below it, or --database ID to complete one.")
    if not is_page(args.parent or database):
        raise InvalidInput("That is no id: it is the 32 letters and digits in the address of the page in Notion.")
    gateway = notion.connect()
    try:
        if args.parent:
            database, added = make(gateway, args.parent, notion.fleet()), None
        else:
            added = complete(gateway, database, notion.fleet())
    finally:
        gateway.close()
    data: dict[str, Json] = {"database": database, "made": added is None, "added": added or []}
    return emit(args, lambda: data, lambda: _set_up(database, added))


def _set_up(database: str, added: list[str] | None) -> list[str]:
    what = "made" if added is None else f"added {', '.join(added)}" if added else "it is complete"
    return [
        f"database {database}: {what}",
        f"now: export NOTION_DATABASE_ID={database}",
        "     dibs kurultai config notion_integration_enabled true --sender WHO",
        "     dibs sync notion --sender WHO",
    ]


COMMANDS = {"sync": Command(_options, act)}
