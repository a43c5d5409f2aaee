"""init, doctor, version, export, import, backup, restore, prune: a project's store and its health."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from dibs import __version__
from dibs.cli.command import add_agent, open_desk, warn
from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.streams import emit, printable, read_text, watched
from dibs.core import checks
from dibs.core.errors import DibsError, InvalidInput, NoStore, StoreReadOnly, StoreUnavailable
from dibs.core.events import Event
from dibs.core.messages import command
from dibs.core.settings import Setting
from dibs.core.task import Task
from dibs.core.wire import (
    event_from_json,
    event_json,
    link_from_json,
    link_json,
    setting_from_json,
    task_from_json,
    task_json,
)
from dibs.desk import mint_token
from dibs.exchange import FORMATS, TARGETS
from dibs.stores.opening import (
    BARE_FOLDER,
    DEFAULT_FILE,
    FOLDER,
    common_git_directory,
    default_url,
    file_url,
    has_store,
    is_bare,
    linked_worktree,
)
from dibs.stores.reports import Record

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.stores.opening import Worktree


def init(args: argparse.Namespace) -> int:
    """Create or migrate the store, and write the agents' instructions."""
    elsewhere = args.store or os.environ.get("DIBS_STORE")
    here = os.getcwd()
    worktree = None if elsewhere or args.here or has_store(here) else linked_worktree(here)
    args.store = elsewhere or _project_url(here, worktree)
    with open_desk(args, create=True) as desk:
        place = desk.describe()["place"]
    agents_file = None if elsewhere or args.no_agents_file else _write_instructions(force=args.force)
    data: dict[str, Json] = {"store": place}
    lines = [f"ready: {place}"]
    if worktree is not None:
        data["worktree"] = worktree.root
        lines.append(f"worktree: {printable(worktree.name)} shares this store with all worktrees of its repository")
        lines.append(f"          {command('dibs', 'init', '--here')} creates a separate store for this worktree")
    if agents_file is not None:
        data["agents_file"] = agents_file
        lines.append(f"agents: {agents_file} has the instructions for agents")
    lines.append('now: dibs add "My first task"')
    return emit(args, lambda: data, lambda: lines)


def _init_options(parser: Parser) -> None:
    parser.add_argument("--here", action="store_true", help="in a git worktree: create a store for this worktree alone")
    parser.add_argument("--no-agents-file", action="store_true", help="do not change AGENTS.md")
    parser.add_argument("--force", action="store_true", help="replace our block in AGENTS.md even if it was changed")


def _write_instructions(*, force: bool) -> str | None:
    """The written instructions file, or None after a warning."""
    from dibs.onboarding.block import NAME, write_block

    try:
        write_block(os.getcwd(), force=force)
    except DibsError as error:
        warn(error.message)
        return None
    return NAME


def _project_url(folder: str, worktree: Worktree | None) -> str:
    """Create the store's folder: for a linked worktree, the repository's."""
    if worktree is not None:
        home = worktree.home
    else:
        home = os.path.join(folder, BARE_FOLDER if is_bare(folder) else FOLDER)
        _warn_of_another(folder)
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        with open(os.path.join(home, ".gitignore"), "x", encoding="utf-8") as file:
            file.write("*\n")
    except FileExistsError:
        pass  # the user's own, or ours from before
    except OSError as error:
        raise StoreReadOnly(f"Cannot make {home}: {error.strerror}.") from None
    _exclude_from_git(home)
    return file_url(os.path.join(home, DEFAULT_FILE))


def _warn_of_another(folder: str) -> None:
    if has_store(folder):
        return
    try:
        other = default_url(folder)
    except NoStore:
        return
    warn(f"another project's store is in use here ({other}); commands given in this folder now use the new one")


def _exclude_from_git(home: str) -> None:
    """Keep the store out of commits also where a user deletes or commits the `.gitignore` inside."""
    git = common_git_directory(os.path.dirname(home))
    if git is None or not os.path.isdir(git) or os.path.basename(home) != FOLDER:
        return
    line, path = f"{FOLDER}/", os.path.join(git, "info", "exclude")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "a+", encoding="utf-8", errors="surrogateescape") as file:
            file.seek(0)
            text = file.read()
            if line not in text.split():
                file.write(f"{'' if text.endswith(chr(10)) or not text else chr(10)}{line}\n")
    except OSError as error:
        warn(f"{path} could not be changed ({error.strerror}); {home}/.gitignore keeps the store out of commits")


def _doctor_options(parser: Parser) -> None:
    parser.add_argument("--deep", action="store_true", help="check every counter, order number, lease and link")
    parser.add_argument("--fix", action="store_true", help="with --deep: repair what can be repaired")


def doctor(args: argparse.Namespace) -> int:
    """Status 0 if the store is sound or repaired, 1 if a problem remains."""
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
            yield "✓ every counter, order number, lease and link is correct"

    emit(args, lambda: data, lines)
    return 1 if any(not finding.fixed for finding in findings) else 0


