"""The command `agent`: claim tasks and run a command on each."""

from __future__ import annotations

import os
import signal
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from shutil import which
from typing import TYPE_CHECKING

from dibs.console.arguments import span, whole
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import json_document, printable
from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.desk import mint_id
from dibs.protocols.vault.agent import CLAIMER, WORKER, Agent, AgentPace
from dibs.protocols.vault.execution import Command as Running
from dibs.protocols.vault.execution import RetryPolicy, TaskRunner, Waiter
from dibs.protocols.vault.health import Registration, active_claims, report
from dibs.protocols.vault.publishing import publisher_of
from dibs.protocols.vault.settings import VAULT, add_agent, open_vault, place_of, settings_of, span_from
from dibs.protocols.vault.workplace import Journal, TrackedDesk, Workplace, log_path

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.protocols.vault.health import State
    from dibs.protocols.vault.settings import Settings

_INTERVAL = _RETRY_IN = timedelta(seconds=10)


def _options(parser: Parser) -> None:
    parser.add_argument(
        "command", metavar="CMD", nargs="*", help="after --: the command to run on each task, which it reads from stdin"
    )
    add_agent(parser)
    parser.add_argument("--once", action="store_true", help="work on the tasks that can be claimed now, then exit")
    parser.add_argument("--claim-only", action="store_true", help="claim tasks without working on them: no CMD")
    parser.add_argument(
        "--interval", metavar="SPAN", type=span, help="look for tasks at least this often (WATCHER_INTERVAL; else 10s)"
    )
    parser.add_argument("--lease", metavar="SPAN", type=span, help="lease of each claim; renewed while CMD runs (20m)")
    parser.add_argument(
        "--timeout", metavar="SPAN", type=span, help="stop a CMD that takes longer; the attempt has failed (no limit)"
    )
    parser.add_argument(
        "--max-retries",
        metavar="N",
        type=whole,
        default=3,
        help="retries of a failed task before it goes to Rejected (3)",
    )
    parser.add_argument(
        "--retry-in", metavar="SPAN", type=span, help="pause after the first failure; it doubles each time (10s)"
    )
    parser.add_argument(
        "--health-port", metavar="N", type=whole, help="serve GET /health on this port (HEALTH_PORT; else not)"
    )
    parser.add_argument("--health-host", metavar="HOST", default="127.0.0.1", help="address for /health (127.0.0.1)")
    parser.add_argument("--log", metavar="FILE", help="log file (Logs/agent-NAME.log in the vault)")
    parser.add_argument("--no-sync", action="store_true", help="in a git clone: do not pull or push")


def agent(args: argparse.Namespace) -> int:
    with Stop() as stop:
        return _run(args, stop)


def _run(args: argparse.Namespace, stop: Stop) -> int:
    settings = settings_of(args)
    _refuse_misunderstanding(args)
    port = _health_port(args)
    run = f"{CLAIMER if args.claim_only else WORKER}{mint_id(12)}"
    with open_vault(settings, run) as desk:
        root = place_of(desk)
        publisher = publisher_of(root, alone=args.no_sync)
        with closing(Registration(root, settings.agent)) as registration, Waiter(root, stop) as waiter:
            registration.begin(run, settings.duties.role.value, desk.now())
            journal = Journal(args.log or log_path(root, settings.agent), desk.now, _echo(args))
            workplace = Workplace(root, TrackedDesk(desk), journal, waiter, publisher)
            with _served(args.health_host, port, registration, workplace):
                return (
                    _attended(args, _agent(args, settings, workplace, registration), registration, workplace)
                    or stop.status
                )


def _refuse_misunderstanding(args: argparse.Namespace) -> None:
    if args.claim_only and args.command:
        raise InvalidInput("--claim-only runs no command. Remove the command.")
    if not args.claim_only and not args.command:
        raise InvalidInput("There is no command. Give one after --, which reads the task from stdin, or --claim-only.")
    if args.command and which(args.command[0]) is None:
        raise InvalidInput(f"The command '{args.command[0][:60]}' was not found or cannot be run.")


def _agent(args: argparse.Namespace, settings: Settings, workplace: Workplace, registration: Registration) -> Agent:
    lease = VAULT.lease if args.lease is None else checks.lease(args.lease)
    every = args.interval or span_from("WATCHER_INTERVAL", os.environ.get("WATCHER_INTERVAL")) or _INTERVAL
    work = None
    if args.command:
        variables = {
            "DIBS_STORE": settings.url,
            "DIBS_AGENT": settings.agent,
            "VAULT_PATH": workplace.root,
            "AGENT_NAME": settings.agent,
            "AGENT_ROLE": settings.duties.role.value,
        }
        patience = RetryPolicy(lease, args.max_retries, args.retry_in or _RETRY_IN)
        work = TaskRunner(workplace, Running(args.command, args.timeout), patience, variables)
    return Agent(workplace, settings.duties, AgentPace(args.once, every, lease), work, registration)


def _attended(args: argparse.Namespace, one: Agent, registration: Registration, workplace: Workplace) -> int:
    """Run an agent, from the recovery of its last run to the summary."""
    one.recover()
    registration.save()
    how = "" if workplace.waiter.watching else ", looking every second"
    workplace.journal.say(f"{workplace.agent} is at work in {workplace.root} as {registration.state.role}{how}")
    status = one.run()
    registration.update(ended_at=workplace.tracked.desk.now())
    registration.save()
    if args.json:
        print(json_document(_report(registration, workplace)))
    signalled = workplace.waiter.stopped_by
    why = "" if signalled is None else f" on {signal.Signals(signalled).name}"
    workplace.journal.say(f"{workplace.agent} leaves{why}: {_summary(registration.state)}")
    return status


def _summary(state: State) -> str:
    """The claims of a run and how they ended: the last four numbers add up to the first."""
    ends = f"{state.done} done, {state.failed} failed, {state.released} released, {state.lost_leases} lost"
    first = f"; other agents were first for {state.lost}" if state.lost else ""
    return f"{state.total_claims} claimed, {ends}{first}"


def _echo(args: argparse.Namespace) -> Callable[[str], None]:
    """Print progress on stdout, except with --json. A closed terminal does not stop the agent."""

    def echo(line: str) -> None:
        if not args.json:
            with suppress(OSError):
                print(printable(line), flush=True)

    return echo


def _health_port(args: argparse.Namespace) -> int | None:
    given: int | None = args.health_port
    if given is not None:
        return given
    said = os.environ.get("HEALTH_PORT")
    if not said:
        return None
    if not (said.isascii() and said.isdigit()):
        raise InvalidInput(f"HEALTH_PORT must be a number, not {said[:40]!r}.")
    return int(said)


@contextmanager
def _served(host: str, port: int | None, registration: Registration, workplace: Workplace) -> Iterator[None]:
    if port is None:
        yield
        return
    from dibs.protocols.vault.health import HealthServer

    with closing(HealthServer(host, port, lambda: _report(registration, workplace))) as server:
        workplace.journal.say(f"health is at {server.address}")
        yield


def _report(registration: Registration, workplace: Workplace) -> dict[str, Json]:
    return report(registration.state, active_claims(workplace.root, workplace.agent), workplace.tracked.desk.now())


COMMANDS = {"agent": Command(_options, agent)}
