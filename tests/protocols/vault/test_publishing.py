"""Agents in two clones of one vault: a claim counts when the remote has it, and every task is worked on once."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from support.vault import Vault, until

if TYPE_CHECKING:
    from collections.abc import Iterator

_WHO = {
    "GIT_AUTHOR_NAME": "ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
}


def git(folder: Path, *words: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _WHO
    ran = subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran
    return ran.stdout


class Clones:
    """One remote, two clones of it, and nothing else."""

    def __init__(self, place: Path) -> None:
        self.remote = place / "remote.git"
        git(place, "init", "-q", "--bare", "-b", "main", str(self.remote))
        self.one = Vault(place / "one" / "vault")
        git(self.one.root, "init", "-q", "-b", "main")
        git(self.one.root, "remote", "add", "origin", str(self.remote))
        git(self.one.root, "add", "-A")
        git(self.one.root, "commit", "-q", "-m", "a vault")
        git(self.one.root, "push", "-q", "-u", "origin", "main")
        (place / "two").mkdir()
        git(place, "clone", "-q", str(self.remote), str(place / "two/vault"))
        self.two = Vault(place / "two" / "vault")
        self.record = place / "record"

    def add(self, *names: str, **front: str) -> None:
        """A person adds tasks in the first clone, commits and pushes them."""
        for name in names:
            self.one.task(name, **front)
        git(self.one.root, "add", "Needs_Action")
        git(self.one.root, "commit", "-q", "-m", "tasks")
        git(self.one.root, "push", "-q")
        assert self.two("sync").status == 0

    def published(self) -> list[str]:
        return [
            path for path in git(self.remote, "ls-tree", "-r", "-z", "--name-only", "main").split("\0") if ".md" in path
        ]

    @property
    def worked(self) -> list[str]:
        return sorted(self.record.read_text().split()) if self.record.exists() else []

    @property
    def recording(self) -> tuple[str, ...]:
        return ("--", "sh", "-c", f"echo $DIBS_TASK_ID >> {self.record}")


@pytest.fixture
def clones() -> Iterator[Clones]:
    with TemporaryDirectory() as place:
        made = Clones(Path(place).resolve())
        yield made
        made.one.close()
        made.two.close()


def test_agents_in_two_clones_work_on_every_task_once(clones: Clones) -> None:
    names = [f"t{number}" for number in range(12)]
    clones.add(*names)
    agents = [
        vault.agent("--once", *clones.recording, name=name)
        for vault, name in ((clones.one, "a"), (clones.one, "b"), (clones.two, "c"), (clones.two, "d"))
    ]
    for one in agents:
        assert one.process.wait(240) == 0, one.said
    assert clones.worked == sorted(names)
    assert sorted(path for path in clones.published() if "/t" in path) == sorted(f"Done/{name}.md" for name in names)
    for vault in (clones.one, clones.two):
        assert vault("sync").status == 0
    trees = [git(vault.root, "rev-parse", "HEAD^{tree}") for vault in (clones.one, clones.two)]
    assert trees[0] == trees[1]
    assert git(clones.one.root, "status", "--porcelain") == ""


def test_claim_is_at_the_remote_before_the_work(clones: Clones) -> None:
    clones.add("x")
    seen = clones.record
    look = f"git --git-dir={clones.remote} ls-tree -r --name-only main > {seen}"
    assert clones.one("agent", "--once", "--", "sh", "-c", look).status == 0
    assert "In_Progress/local/x.md" in seen.read_text()
    assert "Done/x.md" in clones.published()


def test_claim_by_hand_is_published_or_lost(clones: Clones) -> None:
    clones.add("x")
    assert clones.one("claim", "x.md", AGENT_NAME="ann").status == 0
    assert "In_Progress/ann/x.md" in clones.published()
    ran = clones.two("claim", "x.md", AGENT_NAME="bob")
    assert (ran.status, ran.err.startswith("dibs: LOST:")) == (4, True)
    assert clones.two.places("x") == ["In_Progress/ann/x.md"]
    assert clones.one("release", "x.md", "Done", AGENT_NAME="ann").status == 0
    assert "Done/x.md" in clones.published()


def test_named_remote_and_branch_are_used(clones: Clones) -> None:
    clones.add("x")
    git(clones.one.root, "remote", "rename", "origin", "hub")
    git(clones.one.root, "push", "-q", "hub", "main:agents")
    elsewhere = {"GIT_REMOTE": "hub", "GIT_BRANCH": "agents"}
    ran = clones.one("claim", "x.md", **elsewhere)
    assert (ran.status, "git switch agents" in ran.err) == (7, True)
    git(clones.one.root, "switch", "-q", "-c", "agents")
    assert clones.one("claim", "x.md", **elsewhere).status == 0
    assert "In_Progress/local/x.md" in git(clones.remote, "ls-tree", "-r", "--name-only", "agents")
    assert "Needs_Action/x.md" in clones.published(), "main is as it was"


def test_unreachable_remote_stops_claims(clones: Clones) -> None:
    clones.add("x")
    clones.remote.rename(clones.remote.with_suffix(".away"))
    ran = clones.one("agent", "--once", "--json", *clones.recording)
    assert ran.data["status"] == "degraded"
    assert ran.data["offline"] is True
    assert clones.worked == []
    assert clones.one.places("x") == ["Needs_Action/x.md"]
    assert clones.one("claim", "x.md").status == 7
    assert clones.one.places("x") == ["Needs_Action/x.md"]
    assert clones.one("sync").status == 7


def test_an_agent_goes_on_when_the_remote_is_back(clones: Clones) -> None:
    clones.add("x")
    clones.remote.rename(clones.remote.with_suffix(".away"))
    agent = clones.one.at_work("--interval", "0.2s", *clones.recording, SYNC_INTERVAL="0.2s")
    agent.says("out of reach")
    clones.remote.with_suffix(".away").rename(clones.remote)
    agent.says("done x.md")
    assert "Done/x.md" in clones.published()


def test_offline_result_is_published_later(clones: Clones) -> None:
    clones.add("x")
    away = clones.remote.with_suffix(".away")
    agent = clones.one.at_work("--interval", "0.2s", "--", "mv", str(clones.remote), str(away), SYNC_INTERVAL="0.2s")
    agent.says("x.md is done here; it will be published when the remote is in reach")
    away.rename(clones.remote)
    until(lambda: "Done/x.md" in clones.published(), lambda: agent.said)


def test_move_by_a_person_in_another_clone_wins(clones: Clones) -> None:
    clones.add("x")
    agent = clones.one.at_work("--", "sleep", "600", SYNC_INTERVAL="0.3s")
    agent.says("claimed x.md")
    assert clones.two("sync").status == 0
    git(clones.two.root, "mv", "In_Progress/local/x.md", "Rejected/x.md")
    git(clones.two.root, "commit", "-q", "-m", "no")
    git(clones.two.root, "push", "-q")
    agent.says("LOST_LOCK x.md: x was moved to Rejected by someone")
    assert clones.one.places("x") == ["Rejected/x.md"]


def test_a_draft_and_its_decision_travel(clones: Clones) -> None:
    clones.add("x", action="send")
    assert clones.one("agent", "--once", "--", "echo", "Dear landlord", AGENT_ROLE="CLOUD").status == 0
    assert clones.two("sync").status == 0
    draft = clones.two.root / "Pending_Approval/draft-x-1.md"
    draft.write_text(draft.read_text() + "\nAPPROVED\n")
    git(clones.two.root, "commit", "-q", "-a", "-m", "yes")
    git(clones.two.root, "push", "-q")
    assert clones.one("sync").status == 0
    assert clones.one("agent", "--once", *clones.recording).status == 0
    assert clones.worked == ["x"]
    published = clones.published()
    assert {"Done/x.md", "Done/draft-x-1.md"} <= set(published)
    assert not any(path.startswith("Pending_Approval") for path in published)


def test_logs_and_notes_of_dibs_are_in_no_clone(clones: Clones) -> None:
    clones.add("x")
    clones.one("agent", "--once", *clones.recording)
    everything = git(clones.remote, "ls-tree", "-r", "--name-only", "main")
    assert ".log" not in everything
    assert ".jsonl" not in everything
    assert not any(line.startswith(".dibs/") for line in everything.splitlines())
    assert git(clones.one.root, "status", "--porcelain") == ""


def test_status_shows_the_clone(clones: Clones) -> None:
    ran = clones.one("status")
    assert "clone of origin, branch main: 0 behind, 0 ahead" in ran.out
    assert clones.one("status", "--json").data["clone"]["unpublished"] == []


def test_a_vault_that_is_no_clone_cannot_be_synced(vault: Vault) -> None:
    ran = vault("sync")
    assert (ran.status, "is not a git clone" in ran.err) == (2, True)
    assert vault("status", "--json").data["clone"] is None


def test_claim_by_name_finds_a_task_of_another_clone(clones: Clones) -> None:
    assert clones.one("add", "Order paper", "--file", "paper").status == 0
    assert clones.two("claim", "paper.md", "--agent", "bob").status == 0


def test_the_next_task_may_come_from_another_clone(clones: Clones) -> None:
    assert clones.one("add", "Order paper", "--file", "paper").status == 0
    assert clones.two("claim", "--agent", "bob", "--json").data["file"] == "paper.md"


def test_task_added_offline_is_published_later(clones: Clones) -> None:
    away = clones.remote.with_name("away.git")
    clones.remote.rename(away)
    ran = clones.one("add", "Order paper", "--file", "paper")
    assert (ran.status, "out of reach" in ran.out) == (0, True)
    away.rename(clones.remote)
    assert clones.one("sync").status == 0
    assert clones.two("claim", "paper.md", "--agent", "bob").status == 0


def test_file_added_by_another_clone_is_refused(clones: Clones) -> None:
    assert clones.one("add", "Order paper", "--file", "paper").status == 0
    ran = clones.two("add", "Order ink", "--file", "paper", "--json")
    assert ran.error["code"] == "ALREADY_EXISTS"
    assert "Order paper" in (clones.two.root / "Needs_Action/paper.md").read_text()


NOTES = ("Plans/diary.md", "Notes/idea.md", "Errors/kept.md", ".obsidian/workspace.json", "Dashboard.md", "loose.md")


def arrived(vault: Vault, note: str) -> bool:
    return (vault.root / note).exists() and "dear diary" in vault.read(note)


def test_notes_arriving_by_git_do_not_disturb_agents(clones: Clones) -> None:
    """A colleague pushes notes while the command runs; the agent pulls them, and its work counts once."""
    clones.add("x")
    go = clones.record.with_name("go")
    wait = f"echo x >> {clones.record}; until test -f {go}; do sleep 0.05; done"
    agent = clones.one.at_work("--", "sh", "-c", wait, SYNC_INTERVAL="0.2s")
    until(clones.record.exists, lambda: agent.said)
    for note in NOTES:
        clones.two.write(note, f"dear diary, this is {note}\n")
    git(clones.two.root, "add", "-A")
    git(clones.two.root, "commit", "-q", "-m", "notes")
    git(clones.two.root, "pull", "-q", "--no-rebase")
    git(clones.two.root, "push", "-q")
    for note in NOTES:
        until(partial(arrived, clones.one, note), lambda: agent.said)
    go.touch()
    agent.says("done x.md")
    until(lambda: "Done/x.md" in clones.published(), lambda: agent.said)
    assert clones.worked == ["x"]
    assert "error" not in agent.said
