"""The commands for the whole vault: init, status, health, sync, resolve."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.console.commands import Command
from dibs.console.streams import emit, table
from dibs.core.errors import InvalidInput, NotFound, StoreUnavailable
from dibs.core.messages import quoted
from dibs.core.task import Status
from dibs.core.times import in_words, time_text
from dibs.desk import open_desk
from dibs.protocols.vault import settings
from dibs.protocols.vault.health import (
    HEALTHY,
    active_claims,
    everyone,
    is_running,
    read_state,
    report,
    state_path,
    status_of,
    write_dashboard,
)
from dibs.protocols.vault.publishing import publisher_of
from dibs.protocols.vault.settings import add_agent, open_vault, place_of, settings_of, url_of, vault_url
from dibs.protocols.vault.workplace import name_of, path_of
from dibs.stores.port import Query
from dibs.stores.vault.places import FOLDER_OF, TASK_FOLDERS
from dibs.stores.vault.vault import host_clock

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.protocols.vault.health import State
    from dibs.sync.git import Standing


def _init_options(parser: Parser) -> None:
    parser.add_argument("folder", metavar="FOLDER", nargs="?", help="the folder (--vault, else VAULT_PATH)")


def init(args: argparse.Namespace) -> int:
    if args.folder and args.vault and args.folder != args.vault:
        raise InvalidInput("Two folders are named; give one.")
    path = args.folder or args.vault or os.environ.get("VAULT_PATH")
    if not path:
        raise InvalidInput("Which folder? 'dibs vault init FOLDER' makes it a vault.")
    with open_desk(url_of(path), create=True) as desk:
        root = place_of(desk)
    write_dashboard(root)
    where = "" if os.environ.get("VAULT_PATH") else f" --vault {quoted(path)}"
    now = f'now: dibs vault add "My first task"{where}'
    return emit(args, lambda: {"vault": root}, lambda: [f"ready: {root}", now])


def status(args: argparse.Namespace) -> int:
    with open_desk(vault_url(args)) as desk:
        root, now = place_of(desk), desk.now()
        counts = desk.counts(anywhere=True)
        folders = dict.fromkeys(TASK_FOLDERS, 0)
        for one, number in counts.by_status.items():
            folders[FOLDER_OF[one]] += number
        held = desk.find(Query(statuses=(Status.ACTIVE,)))
        waiting = [task for task in desk.find(Query(statuses=(Status.REVIEW,))) if settings.DRAFT_OF in task.extra]
        agents = [(state, is_running(root, state.agent)) for state in everyone(root)]
        problems = [f"{finding.subject} {finding.problem}" for finding in desk.check(fix=False)]
    clone = publisher_of(root).clone
    standing = None if clone is None else clone.standing()

    def data() -> dict[str, Json]:
        return {
            "vault": root,
            "folders": dict(folders),
            "claims": [_claim_data(task, now) for task in held],
            "drafts": [_draft_data(task, now) for task in waiting],
            "agents": [{"agent": state.agent, "role": state.role, "running": running} for state, running in agents],
            "problems": list(problems),
            "clone": None if standing is None else {**standing._asdict(), "unpublished": list(standing.unpublished)},
        }

    def lines() -> Iterable[str]:
        yield from (f"{folder:<17} {number}" for folder, number in folders.items())
        yield from _claim_lines(held, now)
        yield from _draft_lines(waiting, now)
        yield from _agent_lines(root, agents, now)
        yield from (f"✗ {problem}" for problem in problems)
        if standing is not None:
            yield from _standing_lines(standing)

    return emit(args, data, lines)


def _claim_data(task: Task, now: datetime) -> dict[str, Json]:
    lease = task.lease
    ends = lease.expires_at if lease else None
    return {
        "file": name_of(task),
        "agent": lease.agent if lease else None,
        "lease_until": time_text(ends) if ends else None,
        "live": task.held(now),
    }


def _claim_lines(held: list[Task], now: datetime) -> Iterable[str]:
    if not held:
        return
    rows = []
    for task in held:
        ends = task.lease.expires_at if task.lease else None
        left = "no end" if ends is None else f"{in_words(ends - now)} left" if ends > now else "ended"
        rows.append((name_of(task), task.lease.agent if task.lease else "", left))
    yield ""
    yield from table(("IN PROGRESS", "AGENT", "LEASE"), rows)


def _draft_data(task: Task, now: datetime) -> dict[str, Json]:
    names = (settings.DRAFT_TYPE, settings.DRAFT_OF, settings.APPROVAL, settings.EXPIRES)
    return {"file": path_of(task), **{name: task.extra.get(name) for name in names}, "expired": _is_late(task, now)}


def _draft_lines(waiting: list[Task], now: datetime) -> Iterable[str]:
    if not waiting:
        return
    rows = [
        (
            name_of(task),
            str(task.extra.get(settings.DRAFT_TYPE)),
            "expired" if _is_late(task, now) else str(task.extra.get(settings.APPROVAL)),
            str(task.extra.get(settings.EXPIRES)),
        )
        for task in waiting
    ]
    yield ""
    yield from table(("DRAFT", "TYPE", "APPROVAL", "UNTIL"), rows)


def _is_late(task: Task, now: datetime) -> bool:
    from dibs.protocols.vault.drafts import ends_at

    return task.extra.get(settings.APPROVAL) == settings.EXPIRED or now > ends_at(task)


def _agent_lines(root: str, agents: list[tuple[State, bool]], now: datetime) -> Iterable[str]:
    if not agents:
        return
    rows = [
        (
            state.agent,
            status_of(state, now) if running else "not running",
            state.role,
            str(active_claims(root, state.agent)),
            str(state.total_claims),
            time_text(state.last_activity.replace(microsecond=0)),
        )
        for state, running in agents
    ]
    yield ""
    yield from table(("AGENT", "STATUS", "ROLE", "HOLDS", "CLAIMED", "LAST ACTIVITY"), rows)


def _standing_lines(standing: Standing) -> Iterable[str]:
    yield ""
    yield f"clone of {standing.remote}, branch {standing.branch}: {standing.behind} behind, {standing.ahead} ahead"
    yield from (f"  not published yet: {path}" for path in standing.unpublished)
    if standing.trouble:
        yield f"✗ {standing.trouble}"


def health(args: argparse.Namespace) -> int:
    """Print an agent's health as JSON. The exit status is 1 unless it is healthy."""
    settings = settings_of(args)
    with open_vault(settings) as desk:
        answer = _health(desk, settings.agent)
    args.json = True
    emit(args, lambda: answer, list)
    return 0 if answer["status"] == HEALTHY else 1


