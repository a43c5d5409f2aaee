"""The agent and its command: ends of tasks, the command's environment, stopping."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest

from support.host_clock import HostClock
from support.vault import PATIENCE, alive, until

if TYPE_CHECKING:
    from support.vault import Vault


def test_output_of_a_successful_command_is_the_result(vault: Vault) -> None:
    vault.task("roof")
    assert vault("agent", "--once", "--", "echo", "mended").status == 0
    done = vault.read("Done/roof.md")
    assert vault.front("Done/roof.md")["result"] == "mended"
    assert "**Result**: success\n**Next State**: Done" in done
    assert "Do it." in done


def test_command_reads_the_task_from_stdin(vault: Vault) -> None:
    vault.write("Needs_Action/x.md", "---\ntitle: Answer him\n---\n\nHe asked about the roof.\n")
    vault.write("Needs_Action/y.md", "# Its own title\n\nAnd text.")
    vault("agent", "--once", "--", "cat")
    assert json.loads(vault.front("Done/x.md")["result"]) == "# Answer him\n\nHe asked about the roof."
    assert json.loads(vault.front("Done/y.md")["result"]) == "# Its own title\n\nAnd text."


def test_command_gets_the_task_in_its_environment(vault: Vault) -> None:
    vault.task("email/x", action="monitor")
    vault("agent", "--once", "--", "sh", "-c", f"env > {vault.beside}/env", AGENT_NAME="ann", AGENT_ROLE="CLOUD")
    told = dict(line.split("=", 1) for line in (vault.beside / "env").read_text().splitlines() if "=" in line)
    assert told["DIBS_TASK_ID"] == "x"
    assert told["DIBS_SCOPE"] == "email"
    assert told["DIBS_AGENT"] == told["AGENT_NAME"] == "ann"
    assert told["AGENT_ROLE"] == "CLOUD"
    assert told["DIBS_FILE"] == str(vault.root / "In_Progress/ann/email/x.md")
    assert told["DIBS_ACTION"] == "monitor"
    assert told["DIBS_WAY"] == "act"
    assert told["DIBS_ATTEMPT"] == "1"
    assert told["VAULT_PATH"] == str(vault.root)
    assert len(told["DIBS_TOKEN"]) == 36


def test_token_is_in_no_file_of_the_vault(vault: Vault) -> None:
    vault.task("x")
    vault.task("y")
    tell = f"echo $DIBS_TOKEN | tee -a {vault.beside}/tokens >&2; echo $DIBS_TOKEN; test $DIBS_TASK_ID = x"
    vault("agent", "--once", "--", "sh", "-c", tell)
    tokens = (vault.beside / "tokens").read_text().split()
    assert len(tokens) == 2
    for path in vault.root.rglob("*"):
        text = path.read_text(errors="replace") if path.is_file() else ""
        assert not any(token in text for token in tokens), path


def test_failure_is_retried_and_finally_rejected(vault: Vault) -> None:
    vault.task("x")
    agent = vault.at_work("--max-retries", "2", "--retry-in", "0.3s", "--", "sh", "-c", "echo no paint >&2; exit 3")
    vault.there("Rejected/x.md")
    front = vault.front("Rejected/x.md")
    assert front["reason"] == '"failed 3 times, last: exit status 3: no paint"'
    assert front["retries"] == "2"
    assert front["attempt"] == "3"
    agent.says("failed x.md: exit status 3: no paint (again in 0.3 s)")
    agent.says("failed x.md: exit status 3: no paint (again in 0.6 s)")
    agent.says("rejected x.md: failed 3 times")
    assert vault.read("Rejected/x.md").count("## Completion") == 3


def test_a_failure_waits_before_it_is_tried_again(vault: Vault) -> None:
    vault.task("x")
    vault("agent", "--once", "--retry-in", "1h", "--", "false")
    assert vault.places("x") == ["Needs_Action/x.md"]
    assert vault.front("Needs_Action/x.md")["retries"] == "1"
    assert vault("agent", "--once", "--json", "--", "false").data["coordination"]["total_claims"] == 0


def test_retry_limit_of_the_task_overrides_the_agents(vault: Vault) -> None:
    vault.task("x", max_retries="0")
    vault("agent", "--once", "--", "false")
    assert vault.places("x") == ["Rejected/x.md"]


def test_command_over_its_timeout_fails(vault: Vault) -> None:
    vault.task("x")
    vault("agent", "--once", "--timeout", "0.3s", "--", "sleep", "600")
    assert vault.front("Needs_Action/x.md")["reason"] == "it took too long"


def test_a_command_that_dies_of_a_signal_has_failed(vault: Vault) -> None:
    vault.task("x")
    vault("agent", "--once", "--", "sh", "-c", "kill -9 $$")
    assert vault.front("Needs_Action/x.md")["reason"] == "ended by signal 9"


def test_the_lease_is_renewed_while_the_command_runs(vault: Vault) -> None:
    vault.task("x")
    clock = HostClock(vault.beside)
    lease = "grep ^lease_until $DIBS_FILE"
    renewed = f'first=$({lease}) && touch {vault.beside}/begun && while [ "$({lease})" = "$first" ]; do sleep 0.1; done'
    agent = vault.agent("--once", "--lease", "1h", "--", "sh", "-c", renewed, **clock.environ)
    until((vault.beside / "begun").exists, lambda: agent.said)
    clock.advance(minutes=30)  # time for a renewal, but not for the end of the lease
    assert agent.process.wait(PATIENCE) == 0, agent.said
    assert vault.places("x") == ["Done/x.md"]
    assert vault.front("Done/x.md")["attempt"] == "1"


@pytest.mark.parametrize("verb", ["done", "review", "fail", "release", "block", "cancel"])
def test_command_may_end_its_task(vault: Vault, verb: str) -> None:
    vault.task("x")
    reason = {"block": " --reason rain"}.get(verb, "")
    ran = vault("agent", "--once", "--", "sh", "-c", f"dibs {verb}{reason} >&2; sleep 0.3; echo $?")
    assert ran.status == 0, ran
    status = {"done": "Done", "review": "Pending_Approval", "cancel": "Rejected"}.get(verb, "Needs_Action")
    assert vault.places("x") == [f"{status}/x.md"]
    assert "LOST_LOCK" not in ran.out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopped_agent_ends_its_command_and_releases_the_task(vault: Vault, number: int) -> None:
    vault.task("x")
    pid = vault.beside / "pid"
    agent = vault.at_work("--", "sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 600")
    until(pid.exists, lambda: "the command has not begun")
    assert agent.leave(number) == 0
    assert not alive(int(pid.read_text()))
    assert vault.places("x") == ["Needs_Action/x.md"]
    assert vault.front("Needs_Action/x.md")["reason"] == "the agent was stopped"
    assert "retries" not in vault.front("Needs_Action/x.md")


def test_idle_agent_stops_at_once(vault: Vault) -> None:
    agent = vault.at_work("--interval", "1h", "--", "true")
    assert agent.leave() == 0


def test_a_killed_agent_takes_its_command_along(vault: Vault) -> None:
    vault.task("x")
    pid = vault.beside / "pid"
    agent = vault.at_work("--", "sh", "-c", f"echo $$ > {pid}.new; mv {pid}.new {pid}; sleep 600")
    until(pid.exists, lambda: "the command has not begun")
    agent.kill()
    until(lambda: not alive(int(pid.read_text())), lambda: "the command goes on")


def test_single_round_does_all_tasks_in_order(vault: Vault) -> None:
    vault.task("c", priority="low")
    vault.task("a", priority="urgent", created_at="2026-01-02T00:00:00Z")
    vault.task("b", priority="urgent", created_at="2026-01-01T00:00:00Z")
    vault.task("after", depends_on="c")
    ran = vault("agent", "--once", "--", "true")
    claims = [line.split()[1] for line in ran.out.splitlines() if line.startswith("claimed")]
    assert claims == ["b.md", "a.md", "c.md", "after.md"]


def test_claim_only_agent_does_no_work(vault: Vault) -> None:
    vault.task("x")
    assert vault("agent", "--once", "--claim-only").status == 0
    assert vault.places("x") == ["In_Progress/local/x.md"]
    assert vault("verify", "x.md").status == 0
    assert vault("agent", "--once", "--claim-only").status == 0, "it keeps its claims"
    assert vault.front("In_Progress/local/x.md")["attempt"] == "1"


def test_bad_files_stop_nothing(vault: Vault) -> None:
    waiting = vault.root / "Needs_Action"
    (waiting / "not-text.md").write_bytes(b"\xff\xfe\x00")
    (waiting / "open.md").write_text("---\ntitle: never closed\n")
    (waiting / "link.md").symlink_to("/etc/passwd")
    (waiting / "with\nbreak.md").write_text("# x\n")
    os.mkfifo(waiting / "pipe.md")
    (waiting / "folder.md").mkdir()
    vault.task("same")
    vault.write("Done/same.md")
    vault.task("good")
    ran = vault("agent", "--once", "--", "true")
    assert ran.status == 0, ran
    assert vault.places("good") == ["Done/good.md"]
    assert (waiting / "link.md").is_symlink()


def test_unmovable_file_is_reported_and_stops_no_other(vault: Vault) -> None:
    vault.task("stuck/x")
    vault.task("good")
    (vault.root / "In_Progress/local").mkdir(parents=True)
    (vault.root / "In_Progress/local/stuck").write_text("no folder can be made here")
    ran = vault("agent", "--once", "--json", "--", "true")
    assert ran.status == 7
    assert vault.places("good") == ["Done/good.md"]
    assert vault.places("x") == ["Needs_Action/stuck/x.md"]
    told = ran.data
    assert told["error_count"] == 1
    assert told["coordination"]["claim_success_rate"] == 0.5


def test_two_agents_of_one_name_are_refused(vault: Vault) -> None:
    vault.at_work("--", "true", name="ann")
    ran = vault("agent", "--", "true", "--json", AGENT_NAME="ann")
    assert ran.status == 4
    assert "An agent 'ann' is at work in this vault already" in ran.err


def test_restarted_agent_releases_its_earlier_claims(vault: Vault) -> None:
    vault.task("x")
    agent = vault.at_work("--lease", "1h", "--", "sleep", "600")
    agent.says("claimed x.md (attempt 1)")
    agent.kill()
    ran = vault("agent", "--once", "--", "true")
    assert "recovered x.md: its agent died at work" in ran.out
    assert vault.places("x") == ["Done/x.md"]
    assert vault.front("Done/x.md")["retries"] == "1"


def test_claims_by_hand_are_not_recovered(vault: Vault) -> None:
    vault("agent", "--once", "--", "true")
    vault.task("x")
    assert vault("claim", "x").status == 0
    assert vault("agent", "--once", "--", "true").status == 0
    assert vault.places("x") == ["In_Progress/local/x.md"]


def test_unclaimed_file_in_the_agents_folder_is_done(vault: Vault) -> None:
    vault.write("In_Progress/local/x.md")
    ran = vault("agent", "--once", "--", "true")
    assert "recovered x.md: it was here without a claim" in ran.out
    assert vault.places("x") == ["Done/x.md"]


def test_task_with_an_expired_lease_is_taken_over(vault: Vault) -> None:
    vault.task("x")
    clock = HostClock(vault.beside)
    dead = vault.at_work("--lease", "1h", "--", "sleep", "600", name="ann", **clock.environ)
    dead.says("claimed x.md")
    dead.kill()
    clock.advance(hours=1)
    other = vault.at_work("--", "true", name="bob", **clock.environ)
    other.says(", after ann, whose lease has ended)")
    vault.there("Done/x.md")


def test_a_task_that_ends_every_agent_is_given_up(vault: Vault) -> None:
    vault.task("x", retries="4", attempt="5")
    clock = HostClock(vault.beside)
    dead = vault.at_work("--lease", "1h", "--", "sleep", "600", name="ann", **clock.environ)
    dead.says("claimed x.md")
    dead.kill()
    clock.advance(hours=1)
    other = vault.at_work("--", "true", name="bob", **clock.environ)
    other.says("rejected x.md: given up after 5 attempts that did not end")
    assert vault.places("x") == ["Rejected/x.md"]
