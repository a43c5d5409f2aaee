"""init, doctor, version: a project's store and its health."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dibs import __version__
from dibs.cli.command import open_desk
from dibs.cli.output import warn
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.errors import DibsError, NoStore, StoreReadOnly
from dibs.stores.opening import DEFAULT_FILE, FOLDER, default_url, file_url

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from dibs.console.arguments import Parser
    from dibs.core.task import Json


def init(args: argparse.Namespace) -> int:
    """Make the store; where there is one already, bring it up to date. A project's agents are told how to work here."""
    elsewhere = args.store or os.environ.get("DIBS_STORE")
    args.store = elsewhere or _project_url(os.getcwd())
    with open_desk(args, create=True) as desk:
        place = desk.describe()["place"]
    agents_file = None if elsewhere or args.no_agents_file else _tell_agents(force=args.force)
    data: dict[str, Json] = {"store": place}
    lines = [f"ready: {place}", 'now: dibs add "My first task"']
    if agents_file is not None:
        data["agents_file"] = agents_file
        lines.insert(1, f"agents: {agents_file} tells them how to work here")
    return emit(args, lambda: data, lambda: lines)


def _init_options(parser: Parser) -> None:
    parser.add_argument("--no-agents-file", action="store_true", help="leave AGENTS.md alone")
    parser.add_argument("--force", action="store_true", help="write our block in AGENTS.md anew, where it was changed")


def _tell_agents(*, force: bool) -> str | None:
    """The file that tells them. Where it cannot, that is said, and the store is made all the same."""
    from dibs.onboarding.agents_file import NAME, write_block

    try:
        write_block(os.getcwd(), force=force)
    except DibsError as error:
        warn(error.message)
        return None
    return NAME


def _project_url(folder: str) -> str:
    home = os.path.join(folder, FOLDER)
    _warn_if_nested(folder)
    try:
        os.makedirs(home, exist_ok=True)
        with open(os.path.join(home, ".gitignore"), "x", encoding="utf-8") as file:
            file.write("*\n")
    except FileExistsError:
        pass  # the user's own, or ours from before
    except OSError as error:
        raise StoreReadOnly(f"Cannot make {home}: {error.strerror}.") from None
    return file_url(os.path.join(home, DEFAULT_FILE))


def _warn_if_nested(folder: str) -> None:
    above = os.path.dirname(os.path.abspath(folder))
    try:
        outer = default_url(above)
    except NoStore:
        return
    warn(f"this folder lies inside another project ({outer}); commands given here now use the inner one")


def _doctor_options(parser: Parser) -> None:
    parser.add_argument("--deep", action="store_true", help="check every counter, order number, lease and link")
    parser.add_argument("--fix", action="store_true", help="with --deep: put right what can be put right")


def doctor(args: argparse.Namespace) -> int:
    """Status 0 when all is well or was put right, 1 when something is left to do."""
    with open_desk(args) as desk:
        facts = {"dibs": __version__, "python": sys.version.split()[0], **desk.describe()}
        findings = desk.check(fix=args.fix) if args.deep or args.fix else []
        checked: list[Json] = [dict(finding._asdict()) for finding in findings]
        data: dict[str, Json] = {"facts": facts, "deep": bool(args.deep or args.fix), "findings": checked}

    def lines() -> Iterable[str]:
        yield from (f"{name:<11} {value}" for name, value in facts.items())
        for finding in findings:
            state = "fixed" if finding.fixed else "can be fixed with --fix" if finding.fixable else "needs a person"
            yield f"✗ {finding.subject}: {finding.problem} ({state})"
        if data["deep"] and not findings:
            yield "✓ every counter, order number, lease and link is as it should be"

    emit(args, lambda: data, lines)
    return 1 if any(not finding.fixed for finding in findings) else 0


def version(args: argparse.Namespace) -> int:
    return emit(args, lambda: {"version": __version__}, lambda: [f"dibs {__version__}"])


COMMANDS = {
    "init": Command(_init_options, init),
    "doctor": Command(_doctor_options, doctor),
    "version": Command(lambda _parser: None, version),
}
