"""Scopes: names that start with a dot are internal and refused everywhere; users may use all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import InvalidInput
from dibs.core.task import INBOX, LEAD, MAIL, OUTBOX, SYNC, is_internal
from dibs.desk import Desk
from dibs.serve.access import SECRET

if TYPE_CHECKING:
    from support.cli import Cli

REFUSED = [".mail.team", ".x", " .x", "."]
# names that were internal, or look internal
USERS = ["mail.team", "inbox.x", "outbox.x", "dispatch.x", "sync.x", "a.b", "mail"]


def test_internal_scopes_start_with_a_dot() -> None:
    assert all(map(is_internal, (INBOX, OUTBOX, MAIL, LEAD, SYNC)))


@pytest.mark.parametrize("scope", REFUSED)
@pytest.mark.parametrize(
    "words",
    [
        ("add", "A task"),
        ("list",),
        ("claim", "--agent", "ann"),
        ("say", "--sender-hash", "a" * 64, "Paint"),
        ("serve", "--port", "0", "--for", "0.01s"),
        ("mcp", "--agent", "ann"),
        ("token", "create", "--agent", "ann"),
        ("dispatch", "--once"),
        ("graph",),
        ("stats",),
        ("log",),
    ],
)
def test_internal_name_is_refused(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], scope: str
) -> None:
    monkeypatch.setenv(SECRET, "x" * 32)
    error = cli.refuses(2, "INVALID_INPUT", "--scope", scope, *words)
    assert "cannot be a scope" in error.message


def test_worker_refuses_an_internal_name(cli: Cli) -> None:
    ran = cli("work", "--scope", ".x", "--agent", "ann", "--once", "--", "true")
    assert (ran.status, "cannot be a scope" in ran.err) == (2, True), ran


def test_internal_name_in_the_environment_is_refused(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DIBS_SCOPE", ".mail.ann")
    assert "'.' are internal" in cli.refuses(2, "INVALID_INPUT", "add", "A task").message


@pytest.mark.parametrize("scope", USERS)
def test_every_other_name_is_listed_counted_and_claimed(cli: Cli, scope: str) -> None:
    cli.ok("add", "A task", "--id", "job", "--scope", scope)
    assert [task["scope"] for task in cli.json("list", "--any-scope")] == [scope]
    assert cli.json("stats", "--any-scope")["by_status"]["ready"] == 1
    assert [task["scope"] for task in cli.json("ready", "--any-scope")] == [scope]
    assert cli.json("claim", "--any-scope", "--agent", "ann")["task"]["scope"] == scope


def test_letters_are_in_no_list_for_users(cli: Cli) -> None:
    cli.ok("mail", "send", "bob", "Hello", "--agent", "ann")
    assert cli.json("list", "--any-scope") == []
    assert cli("claim", "--any-scope", "--agent", "bob").status == 4


def test_desk_opens_an_internal_scope_only_as_internal(cli: Cli) -> None:
    from dibs.stores.sqlite.store import SqliteStore

    with SqliteStore(str(cli.store)) as store:
        with pytest.raises(InvalidInput):
            Desk(store, scope=".mail.bob")
        assert Desk(store, scope=".mail.bob", internal=True).scope == ".mail.bob"
