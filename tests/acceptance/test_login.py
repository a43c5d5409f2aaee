"""`dibs login` keeps a server's token in a private file; `dibs logout` deletes it."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest

from dibs.stores.sqlite.store import SqliteStore
from support.remote import RemoteServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cli import Cli

SECRET = "an-example-secret-of-at-least-32-bytes"  # noqa: S105 - not a real one


@pytest.fixture
def server(cli: Cli) -> Iterator[str]:
    """The URL of a server that asks for tokens, over the store of `cli`."""
    served = RemoteServer(lambda: SqliteStore(str(cli.store)), [SECRET.encode()])
    cli.set("XDG_CONFIG_HOME", str(cli.folder / "config"))
    yield served.url
    served.end()


def token(cli: Cli, *words: str) -> str:
    cli.set("DIBS_SERVE_SECRET", SECRET)
    return str(cli.json("token", "create", "--agent", "ann", *words)["token"])


def test_login_makes_later_commands_use_the_token(cli: Cli, server: str) -> None:
    cli.add("parser")
    kept = cli.file("token.txt", token(cli))
    cli.refuses(7, "MISCONFIGURED", "list", "--store", server)
    assert cli.json("login", server, "--token-file", kept)["agent"] == "ann"
    assert cli.ids("list", "--store", server) == ["parser"]
    assert cli.json("claim", "--store", server)["task"]["lease"]["agent"] == "ann"


def test_login_file_is_private_and_nothing_prints_the_token(cli: Cli, server: str) -> None:
    secret = token(cli)
    ran = cli("login", server, "--token-file", cli.file("token.txt", secret))
    assert ran.status == 0
    assert secret not in ran.out + ran.err
    (kept,) = (path for path in (cli.folder / "config").rglob("*") if path.is_file())
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert secret in json.dumps(json.loads(kept.read_text()))


def test_refused_token_is_not_kept(cli: Cli, server: str) -> None:
    cli.refuses(7, "MISCONFIGURED", "login", server, "--token-file", cli.file("token.txt", "not.a.token"))
    assert not [path for path in (cli.folder / "config").rglob("*") if path.is_file()]


def test_logout_deletes_the_token_once(cli: Cli, server: str) -> None:
    cli.ok("login", server, "--token-file", cli.file("token.txt", token(cli)))
    assert cli.json("logout", server)["removed"] is True
    assert cli.json("logout", server)["removed"] is False
    cli.refuses(7, "MISCONFIGURED", "list", "--store", server)
