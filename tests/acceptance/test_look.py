"""show, list, ready, next, stale, log, stats: commands that only read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.cli.commands import queries

if TYPE_CHECKING:
    from support.cli import Cli, Clock


@pytest.fixture
def project(cli: Cli) -> Cli:
    """One task of every kind, most of them named after it."""
    for name in ("ready", "blocked", "paused", "review", "escalated", "done", "canceled", "active", "expired"):
        cli.add(name)
    cli.add("backlog", "--backlog")
    cli.add("waiting", "--blocked-by", "ready")
    cli.add("later", "--not-before", "2026-01-01T13:00Z")
    cli.ok("claim", "expired", "--lease", "1s", "--agent", "eve")
    cli.clock.advance(seconds=2)
    cli.ok("claim", "active", "--agent", "bob", "--lease", "20m")
    cli.ok("block", "blocked", "--reason", "no key", "--action", "buy one", "--check-at", "2026-01-02")
    cli.ok("pause", "paused", "--reason", "not now")
    cli.ok("review", "review", "--token", cli.claim("review"))
    cli.ok("edit", "escalated", "--max-retries", "0")
    cli.ok("fail", "escalated", "--token", cli.claim("escalated"), "--reason", "broken")
    cli.ok("done", "done", "--token", cli.claim("done", "--agent", "carl"))
    cli.ok("cancel", "canceled", "--reason", "no use")
    return cli


def _words(line: str) -> list[str]:
    return line.split()


def test_list_shows_open_tasks_with_details(project: Cli) -> None:
    head, *lines = project.ok("list").splitlines()
    assert _words(head) == ["ID", "STATUS", "PRI", "TITLE"]
    rows = {line.split()[0]: line for line in lines}
    assert "done" not in rows
    assert "canceled" not in rows
    for task in rows.keys() - {"active"}:
        assert rows[task].split()[1] == task
    assert "bob, 20m left" in rows["active"]
    assert "was eve's" in rows["expired"]
    assert "for 1 other" in rows["waiting"]
    assert "in 59m 58s" in rows["later"]
    assert "no key" in rows["blocked"]
    assert "not now" in rows["paused"]
    assert "broken" in rows["escalated"]


def test_list_all_includes_finished_tasks(project: Cli) -> None:
    said = project.ok("list", "--all")
    assert "by carl" in said
    assert "no use" in said
    assert len(project.json("list", "--all")) == 12


def test_columns_are_aligned(project: Cli) -> None:
    head, *lines = project.ok("list").splitlines()
    title = head.index("TITLE")
    assert {line[title:].split()[0] for line in lines} == {line.split()[0] for line in lines}


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--status", "blocked"), {"blocked"}),
        (("--status", "done,canceled"), {"done", "canceled"}),
        (("--status", "cancelled"), {"canceled"}),
        (("--status", "In_Progress"), {"active", "expired"}),
        (("--held-by", "bob"), {"active"}),
        (("--text", "ESCAL"), {"escalated"}),
        (("--text", "%"), set()),
        (("--category", "none"), set()),
    ],
)
def test_list_filters_by_options(options: tuple[str, ...], found: set[str], project: Cli) -> None:
    assert set(project.ids("list", *options)) == found


def test_list_filters_by_text(cli: Cli) -> None:
    cli.add("whole")
    cli.add("part", "--parent", "whole", "-c", "backend", "--spec", "s1", "--assign", "bob", "-d", "a needle here")
    for options in (
        ("--category", "backend"),
        ("-c", "backend"),
        ("--spec", "s1"),
        ("--assigned-to", "bob"),
        ("--parent", "who"),
        ("--text", "needle"),
    ):
        assert cli.ids("list", *options) == ["part"]


def test_list_is_in_the_order_of_work(cli: Cli) -> None:
    cli.add("plain")
    cli.add("urgent", "-p", "0")
    cli.add("someday", "--class", "intangible", "-p", "0")
    cli.add("fire", "--class", "expedite", "-p", "4")
    assert cli.ids("list") == ["fire", "urgent", "plain", "someday"]
    assert cli.ids("ready") == cli.ids("list")
    marks = {line.split()[0]: line.split()[2] for line in cli.ok("list").splitlines()[1:]}
    assert marks == {"fire": "!!4", "urgent": "0", "plain": "2", "someday": "~0"}


def test_list_reports_omitted_tasks(cli: Cli) -> None:
    for number in range(3):
        cli.add(f"t{number}")
    ran = cli("list", "-n", "2")
    assert len(ran.out.splitlines()) == 3
    assert "-n" in ran.err
    written = cli("list", "--limit", "2", "--json")
    assert len(written.data) == 2
    assert cli("list", "-n", "3").err == ""


def test_list_of_all_scopes_names_the_scope(cli: Cli) -> None:
    cli.add("job", "--scope", "north")
    cli.add("job", "--scope", "south")
    assert cli.ids("list") == []
    assert {task["scope"] for task in cli.json("list", "--any-scope")} == {"north", "south"}
    said = cli.ok("list", "--any-scope")
    assert "north" in said
    assert "south" in said


def test_unknown_status_names_the_known_ones(cli: Cli) -> None:
    for word in ("nonsense", "ready,nonsense", ""):
        assert "escalated" in cli.refuses(2, "INVALID_INPUT", "list", "--status", word).message


def test_ready_lists_only_claimable_tasks(cli: Cli) -> None:
    cli.add("open")
    cli.add("gpu", "--requires", "gpu")
    cli.add("bobs", "--assign", "bob")
    assert cli.ids("ready") == ["open"]
    assert cli.ids("ready", "--can", "gpu") == ["gpu", "open"]
    assert cli.ids("ready", "--agent", "bob") == ["bobs", "open"]
    assert cli.ids("ready", "-n", "1", "--can", "gpu") == ["gpu"]


def test_ready_changes_nothing(project: Cli) -> None:
    before = project.snapshot()
    assert project.ids("ready") == ["expired", "ready"]
    assert project.snapshot() == before


def test_next_matches_the_following_claim(cli: Cli) -> None:
    cli.add("second", "-p", "3")
    cli.add("first", "-p", "1", "-d", "What to do.")
    said = cli.ok("next")
    assert said.startswith("first  first\n")
    assert "What to do." in said
    assert cli.json("next")["id"] == "first"
    assert cli.json("claim")["task"]["id"] == "first"


def test_next_without_a_ready_task_is_no_error(cli: Cli) -> None:
    ran = cli("next")
    assert ran.status == 0
    assert ran.out == ""
    assert cli.json("next") is None


def test_show_accepts_the_beginning_of_an_id(cli: Cli) -> None:
    cli.add("parser-lexer")
    cli.add("printer")
    assert cli.task("pa")["id"] == "parser-lexer"
    told = cli.refuses(3, "AMBIGUOUS_ID", "show", "p")
    assert "parser-lexer" in told.message
    assert "printer" in told.message


def test_whole_id_wins_over_a_longer_one(cli: Cli) -> None:
    cli.add("par")
    cli.add("parser")
    assert cli.task("par")["id"] == "par"


def test_wildcards_in_an_id_are_literal(cli: Cli) -> None:
    cli.add("job")
    for wild in ("%", "_", "*", "j_b", "j%"):
        cli.refuses(3, "NOT_FOUND", "show", wild)


def test_show_lists_links_subtasks_and_history(cli: Cli) -> None:
    cli.add("before")
    cli.add("whole", "--blocked-by", "before")
    cli.add("after", "--blocked-by", "whole")
    cli.add("part", "--parent", "whole")
    said = cli.ok("show", "whole")
    lines = {line.strip().partition("  ")[0]: line.split()[-1] for line in said.splitlines() if line.strip()}
    assert lines["blocked by"] == "before"
    assert lines["blocks"] == "after"
    assert "part" in said
    assert "add" in said
    assert cli.task("whole")["children"] == ["part"]


def test_show_prints_the_action_of_a_blocked_task(project: Cli) -> None:
    said = project.ok("show", "blocked")
    assert "no key" in said
    assert "buy one" in said
    assert "2026-01-02" in said


def test_log_prints_who_did_what_and_when(cli: Cli) -> None:
    cli.add("job", "--agent", "ann")
    cli.ok("claim", "job", "--agent", "bob", "--run", "r1")
    head, added, claimed = cli.ok("log").splitlines()
    assert _words(head)[:5] == ["WHEN", "(UTC)", "WHAT", "TASK", "WHO"]
    assert "2026-01-01 12:00:00" in added
    assert _words(added)[2:5] == ["add", "job", "ann"]
    assert _words(claimed)[2:] == ["claim", "job", "bob", "ready", "→", "active"]
    events = cli.json("log")
    assert [event["verb"] for event in events] == ["add", "claim"]
    assert events[1]["run"] == "r1"
    assert events[0]["at"] == "2026-01-01T12:00:00Z"


def test_log_filters_by_task_and_time(cli: Cli) -> None:
    cli.add("one")
    cli.add("two")
    cli.ok("edit", "one", "--title", "Uno")
    assert [event["verb"] for event in cli.json("log", "on")] == ["add", "edit"]
    first, second, third = (event["seq"] for event in cli.json("log"))
    assert [event["seq"] for event in cli.json("log", "--after", str(first))] == [second, third]
    assert [event["seq"] for event in cli.json("log", "-n", "1")] == [third]
    assert [event["seq"] for event in cli.json("log", "--after", str(first), "-n", "1")] == [second]
    assert cli.json("log", "--after", str(third)) == []


def test_log_filters_by_agent_and_age(cli: Cli, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_PAGE", 2)  # so that older pages are read
    cli.add("old", "--agent", "ann")
    clock.advance(hours=2)
    for name in ("a", "b", "c", "d", "e"):
        cli.add(name, "--agent", "bob")
    cli.ok("edit", "a", "--title", "A", "--agent", "ann")
    tasks = [event["task"] for event in cli.json("log", "--since", "1h")]
    assert tasks == ["a", "b", "c", "d", "e", "a"]
    assert [event["task"] for event in cli.json("log", "--by", "ann")] == ["old", "a"]
    assert [event["task"] for event in cli.json("log", "--by", "ann", "--since", "1h")] == ["a"]
    assert [event["task"] for event in cli.json("log", "--since", "1h", "-n", "2")] == ["e", "a"]
    assert cli.json("log", "--by", "eve") == []
    after = cli.json("log")[2]["seq"]
    assert [event["task"] for event in cli.json("log", "--by", "bob", "--after", str(after))] == ["c", "d", "e"]


def test_log_includes_refused_attempts(cli: Cli) -> None:
    cli.add("job")
    cli.ok("claim", "job", "--agent", "bob")
    assert cli("claim", "job", "--agent", "eve").status == 4
    assert "claim refused" in cli.ok("log").splitlines()[-1]
    assert cli.json("log")[-1]["agent"] == "eve"


def test_log_keeps_events_of_a_pruned_task(cli: Cli, clock: Clock) -> None:
    cli.add("job")
    cli.ok("cancel", "job")
    clock.advance(days=10)
    assert cli.json("prune", "--tasks", "1d")["tasks"] == 1
    assert [event["verb"] for event in cli.json("log", "job")] == ["add", "cancel"]


def test_stats_count_every_kind(project: Cli) -> None:
    stats = project.json("stats")
    assert stats["by_status"] == {
        "backlog": 1,
        "ready": 3,
        "active": 2,
        "blocked": 1,
        "paused": 1,
        "review": 1,
        "escalated": 1,
        "done": 1,
        "canceled": 1,
    }
    assert (stats["claimable"], stats["waiting"], stats["expired"]) == (2, 1, 1)
    said = dict(line.split() for line in project.ok("stats").splitlines()[1:])
    assert said["claimable"] == "2"
    assert said["active"] == "2"


def test_stale_lists_unattended_tasks_with_reasons(project: Cli, clock: Clock) -> None:
    assert {task["id"]: task["why"] for task in project.json("stale")} == {"expired": "the lease of eve has expired"}
    clock.advance(hours=13)
    assert {"expired", "blocked", "active"} <= {task["id"] for task in project.json("stale")}
    clock.advance(days=2)
    why = {task["id"]: task["why"] for task in project.json("stale")}
    assert why.keys() == {"expired", "blocked", "active", "paused", "review", "escalated"}
    assert "check" in why["blocked"]
    assert "untouched" in why["paused"]
    said = project.ok("stale")
    assert _words(said.splitlines()[0]) == ["ID", "STATUS", "TITLE", "WHY"]
    assert project.ids("stale", "--older", "30d") == ["active", "blocked", "expired"]


@pytest.mark.parametrize("words", [("list",), ("ready",), ("stale",), ("log",)])
def test_empty_project_shows_no_empty_table(words: tuple[str, ...], cli: Cli) -> None:
    ran = cli(*words)
    assert ran.status == 0
    assert ran.out == ""
    assert cli.json(*words) == []


def test_time_option_takes_a_span_from_now(cli: Cli) -> None:
    cli.add("parser", "--not-before", "2h")
    assert "parser  later" in cli.ok("list")
    cli.ok("edit", "parser", "--not-before", "2025-01-01")
    assert cli.ids("ready") == ["parser"]
    assert "2h" in cli.refuses(2, "INVALID_INPUT", "edit", "parser", "--not-before", "soon").message


def test_empty_list_is_reported_on_stderr(cli: Cli) -> None:
    answer = cli("list")
    assert (answer.status, answer.out) == (0, "")
    assert "No tasks match. 'dibs add TITLE' adds one" in answer.err
    assert cli("list", "--status", "ready").err == ""  # a script may test for an empty list


def test_status_counts_waiting_tasks_apart(cli: Cli) -> None:
    cli.add("parser")
    cli.add("tests", "--blocked-by", "parser")
    assert "1 ready, 1 waiting" in cli.ok("status")


def test_missing_argument_is_answered_with_the_command(cli: Cli) -> None:
    assert cli.refuses(2, "INVALID_INPUT", "assign", "parser").message.endswith("Type: dibs assign ID AGENT")


def test_export_to_a_known_suffix_names_the_format(cli: Cli) -> None:
    cli.add("parser")
    told = cli.refuses(2, "INVALID_INPUT", "export", "tasks.csv").message
    assert told.endswith("Type: dibs export --to csv tasks.csv")
    assert not (cli.folder / "tasks.csv").exists()


def test_file_of_another_encoding_is_refused_with_its_line(cli: Cli) -> None:
    (cli.folder / "latin.csv").write_bytes("id,title\n1,café\n".encode("latin-1"))
    assert "(line 2, byte 14)" in cli.refuses(2, "INVALID_INPUT", "import", "--from", "csv", "latin.csv").message
