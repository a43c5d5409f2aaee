"""The Task Claim Protocol: each sentence of its document, on every kind of store. Tests follow docs/reference/mesh.md
where it differs.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from dibs.core.times import time_from
from dibs.protocols.mesh.policy import MESH, TIMEOUT
from support.mesh import NotionPlace
from support.notion import PATIENCE, date, number, select, text, title

if TYPE_CHECKING:
    from protocols.ran import Ran
    from support.mesh import Mesh

MARGIN = 200  # Notion counts minutes and adds a margin


def place_of(mesh: Mesh) -> NotionPlace:
    assert isinstance(mesh.place, NotionPlace)
    return mesh.place


def by_hand(mesh: Mesh, **properties: object) -> str:
    """Create a task as a person in the app; return its id."""
    place = place_of(mesh)
    return place.notion.api.page(place.tasks.id, {"title": title("T"), "status": select("OPEN"), **properties})


# Pre-flight check


def test_a_task_is_queried_by_its_id(mesh: Mesh) -> None:
    task = mesh.add("Dream it")
    told = mesh.ok("preflight", task, agent="Sandman")
    assert (told["task"]["id"], told["task"]["title"]) == (task, "Dream it")
    missing = mesh("preflight", "00000000-0000-4000-8000-000000000000", agent="Sandman")
    assert (missing.status, missing.error["code"]) == (3, "NOT_FOUND")


@pytest.mark.parametrize("how", ["block", "complete", "cancel"])
def test_if_the_status_is_not_open_skip(mesh: Mesh, how: str) -> None:
    held = mesh.claim(mesh.add())
    mesh.ok(how, *held.words, *(("--reason", "r") if how == "block" else ()))
    ran = mesh("preflight", held.id, agent="Oracle")
    assert (ran.status, ran.data["decision"]) == (4, "SKIP")
    assert mesh("claim", held.id, agent="Oracle").status == 4


def test_if_it_is_open_and_claimed_by_is_empty_claim(mesh: Mesh) -> None:
    told = mesh.ok("preflight", mesh.add(), agent="Oracle")
    assert (told["decision"], told["stale"]) == ("CLAIM", False)


def test_if_the_claim_is_active_skip(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    mesh.place.let(20 * 60)
    ran = mesh("preflight", held.id, agent="Oracle")
    assert (ran.status, ran.data["decision"]) == (4, "SKIP")
    assert "Sandman" in ran.data["why"]
    refused = mesh("claim", held.id, agent="Oracle")
    assert (refused.status, refused.error["code"]) == (4, "HELD")


def test_else_the_claim_is_stale_and_can_be_overridden(mesh: Mesh) -> None:
    """Also IN_PROGRESS, or abandoned tasks would stay abandoned."""
    first = mesh.claim(mesh.add())
    mesh.place.let(30 * 60 + MARGIN)
    told = mesh.ok("preflight", first.id, agent="Oracle")
    assert (told["decision"], told["stale"]) == ("CLAIM", True)
    second = mesh.claim(first.id, agent="Oracle")
    assert second.nonce != first.nonce
    assert "stale" in mesh.log()[0]["Resolution"]


@pytest.mark.parametrize("minutes", [None, 60])
def test_open_task_with_holder_is_judged_by_its_timeout(notion: Mesh, minutes: float | None) -> None:
    """The clock shows 12:00."""
    of_oracle = {"claimed_by": text("Oracle"), TIMEOUT: number(minutes)}
    active = by_hand(notion, **of_oracle, claimed_at=date("2026-01-01T11:45:00Z"))
    stale = by_hand(notion, **of_oracle, claimed_at=date("2026-01-01T10:45:00Z"))
    lost = by_hand(notion, **of_oracle)
    assert notion("preflight", active, agent="Sandman").data["decision"] == "SKIP"
    assert notion("claim", active, agent="Sandman").status == 4
    for task in (stale, lost):
        assert notion("preflight", task, agent="Sandman").data["decision"] == "CLAIM"
        notion.claim(task)
    took_over = [entry["Resolution"] for entry in notion.log() if entry["Blocked Task"] in {stale, lost}]
    assert len(took_over) == 2
    assert all("Oracle is stale" in resolution for resolution in took_over)


def test_claim_sets_claimed_by_claimed_at_and_the_status(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    told = mesh("preflight", held.id, agent="Oracle").data["task"]
    assert (told["status"], told["claimed_by"]) == ("IN_PROGRESS", "Sandman")
    assert "claimed_at" in told


def test_claim_writes_once_and_reads_back(notion: Mesh) -> None:
    task = notion.add()
    requests = place_of(notion).notion.api.requests
    requests.clear()
    held = notion.claim(task)
    page = "/v1/pages/{page_id}"
    served = [(one.method, one.template) for one in requests if one.template == page]
    assert served == [("GET", page), ("GET", page), ("PATCH", page), ("GET", page)]
    found = place_of(notion).properties(task)
    assert (found["status"], found["claimed_by"], found["claim_nonce"]) == ("IN_PROGRESS", "Sandman", held.nonce)
    assert found["claimed_at"] in {"2026-01-01T12:01:00.000+00:00", "2026-01-01T12:02:00.000+00:00"}


def test_on_completion_the_status_is_completed(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    assert mesh.ok("complete", *held.words)["task"]["status"] == "COMPLETED"
    assert mesh.status(held.id) == "COMPLETED"


def test_completion_is_logged_for_scoring(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add("Dream it", priority=40))
    told = mesh.ok("complete", *held.words, "--confidence", "95", "--coherence", "91", "--notes", "all seen")
    assert told["points"] == 37.2
    assert mesh.ok("score")["agents"] == [
        {"agent": "Sandman", "tasks": 1, "points": 37.2, "confidence": 95, "coherence": 91}
    ]
    if isinstance(mesh.place, NotionPlace):
        (row,) = mesh.place.notion.rows(mesh.place.scores)
        assert row.pop("Completed At").startswith("2026-01-01T12:01")
        assert row == {
            "Task": "Dream it",
            "Agent": "Sandman",
            "Priority Score": 40,
            "Confidence": 95,
            "Coherence": 91,
            "Points Earned": 37.2,
            "Status": "COMPLETED",
            "Notes": "all seen",
        }


# Status values


def test_statuses_match_the_document_in_all_spellings() -> None:
    for word in ("OPEN", "IN_PROGRESS", "BLOCKED", "COMPLETED", "CANCELLED"):
        status = MESH.read(word)
        assert status is not None
        assert MESH.say(status) == word
        assert MESH.read(word.lower()) is status
    assert MESH.read("Canceled") is MESH.read("CANCELLED")
    assert MESH.read("Done") is MESH.read("COMPLETED")


@pytest.mark.parametrize(("spelt", "status"), [("Done", "COMPLETED"), ("Canceled", "CANCELLED"), ("open", "OPEN")])
def test_a_page_may_spell_its_status_otherwise(notion: Mesh, spelt: str, status: str) -> None:
    assert notion.status(by_hand(notion, status=select(spelt))) == status


def test_block_clears_the_claim_and_unblock_opens_the_task(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    mesh.ok("block", *held.words, "--reason", "no key")
    told = mesh("preflight", held.id, agent="Oracle").data["task"]
    assert told["status"] == "BLOCKED"
    assert not {"claimed_by", "claimed_at"} & told.keys()
    assert mesh("heartbeat", *held.words).status == 5
    mesh.ok("unblock", held.id)
    assert mesh.status(held.id) == "OPEN"
    mesh.claim(held.id, agent="Oracle")


def test_unfinished_task_can_be_canceled(mesh: Mesh) -> None:
    idle, held, blocked = mesh.add(), mesh.claim(mesh.add()), mesh.claim(mesh.add())
    mesh.ok("block", *blocked.words, "--reason", "r")
    mesh.ok("cancel", idle, agent="Oracle")
    mesh.ok("cancel", blocked.id, agent="Oracle", MESH_NONCE="")
    assert mesh("cancel", held.id, agent="Sandman", MESH_NONCE="0" * 36).status == 5
    assert mesh("cancel", held.id, agent="Oracle", MESH_NONCE=held.nonce).status == 5
    mesh.ok("cancel", *held.words)
    assert {mesh.status(task) for task in (idle, held.id, blocked.id)} == {"CANCELLED"}
    done = mesh.claim(mesh.add())
    mesh.ok("complete", *done.words)
    assert mesh("cancel", done.id, agent="Oracle").error["code"] == "ILLEGAL_MOVE"


# Timeout handling


def test_the_default_timeout_is_thirty_minutes(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    mesh.place.let(29 * 60)
    assert mesh("preflight", held.id, agent="Oracle").data["decision"] == "SKIP"
    mesh.place.let(60 + MARGIN)
    assert mesh("preflight", held.id, agent="Oracle").data["decision"] == "CLAIM"


def test_claim_is_stale_at_claimed_at_plus_timeout(local: Mesh) -> None:
    held = local.claim(local.add())
    local.place.let(30 * 60 - 0.001)
    assert local("preflight", held.id, agent="Oracle").data["decision"] == "SKIP"
    local.place.let(0.001)
    assert local("preflight", held.id, agent="Oracle").data["decision"] == "CLAIM"


def test_task_may_set_its_timeout(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add(timeout=8))
    mesh.place.let(6 * 60)
    assert mesh("claim", held.id, agent="Oracle").status == 4
    mesh.place.let(2 * 60 + MARGIN)
    mesh.claim(held.id, agent="Oracle")


def test_heartbeat_sets_claimed_at_to_now(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    before = mesh("preflight", held.id, agent="Oracle").data["task"]["claimed_at"]
    for _ in range(4):
        mesh.place.let(10 * 60)
        mesh.ok("heartbeat", *held.words)
    after = mesh("preflight", held.id, agent="Oracle").data["task"]["claimed_at"]
    assert 39 * 60 <= (time_from(after) - time_from(before)).total_seconds() <= 41 * 60
    mesh.ok("complete", *held.words)


# Race condition mitigation


def test_the_task_is_always_queried_immediately_before_claiming(notion: Mesh) -> None:
    """Lists lag, so the page itself is read right before the write."""
    task = notion.add()
    place_of(notion).notion.api.faults.query_lag = 3600.0
    notion.claim(task)
    assert notion("claim", task, agent="Oracle").status == 4


def test_simultaneous_claims_have_one_winner(notion: Mesh) -> None:
    """The read-back finds the other nonce, which the document's protocol would not notice."""
    task = notion.add()
    place = place_of(notion)
    hold = place.notion.api.faults.hold("PATCH", path=task, after_commit=True)
    came: list[Ran] = []
    claimer = threading.Thread(target=lambda: came.append(notion("claim", task, agent="Sandman")))
    claimer.start()
    hold.wait_for_arrival(PATIENCE)
    place.notion.api.human.edit(task, {"claimed_by": text("Oracle"), "claim_nonce": text("another")})
    hold.release()
    claimer.join()
    assert (came[0].status, came[0].error["code"]) == (4, "HELD")
    assert place.properties(task)["claimed_by"] == "Oracle"


