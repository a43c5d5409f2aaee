"""Decisions beyond the protocol's document, and the messages for wrong input."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import Unconfirmed
from dibs.core.lifecycle import Verb
from dibs.core.scores import Rating, points
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.lab.emulator import mesh_schema, mesh_task_log_schema
from dibs.protocols.mesh.logs import standings
from dibs.protocols.mesh.policy import COMMANDS, GROUP
from protocols.ran import Ran
from support.mesh import Mesh, NotionPlace, SqlitePlace
from support.notion import text

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from dibs.core.task import Json

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def ended(process: subprocess.Popen[str]) -> Ran:
    out, err = process.communicate(timeout=240)
    return Ran(process.returncode, out, err)


# Rating


@pytest.mark.parametrize(
    ("priority", "scores", "earned"),
    [
        (100, Rating(100, 100), 100),
        (40, Rating(95, 91), 37.2),
        (10, Rating(90, 90, 1), -1),
        (0, Rating(100, 100, 2), -20),
        (7, Rating(91, 90), 6.335),
    ],
)
def test_points_are_weighted_priority_minus_reworks(priority: float, scores: Rating, earned: float) -> None:
    assert points(priority, scores) == earned


def test_only_work_that_reaches_ninety_in_both_scores_is_logged(mesh: Mesh) -> None:
    for confidence, coherence, counts in (("89.9", "100", False), ("100", "89", False), ("90", "90", True)):
        held = mesh.claim(mesh.add(priority=10))
        told = mesh.ok("complete", *held.words, "--confidence", confidence, "--coherence", coherence)
        assert (told["points"] is not None) is counts
        assert mesh.status(held.id) == "COMPLETED"
    assert mesh.ok("score")["agents"][0]["tasks"] == 1


def test_a_completed_task_can_be_scored_later_and_no_other(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add(priority=50))
    words = ("score", held.id, "--confidence", "90", "--coherence", "94", "--reworks", "1")
    assert mesh(*words).error["code"] == "ILLEGAL_MOVE"
    mesh.ok("complete", *held.words)
    assert mesh.ok(*words)["points"] == 36
    assert [(one["agent"], one["points"]) for one in mesh.ok("score")["agents"]] == [("Sandman", 36)]


def test_scores_add_up_per_agent_in_any_case() -> None:
    rows: list[dict[str, Json]] = [
        {"Agent": "oracle", "Points Earned": 5.0, "Confidence": 90.0, "Coherence": 100.0},
        {"Agent": "Oracle", "Points Earned": 2.5, "Confidence": 100.0, "Coherence": 90.0},
        {"Agent": "Sandman", "Points Earned": 9.0, "Confidence": 95.0, "Coherence": 95.0},
        {"Agent": None},
    ]
    found = standings(rows)
    assert [(one.agent, one.points, one.tasks) for one in found] == [("Sandman", 9, 1), ("Oracle", 7.5, 2), ("", 0, 0)]
    assert (found[1].confidence, found[1].coherence) == (95, 95)


def test_failed_task_log_leaves_the_task_completed(notion: Mesh) -> None:
    held = notion.claim(notion.add())
    ran = notion("complete", *held.words, "--confidence", "95", "--coherence", "95", MESH_TASK_LOG_DB_ID="")
    assert ran.status == 0
    assert ran.data["points"] is None
    assert "Agent Task Log" in ran.err
    assert notion.status(held.id) == "COMPLETED"
    again = notion("score", held.id, "--confidence", "95", "--coherence", "95", MESH_TASK_LOG_DB_ID="")
    assert again.status == 7


# Names


def test_claim_survives_another_spelling_by_a_person(notion: Mesh) -> None:
    assert isinstance(notion.place, NotionPlace)
    held = notion.claim(notion.add())
    notion.place.notion.api.human.edit(held.id, {"claimed_by": text("SANDMAN")})
    notion.ok("complete", *held.words)


def test_claim_survives_another_spelling_by_a_protocol(local: Mesh) -> None:
    assert isinstance(local.place, SqlitePlace)
    with local.place.desk() as desk:
        (task,) = desk.add([Draft("native")])
        (claimed,) = desk.claim("sandMAN", refs=[task.id])
    assert claimed.task.lease is not None
    local.ok("complete", task.id, "--agent", "Sandman", "--nonce", claimed.task.lease.token)


# Order


def test_claim_without_id_takes_the_first_in_order(mesh: Mesh) -> None:
    old, young, urgent = mesh.add(), mesh.add(), mesh.add(priority=9)
    assert [mesh.ok("claim", agent="Oracle")["task"]["id"] for _ in range(3)] == [urgent, old, young]
    nothing = mesh("claim", agent="Oracle")
    assert (nothing.status, nothing.error["code"]) == (4, "NOTHING_READY")


def test_task_taken_in_between_is_skipped_and_logged(local: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    """Oracle takes the first task after the list was read."""
    first, second = local.add(), local.add()
    ready = Desk.ready

    def late(desk: Desk, **more: Any) -> object:
        found = ready(desk, **more)
        if more["limit"] > 1:
            desk.claim("Oracle", refs=[first])
        return found

    monkeypatch.setattr(Desk, "ready", late)
    assert local.ok("claim", agent="Sandman")["task"]["id"] == second
    won, lost = local.log()
    assert (won["Blocked Task"], lost["Blocked Task"]) == (second, first)
    assert lost["Resolution"].startswith("SKIP")


# Unconfirmed claims


def test_unconfirmed_claim_shows_its_nonce_but_the_log_does_not(local: Mesh, monkeypatch: pytest.MonkeyPatch) -> None:
    task = local.add()
    held = local.claim(task)
    local.place.let(3600)

    def unconfirmed(*_args: object, **_more: object) -> None:
        raise Unconfirmed("Notion did not answer.", token=held.nonce)

    monkeypatch.setattr(Desk, "claim", unconfirmed)
    ran = local("claim", task, agent="Sandman")
    assert (ran.status, ran.data["outcome"], ran.data["nonce"]) == (7, "UNCONFIRMED", held.nonce)
    entry = local.log()[0]
    assert (entry["Status"], entry["Resolution"]) == ("Timeout", "UNCONFIRMED: Notion did not answer.")
    shown = local("claim", task, agent="Sandman", text=True)
    assert held.nonce in shown.out
    assert held.nonce not in shown.err


# Other protocols in the same store


def test_statuses_of_other_protocols_are_respected(local: Mesh) -> None:
    assert isinstance(local.place, SqlitePlace)
    task = local.add()
    with local.place.desk() as desk:
        desk.move(Verb.PAUSE, task, reason="holidays")
    ran = local("preflight", task, agent="Oracle")
    assert (ran.status, ran.data["decision"]) == (4, "SKIP")
    assert "PAUSED" in ran.data["why"]


def test_a_task_of_another_protocol_has_no_negative_priority_score(local: Mesh) -> None:
    assert isinstance(local.place, SqlitePlace)
    with local.place.desk() as desk:
        (task,) = desk.add([Draft("native", priority=2)])
    held = local.claim(task.id)
    assert local.ok("complete", *held.words, "--confidence", "99", "--coherence", "99")["points"] == 0


# Init


def test_init_creates_a_store_and_reports_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dibs.cli.main import main as dibs

    assert dibs(["mesh", "init", "--store", f"sqlite:///{folder}/new.db", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["data"]
    assert told["agents"] == ["Sandman", "Oracle"]
    assert told["checks"]["Mesh Communication Log"] == "empty"
    assert (folder / "new.db").exists()


def test_init_looks_at_all_three_databases(notion: Mesh) -> None:
    notion.add()
    told = notion.ok("init")
    assert {"tasks", "property claim_nonce", "Agent Task Log", "Mesh Communication Log"} <= told["checks"].keys()
    for name in ("MESH_TASK_LOG_DB_ID", "MESH_COMM_LOG_DB_ID"):
        cleared: dict[str, Any] = {name: ""}
        ran = notion("init", **cleared)
        assert (ran.status, ran.error["code"]) == (7, "MISCONFIGURED")
        assert name in ran.error["message"]


def _bare(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, nonce: bool
) -> Iterator[Mesh]:
    columns = mesh_schema(nonce=nonce)
    del columns["priority"]  # the document lacks it
    place = NotionPlace(folder, monkeypatch, columns)
    for name, value in place.environment.items():
        monkeypatch.setenv(name, value)
    yield Mesh(place, capsys, monkeypatch)
    place.close()


@pytest.fixture
def without_nonce(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    """The database as the document had it."""
    yield from _bare(folder, capsys, monkeypatch, nonce=False)


@pytest.fixture
def bare(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Mesh]:
    """The document's database plus a nonce."""
    yield from _bare(folder, capsys, monkeypatch, nonce=True)


