"""work: run a command on each task. logs: print the output of an attempt. worktree: the git worktrees of tasks."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from datetime import timedelta
from shutil import which
from typing import TYPE_CHECKING

from dibs.cli.command import add_agent, add_filters, add_task, filter_of, open_desk, run_name, store_url, warn
from dibs.console.arguments import positive, span
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import clean, clean_lines, emit, json_document, printable, table
from dibs.core import checks
from dibs.core.errors import InvalidInput, LostLock, NotFound, NothingReady, Refused
from dibs.core.messages import command
from dibs.core.output import page_json
from dibs.core.policy import NATIVE
from dibs.core.task import Status
from dibs.core.times import in_words
from dibs.core.wire import GIT, task_json
from dibs.desk import mint_id
from dibs.fleet.instructions import RECIPES
from dibs.fleet.workers import ENDS, Worker, WorkerEventKind, WorkerOptions
from dibs.fleet.worktrees import Repository, WorktreeOptions, worktree_folders
from dibs.identity import agent_name
from dibs.stores.opening import from_anywhere

if TYPE_CHECKING:
    import argparse

    from dibs.console.arguments import Parser
    from dibs.core.output import OutputPage
    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.fleet.workers import WorkerEvent
    from dibs.fleet.worktrees import Worktree


_GRACE = timedelta(seconds=5)
_MOST_SLOTS = 64


def _options(parser: Parser) -> None:
    parser.add_argument("command", metavar="CMD", nargs="*", help="after --: the command to run once for each task")
    parser.add_argument(
        "--with", metavar="PRODUCT", dest="product", choices=tuple(RECIPES),
        help="run claude, codex or gemini on each task; CMD adds options for it",
    )  # fmt: skip
    add_agent(parser)
    parser.add_argument(
        "--slots", metavar="N", type=positive, default=1, help="the most tasks to work on at once (default: 1)"
    )
    parser.add_argument(
        "--can", metavar="CAP", action="append", default=[], help="a capability that you have (repeatable)"
    )
    add_filters(parser)
    parser.add_argument("--any-scope", action="store_true", help="claim from all scopes (default: only from --scope)")
    parser.add_argument("--assigned", action="store_true", help="claim only tasks that are assigned to you")
    parser.add_argument("--once", action="store_true", help="do one task in each slot, then exit")
    parser.add_argument("--until-empty", action="store_true", help="exit when no task can be claimed")
    parser.add_argument(
        "--lease", metavar="SPAN", type=span, help="the lease of each claim, renewed while CMD runs (default: 20m)"
    )
    parser.add_argument(
        "--time-limit",
        metavar="SPAN",
        type=span,
        help="end CMD after this time and report a failure (default: no limit)",
    )
    parser.add_argument(
        "--grace",
        metavar="SPAN",
        type=span,
        default=_GRACE,
        help="the time that CMD gets to exit after SIGTERM (default: 5s)",
    )
    parser.add_argument(
        "--retry-in",
        metavar="SPAN",
        type=span,
        help="the pause after a first failure; it doubles each time (default: 10s)",
    )
    _worktree_options(parser)


def _worktree_options(parser: Parser) -> None:
    parser.add_argument(
        "--worktree", action="store_true", help="run each task in a separate git worktree, on a branch dibs/TASK"
    )
    parser.add_argument(
        "--base", metavar="REF", help="where new branches start (default: --into, else the commit checked out here)"
    )
    parser.add_argument(
        "--base-on-deps", action="store_true", help="start new branches at the branches of the prerequisites"
    )
    parser.add_argument(
        "--merge", choices=("ff", "squash", "none"), default="none", help="how to merge finished work (default: none)"
    )
    parser.add_argument("--into", metavar="BRANCH", help="the branch to merge into (default: the one checked out here)")
    parser.add_argument(
        "--check", metavar="COMMAND", help="a shell command, such as 'make test', that must succeed before a merge"
    )
    parser.add_argument("--pr", action="store_true", help="open a pull request with gh, or print the command for it")


def work(args: argparse.Namespace) -> int:
    """The first signal lets running commands finish; the second ends them and releases their tasks."""
    with Stop() as stop:
        options = _worker_options(args)
        worker = Worker(lambda: open_desk(args), options, lambda told: _tell(args, options, told))
        stop.calls(worker.leave, worker.stop)
        worker.run()
    ended = ", ".join(f"{worker.counts[what]} {what}" for what in ENDS if worker.counts[what])
    _say(args, f"{options.agent} leaves: {ended or 'nothing was done'}")
    if args.once and not ended and not stop.requested:
        raise NothingReady("No task can be claimed now. Without --once, the worker waits for one.")
    if stop.status:
        return stop.status
    return LostLock.exit_status if args.once and worker.counts[WorkerEventKind.LOST] else 0


def _worker_options(args: argparse.Namespace) -> WorkerOptions:
    if not args.command and not args.product:
        raise InvalidInput(
            "The command is missing. Give one after --, which gets the task on stdin: dibs work -- COMMAND. "
            "Or let an agent do it. Type: dibs work --with claude"
        )
    trees = _trees(args)
    words = _words(args, trees)
    if which(words[0]) is None:
        missing = f"There is no program '{words[0][:60]}' on the PATH."
        if words[0] in RECIPES and not args.product:
            missing = f"{missing} Type: {command('dibs', 'work', '--with', words[0])}"
        elif " " in words[0] and which(words[0].split()[0]) is not None:
            missing = f"{missing} Type: {command('dibs', 'work', '--', *words[0].split())}"
        raise InvalidInput(missing)
    if args.slots > _MOST_SLOTS:
        raise InvalidInput(f"A worker has up to {_MOST_SLOTS} slots; start another one for more.")
    if args.time_limit is not None and not args.time_limit:
        raise InvalidInput("A time limit must be longer than 0. Without --time-limit there is none.")
    args.run = run_name(args) or f"work-{mint_id()}"
    agent = checks.name_of("agent", args.agent or _agent_name(args))
    url = args.store = store_url(args) if trees is None else from_anywhere(store_url(args))
    options = WorkerOptions(
        agent,
        args.run,
        words,
        {"DIBS_STORE": url, "DIBS_AGENT": agent, "DIBS_RUN": args.run},
        args.slots,
        checks.names("capability", args.can),
        args.any_scope,
        args.assigned,
        args.once,
        args.until_empty,
        NATIVE.lease if args.lease is None else checks.lease(args.lease),
        args.time_limit,
        args.grace,
        only=checks.only(filter_of(args)),
        trees=trees,
        prompted=args.product is not None,
    )
    return options if args.retry_in is None else options._replace(retry_in=args.retry_in)


def _trees(args: argparse.Namespace) -> WorktreeOptions | None:
    """The worktree options, checked before any task is claimed."""
    merges = args.merge != "none"
    given = [name for name in ("base", "base_on_deps", "into", "check", "pr") if getattr(args, name)]
    if not args.worktree:
        if given or merges:
            option = (given[0] if given else "merge").replace("_", "-")
            raise InvalidInput(f"--{option} needs --worktree.")
        return None
    if merges and args.pr:
        raise InvalidInput("Choose one: --merge merges here, --pr leaves that to a pull request.")
    if args.check and not merges:
        raise InvalidInput("--check runs before a merge. Add --merge ff or --merge squash.")
    here = os.getcwd()
    repository = Repository(here)
    into = args.into and repository.require_branch(args.into)
    if merges and into is None:
        into = repository.current_branch()
        if into is None:
            raise InvalidInput("No branch is checked out here. Name the branch to merge into with --into.")
    repository.commit(args.base or into or "HEAD")
    merge = args.merge if merges else None
    commit = args.product is not None  # Codex cannot commit in a linked worktree, and any model may forget to
    return WorktreeOptions(here, args.base, args.base_on_deps, merge, into, args.check, args.pr, commit)


def _words(args: argparse.Namespace, trees: WorktreeOptions | None) -> tuple[str, ...]:
    """The command for a task."""
    if args.product:
        folders = () if trees is None else worktree_folders(trees)
        return RECIPES[args.product].command(args.command, folders)
    return tuple(args.command) if trees is None else (_from_anywhere(args.command[0]), *args.command[1:])


def _agent_name(args: argparse.Namespace) -> str:
    """The name of a worker; a product has one per worker."""
    if args.product and not os.environ.get("DIBS_AGENT"):
        return f"{args.product}@{args.run}"
    return agent_name()


def _from_anywhere(program: str) -> str:
    """Resolve a relative path of a program from here, not from the worktree."""
    return os.path.abspath(program) if os.path.dirname(program) else program


# Events go to stdout as they happen, problems to stderr. A closed stdout does not stop the worker.


def _say(args: argparse.Namespace, line: str) -> None:
    if not args.json:
        with suppress(OSError):
            print(printable(line), flush=True)


def _tell(args: argparse.Namespace, options: WorkerOptions, told: WorkerEvent) -> None:
    """Print a line for each begin and end, or with --json one document per finished task."""
    if told.what in {WorkerEventKind.TROUBLE, WorkerEventKind.LEAVING}:
        with suppress(OSError):
            warn(_line(told, options))
    elif not args.json:
        _say(args, _line(told, options))
    elif told.what in ENDS:
        with suppress(OSError):
            print(json_document(_data(told)), flush=True)


def _data(told: WorkerEvent) -> dict[str, Json]:
    assert told.task is not None
    data: dict[str, Json] = {"what": told.what.value, "task": task_json(told.task)}
    if told.why is not None:
        data["why"] = told.why
    if told.seconds is not None:
        data["seconds"] = round(told.seconds, 3)
    return data


def _line(told: WorkerEvent, options: WorkerOptions) -> str:
    task = told.task
    if told.what is WorkerEventKind.AT_WORK:
        return f"{options.agent} is at work{'' if options.slots == 1 else f' in {options.slots} slots'}"
    if task is None:
        return f"{told.what}: {told.why}"
    name = f"{told.what} {task.scope}/{task.id}" if options.anywhere else f"{told.what} {task.id}"
    if told.what is WorkerEventKind.TOOK:
        return f"{name} (attempt {task.attempt}): {task.title}"
    after = "" if told.seconds is None else f" after {in_words(timedelta(seconds=told.seconds))}"
    gone = ", and escalated" if told.what is WorkerEventKind.FAILED and task.status is Status.ESCALATED else ""
    return f"{name}{after}{gone}: {told.why}" if told.why else f"{name}{after}"


def _logs_options(parser: Parser) -> None:
    add_task(parser)
    parser.add_argument("--attempt", metavar="N", type=positive, help="the attempt to print (default: the latest)")
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing until the attempt ends")


def logs(args: argparse.Namespace) -> int:
    """Print output as it arrives, also of a task that is not claimed yet; a signal ends the command."""
    with Stop() as stop, open_desk(args) as desk:
        page = desk.output(args.task, attempt=args.attempt)
        _print_page(args, page, 0)
        if not args.follow:
            if not page.pieces and not args.json:
                warn(_nothing_kept(args.task, page))
            return 0
        quiet = 0.0
        while not (page.over and page.attempt and quiet >= _LAST_WORDS) and not stop.wait(_LOOK):
            end = page.end
            page = desk.output(args.task, attempt=args.attempt or page.attempt or None, after=end)
            _print_page(args, page, end)
            quiet = 0.0 if page.pieces else quiet + _LOOK
    return stop.status


def _nothing_kept(task: str, page: OutputPage) -> str:
    others = [str(number) for number in page.attempts if number != page.attempt]
    if others:
        return f"attempt {page.attempt} of {task} printed nothing; '--attempt N' shows {', '.join(others)}"
    return f"no output of {task} is stored; 'dibs work' stores what its commands print"


def _print_page(args: argparse.Namespace, page: OutputPage, end: int) -> None:
    if args.json:
        if page.pieces or not end:
            print(json_document(page_json(page)), flush=True)
        return
    for piece in page.pieces:
        if piece.start > end:
            print(f"\n[{piece.start - end:,} bytes were dropped here]")
        print(_visible(piece.text), end="", flush=True)
        end = piece.end


def _visible(text: str) -> str:
    """Keep lines and tabs; escape terminal control characters."""
    lines = _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return "\n".join("\t".join(map(clean, line.split("\t"))) for line in lines)


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_LOOK = 0.5  # seconds between two looks for output
_LAST_WORDS = 1.5  # seconds to look for output after an attempt has ended


def _add_into(parser: Parser) -> None:
    parser.add_argument(
        "--into",
        metavar="BRANCH",
        help="the branch that finished work is merged into (default: the one checked out here)",
    )


def _target(args: argparse.Namespace, repository: Repository) -> str:
    """The branch that must contain work for it to count as merged."""
    return repository.require_branch(args.into) if args.into else repository.commit("HEAD")


def _found(repository: Repository, desk: Desk, ref: str) -> Worktree:
    """The worktree of a task, also of one that was pruned."""
    for tree in repository.worktrees():
        if tree.scope == desk.scope and tree.task == ref:
            return tree
    return repository.named(desk.scope, desk.resolve(ref))


def _task(desk: Desk, tree: Worktree) -> Task | None:
    try:
        return desk.at(tree.scope, internal=True).exact.get(tree.task)
    except NotFound:
        return None


def _row(repository: Repository, desk: Desk, tree: Worktree, into: str) -> dict[str, Json]:
    task = _task(desk, tree)
    return {
        "task": tree.task,
        "scope": tree.scope,
        "path": tree.path,
        "status": None if task is None else task.status.value,
        "uncommitted": 0,
        **repository.record(tree),
        "merged": repository.is_merged(tree, into),
        "held": task is not None and task.held(desk.now()),
    }


def list_trees(args: argparse.Namespace) -> int:
    repository = Repository(os.getcwd())
    with open_desk(args) as desk:
        into = _target(args, repository)
        rows = [_row(repository, desk, tree, into) for tree in repository.worktrees()]
    cells = [
        (
            str(row["task"]),
            str(row["status"] or "gone"),
            str(row["branch"]),
            f"+{row['insertions']} -{row['deletions']}",
            ", ".join(
                word
                for word in (
                    "held" if row["held"] else "",
                    f"{row['uncommitted']} uncommitted" if row["uncommitted"] else "",
                    "merged" if row["merged"] else "",
                )
                if word
            ),
            os.path.relpath(str(row["path"])),
        )
        for row in rows
    ]
    return emit(
        args, lambda: rows, lambda: table(("TASK", "STATUS", "BRANCH", "LINES", "", "PATH"), cells) if cells else []
    )


def _open_options(parser: Parser) -> None:
    add_task(parser)
    parser.add_argument(
        "--base", metavar="REF", help="where a new branch starts (default: the commit checked out here)"
    )


def open_tree(args: argparse.Namespace) -> int:
    """Make the worktree if there is none, and print where it is."""
    repository = Repository(os.getcwd())
    with open_desk(args) as desk:
        task = desk.get(args.task)
        tree = repository.open(task.scope, task.id, [repository.commit(args.base or "HEAD")])
    return emit(args, lambda: {"path": tree.path, "branch": tree.branch, "base": tree.base}, lambda: [tree.path])


def _diff_options(parser: Parser) -> None:
    add_task(parser)
    parser.add_argument("--stat", action="store_true", help="print only the number of changed lines per file")


def diff(args: argparse.Namespace) -> int:
    """What the branch changes since its base, uncommitted changes of known files included."""
    repository = Repository(os.getcwd())
    with open_desk(args) as desk:
        tree = _found(repository, desk, args.task)
        task = _task(desk, tree)
    text = repository.diff_of(
        tree.branch, None if task is None else task.extra.get(GIT), *(["--stat"] if args.stat else [])
    )
    return emit(args, lambda: {"branch": tree.branch, "diff": text}, lambda: clean_lines(text))


def _remove_options(parser: Parser) -> None:
    add_task(parser)
    _add_into(parser)


def remove(args: argparse.Namespace) -> int:
    repository = Repository(os.getcwd())
    with open_desk(args) as desk:
        tree, into = _found(repository, desk, args.task), _target(args, repository)
        task = _task(desk, tree)
        if task is not None and task.lease is not None and task.held(desk.now()):
            raise Refused(f"{task.lease.agent} is working on {task.id} in {tree.path}. Nothing was removed.")
        repository.remove(tree, into)
    return emit(
        args, lambda: {"path": tree.path, "branch": tree.branch}, lambda: [f"removed {tree.path} and {tree.branch}"]
    )


def prune(args: argparse.Namespace) -> int:
    """Remove the worktrees of finished tasks that are merged and clean; name the others with the reason."""
    repository = Repository(os.getcwd())
    removed: list[Json] = []
    kept: list[Json] = []
    with open_desk(args) as desk:
        into = _target(args, repository)
        for tree in repository.worktrees():
            task = _task(desk, tree)
            why = f"{task.id} is {task.status}" if task is not None and not task.finished else None
            try:
                if why is None:
                    repository.remove(tree, into)
            except Refused as refused:
                why = refused.message
            one: dict[str, Json] = {"task": tree.task, "path": tree.path}
            if why is None:
                removed.append(one)
            else:
                kept.append({**one, "why": why})
    lines = [f"removed {one['path']}" for one in removed if isinstance(one, dict)]
    lines += [f"kept {one['path']}: {one['why']}" for one in kept if isinstance(one, dict)]
    return emit(args, lambda: {"removed": removed, "kept": kept}, lambda: lines or ["no worktrees of tasks"])


COMMANDS = {
    "work": Command(_options, work),
    "logs": Command(_logs_options, logs),
    "list": Command(_add_into, list_trees),
    "open": Command(_open_options, open_tree),
    "diff": Command(_diff_options, diff),
    "remove": Command(_remove_options, remove),
    "prune": Command(_add_into, prune),
}
