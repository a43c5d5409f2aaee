"""How an agent is doing: the document, over HTTP and on the command line, with figures that add up."""

from __future__ import annotations

import json
import os
import re
import socket
import urllib.error
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.protocols.vault.health import State, report, show_problems, state_from
from dibs.stores.vault.disk import Disk
from support.vault import PATIENCE, until

if TYPE_CHECKING:
    from support.vault import Running, Vault

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
STATE = State("ann", "LOCAL", "agent-1", 1, NOW - timedelta(minutes=1), NOW)


def address(agent: Running) -> str:
    agent.says("health is at")
    found = re.findall(r"health is at (\S+)", agent.said)
    return str(found[-1])


def asked(url: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:  # noqa: S310 - the agent's own address
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_health_is_served_with_the_contracts_block(vault: Vault) -> None:
    vault.task("x")
    agent = vault.at_work("--health-port", "0", "--", "sh", "-c", "sleep 600", name="ann")
    agent.says("claimed x.md")
    status, told = asked(address(agent))
    assert status == 200
    assert told["status"] == "healthy"
    assert told["error_count"] == 0
    assert told["uptime_seconds"] > 0
    for moment in ("timestamp", "last_activity"):
        datetime.fromisoformat(told[moment])
    assert told["coordination"] == {
        "agent_name": "ann",
        "active_claims": 1,
        "total_claims": 1,
        "claim_conflicts_avoided": 0,
        "claim_success_rate": 1.0,
    }
    by_command = vault("health", AGENT_NAME="ann")
    assert by_command.status == 0
    assert by_command.data["coordination"] == told["coordination"]


def test_health_is_for_this_machine_only(vault: Vault) -> None:
    agent = vault.at_work("--health-port", "0", "--", "true")
    assert address(agent).startswith("http://127.0.0.1:")


def test_there_is_only_health(vault: Vault) -> None:
    agent = vault.at_work("--", "true", HEALTH_PORT="0")
    assert asked(address(agent).replace("/health", "/"))[0] == 404


def test_taken_port_is_reported(vault: Vault) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ran = vault("agent", "--once", "--health-port", str(taken.getsockname()[1]), "--", "true")
    assert (ran.status, "Choose another port" in ran.err) == (2, True)


def test_an_agent_that_cannot_work_answers_503(vault: Vault) -> None:
    agent = vault.at_work("--interval", "0.1s", "--health-port", "0", "--", "true")
    url = address(agent)
    (vault.root / "Needs_Action").rename(vault.beside / "away")
    vault.root.rename(vault.beside / "gone")
    until(lambda: asked(url)[0] == 503, lambda: str(asked(url)))
    _, told = asked(url)
    assert told["status"] == "error"
    assert told["error_count"] >= 3
    (vault.beside / "gone").rename(vault.root)
    (vault.beside / "away").rename(vault.root / "Needs_Action")
    until(lambda: asked(url)[0] == 200, lambda: str(asked(url)))
    assert asked(url)[1]["status"] == "degraded", "that it had errors is remembered for a while"


def test_figures_add_up_over_two_agents(vault: Vault) -> None:
    for number in range(30):
        vault.task(f"t{number}")
    both = [vault.agent("--once", "--json", "--", "true", name=name) for name in ("ann", "bob")]
    outs = [one.process.communicate()[0] for one in both]
    told = [json.loads(out)["data"]["coordination"] for out in outs]
    assert sum(one["total_claims"] for one in told) == 30
    for one in told:
        tried = one["total_claims"] + one["claim_conflicts_avoided"]
        assert one["claim_success_rate"] == (round(one["total_claims"] / tried, 4) if tried else 1.0)
        assert one["active_claims"] == 0


ENDS = """
case $DIBS_TASK_ID in
  done*) ;;
  fail*) exit 3 ;;
  edited*) sed -i 's/^priority:.*/priority: low/; s/^# .*/# Another/' "$DIBS_FILE" ;;
  moved*) mv "$DIBS_FILE" Rejected/ ;;
  deleted*) rm "$DIBS_FILE" ;;
  itself*) dibs vault release "$DIBS_TASK_ID.md" Done --token "$DIBS_TOKEN" --agent ann ;;
  back*) dibs vault release "$DIBS_TASK_ID.md" Needs_Action --token "$DIBS_TOKEN" --agent ann ;;
  torn*) mv Done gone && touch Done ;;
esac
"""


def test_claims_are_the_sum_of_their_ends(vault: Vault) -> None:
    for name in ("done-1", "done-2", "fail-1", "edited-1", "moved-1", "deleted-1", "itself-1", "back-1"):
        vault.task(name)
    ran = vault("agent", "--once", "--json", "--", "sh", "-c", f"cd '{vault.root}' && {ENDS}", AGENT_NAME="ann")
    told = ran.data
    ends = told["tasks"]
    assert (ends["done"], ends["failed"], ends["lost_leases"], ends["released"]) == (3, 1, 3, 1)
    assert told["coordination"]["total_claims"] == sum(ends.values()) == 8


def test_claim_whose_end_cannot_be_written_is_counted(vault: Vault) -> None:
    vault.task("torn-1")
    words = ("agent", "--once", "--json", "--", "sh", "-c", f"cd '{vault.root}' && {ENDS}")
    told = json.loads(vault(*words, AGENT_NAME="ann").out)["data"]
    assert told["coordination"]["total_claims"] == sum(told["tasks"].values()) == 1
    assert told["tasks"]["lost_leases"] == 1
    assert "gave up torn-1.md" in vault.read("Logs/agent-ann.log")


def test_an_agent_that_has_ended_is_not_healthy(vault: Vault) -> None:
    vault("agent", "--once", "--", "true")
    ran = vault("health")
    assert ran.status == 1
    assert (ran.data["status"], ran.data["running"]) == ("error", False)


def test_unknown_agent_is_not_found(vault: Vault) -> None:
    ran = vault("health", "--agent", "eve")
    assert (ran.status, "No agent 'eve'" in ran.err) == (3, True)


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({}, "healthy"),
        ({"error_count": 5, "last_error_at": NOW - timedelta(hours=1)}, "healthy"),
        ({"error_count": 1, "last_error_at": NOW - timedelta(minutes=1)}, "degraded"),
        ({"offline": True}, "degraded"),
        ({"failed_rounds": 1}, "degraded"),
        ({"failed_rounds": 3}, "error"),
    ],
)
def test_the_status_follows_from_what_happened(changes: dict[str, Any], status: str) -> None:
    assert report(STATE._replace(**changes), 0, NOW)["status"] == status


