"""For every command a project in which it works, and the words to type."""

from __future__ import annotations

import socket
from functools import cache
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from dibs.desk import open_desk
from dibs.lab.emulator import Emulator, kurultai_schema
from dibs.stores.sqlite.store import SqliteStore
from support.remote import RemoteServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.cli import Cli

    Words = tuple[str, ...]
    Scene = Callable[[Cli], Words]


def _with_task(*words: str) -> Scene:
    def scene(cli: Cli) -> Words:
        cli.add("job")
        return words

    return scene


def _with_pair(*words: str) -> Scene:
    def scene(cli: Cli) -> Words:
        cli.add("first")
        cli.add("second")
        return words

    return scene


def _logs(cli: Cli) -> Words:
    cli.add("job")
    token = cli.claim("job")
    with open_desk(str(cli.store)) as desk:
        desk.append_output("job", token, 0, "at work\n")
    return ("logs", "job")


def _holding(verb: str, *words: str) -> Scene:
    def scene(cli: Cli) -> Words:
        cli.add("job")
        return (verb, "job", "--token", cli.claim("job"), *words)

    return scene


def _after(verb: str, *before: Words) -> Scene:
    """`before` are commands to run first."""

    def scene(cli: Cli) -> Words:
        cli.add("job")
        for words in before:
            cli.ok(*words)
        return (verb, "job")

    return scene


def _reviewed(verb: str) -> Scene:
    def scene(cli: Cli) -> Words:
        cli.add("job")
        cli.ok("review", "job", "--token", cli.claim("job"))
        return (verb, "job")

    return scene


def _stale(cli: Cli) -> Words:
    cli.add("job")
    cli.ok("block", "job", "--reason", "no answer yet", "--check-at", "2025-01-01")
    return ("stale",)


def _open(cli: Cli) -> Words:
    cli.add("job")
    board = socket.create_server(("127.0.0.1", 0))
    _BOARDS.append(board)  # it listens for as long as the tests run
    return ("open", "job", "--no-browser", "--port", str(board.getsockname()[1]))


_BOARDS: list[socket.socket] = []


def _unlink(cli: Cli) -> Words:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    return ("unlink", "second", "--blocked-by", "first")


def _plan(cli: Cli) -> Words:
    return ("plan", cli.file("plan.yaml", "- {id: one, title: One}\n- {id: two, title: Two, deps: [one]}\n"))


def _import(cli: Cli) -> Words:
    times = ",".join(f'"{name}_at":"2026-01-01T12:00:00Z"' for name in ("created", "updated", "queued"))
    line = f'{{"kind":"task","scope":"default","id":"moved","title":"Moved here",{times}}}\n'
    return ("import", cli.file("moved.jsonl", line))


def _restore(cli: Cli) -> Words:
    cli.add("job")
    cli.ok("backup", "whole.jsonl")
    return ("restore", "whole.jsonl")


def _flush(cli: Cli) -> Words:
    cli.ok("say", "--sender-hash", "a" * 64, "Research competitors")
    return ("flush", "--sender-hash", "a" * 64)


@cache
def notion() -> tuple[Emulator, str]:
    """An emulated Notion with a database for kurultai, for as long as the tests run."""
    emulator = Emulator()
    emulator.start()
    return emulator, emulator.database(kurultai_schema()).id


def _sync(cli: Cli) -> Words:
    emulator, database = notion()
    variables = {"NOTION_API_BASE_URL": emulator.url, "NOTION_TOKEN": emulator.token, "NOTION_DATABASE_ID": database}
    for name, value in (variables | {"XDG_CACHE_HOME": str(cli.folder)}).items():
        cli.set(name, value)
    cli.ok("kurultai", "config", "notion_integration_enabled", "true", "--sender-hash", "a" * 64)
    return ("sync", "notion", "--sender-hash", "a" * 64)


