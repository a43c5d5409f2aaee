"""list, show, deps and the JSON of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.lifecycle import Verb

if TYPE_CHECKING:
    from support.ralph import Ralph


@pytest.fixture
def busy(ralph: Ralph) -> Ralph:
    """One task of each kind."""
    ralph.create("open", p=1)
    ralph.create("blocked", deps="open", c="feat")
    ralph.create("active", "done", "deleted")
    ralph.claim("active", agent="bob")
    ralph.finish("done", '{"n": 1}')
    ralph.ok("delete", "deleted")
    return ralph


def listed(ralph: Ralph, *words: str) -> list[str]:
    return ralph("list", "--markdown", *words).ids


def test_list_prints_a_table_of_all_that_is_not_deleted(busy: Ralph) -> None:
    lines = [line.split() for line in busy.ok("list").splitlines()]
    assert lines[0] == ["ID", "STATUS", "PRI", "CATEGORY", "TITLE", "ASSIGNEE"]
    assert lines[1:] == [
        ["open", "open", "1", "Task", "open"],
        ["blocked", "blocked", "2", "feat", "Task", "blocked"],
        ["active", "active", "2", "Task", "active", "bob"],
        ["done", "done", "2", "Task", "done", "ann"],
    ]


def test_list_of_nothing_prints_nothing(ralph: Ralph) -> None:
    assert ralph("list") == (0, "", "")
    assert ralph("list", "--markdown") == (0, "", "")
    assert ralph("list", "--json") == (0, "[]\n", "")


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("--all",), ["open", "blocked", "active", "done", "deleted"]),
        (("--status", "open"), ["open", "blocked"]),
        (("--status", "blocked"), ["blocked"]),
        (("--status", "active,done"), ["active", "done"]),
        (("--status", " DELETED , active "), ["active", "deleted"]),
        (("--status", "paused"), []),
        (("--assignee", "bob"), ["active"]),
        (("--assignee", "ann"), ["done"]),
        (("--assignee", "ann", "--status", "active"), []),
        (("--assignee", "nobody"), []),
    ],
)
def test_list_shows_what_is_asked_for(busy: Ralph, words: tuple[str, ...], ids: list[str]) -> None:
    assert listed(busy, *words) == ids


def test_list_as_markdown_has_the_dependencies(busy: Ralph) -> None:
    by_id = {task.id: task for task in busy("list", "--markdown").tasks}
    assert by_id["blocked"].deps == ("open",)
    assert by_id["blocked"].status == "open"
    assert by_id["open"].deps == ()


def test_show_prints_one_task_with_its_reason_and_result(busy: Ralph) -> None:
    (done,) = busy("show", "done").tasks
    assert (done.status, done.assignee, done.result) == ("done", "ann", {"n": 1})
    busy.claim("open")
    busy.ok("fail", "open", "--reason", "broke\nit", agent="ann")
    (failed,) = busy("show", "open").tasks
    assert (failed.retry_count, failed.reason) == (1, "broke\nit")


def test_show_with_deps_has_the_blockers_results_and_the_blockers(ralph: Ralph) -> None:
    ralph.create("one", "two", "three")
    ralph.create("a", deps="one,two,three")
    ralph.finish("one", '"here"')
    ralph.ok("delete", "two")
    shown = ralph("show", "a", "--with-deps").tasks
    assert [task.id for task in shown] == ["a", "one", "three", "two"]
    assert shown[0].blocker_results == (("one", "here"),)
    assert ralph("show", "a").tasks[0].blocker_results == ()


@pytest.mark.parametrize("verb", ["show", "deps"])
def test_looking_at_an_unknown_task_exits_with_2(ralph: Ralph, verb: str) -> None:
    ralph.create("abc")
    for name in ("nowhere", "ab"):
        ran = ralph(verb, name)
        assert (ran.status, ran.out) == (2, "")
        assert name in ran.err


def test_ids_are_taken_in_full_everywhere(ralph: Ralph) -> None:
    ralph.create("t-10")
    commands = ("claim", "renew", "done", "fail", "show", "deps", "delete")
    for words in (
        *((name, "t-1") for name in commands),
        ("update", "t-1", "--title", "x"),
        ("block", "t-10", "--by", "t-1"),
    ):
        assert ralph(*words, agent="ann").status == 2, words
    assert ralph.tasks() == {"t-10": "open"}


def test_deps_prints_a_tree_and_unfolds_nothing_twice(ralph: Ralph) -> None:
    ralph.create("a")
    ralph.create("b", deps="a")
    ralph.create("c", deps="b")
    ralph.create("d", deps="b,c")
    ralph.finish("a")
    assert ralph.ok("deps", "d").splitlines() == [
        "d  blocked  Task d",
        "  b  open  Task b",
        "    a  done  Task a",
        "  c  blocked  Task c",
        "    b  open  Task b  (see above)",
    ]


def test_deps_of_a_wide_and_deep_graph_stay_short(ralph: Ralph) -> None:
    """Every task of a layer depends on every task of the layer before: there are 4⁸ paths."""
    plan = [
        {"id": f"{layer}-{number}", "t": "T", "deps": [f"{layer - 1}-{before}" for before in range(4)] if layer else []}
        for layer in range(8)
        for number in range(4)
    ]
    ralph.sync(*plan)
    assert len(ralph.ok("deps", "7-0").splitlines()) < 200
    assert len(ralph("deps", "7-0", "--json").data) == 29


def test_everything_that_can_be_read_can_be_read_as_json(busy: Ralph) -> None:
    assert [task["id"] for task in busy("peek", "--json").data] == ["open", "active"]
    assert [task["id"] for task in busy("list", "--json").data] == ["open", "blocked", "active", "done"]
    shown = busy("show", "done", "--json").data
    assert (shown["id"], shown["result"], shown["assignee"], shown["deps"]) == ("done", {"n": 1}, "ann", [])
    assert busy("deps", "blocked", "--json").data == [
        {"id": "blocked", "title": "Task blocked", "status": "blocked", "deps": ["open"]},
        {"id": "open", "title": "Task open", "status": "open", "deps": []},
    ]
    claimed = busy("claim", "--json", agent="ann").data
    assert (claimed["id"], claimed["attempt"], claimed["status"]) == ("open", 1, "active")
    assert list(claimed) == [*shown, "attempt", "token"]


def test_changes_by_people_in_the_same_store_are_shown(ralph: Ralph) -> None:
    ralph.create("paused", "blocked", "reviewed", "escalated")
    ralph.natively(Verb.PAUSE, "paused", reason="holiday")
    ralph.natively(Verb.BLOCK, "blocked", reason="no key")
    ralph.natively(Verb.ESCALATE, "escalated")
    with ralph.desk() as desk:
        (claimed,) = desk.claim("ann", refs=["reviewed"])
        assert claimed.task.lease is not None
        desk.move(Verb.REVIEW, "reviewed", token=claimed.task.lease.token)
    words = {line.split()[0]: line.split()[1] for line in ralph.ok("list").splitlines()[1:]}
    assert words == {"paused": "paused", "blocked": "blocked", "reviewed": "review", "escalated": "escalated"}
    assert listed(ralph, "--status", "review,blocked") == ["blocked", "reviewed"]
    assert ralph("peek") == (0, "", "")
    assert "paused (holiday)" in ralph("claim", "paused", agent="ann").err