def test_the_success_rate_counts_lost_and_failed_claims() -> None:
    state = STATE._replace(total_claims=142, lost=2, claim_errors=1)
    told = report(state, 3, NOW)["coordination"]
    assert told == {
        "agent_name": "ann",
        "active_claims": 3,
        "total_claims": 142,
        "claim_conflicts_avoided": 2,
        "claim_success_rate": 0.9793,
    }


def test_a_state_is_read_back_as_it_was() -> None:
    state = STATE._replace(last_error="x", last_error_at=NOW, ended_at=NOW, offline=True)
    assert state_from(json.loads(json.dumps(state.as_json()))) == state


def test_files_that_cannot_be_worked_on_are_listed_everywhere(vault: Vault) -> None:
    vault.write("Needs_Action/half.md", "<<<<<<< HEAD\n# Mine\n=======\n# Theirs\n>>>>>>> theirs\n")
    (vault.root / "Needs_Action/bytes.md").write_bytes(b"\xff\xfe\x00")
    (vault.root / "Needs_Action/link.md").symlink_to(vault.root / "Dashboard.md")
    vault.write("Needs_Action/x.sync-conflict-20261118-120000-ABCDEF7.md")
    vault.task("good")
    agent = vault.at_work("--", "true")
    agent.says("done good.md")
    names = ("half.md", "bytes.md", "link.md", "x.sync-conflict")
    listed = vault("status").out
    health = vault("health").data
    dashboard = vault.read("Dashboard.md")
    assert health["status"] == "degraded"
    for name in names:
        assert sum(name in line for line in agent.said.splitlines()) == 1
        assert f"✗ Needs_Action/{name}" in listed
        assert any(name in problem for problem in health["problems"])
        assert f"- Needs_Action/{name}" in dashboard
    assert dashboard.startswith("# Dashboard"), "people's text stays"


BEGIN, END = "<!-- dibs: files that cannot be worked on -->", "<!-- dibs: end of the list -->"
LIST = f"{BEGIN}\n## Files that cannot be worked on\n\n- Needs_Action/x.md is a link\n{END}\n"


@pytest.mark.parametrize(
    "page",
    [
        f"# Mine\n\nbefore\n\n{LIST}after\n",
        f"before\n\n{LIST}{LIST}after\n",
        f"before\n{LIST.replace(END, '')}after\n",
        f"before\n{LIST.replace(BEGIN, '')}after\n",
        f"before\n{LIST.replace('- Needs', 'after' + chr(10) + '- Needs')}",
        "before\r\n\r\nafter\r\n",
        f"{LIST}before\nafter\n",
    ],
)
def test_list_on_the_dashboard_costs_no_line(vault: Vault, page: str) -> None:
    """Merges and people leave a list anywhere, or half of it."""
    path = vault.root / "Dashboard.md"
    path.write_bytes(page.encode())
    for problems in (["Needs_Action/y.md is a link"], ["a/b c", "d/e f"], []):
        show_problems(str(vault.root), problems)
        text = path.read_bytes().decode()
        assert "before" in text
        assert "after" in text
        assert text.count(BEGIN) == text.count(END) == bool(problems)
        assert all(f"- {problem}\n" in text for problem in problems)
        show_problems(str(vault.root), problems)
        assert path.read_bytes().decode() == text


@pytest.mark.parametrize("in_place", [True, False])
def test_page_saved_while_the_list_is_written_is_kept(
    vault: Vault, monkeypatch: pytest.MonkeyPatch, *, in_place: bool
) -> None:
    path = vault.root / "Dashboard.md"

    class Interrupted(Disk):
        def swap(self, one: str, other: str) -> None:
            if path.read_text() != "saved now\n":
                target = path if in_place else vault.root / "saved"
                target.write_text("saved now\n")
                os.replace(target, path)
            super().swap(one, other)

    monkeypatch.setattr("dibs.protocols.vault.health.Disk", Interrupted)
    show_problems(str(vault.root), ["Needs_Action/y.md is a link"])
    assert path.read_text() == "saved now\n"
    assert not list((vault.root / ".dibs").glob("dashboard*"))
