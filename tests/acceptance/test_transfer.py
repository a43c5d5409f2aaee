"""export, import, prune: a whole store out, in, and kept small."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from dibs.desk import Desk
from dibs.stores.opening import open_store
from support.cli import snapshot

if TYPE_CHECKING:
    from support.cli import Cli, Clock


@pytest.fixture
def full(cli: Cli) -> Cli:
    """A project with everything that an export has to include."""
    cli.add("whole", "-d", "Ünïcödé 🎉\nsecond line", "--extra", '{"deep": [1, {"a": null}]}')
    cli.add("first", "-c", "backend", "-s", "one", "--class", "expedite", "-p", "0.25")
    cli.add("second", "--blocked-by", "first", "--parent", "whole", "--requires", "gpu", "--max-retries", "3")
    cli.add("third", "--feeds-from", "first", "--not-before", "2027-01-01", "--spec", "s", "--ref", "r")
    cli.add("first", "--scope", "other")
    cli.ok("link", "third", "--parallel-with", "second")
    cli.ok("done", "first", "--token", cli.claim("first", "--agent", "bob", "--run", "r1"), "--result", '{"a": 1}')
    cli.ok("claim", "second", "--can", "gpu", "--agent", "carl", "--lease", "5m")
    cli.ok("claim", "first", "--scope", "other", "--human")
    cli.ok("block", "third", "--reason", "no key", "--action", "buy", "--check-at", "2026-02-01")
    cli.ok("pause", "whole", "--reason", "lunch")
    return cli


def _lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def _moved(cli: Cli, *options: str) -> str:
    """Export, import into a new store, export again; return the second export."""
    cli.ok("export", "moved.jsonl", *options)
    cli.ok("init", "--store", "fresh.db")
    cli.ok("import", "moved.jsonl", "--store", "fresh.db")
    return cli.ok("export", "--store", "fresh.db", *options)


def test_an_export_is_json_lines_of_tasks_links_and_events(full: Cli) -> None:
    lines = _lines(full.ok("export"))
    kinds = [line["kind"] for line in lines]
    assert kinds == sorted(kinds, key=["task", "link", "event"].index)
    assert kinds.count("task") == 5
    assert kinds.count("link") == 3
    assert kinds.count("event") > 10


def test_an_export_into_a_file_is_the_same(full: Cli) -> None:
    full.ok("export", "out.jsonl")
    assert (full.folder / "out.jsonl").read_text(encoding="utf-8") == full.ok("export")


def _configured(cli: Cli) -> None:
    with Desk(open_store(f"sqlite:///{cli.folder}/.dibs/dibs.db"), scope="ann") as desk:
        desk.configure({"interval": 60, "nested": {"a": [None, 1.5]}})


def test_settings_are_exported_and_imported(full: Cli) -> None:
    _configured(full)
    settings = [line for line in _lines(_moved(full)) if line["kind"] == "setting"]
    assert settings == [
        {"kind": "setting", "scope": "ann", "name": "interval", "value": 60},
        {"kind": "setting", "scope": "ann", "name": "nested", "value": {"a": [None, 1.5]}},
    ]
    told = json.loads(full.ok("export", "counted.jsonl", "--json"))["data"]
    assert told["settings"] == 2
    assert ", 2 settings, " in full.ok("export", "again.jsonl")


def test_import_of_existing_settings_is_refused(full: Cli) -> None:
    _configured(full)
    setting = {"kind": "setting", "scope": "ann", "name": "interval", "value": 60}
    lines = [_TASK | {"id": "new"}, setting]
    told = full.refuses(6, "ALREADY_EXISTS", "import", full.file("twice.jsonl", "\n".join(map(json.dumps, lines))))
    assert "'interval'" in told.message


def test_empty_store_can_be_exported(cli: Cli) -> None:
    assert cli.ok("export", "empty.jsonl") == "exported an empty store to empty.jsonl\n"


def test_export_refuses_to_overwrite_a_file(full: Cli) -> None:
    full.file("precious.txt", "mine")
    assert "precious.txt" in full.refuses(2, "INVALID_INPUT", "export", "precious.txt").message
    assert (full.folder / "precious.txt").read_text() == "mine"


def test_export_import_export_gives_the_same_lines(full: Cli) -> None:
    before = full.ok("export").splitlines()
    after = [line for line in _moved(full).splitlines() if '"verb":"import"' not in line]
    assert after == before


def test_moved_store_is_sound(full: Cli) -> None:
    _moved(full)
    assert full.json("doctor", "--deep", "--store", "fresh.db")["findings"] == []
    assert full.json("stats", "--store", "fresh.db") == full.json("stats")
    assert full.ok("graph", "--store", "fresh.db") == full.ok("graph")


def test_import_reports_counts_and_is_logged(full: Cli) -> None:
    full.ok("export", "moved.jsonl")
    full.ok("init", "--store", "fresh.db")
    assert full.ok("import", "moved.jsonl", "--store", "fresh.db", "--agent", "zoe") == "imported 5 tasks\n"
    events = full.json("log", "--store", "fresh.db")
    assert [(event["agent"], event["detail"]["tasks"]) for event in events if event["verb"] == "import"] == [("zoe", 5)]


def test_an_import_from_stdin_in_json(full: Cli) -> None:
    text = full.ok("export")
    full.ok("init", "--store", "fresh.db")
    assert full.json("import", "-", "--store", "fresh.db", stdin=text) == {"tasks": 5}


def test_export_has_no_token_unless_asked(cli: Cli) -> None:
    cli.add("held")
    cli.add("finished")
    held, spent = cli.claim("held"), cli.claim("finished")
    cli.ok("done", "finished", "--token", spent)
    plain, secret = cli.ok("export"), cli.ok("export", "--secrets")
    assert held not in plain
    assert spent not in plain
    assert held in secret
    assert spent in secret


def test_store_with_secrets_moves_during_work(cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    _moved(cli, "--secrets")
    assert cli.ok("done", "job", "--token", token, "--store", "fresh.db") == "done job\n"


def test_lease_without_its_secret_can_only_expire(cli: Cli, clock: Clock) -> None:
    cli.add("job")
    token = cli.claim("job", "--lease", "5m")
    _moved(cli)
    assert cli("done", "job", "--token", token, "--store", "fresh.db").status == 5
    assert cli("claim", "job", "--store", "fresh.db").status == 4
    clock.advance(minutes=5)
    assert cli.json("claim", "job", "--store", "fresh.db")["task"]["attempt"] == 2


def test_second_import_is_refused(full: Cli) -> None:
    full.ok("export", "moved.jsonl")
    told = full.refuses(6, "ALREADY_EXISTS", "import", "moved.jsonl")
    assert "whole" in told.message


def test_empty_export_imports_nothing(cli: Cli) -> None:
    assert cli.json("import", cli.file("empty.jsonl", "\n\n")) == {"tasks": 0}


def test_one_invalid_line_imports_nothing(full: Cli) -> None:
    lines = full.ok("export").splitlines()
    middle = len(lines) // 2
    lines[middle] = lines[middle][:-5]
    full.file("broken.jsonl", "\n".join(lines))
    full.ok("init", "--store", "fresh.db")
    ran = full("import", "broken.jsonl", "--store", "fresh.db", "--json")
    assert ran.status == 2
    assert f"line {middle + 1}" in ran.error.message
    assert snapshot(full.folder / "fresh.db") == ([], [], [])


def test_link_to_a_missing_task_imports_nothing(full: Cli) -> None:
    lines = [line for line in full.ok("export").splitlines() if '"id":"first","title"' not in line]
    full.file("broken.jsonl", "\n".join(lines))
    full.ok("init", "--store", "fresh.db")
    ran = full("import", "broken.jsonl", "--store", "fresh.db", "--json")
    assert ran.status in {2, 3}
    assert "first" in ran.error.message
    assert snapshot(full.folder / "fresh.db") == ([], [], [])


_TIMES = {"created_at": "2026-01-01", "updated_at": "2026-01-01", "queued_at": "2026-01-01"}
_TASK = {"kind": "task", "scope": "default", "id": "z", "title": "t", **_TIMES}
_LEASE = {"agent": "a", "attempt": 1, "holder": "agent", "claimed_at": "2026-01-01", "expires_at": "2026-01-02"}
_ACTIVE = {"status": "active", "attempt": 1}
_GARBAGE: dict[str, object] = {
    "a list": [],
    "null": None,
    "a number": 5,
    "no kind": {},
    "an unknown kind": {"kind": "board"},
    "an empty task": {"kind": "task"},
    "an unknown field": _TASK | {"bogus": 1},
    "text for a list": _TASK | {"steps": "x"},
    "text for a number": _TASK | {"priority": "x"},
    "true for a number": _TASK | {"priority": True},
    "an unknown status": _TASK | {"status": "doing"},
    "no such time": _TASK | {"created_at": "yesterday"},
    "a time beyond the calendar": _TASK | {"created_at": "9999-12-31T23:59:59-10:00"},
    "a time before the calendar": _TASK | {"not_before": "0001-01-01T00:00:00+10:00"},
    "an empty title": _TASK | {"title": " "},
    "an escape in a title": _TASK | {"title": "\x1b[31mred"},
    "a NUL": _TASK | {"description": "a\0b"},
    "half a character": _TASK | {"description": "\ud800"},
    "a spaced id": _TASK | {"id": "a b"},
    "no title": _TASK | {"title": None},
    "no id": _TASK | {"id": None},
    "no scope": _TASK | {"scope": None},
    "no status": _TASK | {"status": None},
    "no priority": _TASK | {"priority": None},
    "no creation": _TASK | {"created_at": None},
    "an enormous priority": _TASK | {"priority": 10**400},
    "active without a lease": _TASK | _ACTIVE,
    "a lease without activity": _TASK | {"lease": _LEASE},
    "done without an end": _TASK | {"status": "done"},
    "a lease of nobody": _TASK | _ACTIVE | {"lease": _LEASE | {"agent": None}},
    "a lease of another attempt": _TASK | {"status": "active", "attempt": 0, "lease": _LEASE | {"attempt": 7}},
    "half a lease": _TASK | _ACTIVE | {"lease": {"agent": "a"}},
    "a negative attempt": _TASK | {"attempt": -3},
    "a parent that is not there": _TASK | {"parent": "ghost"},
    "a link to itself": {"kind": "link", "scope": "default", "link": {"task": "a", "on": "a"}},
    "a link of no kind": {"kind": "link", "scope": "default", "link": {"task": "a", "on": "b", "kind": "x"}},
    "a setting of nowhere": {"kind": "setting", "name": "a", "value": 1},
    "a setting of a blank scope": {"kind": "setting", "scope": " ", "name": "a", "value": 1},
    "a setting without a name": {"kind": "setting", "scope": "default", "value": 1},
    "a setting with a blank name": {"kind": "setting", "scope": "default", "name": " ", "value": 1},
    "a setting without a value": {"kind": "setting", "scope": "default", "name": "a"},
    "a setting that is null": {"kind": "setting", "scope": "default", "name": "a", "value": None},
    "a setting with more": {"kind": "setting", "scope": "default", "name": "a", "value": 1, "by": "ann"},
    "an event without a verb": {"kind": "event", "at": "2026-01-01", "scope": "default", "task": "a"},
}


@pytest.mark.parametrize("garbage", _GARBAGE.values(), ids=_GARBAGE)
def test_garbage_is_not_imported(garbage: object, cli: Cli) -> None:
    cli.add("there")
    good = json.dumps(_TASK | {"id": "good"})
    told = cli.refuses(2, "INVALID_INPUT", "import", cli.file("garbage.jsonl", f"{good}\n{json.dumps(garbage)}\n"))
    if garbage != _GARBAGE["a parent that is not there"]:
        assert "line 2" in told.message


@pytest.mark.parametrize("raw", [b"PK\x03\x04 binary \xff", b"not json\n", b'{"kind":"task"', b"[" * 100_000])
def test_file_that_is_no_export_is_refused(raw: bytes, cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "import", cli.file("garbage.jsonl", raw))


def test_cycle_is_not_imported(cli: Cli) -> None:
    links = [{"kind": "link", "scope": "default", "link": {"task": a, "on": b}} for a, b in ("ab", "ba")]
    lines = [_TASK | {"id": "a"}, _TASK | {"id": "b"}, *links]
    cli.refuses(6, "CYCLE", "import", cli.file("cycle.jsonl", "\n".join(map(json.dumps, lines))))


def test_backup_replaces_the_whole_store(cli: Cli) -> None:
    cli.add("old")
    assert cli.json("backup", "whole.jsonl")["tasks"] == 1
    cli.add("added-since")
    assert cli.json("restore", "whole.jsonl") == {"tasks": 1, "generation": 2}
    assert [task["id"] for task in cli.json("list")] == ["old"]
    cli.refuses(3, "NOT_FOUND", "show", "added-since")


def test_backup_goes_into_a_new_file(cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "backup", "-")
    cli.ok("backup", "whole.jsonl")
    cli.refuses(2, "INVALID_INPUT", "backup", "whole.jsonl")


def test_store_in_use_that_cannot_be_replaced_is_reported(cli: Cli) -> None:
    cli.ok("backup", "whole.jsonl")
    cli.ok("init", "--store", "vault:///vault")
    told = cli.refuses(7, "UNSUPPORTED", "restore", "whole.jsonl", "--store", "vault:///vault").message
    assert f"git -C {cli.folder}/vault restore --source COMMIT --worktree -- ." in told


def test_prune_deletes_old_finished_tasks(cli: Cli, clock: Clock) -> None:
    cli.add("old")
    cli.ok("cancel", "old")
    cli.add("needed")
    cli.ok("done", "needed", "--token", cli.claim("needed"))
    cli.add("open", "--blocked-by", "needed")
    clock.advance(days=100)
    cli.add("new")
    cli.ok("cancel", "new")
    assert cli.ok("prune", "--tasks", "90d") == "dropped 0 events and 1 tasks\n"
    assert set(cli.ids("list", "--all")) == {"needed", "open", "new"}
    pruned = cli.json("prune", "--events", "90d")
    assert pruned["tasks"] == 0
    assert pruned["events"] > 0
    assert all(event["at"] > "2026-04" for event in cli.json("log"))


def test_prune_keeps_recent_tasks(cli: Cli) -> None:
    cli.add("job")
    cli.ok("cancel", "job")
    before = cli.snapshot()
    assert cli.json("prune", "--events", "1s", "--tasks", "1s") == {"events": 0, "tasks": 0}
    assert cli.snapshot() == before


def test_prune_deletes_everything_up_to_now(cli: Cli, clock: Clock) -> None:
    """Zero is a span like any other, not a missing option."""
    cli.add("job")
    cli.ok("cancel", "job")
    clock.advance(seconds=1)
    assert cli.json("prune", "--tasks", "0s")["tasks"] == 1
    assert cli.json("prune", "--events", "0s")["events"] > 0


def test_prune_needs_an_option(cli: Cli) -> None:
    assert "--events" in cli.refuses(2, "INVALID_INPUT", "prune").message


@pytest.mark.parametrize("option", ["--events", "--tasks"])
@pytest.mark.parametrize("age", ["-1d", "old", "", "99999999999999999w"])
def test_absurd_age_is_refused(option: str, age: str, cli: Cli) -> None:
    cli.add("job")
    cli.refuses(2, "INVALID_INPUT", "prune", f"{option}={age}")


@pytest.mark.parametrize("option", ["--events", "--tasks"])
def test_age_before_the_calendar_matches_nothing(option: str, cli: Cli) -> None:
    cli.add("job")
    before = cli.snapshot()
    assert cli("prune", option, "999999999d").status in {0, 2}
    assert cli.snapshot() == before
