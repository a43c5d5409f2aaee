"""dibs token from the command line, and its complete reference page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.cli.catalogue import PACKAGE, group
from dibs.cli.command import add_shared
from dibs.serve.access import Caller, Right, verified
from docs.command_page import CommandPage

if TYPE_CHECKING:
    from support.cli import Cli

COMMANDS = group("token").table
PAGE = CommandPage(
    "token.md",
    "dibs token",
    PACKAGE,
    COMMANDS,
    frozenset({"Shared by all commands"}),
    add_shared,
    frozenset({"--store", "--scope", "--json"}),
)
SECRET = "s" * 32


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    PAGE.has_a_section_for_each_command()


@pytest.mark.parametrize("name", COMMANDS)
def test_page_has_exactly_the_arguments_of_a_command(name: str) -> None:
    PAGE.tells_all_of(name)


def test_secret_may_be_in_a_file_and_must_be_long(cli: Cli) -> None:
    cli.refuses(7, "MISCONFIGURED", "token", "create", "--agent", "ann")
    cli.set("DIBS_SERVE_SECRET_FILE", cli.file("secret", "short\n"))
    told = cli.refuses(7, "MISCONFIGURED", "token", "create", "--agent", "ann")
    assert "too short" in told.message
    assert "short" not in told.message.replace("too short", "")
    cli.file("secret", SECRET)
    assert cli.ok("token", "create", "--agent", "ann").startswith("eyJ")


def test_previous_secret_needs_a_current_one(cli: Cli) -> None:
    cli.set("DIBS_SERVE_SECRET_PREVIOUS_FILE", cli.file("old", SECRET))
    for _ in range(2):
        assert "DIBS_SERVE_SECRET " in cli.refuses(7, "MISCONFIGURED", "token", "create", "--agent", "ann").message
        cli.set("DIBS_SERVE_SECRET_PREVIOUS", SECRET)
    cli.set("DIBS_SERVE_SECRET", "n" * 32)
    token = cli.json("token", "create", "--agent", "ann")["token"]
    assert verified(token, b"n" * 32)[0].agent == "ann"


def test_token_names_its_caller_and_rights(cli: Cli) -> None:
    cli.set("DIBS_SERVE_SECRET", SECRET)
    told = cli.json("token", "create", "--agent", "ann", "--can", "read, plan", "--expires", "1h", "--scope", "alpha")
    caller = verified(told["token"], SECRET.encode())[0]
    assert caller == Caller("ann", None, frozenset({Right.READ, Right.PLAN}), frozenset({"alpha"}), told["id"])
    whole = cli.json("token", "create", "--agent", "ann", "--any-scope")
    assert verified(whole["token"], SECRET.encode())[0].scopes is None
    theirs = cli.json("token", "create", "--sender-hash", "a" * 64)
    assert verified(theirs["token"], SECRET.encode())[0].sender == "a" * 64


@pytest.mark.parametrize(
    ("role", "rights"), [("viewer", ["read"]), ("worker", ["claim", "read"]), ("planner", ["claim", "plan", "read"])]
)
def test_token_for_a_role_has_its_rights(cli: Cli, role: str, rights: list[str]) -> None:
    cli.set("DIBS_SERVE_SECRET", SECRET)
    made = cli.json("token", "create", "--agent", "ann", "--for", role)
    assert (made["rights"], made["scopes"]) == (rights, ["default"])
    assert {str(right) for right in verified(made["token"], SECRET.encode())[0].rights} == set(rights)


def test_tokens_are_listed_without_themselves_and_revoked_by_id(cli: Cli) -> None:
    cli.set("DIBS_SERVE_SECRET", SECRET)
    one = cli.json("token", "create", "--agent", "ann")
    other = cli.json("token", "create", "--agent", "bob", "--for", "viewer")
    listed = cli.json("token", "list")["tokens"]
    assert {each["id"]: (each["agent"], each["revoked"]) for each in listed} == {
        one["id"]: ("ann", False),
        other["id"]: ("bob", False),
    }
    assert {"id", "agent", "scopes", "rights", "expires_at", "revoked"} <= listed[0].keys()
    assert one["token"] not in cli.ok("token", "list") + cli.ok("log", "--json") + cli.ok("export")
    cli.refuses(3, "NOT_FOUND", "token", "revoke", one["id"], "nonsense")
    assert one["id"] in cli.ok("token", "list")
    cli.ok("token", "revoke", one["id"])
    assert {each["id"]: each["revoked"] for each in cli.json("token", "list")["tokens"]} == {
        one["id"]: True,
        other["id"]: False,
    }
    assert one["id"] not in cli.ok("token", "list")
    assert one["id"] in cli.ok("token", "list", "--all")


def test_store_without_settings_says_that_it_lists_no_tokens(cli: Cli) -> None:
    cli.set("DIBS_SERVE_SECRET", SECRET)
    cli.set("DIBS_STORE", f"vault://{cli.folder / 'vault'}")
    cli.ok("init")
    assert "lists no tokens" in cli("token", "create", "--agent", "ann").err
    cli.refuses(7, "UNSUPPORTED", "token", "list")


def test_invalid_token_requests_are_refused(cli: Cli) -> None:
    cli.set("DIBS_SERVE_SECRET", SECRET)
    cli.refuses(2, "INVALID_INPUT", "token", "create")
    cli.refuses(2, "INVALID_INPUT", "token", "create", "--agent", "ann", "--can", "everything")
    cli.refuses(2, "INVALID_INPUT", "token", "create", "--agent", "ann", "--for", "worker", "--can", "read")
    cli.refuses(2, "INVALID_INPUT", "token", "create", "--sender-hash", "a" * 64, "--can", "admin")
    cli.refuses(2, "INVALID_INPUT", "token", "create", "--sender-hash", "a" * 64, "--for", "worker")
    cli.refuses(2, "INVALID_INPUT", "token", "create", "--agent", "ann", "--expires", "3000d")