def _version_options(parser: Parser) -> None:
    parser.add_argument("--check", action="store_true", help="ask pip's package index for a newer version")


_PATIENCE = 3  # seconds for each answer of the index


def version(args: argparse.Namespace) -> int:
    if not args.check:
        return emit(args, lambda: {"version": __version__}, lambda: [f"dibs {__version__}"])
    newest, note = _published()
    data: dict[str, Json] = {"version": __version__, "newest": newest, "note": note}
    return emit(args, lambda: data, lambda: [f"dibs {__version__}", f"  {note}"])


def _published() -> tuple[str | None, str]:
    """The newest version at the index that pip is set up with. Another project of the same name does not count."""
    import subprocess
    from importlib.metadata import metadata

    options = f"--dry-run --ignore-installed --no-deps --only-binary=:all: --retries=0 --timeout={_PATIENCE} --report=-"
    ask = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *options.split(), "dibs"]
    try:
        answer = subprocess.run(ask, capture_output=True, stdin=subprocess.DEVNULL, check=True, timeout=20 * _PATIENCE)  # noqa: S603 - our own words
        found = json.loads(answer.stdout)["install"][0]["metadata"]
        newest = str(found["version"])
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError, TypeError):
        return None, "pip finds no package index that answers, so there may be a newer version or not"
    if found.get("author") != metadata("dibs")["Author"]:
        return None, "dibs is not published yet; upgrade from your checkout with 'git pull'"
    if newest == __version__:
        return newest, "this is the newest version"
    return newest, f"the newest version is {printable(newest)}: 'uv tool upgrade dibs', 'pipx upgrade dibs' or pip's -U"


def _export_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", nargs="?", default="-", help="the file to write (default: stdout)")
    parser.add_argument("--secrets", action="store_true", help="include the holders' tokens, to move a store in use")
    parser.add_argument(
        "--to", choices=TARGETS, help="write the tasks of the scope in this format (default: JSON lines of everything)"
    )


_TARGET_BY_SUFFIX = {".csv": "csv", ".md": "markdown", ".mmd": "mermaid"}


def export(args: argparse.Namespace) -> int:
    """One JSON object a line: tasks, links, settings, events. Read in one go, so it is the store at one moment."""
    if args.to is not None:
        from dibs.cli.exchange import export_to

        return export_to(args)
    if (to := args.file if args.file in TARGETS else _TARGET_BY_SUFFIX.get(os.path.splitext(args.file)[1])) is not None:
        file = [] if args.file in TARGETS else [args.file]
        raise InvalidInput(
            f"Without --to, an export is JSON lines. Type: {command('dibs', 'export', '--to', to, *file)}"
        )
    return _export(args, secrets=args.secrets)


def _export(args: argparse.Namespace, *, secrets: bool) -> int:
    counts = {"task": 0, "link": 0, "setting": 0, "event": 0}
    with open_desk(args) as desk, target(args.file) as file, watched("Exporting", None) as progress:
        for record in desk.dump():
            line = _line(record, secrets=secrets)
            counts[str(line["kind"])] += 1
            file.write(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
            progress(1)
    if args.file == "-":
        return 0
    said = [f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in counts.items() if number]
    return emit(
        args,
        lambda: {"file": args.file, **{f"{kind}s": counts[kind] for kind in counts}},
        lambda: [f"exported {', '.join(said) or 'an empty store'} to {args.file}"],
    )


@contextmanager
def target(name: str) -> Iterator[TextIO]:
    if name == "-":
        yield sys.stdout
        return
    try:
        with open(name, "x", encoding="utf-8", opener=_private) as file:
            try:
                yield file
            except BaseException:
                os.unlink(name)  # half an export must not pass for a whole one
                raise
    except FileExistsError:
        raise InvalidInput(f"{name} exists already, and an export overwrites no file. Choose another name.") from None
    except OSError as error:
        raise StoreUnavailable(f"Cannot write {name}: {error.strerror}.") from None


def _private(path: str, flags: int) -> int:
    """An export may hold tokens, and always holds what others wrote: it is for its owner's eyes."""
    return os.open(path, flags, 0o600)


def _line(record: Record, *, secrets: bool) -> dict[str, Json]:
    match record.item:
        case Task():
            return {"kind": "task", **task_json(record.item, secrets=secrets)}
        case Event():
            return {"kind": "event", **event_json(record.item)}
        case Setting():
            return {"kind": "setting", "scope": record.scope, **record.item._asdict()}
        case _:
            # A link has its own field `kind`.
            return {"kind": "link", "scope": record.scope, "link": link_json(record.item)}


def _backup_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to write; it must not exist")


def backup(args: argparse.Namespace) -> int:
    """An export with the holders' tokens, for `dibs restore --keep-tokens`."""
    if args.file == "-":
        raise InvalidInput("A backup holds tokens, so it goes into a private file. Name one.")
    return _export(args, secrets=True)


def _restore_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="a backup or an export; '-' reads stdin")
    parser.add_argument(
        "--keep-tokens",
        action="store_true",
        help="keep the tokens in the backup valid, for a planned move",
    )
    add_agent(parser)