def test_init_makes_all_three_databases_below_a_page(notion: Mesh) -> None:
    assert isinstance(notion.place, NotionPlace)
    ran = notion("init", "--parent", notion.add("a page"), text=True)
    assert (ran.status, ran.err) == (0, "")
    made: dict[str, Any] = dict(line.removeprefix("export ").split("=") for line in ran.out.splitlines())
    assert set(made) == {"MESH_TASKS_DB_ID", "MESH_TASK_LOG_DB_ID", "MESH_COMM_LOG_DB_ID"}
    assert all(line.startswith("export ") for line in ran.out.splitlines())
    task = notion.ok("add", "Dream it", "--priority", "10", **made)["task"]["id"]
    nonce = notion.ok("claim", task, agent="Oracle", **made)["nonce"]
    words = ("complete", task, "--nonce", nonce, "--confidence", "90", "--coherence", "90", "--notes", "seen")
    assert notion.ok(*words, agent="Oracle", **made)["points"] == 9
    assert notion.ok("score", **made)["agents"][0]["agent"] == "Oracle"
    assert notion.ok("log", **made)["entries"][0]["Resolution"] == "CLAIMED"
    notion.ok("init", **made)
    assert notion("init", "--parent", "not-an-id").error["code"] == "MISCONFIGURED"


