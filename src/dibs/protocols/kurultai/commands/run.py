"""run: the whole engine in one process: reader and delivery, dispatcher, and Notion poller, for all senders.

Each part is a thread with its own connection. If the store or Notion cannot be reached, the part prints that and tries
again, so the process survives a restart of either. Any number of these processes may run: one of them dispatches, and
one at a time handles the messages and results of a sender.
"""

from __future__ import annotations

import threading
from contextlib import closing
from typing import TYPE_CHECKING

from dibs.console.arguments import positive
from dibs.console.commands import Command
from dibs.console.stopping import Stop
from dibs.console.streams import compact_json, printable
from dibs.core.errors import StoreError, StoreReplaced
from dibs.protocols.kurultai import notion
from dibs.protocols.kurultai.settings import on_abort, open_desk_of, open_memory

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Mapping

    from dibs.chat.conversation.delivery import Delivery
    from dibs.chat.conversation.reader import Outcome
    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.fleet.dispatch import DispatchRound
    from dibs.sync.notion.report import Report

_TRY_AGAIN = 2.0  # seconds
_LOOK = 0.5  # seconds
_SENDER = 12  # digits that are shown of a sender's hash


def _options(parser: Parser) -> None:
    parser.add_argument("--no-notion", action="store_true", help="do not poll Notion")
    parser.add_argument(
        "--retries", metavar="N", type=positive, default=3, help="retry limit for tasks that set none (3)"
    )


def run(args: argparse.Namespace) -> int:
    """Run until a signal, then finish the running steps."""
    with open_memory(args) as memory:  # report an unusable store at once
        memory.register_fleet()
    notion.usual_interval()
    with Stop() as stop:
        log = Log(json=args.json)
        parts = [Part("reader", _reading, args, stop, log), Part("dispatcher", _dispatching, args, stop, log)]
        if notion.poll_enabled() and not args.no_notion:
            parts.append(Part("notion", _polling, args, stop, log))
        for part in parts:
            part.start()
        log.say("run", f"at work: {', '.join(part.name for part in parts)}. Ctrl-C stops it.")
        stop.wait()
        for part in parts:
            part.join()
    failed = [part for part in parts if part.failed is not None]
    for part in failed:
        raise part.failed  # type: ignore[misc]  # those that have one
    log.say("run", "stopped")
    return stop.status


class Log:
    """Print one line, or one JSON document, per event. A problem that repeats is printed once."""

    def __init__(self, *, json: bool) -> None:
        self._json = json
        self._lock = threading.Lock()
        self._trouble: dict[str, str] = {}

    def trouble(self, part: str, text: str) -> None:
        if self._trouble.get(part) != text:
            self._trouble[part] = text
            self._print(part, text, {"trouble": True})

    def say(self, part: str, text: str, **data: Json) -> None:
        self._trouble.pop(part, None)
        self._print(part, text, data)

    def _print(self, part: str, text: str, data: Mapping[str, Json]) -> None:
        line = compact_json({"part": part, "text": text, **data}) if self._json else f"{part:<11}{printable(text)}"
        with self._lock:
            print(line, flush=True)


class Part(threading.Thread):
    """One part of the engine. It reopens the store after a failed connection."""

    def __init__(
        self,
        name: str,
        work: Callable[[argparse.Namespace, Desk, Stop, Log], None],
        args: argparse.Namespace,
        stop: Stop,
        log: Log,
    ) -> None:
        super().__init__(name=name)
        self._work, self._args, self._halt, self._log = work, args, stop, log
        self.failed: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._halt.wait(0):
                try:
                    with closing(open_desk_of(self._args)) as desk:
                        self._work(self._args, desk, self._halt, self._log)
                except StoreReplaced:
                    raise
                except StoreError as error:
                    self._log.trouble(self.name, f"{error.message} Trying again.")
                    self._halt.wait(_TRY_AGAIN)
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self.failed = error
        finally:
            self._halt.request()


def _trouble(log: Log, part: str) -> Callable[[str], None]:
    return lambda text: log.trouble(part, text)


# Messages and results


def _reading(_args: argparse.Namespace, desk: Desk, stop: Stop, log: Log) -> None:
    from dibs.chat.conversation.delivery import Deliverer
    from dibs.chat.conversation.reader import watch
    from dibs.chat.opening import chosen_reader, chosen_unify

    reader, deliverer = chosen_reader(desk), Deliverer(desk, chosen_unify())
    watch(desk, reader, deliverer, lambda what: _show_chat(log, what), _trouble(log, "reader"), stop.wait)


def _show_chat(log: Log, what: Outcome | Delivery) -> None:
    from dibs.chat.conversation.delivery import Delivery

    whose = f"{what.sender[:_SENDER]}…"
    if isinstance(what, Delivery):
        for note in what.notes:
            log.say("delivery", f"{whose} {note.title}", sender_hash=what.sender, note=note.id)
        return
    read = f"{len(what.messages)} messages read, {len(what.tasks)} tasks and {len(what.links)} links made"
    log.say("reader", f"{whose} {read}", sender_hash=what.sender, tasks=[task.id for task in what.tasks])
    for task in what.tasks:
        log.say("reader", f"  {task.id[:8]} {task.title}", task=task.id)


# Agents


def _dispatching(args: argparse.Namespace, desk: Desk, stop: Stop, log: Log) -> None:
    from dibs.core.task import LEAD
    from dibs.desk import mint_id
    from dibs.fleet.dispatch import Dispatcher, Lead, Rules, Watch

    dispatcher = Dispatcher(desk, Rules(None, retries=args.retries, failed=on_abort()))
    lead = Lead(desk, f"{LEAD}*", f"kurultai-{mint_id()}")
    watch = Watch(desk, dispatcher, lead, lambda done: _show_round(log, done), _trouble(log, "dispatcher"))
    watch.run(stop.wait, until_done=False)


def _show_round(log: Log, done: DispatchRound) -> None:
    for text, data in _happened(done):
        log.say("dispatcher", text, **data)


def _happened(done: DispatchRound) -> Iterable[tuple[str, dict[str, Json]]]:
    for given in done.given:
        yield f"{given.task[:8]} → {given.agent}", {"task": given.task, "agent": given.agent}
    for task in done.taken_back:
        yield f"{task[:8]} is taken back: its agent is gone", {"task": task}
    for task in done.escalated:
        yield f"{task[:8]} is escalated: a prerequisite failed", {"task": task}
    for task in done.canceled:
        yield f"{task[:8]} is canceled", {"task": task}
    for trouble in done.troubles:
        yield f"{trouble.task.id[:8]}: {trouble.error}", {"task": trouble.task.id, "trouble": True}


# Notion


def _polling(args: argparse.Namespace, _desk: Desk, stop: Stop, log: Log) -> None:
    from dibs.sync.notion.schedule import Poller

    subscribers = notion.Subscribers(lambda: open_desk_of(args), None, notion.usual_interval())
    poller = Poller(subscribers, lambda report: _show_report(log, report), _trouble(log, "notion"))
    watching = threading.Thread(target=poller.watch, name="notion-rounds")
    watching.start()
    while watching.is_alive() and not stop.wait(_LOOK):
        continue
    poller.stop()
    watching.join()


def _show_report(log: Log, report: Report) -> None:
    from dibs.sync.notion.report import text_of

    for line in text_of(report).split("\n"):
        if line:
            log.say("notion", f"{report.sender[:_SENDER]}… {line}", sender_hash=report.sender)


COMMANDS = {"run": Command(_options, run)}
