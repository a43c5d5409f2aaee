"""torture, notion, notion-emulator: race, kill and starve workers, and a Notion on loopback."""

from __future__ import annotations

import argparse
import errno
import json
import os
import shlex
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from dibs.cli.command import store_url, warn
from dibs.console.arguments import positive, span, whole
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import emit, json_document, printable
from dibs.core.errors import InvalidInput, Misconfigured
from dibs.lab.torture import experiments, reports
from dibs.lab.torture.experiments import RULES
from dibs.lab.torture.places import FAULTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.lab.emulator import Emulator
    from dibs.lab.torture.experiments import Progress
    from dibs.lab.torture.places import Place

Listening = TypeVar("Listening")

_MOST_WORKERS = 64
_RESTART_TIMEOUT = 180.0
_VIOLATED = 1


def _torture_options(parser: Parser) -> None:
    parser.add_argument(
        "--minutes", metavar="N", type=_minutes, default=1.0, help="how long to inject faults, in minutes (default: 1)"
    )
    parser.add_argument(
        "--seed",
        metavar="S",
        type=whole,
        default=1,
        help="the seed: the same one repeats plan, workers and faults (default: 1)",
    )
    parser.add_argument(
        "--workers", metavar="N", type=positive, default=8, help="the number of worker processes (default: 8)"
    )
    parser.add_argument(
        "--tasks", metavar="N", type=positive, default=200, help="the number of tasks in each plan (default: 200)"
    )
    parser.add_argument(
        "--faults",
        metavar="LIST",
        type=_faults,
        help=f"the faults to inject, from {','.join(FAULTS)} (default: all that the store allows)",
    )
    parser.add_argument(
        "--restart-command", metavar="CMD", help="for the fault 'restart': the command that restarts the server"
    )
    parser.add_argument(
        "--rule",
        choices=sorted(RULES),
        help="replace a rule of dibs by another queue's, to see the checker find its violations",
    )
    parser.add_argument(
        "--clones",
        metavar="N",
        type=positive,
        help="for a vault: the number of git clones, with people and auto-committers at work in them",
    )
    parser.add_argument(
        "--report", metavar="DIR", help="write a report into this folder: text, JSON, history and a page"
    )
    parser.add_argument("--check", metavar="FILE", help="only check the history of an earlier report again")


def _minutes(text: str) -> float:
    try:
        minutes = float(text)
    except ValueError:
        minutes = -1.0
    if not 0 < minutes <= 24 * 60:
        raise argparse.ArgumentTypeError(f"'{text[:20]}' is not a number of minutes up to one day")
    return minutes