def _login(cli: Cli) -> Words:
    cli.set("XDG_CONFIG_HOME", str(cli.folder))
    return ("login", served(), "--token-file", cli.file("token.txt", "any"))


@cache
def served() -> str:
    """A server that accepts any token, for as long as the tests run."""
    folder = mkdtemp(prefix="dibs-served-")
    SqliteStore(f"{folder}/dibs.db", create=True, durable=False).close()
    return RemoteServer(lambda: SqliteStore(f"{folder}/dibs.db")).url


def _logout(cli: Cli) -> Words:
    cli.set("XDG_CONFIG_HOME", str(cli.folder))
    return ("logout", "https://desk.example.org")


SCENES: dict[str, Scene] = {
    "init": lambda _cli: ("init",),
    "setup": lambda _cli: ("setup", "claude", "--yes"),
    "prime": _with_task("prime"),
    "add": lambda _cli: ("add", "A task"),
    "edit": _with_task("edit", "job", "--title", "Another title"),
    "comment": _with_task("comment", "job", "Mind the gap"),
    "plan": _plan,
    "say": lambda _cli: ("say", "--sender-hash", "a" * 64, "Research", "competitors"),
    "flush": _flush,
    "inbox": lambda _cli: ("inbox", "--sender-hash", "a" * 64),
    "config": lambda _cli: ("config", "chat_window"),
    "sync": _sync,
    "analyze": lambda cli: ("analyze", cli.file("messages.txt", "Research competitors\nThen write a strategy\n")),
    "show": _with_task("show", "job"),
    "list": _with_task("list"),
    "ready": _with_task("ready"),
    "next": _with_task("next"),
    "status": _with_task("status"),
    "search": _with_task("search", "job"),
    "open": _open,
    "assign": _with_task("assign", "job", "bob"),
    "close": _with_task("close", "job"),
    "reopen": _after("reopen", ("cancel", "job")),
    "undo": _with_task("undo"),
    "stale": _stale,
    "log": _with_task("log"),
    "logs": _logs,
    "top": _with_task("top", "--once"),
    "scores": _with_task("scores"),
    "stats": _with_task("stats"),
    "claim": _with_task("claim"),
    "renew": _holding("renew"),
    "release": _holding("release"),
    "done": _holding("done"),
    "fail": _holding("fail", "--reason", "the tests do not pass"),
    "block": _holding("block", "--reason", "no key"),
    "review": _holding("review"),
    "cancel": _with_task("cancel", "job"),
    "dispatch": _with_task("dispatch"),
    "work": _with_task("work", "--once", "true"),
    "unblock": _after("unblock", ("block", "job", "--reason", "no key")),
    "approve": _reviewed("approve"),
    "rework": _reviewed("rework"),
    "pause": _with_task("pause", "job"),
    "resume": _after("resume", ("pause", "job")),
    "link": _with_pair("link", "second", "--blocked-by", "first"),
    "unlink": _unlink,
    "graph": _with_task("graph"),
    "export": _with_task("export", "export.jsonl"),
    "import": _import,
    "backup": _with_task("backup", "backup.jsonl"),
    "restore": _restore,
    "prune": _with_task("prune", "--events", "90d"),
    "doctor": _with_task("doctor", "--deep"),
    "version": lambda _cli: ("version",),
    "completion": lambda _cli: ("completion", "bash"),
    "serve": _with_task("serve", "--port", "0", "--for", "0.01s"),
    "login": _login,
    "logout": _logout,
    "demo": lambda _cli: ("demo", "--minutes", "0"),
    "torture": lambda _cli: ("torture", "--minutes", "0.01", "--workers", "2", "--tasks", "8"),
    "notion-emulator": lambda _cli: ("notion-emulator", "--for", "0.01s"),
}
# Commands that work without a store.
STORELESS = frozenset(
    {"version", "analyze", "notion-emulator", "setup", "prime", "demo", "completion", "login", "logout"}
)
