"""The commands for one file: add, claim, verify, release."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.streams import emit
from dibs.core.errors import AlreadyExists, Held, InvalidInput, LostLock, NotForYou, NotFound, NothingReady
from dibs.core.lifecycle import Verb
from dibs.core.messages import command
from dibs.core.task import Draft
from dibs.core.times import in_words
from dibs.desk import mint_id
from dibs.protocols.vault import claiming
from dibs.protocols.vault.claiming import Outcome
from dibs.protocols.vault.publishing import is_taken, publisher_of
from dibs.protocols.vault.settings import (
    ACTION,
    NEXT_STATES,
    Handling,
    action_of,
    add_agent,
    add_file,
    add_token,
    open_vault,
    place_of,
    settings_of,
)
from dibs.protocols.vault.workplace import TrackedDesk, find_file, name_of, path_of, task_id_of
from dibs.stores.vault import places
from dibs.sync.git.outbox import Published

if TYPE_CHECKING:
    import argparse
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.protocols.vault.publishing import Publisher
    from dibs.protocols.vault.settings import Settings


def _add_options(parser: Parser) -> None:
    parser.add_argument("title", metavar="TITLE", help="the task, on one line")
    parser.add_argument("--text", metavar="TEXT", default="", help="the description; - reads it from stdin")
    parser.add_argument("--action", metavar="NAME", help="kind of work (triage)")
    parser.add_argument(
        "--priority", metavar="P", default="medium", help="urgent, high, medium, low, or a number (medium)"
    )
    parser.add_argument("--domain", metavar="NAME", help="sub-folder to put it into")
    parser.add_argument("--source", metavar="NAME", help="origin of the task")
    parser.add_argument("--file", metavar="FILE", help="file name (task-DATE-TIME-ID.md)")
    add_agent(parser)


def add(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    text = args.text
    if text == "-":
        from dibs.console.streams import read_text

        text = read_text("-")
    with open_vault(settings) as desk:
        scope = places.ROOT_SCOPE if args.domain is None else places.scope_from(args.domain)
        task_id = _new_id(desk.now()) if args.file is None else _free_id(desk.at(scope), args.file)
        extra: dict[str, Json] = {} if args.action is None else {ACTION: args.action.strip()}
        draft = Draft(args.title, task_id, text, priority=_priority(args.priority), origin=args.source, extra=extra)
        tracked = TrackedDesk(desk)
        publisher = publisher_of(place_of(desk))
        with publisher.turn():
            task = tracked.add(scope, draft)
            publisher.post(tracked.take_touched(), f"{settings.agent} adds {task.id}")
        published = publisher.flush()
        if published is Published.REFUSED:
            raise AlreadyExists(
                f"Another clone has added {name_of(task)} first; the folder has its task now. Choose another --file."
            )
        return emit(args, lambda: _task_data(task), lambda: [path_of(task), *_offline_note(published)])


def _offline_note(published: Published) -> list[str]:
    late = "  the remote is out of reach; the next agent that reaches it, or 'dibs vault sync', publishes this"
    return [late] if published is Published.OFFLINE else []


def _priority(said: str) -> float:
    if said.lower() in _PRIORITIES:
        return _PRIORITIES.index(said.lower())
    try:
        return float(said)
    except ValueError:
        raise InvalidInput(f"A priority must be {', '.join(_PRIORITIES)} or a number, not {said[:40]!r}.") from None


_PRIORITIES = ("urgent", "high", "medium", "low")


def _new_id(now: datetime) -> str:
    return f"task-{now:%Y%m%d-%H%M%S}-{mint_id()}"


def _free_id(desk: Desk, file: str) -> str:
    """The id of the file's name, numbered if a finished task has that name."""
    first = task_id = task_id_of(file)
    number = 1
    while desk.has(task_id) and desk.get(task_id).finished:
        number += 1
        task_id = places.id_from(places.numbered(places.file_name(first), number))
    return task_id


def _claim_options(parser: Parser) -> None:
    add_file(parser, optional=True)
    add_agent(parser)
    parser.add_argument("--lease", metavar="SPAN", type=span, help="lease, such as 45m (20m)")


