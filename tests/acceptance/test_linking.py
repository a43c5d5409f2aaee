"""link, unlink, graph: dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

if TYPE_CHECKING:
    from support.cli import Cli


@pytest.fixture
def trio(cli: Cli) -> Cli:
    for name in ("one", "two", "three"):
        cli.add(name)
    return cli


def _edges(cli: Cli) -> set[tuple[str, str, str]]:
    return {(link["task"], link["kind"], link["on"]) for link in cli.json("graph")["links"]}


def test_blocked_by_and_blocks_make_the_same_link(trio: Cli) -> None:
    assert trio.ok("link", "two", "--blocked-by", "one") == "two waits for one\n"
    assert trio.ok("link", "two", "--blocks", "three") == "three waits for two\n"
    assert _edges(trio) == {("two", "blocks", "one"), ("three", "blocks", "two")}
    assert trio.ids("ready") == ["one"]


def test_every_kind_of_link_in_one_command(trio: Cli) -> None:
    made = trio.json("link", "two", "--feeds-from", "one", "--parallel-with", "three")
    assert made == [
        {"task": "two", "on": "one", "kind": "feeds_into", "detected_by": "explicit"},
        {"task": "three", "on": "two", "kind": "parallel_ok", "detected_by": "explicit"},
    ]
    assert trio.ids("ready") == ["one", "three", "two"]


def test_several_links_are_made_or_none(trio: Cli) -> None:
    trio.refuses(3, "NOT_FOUND", "link", "two", "--blocked-by", "one", "--blocked-by", "ghost")
    trio.ok("link", "one", "--blocked-by", "two")
    trio.refuses(6, "CYCLE", "link", "two", "--blocked-by", "three", "--blocked-by", "one")


def test_existing_link_changes_nothing(trio: Cli) -> None:
    trio.ok("link", "two", "--blocked-by", "one")
    assert trio.ok("link", "two", "--blocked-by", "one") == "nothing new\n"
    assert trio.json("link", "two", "--feeds-from", "one") == []


def test_ids_may_be_shortened_at_both_ends(trio: Cli) -> None:
    assert trio.ok("link", "th", "--blocked-by", "on") == "three waits for one\n"
    assert trio.ok("unlink", "th", "--blocked-by", "on") == "no longer: three waits for one\n"


def test_a_cycle_is_refused_and_named(trio: Cli) -> None:
    trio.ok("link", "two", "--blocked-by", "one")
    trio.ok("link", "three", "--feeds-from", "two")
    told = trio.refuses(6, "CYCLE", "link", "one", "--blocked-by", "three")
    assert "one → three → two → one" in told.message


def test_task_cannot_depend_on_itself(trio: Cli) -> None:
    ran = trio("link", "one", "--blocked-by", "one", "--json")
    assert ran.status in {2, 6}
    assert "one" in ran.error.message
    assert _edges(trio) == set()


def test_link_and_unlink_need_an_option(trio: Cli) -> None:
    for verb in ("link", "unlink"):
        assert "--blocked-by" in trio.refuses(2, "INVALID_INPUT", verb, "one").message


def test_unlink_lets_a_task_go_ahead(trio: Cli) -> None:
    trio.ok("link", "two", "--blocked-by", "one", "--blocks", "three")
    gone = trio.json("unlink", "two", "--blocked-by", "one")
    assert gone == [{"task": "two", "on": "one", "kind": "blocks", "detected_by": "explicit"}]
    assert trio.ids("ready") == ["one", "two"]
    assert trio.ok("unlink", "two", "--blocks", "three") == "no longer: three waits for two\n"


def test_unlink_of_a_missing_link_points_to_show(trio: Cli) -> None:
    trio.ok("link", "two", "--blocked-by", "one")
    told = trio.refuses(3, "NOT_FOUND", "unlink", "two", "--blocks", "one")
    assert "dibs show" in told.message


def test_unlink_removes_all_links_or_none(trio: Cli) -> None:
    trio.ok("link", "two", "--blocked-by", "one")
    trio.refuses(3, "NOT_FOUND", "unlink", "two", "--blocked-by", "one", "--blocked-by", "three")


def test_unlink_removes_only_the_named_kind(trio: Cli) -> None:
    """Removing a `parallel ok` remark must not unblock the task."""
    trio.ok("link", "two", "--blocked-by", "one")
    trio.refuses(3, "NOT_FOUND", "unlink", "two", "--parallel-with", "one")
    trio.refuses(3, "NOT_FOUND", "unlink", "two", "--feeds-from", "one")


@pytest.fixture
def drawn(trio: Cli) -> Cli:
    """A small graph with titles that every format must escape."""
    trio.ok("edit", "one", "--title", 'Quotes " <b> & [x] | ; end')
    trio.ok("edit", "two", "--title", "絵文字 🎉")
    trio.ok("link", "two", "--blocked-by", "one", "--parallel-with", "three")
    trio.ok("link", "three", "--feeds-from", "one")
    trio.ok("add", "A part", "--id", "part", "--parent", "three")
    trio.ok("done", "one", "--token", trio.claim("one"))
    return trio


def test_graph_as_text_shows_phases(drawn: Cli) -> None:
    said = drawn.ok("graph")
    assert said.index("Phase 1") < said.index("one") < said.index("Phase 2") < said.index("two")
    assert "絵文字 🎉" in said
    assert said == drawn.ok("graph", "--format", "text")


def test_graph_as_mermaid(drawn: Cli) -> None:
    said = drawn.ok("graph", "--format", "mermaid")
    assert said.startswith("flowchart ")
    assert "-->" in said
    assert "-.->" in said
    assert '"Quotes "' not in said


def test_graph_as_dot_is_balanced(drawn: Cli) -> None:
    said = drawn.ok("graph", "--format", "dot")
    assert said.startswith("digraph ")
    assert said.rstrip().endswith("}")
    assert said.count("->") == 4
    unescaped = said.replace("\\\\", "").replace('\\"', "")
    assert unescaped.count('"') % 2 == 0


def test_graph_as_svg_is_well_formed(drawn: Cli) -> None:
    root = ET.fromstring(drawn.ok("graph", "--format", "svg"))  # noqa: S314 - made by ourselves
    assert root.tag.endswith("svg")
    assert "絵文字" in "".join(root.itertext())
    assert "script" not in {element.tag.rpartition("}")[2] for element in root.iter()}


def test_graph_in_json_is_tasks_and_links(drawn: Cli) -> None:
    graph = drawn.json("graph")
    assert {task["id"] for task in graph["tasks"]} == {"one", "two", "three", "part"}
    assert len(graph["links"]) == 3


def test_graph_of_open_tasks(drawn: Cli) -> None:
    assert {task["id"] for task in drawn.json("graph", "--open")["tasks"]} == {"two", "three", "part"}
    assert "Quotes" not in drawn.ok("graph", "--open")


@pytest.mark.parametrize("style", ["text", "mermaid", "dot", "svg"])
def test_graph_goes_into_a_file(style: str, drawn: Cli) -> None:
    said = drawn.ok("graph", "--format", style)
    assert drawn.ok("graph", "--format", style, "-o", "graph.out") == ""
    assert (drawn.folder / "graph.out").read_text(encoding="utf-8") == said


def test_graph_in_json_goes_into_a_file_too(drawn: Cli) -> None:
    """A named file is written in every format."""
    drawn.ok("graph", "--json", "-o", "graph.json")
    assert (drawn.folder / "graph.json").exists()


@pytest.mark.parametrize("style", ["text", "mermaid", "dot", "svg"])
def test_graph_of_an_empty_project_is_still_a_graph(style: str, cli: Cli) -> None:
    assert cli.ok("graph", "--format", style).endswith("\n")
    assert cli.json("graph") == {"tasks": [], "links": []}


def test_graph_that_cannot_be_written_is_reported(drawn: Cli) -> None:
    ran = drawn("graph", "-o", "no/such/file")
    assert ran.status == 7
    assert "no/such/file" in ran.err
    assert ran.out == ""


def test_unknown_format_names_the_known_ones(drawn: Cli) -> None:
    assert "mermaid" in drawn.refuses(2, "INVALID_INPUT", "graph", "--format", "png").message
