"""Wrong input is refused with a remedy and the right status, and changes nothing."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from dibs.protocols.vault.main import COMMANDS

if TYPE_CHECKING:
    from support.vault import Vault


@pytest.mark.parametrize(
    ("words", "env", "says"),
    [
        (("agent",), {}, "There is no command. Give one after --"),
        (("agent", "--claim-only", "--", "true"), {}, "--claim-only runs no command"),
        (("agent", "--", "no-such-command"), {}, "'no-such-command' was not found"),
        (("agent", "--lease", "0s", "--", "true"), {}, "A lease must last from 1 second"),
        (("agent", "--interval", "often", "--", "true"), {}, "not a span of time"),
        (("agent", "--health-port", "99999999", "--", "true"), {}, "Choose another port"),
        (("agent", "--once", "--", "true"), {"AGENT_ROLE": "BOSS"}, "AGENT_ROLE must be CLOUD or LOCAL"),
        (("agent", "--once", "--", "true"), {"ALLOWED_ACTIONS": " , "}, "ALLOWED_ACTIONS names no action"),
        (("agent", "--once", "--", "true"), {"WATCHER_INTERVAL": "x"}, "WATCHER_INTERVAL: 'x' is not a span"),
        (("agent", "--once", "--", "true"), {"SYNC_TIMEOUT": "x"}, "SYNC_TIMEOUT: 'x' is not a span"),
        (("agent", "--once", "--", "true"), {"HEALTH_PORT": "x"}, "HEALTH_PORT must be a number"),
        (("agent", "--once", "--", "true"), {"AGENT_NAME": "a\nb"}, "cannot be a"),
        (("add", ""), {}, "A task needs a title"),
        (("add", "x", "--priority", "soon"), {}, "A priority must be urgent, high, medium, low or a number"),
        (("add", "x", "--domain", "../out"), {}, "cannot be a scope"),
        (("add", "x", "--file", "../out"), {}, "is not a file name"),
        (("release", "x", "Somewhere"), {}, "A file goes to Pending_Approval, Done, Rejected, Needs_Action"),
        (("release", "x", "Rejected", "--note", "n"), {}, "--note is the result"),
        (("init", "a", "--vault", "b"), {}, "Two folders are named"),
        (("claim", "--store", "x"), {}, "There is no option '--store' here."),
        (("clam",), {}, "Did you mean 'claim'?"),
    ],
)
def test_it_is_refused(vault: Vault, words: tuple[str, ...], env: dict[str, str], says: str) -> None:
    before = vault.tree()
    ran = vault(*words, **env)
    assert ran.status == 2, ran
    assert says in ran.err
    assert vault.tree() == before


def test_missing_vault_is_reported(vault: Vault) -> None:
    for command in COMMANDS:
        words = {"add": ["x"], "verify": ["x"], "release": ["x", "Done"], "agent": ["--claim-only"]}.get(command, [])
        if command != "init":
            ran = vault(command, *words, VAULT_PATH=str(vault.beside / "nowhere"))
            assert (ran.status, "There is no vault at" in ran.err) == (7, True), ran
    assert not (vault.beside / "nowhere").exists()


def test_vault_around_the_folder_is_the_default(vault: Vault) -> None:
    env = {name: value for name, value in vault.environ.items() if name != "VAULT_PATH"}
    for folder, status in ((vault.root / "Needs_Action", 0), (vault.beside, 7)):
        ran = subprocess.run(
            ["dibs", "vault", "status"], cwd=folder, env=env, capture_output=True, text=True, check=False
        )
        assert ran.returncode == status, ran
    assert "No vault was named." in ran.stderr


def test_dibs_store_names_the_vault_too(vault: Vault) -> None:
    assert vault("status", "--json", VAULT_PATH="", DIBS_STORE=f"vault:///{vault.root}").data["vault"] == str(
        vault.root
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text(vault: Vault, name: str) -> None:
    ran = vault(name, "--help")
    assert (ran.status, ran.out.startswith(f"usage: dibs vault {name}")) == (0, True)
    assert vault("help", name).out == ran.out


def test_help_lists_the_vault_command(vault: Vault) -> None:
    ran = subprocess.run(["dibs", "help", "all"], env=vault.environ, capture_output=True, text=True, check=True)
    assert "\n  vault " in ran.stdout
    assert vault().status == 2
    assert vault("--help").status == 0


def test_error_is_a_document_with_json(vault: Vault) -> None:
    assert vault("claim", "x.md", "--json").error["code"] == "NOT_FOUND"
    assert vault("verify", "x.md", "--json").error["code"] == "LOST_LOCK"
    assert vault("claim", "--json").error["code"] == "NOTHING_READY"
    assert vault("agent", "--once", "--", "no-such", "--json").out == "", "that is a word of the command's"


def test_name_in_two_domains_needs_the_domain(vault: Vault) -> None:
    vault.task("mail/x")
    vault.task("news/x")
    ran = vault("claim", "x.md")
    assert (ran.status, "x.md exists in mail and in news. Choose one with --domain" in ran.err) == (2, True)
    assert vault("claim", "x.md", "--domain", "news").status == 0
    assert vault.places("x") == ["In_Progress/local/news/x.md", "Needs_Action/mail/x.md"]
    assert vault("release", "x.md", "Done").status == 0, "you hold only one of them"
    assert vault.places("x") == ["Done/news/x.md", "Needs_Action/mail/x.md"]


def test_control_characters_in_a_file_are_escaped(vault: Vault) -> None:
    vault.write("Needs_Action/x.md", '---\ntitle: "a\\u001b[31mb"\naction: "la\\u001bunch"\n---\n')
    for words in (("claim",), ("status",), ("claim", "x.md")):
        ran = vault(*words)
        assert "\x1b" not in ran.out + ran.err


def test_a_title_with_a_null_byte_stops_nothing(vault: Vault) -> None:
    vault.write("Needs_Action/x.md", '---\ntitle: "a\\u0000b"\n---\n\nText.\n')
    vault.task("y")
    vault("agent", "--once", "--", "true")
    assert vault.places("y") == ["Done/y.md"]


def test_a_second_init_changes_nothing(vault: Vault) -> None:
    (vault.root / "Dashboard.md").write_text("mine")
    assert vault("init", str(vault.root)).status == 0
    assert vault.read("Dashboard.md") == "mine"