def restore(args: argparse.Namespace) -> int:
    """In one transaction. Without --keep-tokens no token from before the restore is accepted any more."""
    lines = read_text(args.file).split("\n")
    with open_desk(args) as desk, watched("Restoring", len(lines)) as progress:
        taken = desk.replace(_records(lines, keep_tokens=args.keep_tokens), progress)
        generation = desk.describe()["generation"]
    return emit(
        args,
        lambda: {"tasks": taken, "generation": int(generation)},
        lambda: [f"restored {taken} {'task' if taken == 1 else 'tasks'}; this is generation {generation} of the store"],
    )


def _import_options(parser: Parser) -> None:
    parser.add_argument("file", metavar="FILE", help="an export, or with --from another tool's file; '-' reads stdin")
    parser.add_argument("--from", dest="tool", choices=FORMATS, help="the tool that wrote the file (default: dibs)")
    parser.add_argument(
        "--dry-run", action="store_true", help="with --from: print what would be imported, and change nothing"
    )
    parser.add_argument(
        "--map",
        metavar="WORD=STATUS",
        action="append",
        default=[],
        help="with --from: the status for one of the tool's own, such as QA=review (repeatable)",
    )
    parser.add_argument(
        "--assignees",
        action="store_true",
        help="with --from: reserve tasks for their assignees (default: keep assignees as a note)",
    )
    add_agent(parser)


def import_(args: argparse.Namespace) -> int:
    if args.tool is not None:
        from dibs.cli.exchange import import_from

        return import_from(args)
    if args.dry_run or args.map or args.assignees:
        raise InvalidInput("--dry-run, --map and --assignees belong to --from. An export of dibs needs no such option.")
    lines = read_text(args.file).split("\n")
    with open_desk(args) as desk, watched("Importing", len(lines)) as progress:
        taken = desk.restore(_records(lines), progress)
    return emit(args, lambda: {"tasks": taken}, lambda: [f"imported {taken} tasks"])


def _records(lines: list[str], *, keep_tokens: bool = True) -> Iterator[Record]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield _record(json.loads(line), keep_tokens=keep_tokens)
            except (ValueError, RecursionError):
                raise InvalidInput(f"line {number}: not valid JSON") from None
            except InvalidInput as error:
                raise InvalidInput(f"line {number}: {error.message}") from None


def _record(data: object, *, keep_tokens: bool) -> Record:
    if not isinstance(data, dict):
        raise InvalidInput("each line is an object")
    kind = data.pop("kind", None)
    if kind == "task":
        if not keep_tokens and isinstance(data.get("lease"), dict):
            data["lease"].pop("token", None)
        task = task_from_json(data, mint_token)
        return Record(task.scope, task)
    if kind == "event":
        event = event_from_json(data)
        return Record(event.scope, event)
    if kind == "link" and isinstance(data.get("scope"), str):
        return Record(data["scope"], link_from_json(data.get("link") or {}))
    if kind == "setting" and isinstance(data.get("scope"), str):
        return Record(checks.name_of("scope", data.pop("scope")), setting_from_json(data))
    raise InvalidInput("each line is a task, a link, a setting or an event")


def _prune_options(parser: Parser) -> None:
    parser.add_argument("--events", metavar="SPAN", type=span, help="delete events older than this, such as 90d")
    parser.add_argument(
        "--tasks", metavar="SPAN", type=span, help="delete tasks that finished longer ago than this, such as 180d"
    )


def prune(args: argparse.Namespace) -> int:
    if args.events is None and args.tasks is None:
        raise InvalidInput("Choose what to delete: --events 90d, --tasks 180d, or both.")
    with open_desk(args) as desk, watched("Pruning", None) as progress:
        now = desk.now()
        events, tasks = desk.prune(
            events_before=None if args.events is None else now - args.events,
            tasks_before=None if args.tasks is None else now - args.tasks,
            progress=progress,
        )
    return emit(
        args, lambda: {"events": events, "tasks": tasks}, lambda: [f"dropped {events} events and {tasks} tasks"]
    )


COMMANDS = {
    "init": Command(_init_options, init),
    "doctor": Command(_doctor_options, doctor),
    "version": Command(_version_options, version),
    "export": Command(_export_options, export),
    "import": Command(_import_options, import_),
    "backup": Command(_backup_options, backup),
    "restore": Command(_restore_options, restore),
    "prune": Command(_prune_options, prune),
}
