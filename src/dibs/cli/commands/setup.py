"""prime, setup: take agents on board."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, open_desk, store_url, warn
from dibs.console.commands import Command
from dibs.console.streams import emit, printable
from dibs.core.errors import DibsError, InvalidInput, NoStore
from dibs.core.messages import command
from dibs.identity import agent_name, product_name

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.onboarding.prime import Situation
    from dibs.onboarding.setup import Plan, Project

# prime


def prime(args: argparse.Namespace) -> int:
    """Always status 0: a hook that fails would keep an agent from starting."""
    from dibs.fleet.instructions import briefing
    from dibs.onboarding.prime import offered_tools

    try:
        store_url(args)
    except NoStore:
        return emit(args, lambda: None, list) if args.json else 0
    agent = args.agent or agent_name()
    try:
        lines, data = _situation(args, agent)
    except DibsError as error:
        lines, data = [f"The state of the tasks is unknown: {printable(error.message)}"], None
    said = briefing(tools=offered_tools(_project(args).folder, product_name(os.environ)))
    return emit(args, lambda: {"instructions": said, "situation": data}, lambda: [said, *lines])


def _situation(args: argparse.Namespace, agent: str) -> tuple[list[str], Json]:
    from dibs.onboarding.prime import situation, situation_lines, within

    def ask() -> Situation:
        with open_desk(args) as desk:
            return situation(desk, agent)

    found = within(ask)
    data: dict[str, Json] = {"agent": agent, "ready": found.counts.claimable, "waiting": found.counts.waiting}
    data["next"] = None if found.next is None else found.next.id
    data["held"] = [task.id for task in found.held]
    return situation_lines(found, agent), data


# setup


def _setup_options(parser: Parser) -> None:
    from dibs.onboarding.products import PRODUCTS

    names = "{" + ",".join(PRODUCTS) + "}"
    parser.add_argument(
        "product", metavar="PRODUCT", choices=PRODUCTS, help=f"the product that the agent runs in: {names}"
    )
    parser.add_argument("--check", action="store_true", help="check whether it is set up; exit with 1 if not")
    parser.add_argument("--undo", action="store_true", help="remove what setup wrote, and nothing else")
    parser.add_argument("--yes", action="store_true", help="write without asking")
    parser.add_argument("--force", action="store_true", help="replace our blocks even if they were changed")


def setup(args: argparse.Namespace) -> int:
    from dibs.onboarding.setup import planned, undoing

    project = _project(args)
    if args.check:
        return _check(args, project)
    plan = (undoing if args.undo else planned)(args.product, project, force=args.force)
    if plan.writes and not args.json:
        for line in _diff(plan):
            print(printable(line))
    if plan.writes:
        _ask(args)
        _carry_out(plan, project)
    data: dict[str, Json] = {
        "product": args.product,
        "changed": [change.name for change in plan.writes],
        "remarks": list(plan.remarks),
    }
    return emit(args, lambda: data, lambda: _told(args, plan))


def _carry_out(plan: Plan, project: Project) -> None:
    from dibs.onboarding.setup import carry_out

    carry_out(plan, project)


def _project(args: argparse.Namespace) -> Project:
    """The folder of the project at or above this one, or this git worktree; with a store elsewhere, this folder."""
    from dibs.onboarding.setup import Project
    from dibs.stores.opening import default_url, is_below, linked_worktree, path_of

    here = os.getcwd()
    elsewhere = bool(args.store or os.environ.get("DIBS_STORE"))
    try:
        url = default_url(here)
    except NoStore:
        store_url(args)  # which says how to make one, where there is none either
        return Project(here, own_store=False)
    store = path_of(url)
    worktree = linked_worktree(here)
    own = worktree is None or is_below(store, worktree.root)
    folder = os.path.dirname(os.path.dirname(store)) if worktree is None or own else worktree.root
    return Project(folder, own_store=not elsewhere)


def _check(args: argparse.Namespace, project: Project) -> int:
    from dibs.onboarding.setup import states

    found = dict(states(args.product, project))
    emit(
        args,
        lambda: {"product": args.product, "files": {name: wrong or None for name, wrong in found.items()}},
        lambda: [f"✗ {name}: {wrong}" if wrong else f"✓ {name}" for name, wrong in found.items()],
    )
    return 1 if any(found.values()) else 0


def _diff(plan: Plan) -> Iterator[str]:
    from difflib import unified_diff

    for change in plan.writes:
        old, new = ((text or "").splitlines() for text in (change.before, change.after))
        yield from unified_diff(old, new, change.name, change.name, n=2, lineterm="")
        if change.after is None:
            yield f"({change.name} is deleted: setup created it)"


def _ask(args: argparse.Namespace) -> None:
    if args.yes:
        return
    if args.json or not sys.stdin.isatty():
        raise InvalidInput("Nothing was written, because no terminal can ask you. --yes writes without asking.")
    print("Write this? [y/N] ", end="", flush=True)
    if sys.stdin.readline().strip().casefold() not in {"y", "yes"}:
        raise InvalidInput("Nothing was written.")


def _told(args: argparse.Namespace, plan: Plan) -> Iterator[str]:
    from shutil import which

    from dibs.fleet.instructions import RECIPES
    from dibs.onboarding.products import PRODUCTS

    product = PRODUCTS[args.product]
    for remark in plan.remarks:
        warn(remark)
    if args.undo:
        yield f"removed dibs from {product.title}" if plan.writes else "there was nothing to remove"
        return
    yield f"{product.title} is set up" if plan.writes else f"{product.title} was set up already"
    yield product.then
    if args.product in RECIPES:
        run = command("dibs", "work", "--with", args.product, "--slots", "3", "--worktree")
        yield f"Three of them at work, each task in a git worktree: {run}"
    if which("dibs") is None:
        yield "dibs is not on this shell's PATH. The product must find it on the PATH that it starts with."


COMMANDS = {"prime": Command(add_agent, prime), "setup": Command(_setup_options, setup)}