def test_value_without_a_property_gives_a_warning(bare: Mesh) -> None:
    ran = bare("add", "T", "--priority", "4")
    assert ran.status == 0
    assert "priority" in ran.err
    held = bare.claim(ran.data["task"]["id"])
    blocked = bare("block", *held.words, "--reason", "no key")
    assert blocked.status == 0
    assert "blocked_reason" in blocked.err


def test_database_without_nonce_is_refused_with_advice(without_nonce: Mesh) -> None:
    for words in (("init",), ("claim", "00000000-0000-4000-8000-000000000000")):
        ran = without_nonce(*words, agent="Sandman")
        assert ran.status in {3, 7}
    told = without_nonce("init").error
    assert told["code"] == "MISCONFIGURED"
    assert "claim_nonce" in told["message"]
    assert "type Text" in told["message"]


# Wrong input


@pytest.mark.parametrize(
    "words",
    [
        ("clam",),
        ("preflight",),
        ("preflight", "ID", "extra"),
        ("claim", "ID", "--lease", "5"),
        ("claim", "two words"),
        ("heartbeat", "ID"),
        ("complete", "ID", "--nonce", "n", "--confidence", "95"),
        ("complete", "ID", "--nonce", "n", "--confidence", "101", "--coherence", "95"),
        ("complete", "ID", "--nonce", "n", "--confidence", "nan", "--coherence", "95"),
        ("complete", "ID", "--nonce", "n", "--confidence", "-1", "--coherence", "95"),
        ("complete", "ID", "--nonce", "n", "--reworks", "-1"),
        ("block", "ID", "--nonce", "n"),
        ("add",),
        ("add", ""),
        ("add", "T", "--timeout", "0"),
        ("add", "T", "--timeout", "soon"),
        ("add", "T", "--priority", "high"),
        ("add", "T", "--priority", "nan"),
        ("log", "claim"),
        ("log", "x", "--status", "Lost"),
        ("log", "x", "--to", "nobody"),
        ("log", ""),
        ("score", "ID"),
        ("score", "ID", "--confidence", "95"),
    ],
    ids=" ".join,
)
def test_wrong_input_is_reported_and_changes_nothing(local: Mesh, words: tuple[str, ...]) -> None:
    task = local.add()
    before = local.place.task(task)
    ran = local(*(task if word == "ID" else word for word in words), agent="Sandman")
    assert (ran.status, ran.error["code"]) == (2, "INVALID_INPUT")
    assert local.place.task(task) == before
    assert local.log() == []


def test_missing_agent_or_store_is_refused(local: Mesh) -> None:
    task = local.add()
    assert "MESH_AGENT" in local("claim", task).error["message"]
    assert "MESH_NONCE" in local("complete", task, agent="Oracle").error["message"]
    nowhere = local("claim", task, agent="Oracle", MESH_STORE="")
    assert (nowhere.status, nowhere.error["code"]) == (7, "MISCONFIGURED")
    assert "MESH_TASKS_DB_ID" in nowhere.error["message"]