@pytest.mark.parametrize("how", ["heartbeat", "complete", "block", "cancel"])
def test_conflict_during_work_writes_only_the_log(mesh: Mesh, how: str) -> None:
    late = mesh.claim(mesh.add())
    mesh.place.let(30 * 60 + MARGIN)
    mesh.claim(late.id, agent="Oracle")
    mesh.place.let(60)
    before = mesh.place.task(late.id)
    ran = mesh(how, *late.words, *(("--reason", "r") if how == "block" else ()))
    assert (ran.status, ran.error["code"]) == (5, "LOST_LOCK")
    assert late.nonce not in ran.out + ran.err
    assert mesh.place.task(late.id) == before
    entry = mesh.log()[0]
    assert (entry["Event"], entry["Source Agent"], entry["Blocked Task"]) == ("conflict", "Sandman", late.id)
    assert f"aborted {how}" in entry["Resolution"]


def test_completion_requires_the_name_and_the_nonce(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    for wrong in (held._replace(agent="Oracle"), held._replace(nonce="00000000-0000-4000-8000-000000000000")):
        assert mesh("complete", *wrong.words).status == 5
        assert mesh.status(held.id) == "IN_PROGRESS"
    mesh.ok("complete", *held._replace(agent="sandMAN").words)


def test_all_claim_attempts_are_logged_to_the_mesh_communication_log(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    mesh.place.let(60)
    mesh("claim", held.id, agent="Oracle")
    mesh.place.let(60)
    mesh("claim", "00000000-0000-4000-8000-000000000000", agent="Oracle")
    missing, lost, won = mesh.log()
    assert [entry["Event"] for entry in (won, lost, missing)] == ["claim_attempt"] * 3
    assert (won["Source Agent"], won["Blocked Task"], won["Resolution"]) == ("Sandman", held.id, "CLAIMED")
    assert (won["Status"], lost["Status"], missing["Status"]) == ("Resolved", "Blocked", "Blocked")
    assert won["Timeout (min)"] == 30
    assert lost["Source Agent"] == "Oracle"
    assert lost["Resolution"].startswith("SKIP")
    assert "Sandman" in lost["Resolution"]
    assert missing["Resolution"].startswith("ERROR")
    assert all(held.nonce not in str(entry) for entry in (won, lost, missing))


def test_a_log_that_cannot_be_written_never_blocks_a_claim(notion: Mesh) -> None:
    task = notion.add()
    ran = notion("claim", task, agent="Sandman", MESH_COMM_LOG_DB_ID="")
    assert ran.status == 0
    assert "Mesh Communication Log" in ran.err
    assert ran.data["nonce"] not in ran.err


# Agents


@pytest.mark.parametrize("name", ["Sandman", "Oracle", "sandman", "ORACLE"])
def test_sandman_claims_as_sandman_and_oracle_as_oracle(mesh: Mesh, name: str) -> None:
    held = mesh.claim(mesh.add(), agent=name)
    lease = mesh.place.task(held.id).lease
    assert lease is not None
    assert lease.agent == name.capitalize()


def test_other_agents_are_known_by_configuration(mesh: Mesh) -> None:
    task = mesh.add()
    refused = mesh("claim", task, agent="Morpheus")
    assert (refused.status, refused.error["code"]) == (2, "INVALID_INPUT")
    assert "MESH_AGENTS" in refused.error["message"]
    assert mesh.ok("claim", task, agent="morpheus", MESH_AGENTS="Sandman, Morpheus")["outcome"] == "CLAIMED"


# Related databases


def test_completed_task_keeps_claimed_by_and_claimed_at(notion: Mesh) -> None:
    held = notion.claim(notion.add())
    notion.ok("complete", *held.words)
    found = place_of(notion).properties(held.id)
    assert (found["status"], found["claimed_by"], found["claim_nonce"]) == ("COMPLETED", "Sandman", "")
    assert found["claimed_at"] is not None


def test_completed_task_keeps_its_finisher(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    told = mesh.ok("complete", *held.words)["task"]
    assert told["claimed_by"] == "Sandman"
    assert "claimed_at" in told


def test_agents_can_speak_to_each_other_through_the_communication_log(mesh: Mesh) -> None:
    task = mesh.add()
    mesh.ok("log", "handover", "--to", "oracle", "--task", task, "--timeout", "5", agent="Sandman")
    (entry,) = mesh.log()
    assert entry.pop("Timestamp") is not None
    told = {name: value for name, value in entry.items() if value not in (None, "")}
    assert told == {
        "Event": "handover",
        "Source Agent": "Sandman",
        "Target Agent": "Oracle",
        "Status": "Sent",
        "Timeout (min)": 5,
        "Blocked Task": task,
        "Retry Count": 0,
    }