def _faults(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    unknown = [name for name in names if name not in FAULTS]
    if unknown or not names:
        raise argparse.ArgumentTypeError(f"there is no fault '{(*unknown, '')[0][:40]}', but {', '.join(FAULTS)}")
    return names


def torture(args: argparse.Namespace) -> int:
    if args.check:
        return _check(args)
    if args.workers > _MOST_WORKERS:
        raise InvalidInput(f"The lab has room for {_MOST_WORKERS} workers.")
    if args.clones:
        return _clones(args)
    if args.report:
        from dibs.lab.torture.reports import claim_folder

        claim_folder(args.report)
    experiment = experiments.Experiment(
        store_url(args),
        args.minutes * 60,
        args.seed,
        args.workers,
        args.tasks,
        args.faults or (),
        rule=RULES[args.rule] if args.rule else "",
        restart=_restarting(args.restart_command) if args.restart_command else None,
    )
    with Stop() as stop, _watched(experiment.seconds) as watch:
        report = experiments.run(experiment, watch, lambda place: _announce(args, place), stop.wait)
    if args.report:
        from dibs.lab.torture.reports import write

        write(report, args.report)
    emit(args, lambda: reports.data(report), lambda: map(printable, reports.lines(report)))
    if report.left:
        warn(report.left)
    return _VIOLATED if report.violations else 0


def _clones(args: argparse.Namespace) -> int:
    """The same for a vault over git: fifty agents are killed in five minutes, and the remote is away ten times."""
    from dibs.desk import mint_id
    from dibs.lab.torture import clones

    folder = f"{_vault_folder(store_url(args))}.torture-{mint_id(6)}"
    share = args.minutes / 5
    kills, absences = max(1, round(50 * share)), max(1, round(10 * share))
    agents = max(args.clones, args.workers)
    experiment = clones.CloneExperiment(folder, args.minutes * 60, args.seed, args.clones, agents, kills, absences)
    if not args.json:
        print(printable(f"in {folder}, a temporary store, removed afterwards; your tasks are not touched"), flush=True)
    with Stop() as stop:
        report = clones.run(experiment, stop.wait)
    data: dict[str, Json] = {"violations": list(report.violations), **report.figures}
    emit(args, lambda: data, lambda: map(printable, clones.lines(report)))
    return _VIOLATED if report.violations else 0


def _vault_folder(url: str) -> str:
    from dibs.desk import open_desk

    with open_desk(url) as desk:
        described = desk.describe()
    if described["kind"] != "vault":
        raise InvalidInput("--clones is for a vault: --store vault:///FOLDER.")
    return described["place"]


def _announce(args: argparse.Namespace, place: Place) -> None:
    if not args.json:
        print(
            printable(f"at {place.what}, a temporary store, removed afterwards; your tasks are not touched"), flush=True
        )


def _restarting(command: str) -> Callable[[], None]:
    words = shlex.split(command)
    if not words:
        raise InvalidInput("The restart command is empty.")

    def restart() -> None:
        try:
            done = subprocess.run(  # noqa: S603 - the user's own command
                words, capture_output=True, text=True, check=False, timeout=_RESTART_TIMEOUT
            )
        except OSError as error:
            raise Misconfigured(f"'{words[0]}' cannot be run: {error.strerror}.") from None
        if done.returncode:
            raise Misconfigured(f"'{words[0]}' ended with {done.returncode}: {done.stderr.strip()[-200:]}")

    return restart


@contextmanager
def _watched(seconds: float) -> Iterator[Callable[[Progress], None]]:
    """A line on stderr that keeps up, if a person watches."""
    if not sys.stderr.isatty():
        yield lambda _progress: None
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    with Live(Text(""), console=Console(stderr=True), transient=True, refresh_per_second=4) as live:
        yield lambda progress: live.update(Text(_line(progress, seconds)))


def _line(progress: Progress, seconds: float) -> str:
    tasks = "  ".join(f"{status} {number}" for status, number in progress.tasks.items())
    struck = "  ".join(f"{name} {number}" for name, number in sorted(progress.faults.items()))
    return (
        f"{progress.stage} {progress.elapsed:.0f} of {seconds:.0f} s   tasks: {tasks}   faults: {struck or 'none yet'}"
    )


def _check(args: argparse.Namespace) -> int:
    from dibs.lab.torture.checker import Assumptions, violations
    from dibs.lab.torture.history import load

    try:
        judged, operations = load(args.check)
        found = violations(operations, Assumptions(**judged["assumptions"]))
    except OSError as error:
        raise InvalidInput(f"{args.check} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError):
        raise InvalidInput(f"{args.check} is not a history; --report writes one, history.jsonl.") from None
    said = [f"{each.rule}: {each.message}" for each in found]
    if args.json:
        print(json_document({"operations": len(operations), "violations": said}))
    else:
        print(f"{len(found) or 'no'} violation{'' if len(found) == 1 else 's'} in {len(operations)} operations")
        print(*said, sep="\n", end="\n" if said else "")
    return _VIOLATED if found else 0


_PORTS = 65_536
_HELLO = (
    "# A Notion emulator on this machine, until Ctrl-C. Its data is in memory only.",
    "# For another terminal:",
)


def _emulator_options(parser: Parser) -> None:
    parser.add_argument(
        "action",
        metavar="ACTION",
        nargs="?",
        choices=("serve", "record", "replay"),
        default="serve",
        help="serve (the default), record a real Notion, or replay a recording",
    )
    parser.add_argument("--file", metavar="FILE", help="the recording to write or to replay")
    parser.add_argument(
        "--port", metavar="P", type=whole, default=0, help="the port to listen on (default: a free one)"
    )
    parser.add_argument(
        "--layout",
        choices=("ntask", "mesh", "kurultai"),
        default="ntask",
        help="the protocol whose databases to create (default: ntask)",
    )
    parser.add_argument("--empty", action="store_true", help="create the databases without tasks")
    parser.add_argument(
        "--rate", metavar="N", type=whole, default=180, help="the most requests per minute (default: 180; 0: no limit)"
    )
    parser.add_argument("--lag", metavar="SPAN", type=span, help="how long queries miss recent writes (default: 0s)")
    parser.add_argument("--latency", metavar="SPAN", type=span, help="a delay before every answer (default: 0s)")
    parser.add_argument(
        "--fault",
        metavar="KIND=SHARE",
        action="append",
        type=_share,
        help="the share of requests that fail in this way, such as conflict=0.02 (repeatable)",
    )
    parser.add_argument(
        "--seed", metavar="N", type=whole, default=0, help="the seed: the same one repeats ids and faults (default: 0)"
    )
    parser.add_argument(
        "--for", dest="span", metavar="SPAN", type=span, help="stop after this long (default: on Ctrl-C)"
    )


def _share(text: str) -> tuple[str, float]:
    from dibs.lab.emulator.api import KINDS

    kind, _, share = text.partition("=")
    if kind not in KINDS:
        raise argparse.ArgumentTypeError(f"there is no fault '{kind[:40]}', but {', '.join(KINDS)}")
    try:
        part = float(share)
    except ValueError:
        part = -1.0
    if not 0 <= part <= 1:
        raise argparse.ArgumentTypeError(f"'{text[:60]}' needs a share from 0 to 1, such as {kind}=0.02")
    return kind, part


def serve(args: argparse.Namespace) -> int:
    """Serve until stopped; or record or replay what a real Notion says."""
    if args.action != "serve":
        if not args.file:
            raise InvalidInput(f"Which recording? 'notion-emulator {args.action}' needs --file FILE.")
        return _record(args) if args.action == "record" else _replay(args)
    with Stop() as stop, _emulator(args) as notion:
        exports = _exports(args, notion)
        emit(args, lambda: exports, lambda: _emulator_lines(exports))
        _tell_now()
        stop.wait(args.span.total_seconds() if args.span else None)
        return stop.status


def _record(args: argparse.Namespace) -> int:
    """A proxy before the real Notion; only the user can read the recording."""
    from dibs.lab.emulator.recorder import Recorder
    from dibs.stores.notion.connection import address

    upstream = address()
    try:
        file = os.open(args.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise InvalidInput(f"The recording {args.file} cannot be written: {error.strerror}. Name a new file.") from None
    with Stop() as stop, os.fdopen(file, "w", encoding="utf-8") as out:

        def keep(exchange: dict[str, Any]) -> None:
            out.write(json.dumps(exchange, ensure_ascii=False) + "\n")
            out.flush()

        with _listening(lambda: Recorder(upstream, keep, args.port), args.port) as proxy:
            exports = {"NOTION_API_BASE_URL": proxy.url}
            hello = f"# Requests go on to {upstream}, and are kept in {args.file} without secrets, until Ctrl-C."
            lines = [hello, *(f"export {name}={value}" for name, value in exports.items())]
            emit(args, lambda: exports, lambda: lines)
            _tell_now()
            stop.wait(args.span.total_seconds() if args.span else None)
            return stop.status


def _replay(args: argparse.Namespace) -> int:
    """Exit status 0 where the emulator answers as Notion did, 1 where it does not."""
    from dibs.lab.emulator.recorder import replay

    try:
        with open(args.file, encoding="utf-8") as file:
            exchanges = [json.loads(line) for line in file]
    except OSError as error:
        raise InvalidInput(f"The recording {args.file} cannot be read: {error.strerror}.") from None
    except ValueError:
        raise InvalidInput(f"{args.file} is not a recording of 'dibs notion-emulator record'.") from None
    found = replay(exchanges)
    data: list[Json] = [{"exchange": one.exchange, "request": one.request, "difference": one.what} for one in found]
    lines = [f"{one.exchange}  {one.request}: {one.what}" for one in found]
    lines.append(f"{len(exchanges)} exchanges, {len(found)} differences")
    emit(args, lambda: {"exchanges": len(exchanges), "differences": data}, lambda: lines)
    return _VIOLATED if found else 0


def _listening(make: Callable[[], Listening], port: int) -> Listening:
    if port >= _PORTS:
        raise InvalidInput(f"There is no port {port}: the last is {_PORTS - 1}.")
    try:
        return make()
    except OSError as error:
        taken = "it is taken" if error.errno == errno.EADDRINUSE else f"{error.strerror}"
        raise InvalidInput(f"Cannot listen on port {port}: {taken}. Choose another with --port.") from None


def _emulator(args: argparse.Namespace) -> Emulator:
    from dibs.lab.emulator import Emulator

    notion = _listening(lambda: Emulator(seed=args.seed, port=args.port), args.port)
    notion.faults.requests_per_minute = args.rate or None
    notion.faults.query_lag = args.lag.total_seconds() if args.lag else 0.0
    notion.faults.latency_before = args.latency.total_seconds() if args.latency else 0.0
    notion.faults.rates = dict(args.fault or ())
    return notion


def _exports(args: argparse.Namespace, notion: Emulator) -> dict[str, Any]:
    from dibs.lab.emulator.emulator import demo_databases

    made = demo_databases(notion, args.layout, empty=args.empty)
    return {"NOTION_API_BASE_URL": notion.url, "NOTION_TOKEN": notion.token, **made}


def _emulator_lines(exports: dict[str, Any]) -> Iterable[str]:
    yield from _HELLO
    yield from (f"export {name}={value}" for name, value in exports.items())


def _tell_now() -> None:
    """A reader of a pipe or a file waits for these lines."""
    import sys

    sys.stdout.flush()


def _check_options(parser: Parser) -> None:
    parser.add_argument(
        "--rounds", metavar="N", type=positive, default=10, help="the number of writes to read back (default: 10)"
    )


def check(args: argparse.Namespace) -> int:
    """Exit status 0 where everything holds that timed claims rest on, 1 where something does not."""
    from dibs.stores.notion.health import probe

    url = store_url(args)
    if not url.startswith("notion://"):
        raise InvalidInput("That is not a Notion database. Give --store notion://ID, or set DIBS_STORE.")
    checks = probe(url.removeprefix("notion://"), args.rounds)
    found: list[Json] = [{"name": one.name, "ok": one.ok, "message": one.message} for one in checks]
    lines = [f"{'ok ' if one.ok else 'NO '} {one.name}: {one.message}" for one in checks]
    emit(args, lambda: {"checks": found}, lambda: lines)
    return 0 if all(one.ok for one in checks) else _VIOLATED


COMMANDS = {
    "torture": Command(_torture_options, torture),
    "check": Command(_check_options, check),
    "notion-emulator": Command(_emulator_options, serve),
}