def claim(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    with open_vault(settings) as desk:
        publisher = publisher_of(place_of(desk))
        publisher.pull()  # another clone may have added the task
        if args.file is not None:
            task = find_file(desk, args.file, args.domain)
            if settings.duties.way(task) is Handling.LEAVE:
                raise NotForYou(
                    f"{name_of(task)} asks for '{action_of(task)}', which is not for you (ALLOWED_ACTIONS)."
                )
            attempt = claiming.claim_published(TrackedDesk(desk), publisher, task, lease=args.lease)
        else:
            attempt = _next(desk, publisher, settings, args)
        if attempt.claimed is None:
            raise _claim_error(attempt)
        if publisher.flush() is Published.REFUSED:
            raise Held(f"{Outcome.LOST}: {name_of(attempt.claimed.task)} was changed in another clone first.")
        claimed = attempt.claimed.task
        token = claimed.lease.token if claimed.lease else ""
        data = {"outcome": attempt.outcome.value, **_task_data(claimed), "token": token}
        return emit(args, lambda: data, lambda: _claimed_lines(claimed, token, desk.now(), args))


def _next(desk: Desk, publisher: Publisher, settings: Settings, args: argparse.Namespace) -> claiming.Attempt:
    """Claim the first task that this agent may do."""
    scope = None if args.domain is None else places.scope_from(args.domain)
    tracked = TrackedDesk(desk)
    waiting = desk.at(scope or places.ROOT_SCOPE).ready(limit=1 << 31, agent=settings.agent, anywhere=scope is None)
    ours = [task for task in waiting if settings.duties.way(task) is not Handling.LEAVE]
    taken = publisher.taken(desk.now())
    ours = [task for task in ours if not is_taken(task, taken)]
    for task in ours:
        attempt = claiming.claim_published(tracked, publisher, task, lease=args.lease)
        if attempt.outcome is not Outcome.LOST:
            return attempt
    if waiting and not ours:
        actions = ", ".join(sorted({action_of(task) for task in waiting}))
        raise NothingReady(f"The waiting tasks need actions that you may not do: {actions}. See ALLOWED_ACTIONS.")
    raise NothingReady("No task in Needs_Action can be claimed now. See 'dibs vault status'.")


def _claim_error(attempt: claiming.Attempt) -> Exception:
    error = attempt.error
    if error is None:
        return NothingReady("There is nothing to claim.")
    error.message = f"{attempt.outcome}: {error.message}"
    return error


def _claimed_lines(task: Task, token: str, now: datetime, args: argparse.Namespace) -> list[str]:
    """The output of a claim. The suggested command repeats the options given."""
    options = ("domain", "agent", "vault")
    given = [word for name in options if (said := getattr(args, name)) for word in (f"--{name}", said)]
    lease = task.lease
    left = f" for {in_words(lease.expires_at - now)}" if lease and lease.expires_at else ""
    return [
        f"CLAIMED {path_of(task)}",
        f"  by {lease.agent if lease else ''}, attempt {task.attempt},{left}",
        f"  token {token}",
        f"  then: {command('dibs', 'vault', 'release', places.file_of(task), 'Done', *given)}",
    ]


def _verify_options(parser: Parser) -> None:
    add_file(parser)
    add_agent(parser)
    add_token(parser)


def verify(args: argparse.Namespace) -> int:
    settings = settings_of(args)
    with open_vault(settings) as desk:
        try:
            found = find_file(desk, args.file, args.domain, settings.agent)
        except NotFound:
            file = args.file.removesuffix(places.SUFFIX)
            raise LostLock(f"{file}.md is not in the vault any more. Stop working on it.") from None
        there = desk.at(found.scope)
        task = claiming.verify(there, found.id, settings.agent, _token(args, found.id))
        lease = task.lease
        left = in_words(lease.expires_at - desk.now()) if lease and lease.expires_at else "no end"
        return emit(args, lambda: {**_task_data(task), "valid": True}, lambda: [f"yours: {path_of(task)}, {left} left"])


def _release_options(parser: Parser) -> None:
    add_file(parser)
    parser.add_argument("to", metavar="TO", help=", ".join(NEXT_STATES))
    add_agent(parser)
    add_token(parser)
    parser.add_argument("--reason", metavar="TEXT", help="why, for the next reader")
    parser.add_argument("--note", metavar="TEXT", help="result, with Done and Pending_Approval")


def release(args: argparse.Namespace) -> int:
    verb = NEXT_STATES.get(args.to)
    if verb is None:
        raise InvalidInput(f"A file goes to {', '.join(NEXT_STATES)}, not to {args.to[:40]!r}.")
    if args.note is not None and verb not in {Verb.DONE, Verb.REVIEW}:
        raise InvalidInput("--note is the result: give it with Done or Pending_Approval only.")
    settings = settings_of(args)
    with open_vault(settings) as desk:
        tracked = TrackedDesk(desk)
        before = find_file(desk, args.file, args.domain, settings.agent)
        publisher = publisher_of(place_of(desk))
        with publisher.turn():
            task = tracked.move(before, verb, token=_token(args, before.id), reason=args.reason, result=args.note)
            publisher.post(tracked.take_touched(), f"{settings.agent} releases {task.id}")
        published = publisher.flush()
        if published is Published.REFUSED:
            raise LostLock(f"{name_of(task)} was changed at the remote while you held it; nothing of yours was kept.")
        lines = [f"{path_of(before)} → {path_of(task)}", *_offline_note(published)]
        return emit(args, lambda: _task_data(task), lambda: lines)


def _token(args: argparse.Namespace, task_id: str) -> str | None:
    """The token given, or the environment's if it belongs to this task."""
    given: str | None = args.token
    if given or os.environ.get("DIBS_TASK_ID", task_id) != task_id:
        return given or None
    return os.environ.get("DIBS_TOKEN") or None


def _task_data(task: Task) -> dict[str, Json]:
    from dibs.core.wire import task_json

    return {"file": name_of(task), "path": path_of(task), "task": task_json(task)}


COMMANDS = {
    "add": Command(_add_options, add),
    "claim": Command(_claim_options, claim),
    "verify": Command(_verify_options, verify),
    "release": Command(_release_options, release),
}
