"""A token is shown to the one who claimed, once. It turns up nowhere else."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from support.cli import Cli, Clock, Ran

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Day:
    """Runs commands in text and in JSON by turns, and keeps what they said."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        self.tokens: set[str] = set()
        self.said: list[tuple[tuple[str, ...], Ran]] = []

    def do(self, *words: str) -> Ran:
        """A command that shows no token."""
        ran = self._cli(*words)
        self.said.append((words, ran))
        return ran

    def claim(self, *words: str) -> str:
        """A command that shows the token of the claim it makes, and no other."""
        ran = self._cli(*words)
        assert ran.status == 0, ran
        assert ran.err == ""
        found: set[str] = set(_UUID.findall(ran.out))
        assert len(found) == 1, ran.out
        assert not found & self.tokens, "every attempt has a token of its own"
        self.tokens |= found
        return found.pop()

    def leaks(self) -> list[tuple[str, ...]]:
        return [words for words, ran in self.said if _UUID.search(ran.out + ran.err)]


@pytest.mark.parametrize("style", [(), ("--json",)], ids=["text", "json"])
def test_a_whole_day_of_work_leaks_no_token(style: tuple[str, ...], cli: Cli, clock: Clock) -> None:
    day = Day(cli)
    look = [
        ("list", "--all"),
        ("ready",),
        ("next",),
        ("stale",),
        ("log",),
        ("stats",),
        ("graph",),
        ("doctor", "--deep"),
    ]

    def do(*words: str) -> Ran:
        return day.do(*words, *style)

    for name in ("build", "test", "ship", "late", "odd", "mine", "sent", "shut", "held"):
        do("add", name, "--id", name)
    do("link", "ship", "--blocked-by", "test")
    do("plan", cli.file("plan.yaml", "- {id: extra, title: Planned}\n"))

    build = day.claim("claim", "build", "--agent", "bob", *style)
    for words in look:
        do(*words)
    do("show", "build")
    do("renew", "build", "--token", build)
    do("edit", "build", "--title", "Build it", "--agent", "bob")
    assert do("claim", "build", "--agent", "eve").status == 4
    assert do("done", "build").status == 4
    assert do("done", "build", "--token", "0" * 8).status == 5
    test = day.claim("done", "build", "--token", build, "--next", "--agent", "bob", *style)
    do("done", "build", "--token", build)
    assert do("release", "extra", "--token", test).status == 0
    test = day.claim("claim", "test", *style)
    do("done", "test", "--token", test, "--note", "green", "--artifact", "report.html")

    late = day.claim("claim", "late", "--lease", "1m", *style)
    clock.advance(minutes=2)
    do("stale")
    do("list")
    assert do("done", "late", "--token", late).status == 5
    again = day.claim("claim", "late", "--agent", "carl", *style)
    assert do("done", "late", "--token", late).status == 5
    do("fail", "late", "--token", again, "--reason", "no luck")
    do("block", "odd", "--token", day.claim("claim", "odd", *style), "--reason", "no key")
    do("unblock", "odd")
    do("review", "sent", "--token", day.claim("claim", "sent", *style), "--note", "look")
    do("rework", "sent", "--reason", "more")
    do("review", "sent", "--token", day.claim("claim", "sent", *style))
    do("approve", "sent")
    do("pause", "mine", "--token", day.claim("claim", "mine", *style))
    do("resume", "mine")
    do("cancel", "shut", "--token", day.claim("claim", "shut", *style))
    day.claim("claim", "ship", "--human", *style)
    day.claim("claim", "ship", "--human", "--force", "--agent", "zoe", *style)
    do("release", "ship", "--force")
    cli.claim("held")
    for words in look:
        do(*words)
    for name in ("build", "test", "late", "odd", "sent", "shut", "ship", "held"):
        do("show", name)
        do("log", name)
    for shape in ("mermaid", "dot", "svg"):
        do("graph", "--format", shape)
    do("prune", "--events", "90d", "--tasks", "90d")

    assert day.leaks() == []
    assert len(day.tokens) > 10


def test_neither_events_nor_exports_hold_a_token(cli: Cli) -> None:
    cli.add("job")
    cli.add("held")
    held, spent = cli.claim("held"), cli.claim("job")
    cli.ok("done", "job", "--token", spent, "--note", "fine")
    assert cli("done", "held", "--token", spent).status == 5
    with closing(sqlite3.connect(cli.store)) as connection:
        events = repr(connection.execute("SELECT * FROM event").fetchall())
    for text in (events, cli.ok("export"), cli.ok("log", "--json")):
        assert held not in text
        assert spent not in text
        assert not _UUID.search(text)


def test_the_other_files_in_the_project_hold_no_token(cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    beside = [path for path in cli.store.parent.iterdir() if not path.name.startswith("dibs.db")]
    for path in [*beside, cli.store.with_name("dibs.db-lock")]:
        assert token not in path.read_text()


def test_an_error_does_not_repeat_the_token_it_was_given(cli: Cli) -> None:
    cli.add("job")
    cli.claim("job")
    secret = str(uuid4())
    for verb in ("done", "renew", "release", "fail", "review", "cancel", "pause"):
        for style in ((), ("--json",)):
            ran = cli(verb, "job", "--token", secret, *style)
            assert ran.status == 5
            assert secret not in ran.out + ran.err


def test_export_with_secrets_shows_each_token_where_it_belongs(cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    (line,) = [line for line in cli.ok("export", "--secrets").splitlines() if token in line]
    assert line.startswith('{"kind":"task"')
