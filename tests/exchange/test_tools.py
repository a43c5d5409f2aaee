"""What each tool's files say, and what becomes of it. Task Master and Backlog.md wrote their samples themselves."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import AlreadyExists, InvalidInput
from dibs.core.events import Event
from dibs.core.task import Actor, Link, LinkKind, Status, Task
from dibs.exchange import read
from dibs.exchange.documents import File
from dibs.exchange.items import Notes, reserved, settle

if TYPE_CHECKING:
    from dibs.exchange.items import ImportSelection

SAMPLES = Path(__file__).parent / "samples"
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)


def imported(tool: str, *names: str, states: dict[str, Status] | None = None, reserve: bool = False) -> ImportSelection:
    files = [File(name, (SAMPLES / name).read_text(encoding="utf-8")) for name in names]
    reading = read(tool, files, Notes(tool, states))
    if reserve:
        reading = reading._replace(items=reserved(reading.items))
    return settle(reading, tool, "default", {}, NOW, Actor("ann"))


def tasks(settled: ImportSelection) -> dict[str, Task]:
    return {record.item.id: record.item for record in settled.records if isinstance(record.item, Task)}


def links(settled: ImportSelection) -> set[tuple[str, str, str]]:
    found = (record.item for record in settled.records if isinstance(record.item, Link))
    return {(link.task, link.on, link.kind.value) for link in found}


def comments(settled: ImportSelection) -> list[tuple[str, str | None, str | None]]:
    events = (record.item for record in settled.records if isinstance(record.item, Event))
    return [(event.task, event.agent, event.reason) for event in events if event.verb == "comment"]


def lost(settled: ImportSelection, task: str) -> str:
    return "; ".join(loss.what for loss in settled.lost if loss.task == task)


def day(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]  # year, month, day, hour


def backlog() -> ImportSelection:
    files = [f"backlog/{path.parent.name}/{path.name}" for path in sorted((SAMPLES / "backlog").rglob("*.md"))]
    return imported("backlog-md", *files)


class TestBeads:
    def test_states(self) -> None:
        found = {name: task.status for name, task in tasks(imported("beads", "beads.jsonl")).items()}
        assert found == {
            "bd-a1": Status.DONE, "bd-e": Status.READY, "bd-e.1": Status.BLOCKED, "bd-e.2": Status.PAUSED,
            "bd-x": Status.READY,
        }  # fmt: skip

    def test_links_and_parents(self) -> None:
        found = imported("beads", "beads.jsonl")
        assert links(found) == {
            ("bd-e.1", "bd-a1", "blocks"), ("bd-e.2", "bd-e.1", "feeds_into"), ("bd-x", "bd-e.1", "blocks"),
        }  # fmt: skip
        assert [tasks(found)[name].parent for name in ("bd-e.1", "bd-e.2", "bd-x")] == ["bd-e", "bd-e", None]

    def test_fields_dates_and_comments(self) -> None:
        found = imported("beads", "beads.jsonl")
        done, child, later = (tasks(found)[name] for name in ("bd-a1", "bd-e.1", "bd-e.2"))
        assert (done.priority, done.category, done.result) == (1, "task", "agreed with ann")
        assert (done.created_at, done.finished_at) == (day(2026, 1, 2, 10), day(2026, 1, 3, 10))
        assert child.labels == ("parser", "web")
        assert "## Acceptance criteria\n\n- handles quotes" in child.description
        assert child.created_at == datetime(2026, 1, 2, 8, 0, 0, 123456, tzinfo=UTC)
        assert (later.not_before, later.ref) == (day(2027, 1, 1), "gh-9")
        assert later.extra == {"assignee": "bob", "related": ["bd-x"]}
        assert comments(found) == [("bd-a1", "ann", "looks fine")]

    def test_lost_fields_are_reported(self) -> None:
        found = imported("beads", "beads.jsonl")
        assert "bd-gone" in lost(found, "bd-e.2")
        assert "in progress" in lost(found, "bd-x")
        assert "deleted" in lost(found, "bd-t")

    def test_an_assignee_is_a_reservation_only_on_request(self) -> None:
        assert tasks(imported("beads", "beads.jsonl"))["bd-e.2"].assigned_to is None
        assert tasks(imported("beads", "beads.jsonl", reserve=True))["bd-e.2"].assigned_to == "bob"

    def test_a_list_says_the_same_as_lines(self) -> None:
        lines = (SAMPLES / "beads.jsonl").read_text(encoding="utf-8").splitlines()
        whole = read("beads", [File("list", "[\n" + ",\n".join(lines) + "\n]\n")], Notes("beads"))
        single = read("beads", [File("lines", "\n".join(lines))], Notes("beads"))
        assert [item._replace(place="") for item in whole.items] == [item._replace(place="") for item in single.items]
        assert [item.place for item in whole.items][:2] == ["line 2", "line 3"]


class TestGitHub:
    def test_issues_of_gh(self) -> None:
        found = imported("github", "gh.json")
        one, two, three, four = (tasks(found)[name] for name in "1234")
        assert [task.status for task in (one, two, three, four)] == [
            Status.READY, Status.READY, Status.DONE, Status.CANCELED,
        ]  # fmt: skip
        assert (one.priority, one.labels, one.spec_ref) == (1, ("P1", "web"), "v2")
        assert one.ref == "https://github.example/o/r/issues/1"
        assert one.extra == {"assignee": "octo", "author": "ann"}
        assert two.parent == "1"
        assert links(found) == {("2", "3", "blocks"), ("2", "4", "blocks")}
        assert comments(found) == [("1", "bob", "On it")]
        assert three.finished_at == day(2026, 1, 5, 10)

    def test_issues_of_the_rest_api(self) -> None:
        found = imported("github", "rest.json")
        crash = tasks(found)["7"]
        assert (crash.priority, crash.category) == (1, "Bug")
        assert crash.ref == "https://github.example/o/r/issues/7"
        assert tasks(found)["8"].status is Status.CANCELED
        assert links(found) == {("7", "8", "blocks")}
        assert list(tasks(found)) == ["7", "8"]
        assert lost(found, "#9") == "it is a pull request"
        assert "2 assignees" in lost(found, "7")


def test_task_master() -> None:
    found = imported("task-master", "task-master.json")
    assert {name: task.status for name, task in tasks(found).items()} == {
        "1": Status.READY, "1.1": Status.DONE, "1.2": Status.READY, "2": Status.PAUSED,
    }  # fmt: skip
    assert links(found) == {("1.2", "1.1", "blocks"), ("2", "1", "blocks")}
    assert [tasks(found)[name].parent for name in ("1.1", "1.2", "2")] == ["1", "1", None]
    assert [tasks(found)[name].priority for name in ("1", "1.2", "2")] == [1, 1, 3]
    assert tasks(found)["1"].description == "Quotes, too\n\n## Details\n\nUse the csv module"


def test_each_tag_of_task_master_is_a_scope() -> None:
    text = '{"master": {"tasks": [{"id": 1, "title": "a"}]}, "web": {"tasks": [{"id": 1, "title": "b"}]}}'
    reading = read("task-master", [File("tasks.json", text)], Notes("task-master"))
    found = settle(reading, "task-master", "mine", {}, NOW, Actor("ann"))
    assert [(record.scope, record.item.title) for record in found.records if isinstance(record.item, Task)] == [
        ("mine", "a"), ("web", "b"),
    ]  # fmt: skip


def test_backlog_md() -> None:
    found = backlog()
    first, second, done, draft = (tasks(found)[name] for name in ("TASK-1", "TASK-2", "TASK-3", "DRAFT-1"))
    assert (first.priority, first.labels, first.extra) == (1, ("parser", "web"), {"assignee": "ann"})
    assert first.created_at == datetime(2026, 11, 18, 21, 49, tzinfo=UTC)
    assert "- [ ] #1 Handles quotes" in first.description
    assert "<!--" not in first.description
    assert tasks(found)["TASK-1.1"].parent == "TASK-1"
    assert (done.status, done.result, draft.status) == (Status.DONE, "we did it", Status.BACKLOG)
    assert links(found) == {("TASK-2", "TASK-1", "blocks")}
    assert second.status is Status.READY
    assert comments(found) == [("TASK-1", None, "looks good")]


def test_linear() -> None:
    found = imported("linear-csv", "linear.csv")
    done, going, canceled, odd = (tasks(found)[f"ENG-{number}"] for number in (1, 2, 3, 4))
    assert [task.status for task in (done, going, canceled, odd)] == [
        Status.DONE, Status.READY, Status.CANCELED, Status.BACKLOG,
    ]  # fmt: skip
    assert [task.priority for task in (done, going, canceled, odd)] == [0, 2, 3, 1]
    assert done.description == 'With "quotes",\nand two lines'
    assert (done.labels, done.spec_ref, going.parent) == (("parser", "web"), "Import", "ENG-4")
    assert going.created_at == day(2026, 1, 1, 10)
    assert going.extra["due"] == "2026-03-01"
    assert links(found) == {("ENG-2", "ENG-1", "blocks")}
    assert "Waiting for QA" in lost(found, "ENG-4")


def test_a_status_of_ones_own_can_be_mapped() -> None:
    found = imported("linear-csv", "linear.csv", states={"waiting for qa": Status.REVIEW})
    assert tasks(found)["ENG-4"].status is Status.REVIEW
    assert lost(found, "ENG-4") == ""


def test_a_table_of_any_kind() -> None:
    found = imported("csv", "sheet.csv")
    wall, paint, shelf = tasks(found).values()
    assert [task.title for task in (wall, paint, shelf)] == ["Paint the wall", "Buy paint", "Hang the shelf"]
    assert (wall.priority, wall.labels, wall.extra) == (1, ("house", "wall"), {"Room": "kitchen", "assignee": "ann"})
    assert (paint.priority, shelf.status) == (0, Status.CANCELED)
    assert "Paint the wall" in lost(found, shelf.id)  # a name is no id


def test_a_checklist() -> None:
    found = imported("markdown", "todo.md")
    by_title = {task.title: task for task in tasks(found).values()}
    assert {title: task.status for title, task in by_title.items()} == {
        "Read CSV": Status.READY, "Agree on the columns": Status.DONE, "Read line breaks": Status.READY,
        "Support XLS": Status.CANCELED, "Build the form": Status.READY, "Dark mode": Status.PAUSED,
    }  # fmt: skip
    read_csv = by_title["Read CSV"]
    assert (read_csv.labels, read_csv.category) == (("parser",), "Backend")
    assert read_csv.description == "Quotes, too.\n\n```\n- [ ] not a task\n```"
    assert by_title["Agree on the columns"].parent == by_title["Read line breaks"].parent == read_csv.id
    assert lost(found, "") == "1 lines of text belong to no task"


def test_bullets_are_tasks_where_there_are_no_boxes() -> None:
    reading = read("markdown", [File("list.md", "# Todo\n- one\n- two\n  more\n")], Notes("markdown"))
    assert [(item.title, item.description) for item in reading.items] == [("one", ""), ("two", "more")]


def known(settled: ImportSelection) -> dict[str, dict[str, Task]]:
    found: dict[str, dict[str, Task]] = {}
    for record in settled.records:
        if isinstance(record.item, Task):
            found.setdefault(record.scope, {})[record.item.id] = record.item
    return found


@pytest.mark.parametrize(
    ("tool", "name"),
    [
        ("beads", "beads.jsonl"), ("github", "gh.json"), ("task-master", "task-master.json"), ("csv", "sheet.csv"),
        ("linear-csv", "linear.csv"), ("markdown", "todo.md"),
    ],
)  # fmt: skip
def test_a_second_import_adds_nothing(tool: str, name: str) -> None:
    first = imported(tool, name)
    reading = read(tool, [File(name, (SAMPLES / name).read_text(encoding="utf-8"))], Notes(tool))
    again = settle(reading, tool, "default", known(first), NOW, Actor("ann"))
    assert again.records == ()
    assert sorted(again.present) == sorted(tasks(first))


def test_task_with_the_same_id_from_elsewhere_is_no_earlier_import() -> None:
    there = {"default": {"1": Task("default", "1", "Something else", NOW, NOW, NOW)}}
    reading = read("github", [File("gh.json", (SAMPLES / "gh.json").read_text(encoding="utf-8"))], Notes("github"))
    with pytest.raises(AlreadyExists, match=r"line 2: there is another task 1 here already .*--scope NAME"):
        settle(reading, "github", "default", there, NOW, Actor("ann"))


def test_issues_of_other_repositories_differ_by_url() -> None:
    there = known(imported("github", "gh.json"))
    text = (SAMPLES / "gh.json").read_text(encoding="utf-8").replace("/o/r/", "/o/other/")
    with pytest.raises(AlreadyExists, match="another task 1"):
        settle(read("github", [File("gh.json", text)], Notes("github")), "github", "default", there, NOW, Actor())


def test_circles_are_broken_and_said() -> None:
    lines = [
        f'{{"id": "b-{n}", "title": "t", "dependencies": [{{"depends_on_id": "b-{(n + 1) % 3}"}}]}}' for n in range(3)
    ]
    lines.append('{"id": "w", "title": "whole", "dependencies": []}')
    lines.append('{"id": "w.1", "title": "part", "dependencies": [{"depends_on_id": "w"}]}')
    found = settle(read("beads", [File("f", "\n".join(lines))], Notes("beads")), "beads", "s", {}, NOW, Actor())
    assert len(links(found)) == 2
    assert tasks(found)["w.1"].parent == "w"
    assert [loss.what for loss in found.lost if "cycle" in loss.what] != []
    assert "it depends on w, which would make a cycle" in lost(found, "w.1")


HOSTILE: dict[str, tuple[str, str, str]] = {
    "no JSON": ("beads", '{"id": "a", "title": "x"}\n{"id": ', "line 2: not valid JSON"),
    "no object": ("beads", '{"id": "a", "title": "x"}\n7', "line 2: each line is an object"),
    "a key twice": ("beads", '{"id": "a", "id": "b", "title": "x"}', "line 1: .*twice"),
    "an id twice": (
        "beads",
        '{"id": "a", "title": "x"}\n\n{"id": "a", "title": "y"}',
        "line 3: 'a' is already at line 1",
    ),
    "no title": ("beads", '{"id": "a"}', "line 1: a task needs a title"),
    "no id": ("beads", '{"title": "a"}', "line 1: a task needs an id"),
    "a title that is a list": ("beads", '{"id": "a", "title": ["x"]}', "line 1: 'title' must be text, not a list"),
    "a NUL": ("beads", '{"id": "a", "title": "x", "description": "\\u0000"}', "line 1: .*NUL"),
    "half a pair": ("beads", '{"id": "a", "title": "x", "description": "\\ud800"}', "line 1: .*UTF-8"),
    "no number": ("beads", '{"id": "a", "title": "x", "priority": NaN}', "line 1: .*NaN is not JSON"),
    "a deep nest": ("beads", '{"id": "a", "title": "x", "labels": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 1"),
    "an issue without a number": (
        "github",
        '[\n{"number": 1, "title": "a"},\n{"title": "b"}\n]',
        "line 3: a task needs an id",
    ),
    "an unknown state": (
        "github",
        '[\n{"number": 1, "title": "a", "state": "ajar"}]',
        "line 2: 'state' must be open or closed",
    ),
    "labels that are a word": (
        "github",
        '[\n\n{"number": 1, "title": "a", "labels": "bug"}]',
        "line 3: 'labels' must be a list",
    ),
    "no list": ("github", '[\n{"number": 1, "title": "a"},\n7]', "line 2: each entry of the list is an object"),
    "no tasks": ("task-master", '{\n"master": {}}', "line 2: 'master' has no list of tasks"),
    "a subtask without a title": (
        "task-master",
        '{"master": {"tasks": [{"id": 1, "title": "a", "subtasks": [\n{"id": 1}]}]}}',
        "line 2: a task needs a title",
    ),
    "a scope that is ours": ("task-master", '{".x": {"tasks": [{"id": 1, "title": "a"}]}}', "internal"),
    "no header": ("csv", "\n\n", "line 1: a header"),
    "no title column": ("csv", "\nroom,owner\na,b", "line 2: .*no column for the title"),
    "too many cells": ("csv", "title,state\na,open\nb,open,more", "line 3: 3 cells, but the header has 2"),
    "an open quote": ("csv", 'title,state\n"a,open\n', "line 2: this is not CSV"),
    "an empty title": ("csv", "title,state\na,open\n,open", "line 3: a task needs a title"),
    "a box without words": ("markdown", "- [ ] a\n- [ ]\n", "line 2: a task needs a title"),
    "a broken comment of ours": ("markdown", "- [ ] a <!-- dibs {broken} -->", "line 1: .*no longer valid JSON"),
    "no front matter": ("backlog-md", "# Title", "f, line 1: .*front matter"),
    "an alias": ("backlog-md", "---\nid: &a x\ntitle: *a\n---\n", "f, line 3: YAML aliases"),
}


@pytest.mark.parametrize(("tool", "text", "said"), HOSTILE.values(), ids=HOSTILE)
def test_a_bad_file_is_refused_with_its_line(tool: str, text: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        settle(read(tool, [File("f", text)], Notes(tool)), tool, "s", {}, NOW, Actor())


def test_a_long_title_is_kept_whole_in_the_description() -> None:
    text = '{"id": "a", "title": "' + "word " * 200 + '", "description": "d"}'
    found = settle(read("beads", [File("f", text)], Notes("beads")), "beads", "s", {}, NOW, Actor())
    task = tasks(found)["a"]
    assert len(task.title) == 500
    assert task.description == ("word " * 200).strip() + "\n\nd"
    assert "was cut" in lost(found, "a")


def test_links_are_of_the_right_kinds() -> None:
    kinds: set[Any] = {kind for _, _, kind in links(imported("beads", "beads.jsonl"))}
    assert kinds <= {kind.value for kind in LinkKind}
