"""token create, list and revoke: who may use a server that others can reach."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dibs.cli.command import open_desk, scope_name, warn
from dibs.console.arguments import span
from dibs.console.commands import Command
from dibs.console.streams import emit, printable, table
from dibs.core.errors import InvalidInput, Misconfigured

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from dibs.console.arguments import Parser
    from dibs.core.task import Json
    from dibs.serve.access import Caller, Right, TokenRecord
    from dibs.stores.http.connection import Address

_ROLES = ("viewer", "worker", "planner")


def _create_options(parser: Parser) -> None:
    from datetime import timedelta

    whose = parser.add_mutually_exclusive_group(required=True)
    whose.add_argument("--agent", metavar="NAME", help="the agent that uses the token; it can use no other name")
    whose.add_argument("--sender", metavar="WHO", help="the sender that uses the token, such as a phone number")
    whose.add_argument("--sender-hash", metavar="HASH", help="the sender as a hash")
    rights = parser.add_mutually_exclusive_group()
    rights.add_argument(
        "--for",
        dest="role",
        choices=_ROLES,
        help="the role of the token (default: worker; for a sender: read and plan)",
    )
    rights.add_argument("--can", metavar="RIGHTS", help="instead of --for: any of read, claim, plan and admin")
    parser.add_argument(
        "--expires", metavar="SPAN", type=span, default=timedelta(days=30), help="how long it is valid (default: 30d)"
    )
    parser.add_argument(
        "--any-scope", action="store_true", help="make it valid in all scopes (default: only in --scope)"
    )


def create(args: argparse.Namespace) -> int:
    """Print the token once. The store lists it without the token itself."""
    from dibs.serve.access import SECRET, create_token, secrets_of

    secrets = secrets_of(os.environ)
    if not secrets:
        raise Misconfigured(
            f"Tokens are signed with the server's secret: set {SECRET} to the same value as for 'dibs serve'."
        )
    caller = _caller(args)
    with open_desk(args) as desk:
        try:
            token, record = create_token(desk, caller, secrets[0], args.expires)
        except ModuleNotFoundError:
            raise Misconfigured("Tokens need more packages: pip install 'dibs[serve]'.") from None
        listed = desk.has_settings
    if not listed:
        warn("This store lists no tokens: this one ends when it expires, or when the secret changes.")
    return emit(args, lambda: {"token": token, **record.json()}, lambda: [token])


def _caller(args: argparse.Namespace) -> Caller:
    from dibs.cli.commands.chat import sender_of
    from dibs.core.checks import name_of
    from dibs.serve.access import Caller, Right

    rights = _rights(args)
    if args.agent is None:
        if rights & {Right.CLAIM, Right.ADMIN} or args.any_scope or args.scope:
            raise InvalidInput(
                "A sender's token has the rights read and plan at most, in the sender's own scope. "
                "Remove --scope, --any-scope and other rights."
            )
        sender = sender_of(args)
        return Caller(None, sender, rights, frozenset({str(sender)}))
    scopes = None if args.any_scope else frozenset({scope_name(args)})
    return Caller(name_of("agent", args.agent), None, rights, scopes)


def _rights(args: argparse.Namespace) -> frozenset[Right]:
    from dibs.serve.access import ROLES, Right

    if args.role is not None:
        return ROLES[args.role]
    if args.can is None:
        return ROLES["worker"] if args.agent is not None else frozenset({Right.READ, Right.PLAN})
    try:
        return frozenset(Right(word.strip()) for word in args.can.split(","))
    except ValueError:
        raise InvalidInput(f"--can takes {', '.join(Right)}, separated by commas.") from None


def _list_options(parser: Parser) -> None:
    parser.add_argument("--all", action="store_true", help="list expired and revoked tokens too")


def list_(args: argparse.Namespace) -> int:
    from dibs.serve.access import host_time, listed_tokens

    with open_desk(args) as desk:
        records, now = listed_tokens(desk), host_time()
    shown = [record for record in records if args.all or args.json or _state(record, now) == "valid"]
    data: dict[str, Json] = {"tokens": [record.json() for record in shown]}
    return emit(args, lambda: data, lambda: _lines(shown, now))


def _lines(records: Sequence[TokenRecord], now: datetime) -> Iterable[str]:
    from dibs.core.times import time_text
    from dibs.serve.access import key_of, secrets_of

    if not records:
        return ["No tokens. 'dibs token create --agent NAME' makes one."]
    keys = {key_of(secret): name for secret, name in zip(secrets_of(os.environ), ("current", "previous"), strict=False)}
    rows = [
        (
            record.id, _state(record, now), record.caller.agent or f"sender {str(record.caller.sender)[:12]}…",
            ",".join(sorted(record.caller.rights)),
            _scopes(record.caller),
            time_text(record.expires_at), keys.get(record.key, record.key),
        )
        for record in records
    ]  # fmt: skip
    return table(("ID", "STATE", "FOR", "RIGHTS", "SCOPES", "EXPIRES", "SECRET"), rows)


def _scopes(caller: Caller) -> str:
    if caller.sender is not None:
        return "their own"
    return "any" if caller.scopes is None else ",".join(sorted(caller.scopes))


def _state(record: TokenRecord, now: datetime) -> str:
    return "revoked" if record.revoked else "expired" if record.expires_at <= now else "valid"


def _revoke_options(parser: Parser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="+", help="the token's id, as 'dibs token list' shows it")


def revoke(args: argparse.Namespace) -> int:
    from dibs.serve.access import revoke_tokens

    with open_desk(args) as desk:
        revoked = revoke_tokens(desk, args.ids)
    data: dict[str, Json] = {"revoked": [record.json() for record in revoked]}
    return emit(args, lambda: data, lambda: [f"revoked {printable(record.id)}" for record in revoked])


# The token of a client


def _logout_options(parser: Parser) -> None:
    parser.add_argument(
        "server", metavar="URL", nargs="?", help="the server's address (default: --store, else DIBS_STORE)"
    )


def _login_options(parser: Parser) -> None:
    _logout_options(parser)
    parser.add_argument("--token-file", metavar="FILE", help="read the token from this file (default: stdin)")


def login(args: argparse.Namespace) -> int:
    """Keep a token after the server has accepted it."""
    from dibs.stores.http.connection import Connection, keep_token, tokens_file
    from dibs.stores.http.wire import HELLO, PATH

    address = _server(args)
    token = _given_token(args.token_file)
    connection = Connection(address, token)
    try:
        told = connection.post(f"{PATH}{HELLO}", {}, None)["value"]
    finally:
        connection.close()
    keep_token(address, token)
    agent = told.get("agent")
    data: dict[str, Json] = {
        "server": address.url,
        "agent": agent,
        "rights": told.get("rights", []),
        "file": tokens_file(),
    }
    return emit(args, lambda: data, lambda: [f"Logged in to {address.url}{f' as {agent}' if agent else ''}."])


def logout(args: argparse.Namespace) -> int:
    from dibs.stores.http.connection import keep_token

    address = _server(args)
    known = keep_token(address, None)
    said = f"Logged out of {address.url}." if known else f"There was no token of {address.url}."
    return emit(args, lambda: {"server": address.url, "removed": known}, lambda: [said])


def _server(args: argparse.Namespace) -> Address:
    from dibs.cli.command import store_url
    from dibs.stores.http.connection import address_of

    url = args.server or store_url(args)
    if not url.startswith(("http://", "https://", "http+unix://")):
        raise InvalidInput("A login is for a server. Name it: 'dibs login https://HOST'.")
    return address_of(url)


_TOKEN_MOST = 8192


def _given_token(path: str | None) -> str:
    """The token from a file, a terminal without an echo, or stdin. A command line can be seen by others."""
    if path is not None:
        try:
            with open(path, encoding="utf-8") as file:
                given = file.read(_TOKEN_MOST)
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidInput(f"{path}: {getattr(error, 'strerror', None) or 'it is no text'}.") from None
    elif sys.stdin is not None and sys.stdin.isatty():
        from getpass import getpass

        given = getpass("Token: ")
    else:
        given = sys.stdin.read(_TOKEN_MOST) if sys.stdin is not None else ""
    if not given.strip():
        raise InvalidInput("No token was given. Send it on stdin, or name its file with --token-file.")
    return given.strip()


COMMANDS = {
    "create": Command(_create_options, create),
    "list": Command(_list_options, list_),
    "revoke": Command(_revoke_options, revoke),
    "login": Command(_login_options, login),
    "logout": Command(_logout_options, logout),
}