def _health(desk: Desk, agent: str) -> dict[str, Json]:
    root = place_of(desk)
    state = read_state(state_path(root, agent))
    if state is None:
        known = ", ".join(sorted(one.agent for one in everyone(root))) or "no agent"
        raise NotFound(f"No agent '{agent}' has worked in this vault. Choose one with --agent: {known}.")
    return report(state, active_claims(root, agent), desk.now(), running=is_running(root, agent))


def sync(args: argparse.Namespace) -> int:
    """Pull, and publish changes that could not be published before."""
    with open_desk(vault_url(args)) as desk:
        root = place_of(desk)
    clone = publisher_of(root).clone
    if clone is None:
        raise InvalidInput(f"{root} is not a git clone, so there is no remote to sync with.")
    clone.guard()
    with clone.turn():
        pulled = clone.pull()
    if not pulled.reached:
        raise StoreUnavailable("The remote is out of reach. Nothing has changed; try again later.")
    published = clone.settle()
    clone.collect(host_clock())

    def data() -> dict[str, Json]:
        return {
            **{name: list(value) if isinstance(value, tuple) else value for name, value in pulled._asdict().items()},
            "published": list(published),
        }

    def lines() -> Iterable[str]:
        yield "brought in changes of others" if pulled.changed else "nothing new from others"
        yield from (f"gave way to the remote: {path}" for path in pulled.dropped)
        yield from (f"set aside: {path}" for path in pulled.set_aside)
        yield from (f"published {path}" for path in published)

    return emit(args, data, lines)


def _resolve_options(parser: Parser) -> None:
    parser.add_argument(
        "--staged", action="store_true", help="only the files of the commit that is being made; for git's hook"
    )


def resolve(args: argparse.Namespace) -> int:
    """Keep one file of each task."""
    with open_desk(vault_url(args)) as desk:
        root = place_of(desk)
        publisher = publisher_of(root)
        clone = publisher.clone
        if clone is None:
            from dibs.sync.git.folder import resolve_folder

            dropped = tuple(resolve_folder(root))
        elif args.staged:
            dropped = clone.resolve_staged()
        else:
            dropped = clone.resolve()
            publisher.flush()
    lines = [f"removed {path}: the task has another file" for path in dropped] or ["every task has one file"]
    return emit(args, lambda: {"removed": list(dropped)}, lambda: [] if args.staged and not dropped else lines)


COMMANDS = {
    "init": Command(_init_options, init),
    "status": Command(lambda _parser: None, status),
    "health": Command(add_agent, health),
    "resolve": Command(_resolve_options, resolve),
    "sync": Command(lambda _parser: None, sync),
}
