"""The claim-by-move contract, sentence by sentence."""

from __future__ import annotations

import errno
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.protocols.vault import claiming
from dibs.protocols.vault.claiming import Outcome
from dibs.protocols.vault.settings import VAULT
from dibs.stores.vault.disk import Disk
from dibs.stores.vault.places import OTHER_FOLDERS, TASK_FOLDERS
from dibs.stores.vault.store import VaultStore

if TYPE_CHECKING:
    from support.vault import Vault

MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"


# Claim operation


def test_moving_a_file_to_the_own_folder_claims_it(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    ran = vault("claim", "x.md", AGENT_NAME="ann")
    assert (ran.status, ran.out.splitlines()[0]) == (0, "CLAIMED In_Progress/ann/x.md")
    assert vault.places("x") == ["In_Progress/ann/x.md"]


def test_a_claim_makes_the_agents_folder_if_need_be(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    assert not (vault.root / "In_Progress/ann").exists()
    vault("claim", "x.md", AGENT_NAME="ann")
    assert (vault.root / "In_Progress/ann").is_dir()


def test_a_file_another_agent_claimed_is_lost(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    vault("claim", "x.md", AGENT_NAME="ann")
    ran = vault("claim", "x.md", AGENT_NAME="bob")
    assert ran.status == 4
    assert ran.err.startswith("dibs: LOST: x is held by ann")
    assert vault("claim", "x.md", "--json", AGENT_NAME="bob").error["code"] == "HELD"


def test_claim_takes_the_next_by_priority_age_and_name(vault: Vault) -> None:
    for name, front in {
        "d": {"priority": "low"},
        "c": {"priority": "high", "created_at": "2026-01-02T00:00:00Z"},
        "b": {"priority": "high", "created_at": "2026-01-01T00:00:00Z"},
        "a": {"priority": "high", "created_at": "2026-01-02T00:00:00Z"},
    }.items():
        vault.task(name, **front)
    claimed = [vault("claim", "--json").data["file"] for _ in range(4)]
    assert claimed == ["b.md", "a.md", "c.md", "d.md"]
    assert vault("claim").status == 4


def test_a_claimed_file_says_who_has_it_since_when(vault: Vault) -> None:
    vault.write("Needs_Action/x.md", "# Repair the roof\n\nIt leaks.\n")
    vault("claim", "x.md", AGENT_NAME="ann")
    text = vault.read("In_Progress/ann/x.md")
    assert "# Repair the roof\n\nIt leaks.\n" in text, "metadata is added, the text stays"
    assert "# Claimed Task: x\n\n**Claimed By**: ann\n" in text
    assert re.search(rf"\*\*Claimed At\*\*: {MOMENT}\n\*\*Status\*\*: processing\n\n## Progress\n", text)


def test_a_claim_never_overwrites(vault: Vault) -> None:
    vault.write("Needs_Action/x.md", "# Waiting\n")
    vault.write("In_Progress/ann/x.md", "# Already there\n")
    assert vault("claim", "x.md", AGENT_NAME="ann").status != 0
    assert vault.read("Needs_Action/x.md") == "# Waiting\n"
    assert vault.read("In_Progress/ann/x.md") == "# Already there\n"


def test_domain_sub_folders_are_kept_all_the_way(vault: Vault) -> None:
    vault.write("Needs_Action/email/x.md")
    vault("claim", "x.md", AGENT_NAME="ann")
    assert vault.places("x") == ["In_Progress/ann/email/x.md"]
    vault("release", "x.md", "Done", AGENT_NAME="ann")
    assert vault.places("x") == ["Done/email/x.md"]


# Claim verification


def test_claim_is_valid_while_the_file_is_in_place(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    vault("claim", "x.md", AGENT_NAME="ann")
    ran = vault("verify", "x.md", AGENT_NAME="ann")
    assert ran.status == 0
    assert ran.out.startswith("yours: In_Progress/ann/x.md, 19m")
    (vault.root / "In_Progress/ann/x.md").unlink()
    gone = vault("verify", "x.md", AGENT_NAME="ann")
    assert (gone.status, "not in the vault any more" in gone.err) == (5, True)


def test_verification_also_checks_who_claimed_it_and_the_lease(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    vault("claim", "x.md", AGENT_NAME="ann")
    assert vault("verify", "x.md", AGENT_NAME="bob").err == "dibs: x.md is claimed by ann, not by bob.\n"
    assert vault("verify", "x.md", "--token", "another", AGENT_NAME="ann").status == 5
    vault("release", "x.md", "Needs_Action", AGENT_NAME="ann")
    token = vault("claim", "x.md", "--lease", "1s", "--json", AGENT_NAME="ann").data["token"]
    subprocess.run(["sleep", "1"], check=True)
    late = vault("verify", "x.md", "--token", token, AGENT_NAME="ann")
    assert (late.status, "The lease on x.md ended" in late.err) == (5, True)


def test_verification_fails_for_an_edited_or_moved_file(vault: Vault) -> None:
    for name in ("x", "y"):
        vault.write(f"Needs_Action/{name}.md")
        vault("claim", f"{name}.md", AGENT_NAME="ann")
    path = vault.root / "In_Progress/ann/x.md"
    path.write_text(path.read_text().replace("Do it.", "Leave it."))
    assert "was edited by someone" in vault("verify", "x.md", AGENT_NAME="ann").err
    (vault.root / "In_Progress/ann/y.md").rename(vault.root / "Done/y.md")
    assert "it is in Done" in vault("verify", "y.md", AGENT_NAME="ann").err


# Release operation


@pytest.mark.parametrize(
    ("state", "result"),
    [("Done", "success"), ("Pending_Approval", "success"), ("Rejected", "failure"), ("Needs_Action", "failure")],
)
def test_release_moves_the_file_to_the_next_state(vault: Vault, state: str, result: str) -> None:
    vault.write("Needs_Action/x.md")
    vault("claim", "x.md", AGENT_NAME="ann")
    ran = vault("release", "x.md", state, AGENT_NAME="ann")
    assert ran.out == f"In_Progress/ann/x.md → {state}/x.md\n"
    assert vault.places("x") == [f"{state}/x.md"]
    wanted = rf"## Completion\n\n\*\*Completed At\*\*: {MOMENT}\n\*\*Duration\*\*: [\d.e-]+\n\*\*Result\*\*: {result}\n"
    assert re.search(rf"{wanted}\*\*Next State\*\*: {state}\n", vault.read(f"{state}/x.md"))


@pytest.mark.parametrize("state", ["In_Progress", "done", "Plans", "../Done", "/tmp", ""])  # noqa: S108 - a name to refuse
def test_no_other_state_is_taken(vault: Vault, state: str) -> None:
    vault.write("Needs_Action/x.md")
    vault("claim", "x.md")
    assert vault("release", "x.md", state).status == 2
    assert vault.places("x") == ["In_Progress/local/x.md"]


def test_only_the_holder_releases_a_file(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    vault("claim", "x.md", AGENT_NAME="ann")
    assert vault("release", "x.md", "Done", AGENT_NAME="bob").status == 4
    assert vault("release", "x.md", "Done", "--token", "made-up", AGENT_NAME="ann").status == 5
    assert vault.places("x") == ["In_Progress/ann/x.md"]


def test_release_of_a_missing_file_is_reported(vault: Vault) -> None:
    ran = vault("release", "x.md", "Done")
    assert (ran.status, "There is no file x.md" in ran.err) == (3, True)


@pytest.mark.parametrize("name", ["../x.md", "/etc/passwd", "a/x.md", ".x.md", "..", "", "x\ny.md", "a\\x.md"])
@pytest.mark.parametrize("command", ["claim", "verify", "release"])
def test_names_that_lead_elsewhere_are_refused(vault: Vault, command: str, name: str) -> None:
    ran = vault(command, "--", name, *(["Done"] if command == "release" else []))
    assert ran.status == 2, ran


# Agent behaviour


def test_only_markdown_files_are_tasks(vault: Vault) -> None:
    for name in ("x.txt", ".hidden.md", "y.md.tmp", "z"):
        (vault.root / "Needs_Action" / name).write_text("# x\n")
    vault("agent", "--once", "--", "true")
    assert sorted(os.listdir(vault.root / "Done")) == [".gitkeep"]


def test_agent_finishes_allowed_tasks(vault: Vault) -> None:
    vault.task("x", action="triage")
    ran = vault("agent", "--once", "--", "true")
    assert [line.split()[0] for line in ran.out.splitlines()] == ["local", "claimed", "done", "local"]


def test_cloud_agent_drafts_sensitive_actions(vault: Vault) -> None:
    vault.task("x", action="send")
    vault("agent", "--once", "--", "true", AGENT_ROLE="CLOUD")
    assert vault.places("x") == ["Pending_Approval/x.md"]


def test_disallowed_action_is_left_in_place(vault: Vault) -> None:
    vault.task("x", action="launch")
    vault("agent", "--once", "--", "true")
    assert vault.places("x") == ["Needs_Action/x.md"]
    ran = vault("claim", "x.md")
    assert (ran.status, "'launch', which is not for you" in ran.err) == (4, True)
    assert "need actions that you may not do: launch" in vault("claim").err


def test_agent_looks_again_after_its_interval(vault: Vault) -> None:
    """A file whose time comes is in no event: only looking again finds it."""
    agent = vault.at_work("--interval", "0.3s", "--", "true")
    vault.task("x", not_before="2026-01-01T00:00:00Z")
    agent.says("done x.md")


# Race condition handling


def test_one_of_many_concurrent_claims_wins(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    racing = [
        subprocess.Popen(
            ["dibs", "vault", "claim", "x.md", "--agent", f"a{number}"],
            env=vault.environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for number in range(6)
    ]
    for one in racing:
        one.communicate()
    assert sorted(one.returncode for one in racing) == [0, 4, 4, 4, 4, 4]
    assert len(vault.places("x")) == 1


class Failing(Disk):
    """A disk that gives so many errors when a file is to be moved."""

    def __init__(self, times: int) -> None:
        super().__init__(durable=False)
        self.times = times

    def move(self, source: str, target: str) -> None:
        if self.times:
            self.times -= 1
            raise OSError(errno.EIO, "Input/output error", target)
        super().move(source, target)


@pytest.mark.parametrize(
    ("errors", "outcome", "pauses"),
    [
        (0, Outcome.CLAIMED, []),
        (1, Outcome.CLAIMED, [0.1]),
        (2, Outcome.CLAIMED, [0.1, 0.2]),
        (3, Outcome.CLAIMED, [0.1, 0.2, 0.4]),
        (9, Outcome.ERROR, [0.1, 0.2, 0.4]),
    ],
)
def test_error_is_retried_after_100_200_and_400_ms(
    vault: Vault, errors: int, outcome: Outcome, pauses: list[float]
) -> None:
    vault.write("Needs_Action/x.md")
    slept: list[float] = []
    with VaultStore(str(vault.root), disk=Failing(errors)) as store:
        attempt = claiming.claim(Desk(store, policy=VAULT, by=Actor("ann")), "x", "ann", sleep=slept.append)
    assert (attempt.outcome, slept) == (outcome, pauses)
    assert vault.places("x") == ["In_Progress/ann/x.md" if attempt.claimed else "Needs_Action/x.md"]


def test_lost_claim_is_not_retried(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    vault("claim", "x.md", AGENT_NAME="bob")
    slept: list[float] = []
    with VaultStore(str(vault.root)) as store:
        desk = Desk(store, policy=VAULT, by=Actor("ann"))
        held = claiming.claim(desk, "x", "ann", sleep=slept.append)
        gone = claiming.claim(desk, "y", "ann", sleep=slept.append)
    assert (held.outcome, gone.outcome, slept) == (Outcome.LOST, Outcome.LOST, [])


class Full(Disk):
    """A disk on which there is room to move a file, but for a while none to write one."""

    def __init__(self, times: int) -> None:
        super().__init__(durable=False)
        self.times = times

    def write(self, path: str, data: bytes) -> os.stat_result:
        if self.times:
            self.times -= 1
            raise OSError(errno.ENOSPC, "No space left on device", path)
        return super().write(path, data)


def test_claim_without_room_for_its_lease_is_completed(vault: Vault) -> None:
    vault.write("Needs_Action/x.md")
    with VaultStore(str(vault.root), disk=Full(2)) as store:
        attempt = claiming.claim(Desk(store, policy=VAULT, by=Actor("ann")), "x", "ann", sleep=lambda _: None)
    assert attempt.outcome is Outcome.CLAIMED
    assert vault("verify", "x.md", AGENT_NAME="ann").status == 0
    assert vault.front("In_Progress/ann/x.md")["attempt"] == "1"


# Testing, monitoring


def test_the_contracts_own_script_passes(vault: Vault) -> None:
    script = Path(__file__).with_name("seed_script.sh")
    for _ in range(3):
        ran = subprocess.run(["bash", str(script)], env=vault.environ, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran
        assert ran.stdout.endswith("✓ All claim-by-move tests: PASSED\n")
        (held,) = vault.places("test-task")
        (vault.root / held).unlink()


def test_every_claim_is_in_the_log_of_its_agent(vault: Vault) -> None:
    vault.task("x")
    vault("agent", "--once", "--", "true", AGENT_NAME="ann")
    assert re.search(rf"^{MOMENT} claimed x\.md \(attempt 1\)$", vault.read("Logs/agent-ann.log"), re.MULTILINE)


def test_new_vault_keeps_every_folder_in_git(vault: Vault) -> None:
    folders = (*TASK_FOLDERS, *OTHER_FOLDERS)
    assert [name for name in folders if (vault.root / name / ".gitkeep").is_file()] == list(folders)
    assert (vault.root / "Dashboard.md").is_file()


def test_new_tasks_are_named_for_their_time(vault: Vault) -> None:
    ran = vault(
        "add", "Answer him", "--action", "send", "--priority", "urgent", "--domain", "email", "--source", "mail"
    )
    assert re.fullmatch(r"Needs_Action/email/task-\d{8}-\d{6}-\w{6}\.md\n", ran.out)
    front = vault.front(ran.out.strip())
    assert (front["action"], front["priority"], front["source"], front["title"]) == (
        "send",
        "urgent",
        "mail",
        "Answer him",
    )