def test_the_nonce_can_be_in_the_environment(local: Mesh) -> None:
    held = local.claim(local.add())
    local.ok("heartbeat", held.id, agent="Sandman", MESH_NONCE=held.nonce)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    from dibs.cli.main import main as dibs

    for words in (["mesh", name, "--help"], ["mesh", "help", name]):
        assert dibs(words) == 0
        assert capsys.readouterr().out.startswith(f"usage: dibs mesh {name}")


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert GROUP.run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)
    assert GROUP.run([]) == 2


# Secrets


def test_nonce_is_shown_only_to_the_claimer(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add())
    wrong = held._replace(nonce="0" * 36)
    said = [
        mesh(*words, text=text)
        for text in (False, True)
        for words in (
            ("preflight", held.id, "--agent", "Oracle"),
            ("claim", held.id, "--agent", "Oracle"),
            ("heartbeat", *held.words),
            ("heartbeat", *wrong.words),
            ("complete", *wrong.words),
            ("complete", *held._replace(agent="Oracle").words),
            ("block", *wrong.words, "--reason", "r"),
            ("log",),
            ("score",),
            ("init",),
        )
    ]
    said.append(mesh("complete", *held.words, "--confidence", "95", "--coherence", "95"))
    for ran in said:
        assert held.nonce not in ran.out + ran.err
        if isinstance(mesh.place, NotionPlace):
            assert mesh.place.notion.api.token not in ran.out + ran.err


# Real processes


def test_of_real_processes_that_claim_the_same_task_one_wins(local: Mesh) -> None:
    tasks = [local.add() for _ in range(2)]
    for task in tasks:
        racers = [local.script("claim", task, "--agent", agent) for agent in ("Sandman", "Oracle", "Oracle")]
        came = [ended(racer) for racer in racers]
        assert sorted(ran.status for ran in came) == [0, 4, 4]
        (won,) = [ran for ran in came if ran.status == 0]
        assert len(_UUID.findall(won.out)) == 1
        assert not any(_UUID.search(ran.out + ran.err) for ran in came if ran is not won)
    assert len(local.log()) == 6


def test_of_real_processes_that_claim_the_same_page_one_wins(notion: Mesh) -> None:
    assert isinstance(notion.place, NotionPlace)
    task = notion.add()
    url = f"notion://{notion.place.tasks.id}?layout=mesh&window=1&settle=1.2"
    racers = [notion.script("claim", task, "--agent", agent, MESH_STORE=url) for agent in ("Sandman", "Oracle")]
    came = [ended(racer) for racer in racers]
    assert len([ran for ran in came if ran.status == 0]) <= 1
    assert {ran.status for ran in came} <= {0, 4, 7}
    assert len(notion.place.notion.rows(notion.place.messages)) == 2
    for ran in came:
        assert notion.place.notion.api.token not in ran.out + ran.err


# Wrong log ids


@pytest.mark.parametrize("log", ["MESH_COMM_LOG_DB_ID", "MESH_TASK_LOG_DB_ID"])
@pytest.mark.parametrize("wrong", ["tasks", "other log"])
def test_wrong_log_id_is_refused_before_writes(notion: Mesh, log: str, wrong: str) -> None:
    place = notion.place
    assert isinstance(place, NotionPlace)
    task = notion.add()
    other = place.scores if log == "MESH_COMM_LOG_DB_ID" else place.messages
    named: dict[str, Any] = {log: place.tasks.id if wrong == "tasks" else other.id}
    rows = [place.notion.rows(each) for each in (place.tasks, place.scores, place.messages)]
    for words in (("claim", task), ("claim",), ("add", "X"), ("log", "hello"), ("unblock", task), ("init",)):
        ran = notion(*words, agent="Sandman", **named)
        assert (ran.status, ran.error["code"]) == (7, "MISCONFIGURED"), words
        assert "is not this log" in ran.error["message"]
    assert [place.notion.rows(each) for each in (place.tasks, place.scores, place.messages)] == rows
    notion.claim(task)


@pytest.mark.parametrize("log", ["MESH_COMM_LOG_DB_ID", "MESH_TASK_LOG_DB_ID"])
@pytest.mark.parametrize(
    ("wrong", "says"), [("0" * 32, "does not exist"), ("notes", "not the id"), ("page", "is a page, not a database")]
)
def test_log_id_of_no_database_is_refused_before_writes(notion: Mesh, log: str, wrong: str, says: str) -> None:
    task = notion.add()
    named: dict[str, Any] = {log: task if wrong == "page" else wrong}
    ran = notion("claim", task, agent="Sandman", **named)
    assert (ran.status, ran.error["code"]) == (7, "MISCONFIGURED")
    assert says in ran.error["message"]
    assert notion.status(task) == "OPEN"


def test_log_that_does_not_answer_stops_no_claim(notion: Mesh) -> None:
    place = notion.place
    assert isinstance(place, NotionPlace)
    task = notion.add()
    place.notion.api.faults.next("unavailable", path=place.scores.id, times=99)
    assert notion("claim", task, agent="Sandman").status == 0


def test_log_with_wrong_column_type_is_refused_before_writes(notion: Mesh) -> None:
    place = notion.place
    assert isinstance(place, NotionPlace)
    task = notion.add()
    other = place.notion.api.database({**mesh_task_log_schema(), "Points Earned": {"rich_text": {}}})
    ran = notion("claim", task, agent="Sandman", MESH_TASK_LOG_DB_ID=other.id)
    assert (ran.status, ran.error["code"]) == (7, "MISCONFIGURED")
    assert "'Points Earned' is a rich_text" in ran.error["message"]
    assert notion.status(task) == "OPEN"


# Scores


def test_each_attempt_counts_once_however_often_it_is_scored(mesh: Mesh) -> None:
    held = mesh.claim(mesh.add("Dream it", priority=10))
    rating = ("--confidence", "100", "--coherence", "100")
    mesh.ok("complete", *held.words, *rating)
    again = mesh("score", held.id, *rating)
    assert (again.status, again.error["code"]) != (0, None)
    assert "10 points" in again.error["message"]
    assert [(one["points"], one["tasks"]) for one in mesh.ok("score")["agents"]] == [(10, 1)]


def test_unscored_completion_stays_in_history_until_scored(notion: Mesh) -> None:
    place = notion.place
    assert isinstance(place, NotionPlace)
    held = notion.claim(notion.add("Dream it", priority=10))
    notion.ok("complete", *held.words)
    (row,) = place.notion.rows(place.scores)
    assert (row["Task"], row["Agent"], row["Points Earned"], row["Confidence"]) == ("Dream it", "Sandman", None, None)
    notion.ok("score", held.id, "--confidence", "90", "--coherence", "90")
    assert len(place.notion.rows(place.scores)) == 2
    assert [(one["points"], one["tasks"]) for one in notion.ok("score")["agents"]] == [(9, 1)]


def test_standings_take_each_attempt_once() -> None:
    scored: dict[str, Json] = {"Task": "T", "Task ID": "1", "Attempt": 1, "Agent": "Oracle", "Points Earned": 4.0}
    unscored: dict[str, Json] = {**scored, "Points Earned": None}
    second: dict[str, Json] = {**scored, "Attempt": 2}
    assert [(one.points, one.tasks) for one in standings([unscored, scored, scored, second])] == [(8, 2)]


# Times


def test_active_claim_never_counts_for_longer_than_its_timeout(mesh: Mesh) -> None:
    mesh.place.let(31)
    held = mesh.claim(mesh.add())
    why = mesh("preflight", held.id, agent="Oracle").data["why"]
    left = re.search(r"for another (?:(\d+)m ?)?(?:(\d+)s)? of 30m", why)
    assert left is not None, why
    assert 60 * int(left[1] or 0) + int(left[2] or 0) <= 30 * 60


# Odd pages


def test_odd_page_shows_raw_values_and_a_warning(notion: Mesh) -> None:
    place = notion.place
    assert isinstance(place, NotionPlace)
    page = place.notion.api.page(
        place.tasks.id, {"title": {"title": []}, "status": {"select": {"name": "Waiting for legal"}}}
    )
    task = notion("preflight", page, agent="Sandman").data["task"]
    assert (task["status"], task["title"]) == ("Waiting for legal", "")
    assert "Waiting for legal" in task["warnings"][0]
    page = place.notion.api.page(
        place.tasks.id, {"title": {"title": []}, "status": {"select": {"name": "IN_PROGRESS"}}}
    )
    said = notion("preflight", page, agent="Sandman").data
    assert said["why"] == "IN_PROGRESS: a person works on it, without an end"
    page = place.notion.api.page(place.tasks.id, {"title": {"title": []}, "status": {"select": None}})
    said = notion("preflight", page, agent="Sandman").data
    assert ("status" not in said["task"], said["why"]) == (True, "without a status, not OPEN")
