"""What an export for another tool holds comes back from it as it was, whatever is written in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.core import checks
from dibs.core.events import Event
from dibs.core.graph import Graph
from dibs.core.task import Actor, Link, LinkKind, Status, Task
from dibs.exchange import read
from dibs.exchange.documents import File
from dibs.exchange.items import Notes, settle
from dibs.exchange.writers import write_csv, write_github, write_markdown

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WRITERS = {"csv": write_csv, "markdown": write_markdown, "github": write_github}
# What each has no place for, beside leases, events and the like, which come back as nothing.
EVERYWHERE = {
    "scope",
    "origin",
    "updated_at",
    "started_at",
    "queued_at",
    "finished_by",
    "result",
    "extra",
    "deliverable",
    "steps",
}
WITHOUT = {
    "csv": {"scope", "origin", "queued_at", "extra"},
    "markdown": EVERYWHERE | {"not_before"},
    "github": EVERYWHERE | {"not_before", "reason", "assigned_to", "updated_at"},
}

_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\r"), max_size=60)
_LINE = _TEXT.map(lambda text: checks.headline(text or "x")).filter(lambda line: line == line.strip())
_WORDS = st.sampled_from(
    [
        "- [ ] box",
        "# heading",
        "=1+1",
        "'=x",
        "#tag",
        "a #12",
        "```",
        "--> <!-- dibs {} -->",
        "@a",
        "-1",
        "a,b;c",
        '"',
        "> x",
    ]
)
_TITLE = st.one_of(_LINE, _WORDS)
_BODY = st.lists(st.one_of(_LINE, _WORDS, st.just(""), st.just("    indented")), max_size=5).map(
    lambda lines: "\n".join(lines).strip()
)
_LABEL = st.text("abc-é1", min_size=1, max_size=5)
_STATUS = st.sampled_from(
    [Status.READY, Status.BACKLOG, Status.REVIEW, Status.BLOCKED, Status.PAUSED, Status.DONE, Status.CANCELED]
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    names = draw(
        st.lists(st.text("abcdé-_.9", min_size=1, max_size=6).filter(lambda n: n[0] != "-"), unique=True, max_size=5)
    )
    tasks = []
    for place, id_ in enumerate(names):
        status = draw(_STATUS)
        finished = status in {Status.DONE, Status.CANCELED}
        created = NOW - timedelta(days=9, seconds=place)
        aside = status in {Status.BLOCKED, Status.PAUSED}
        tasks.append(
            Task(
                "default", id_, draw(_TITLE), created, created, created,
                description=draw(_BODY), status=status, reason=draw(_LINE) if aside else None,
                paused_from=Status.READY if status is Status.PAUSED else None,
                priority=draw(st.integers(0, 4)), finished_at=NOW if finished else None,
                category=draw(st.none() | _LABEL), labels=tuple(sorted(draw(st.sets(_LABEL, max_size=2)))),
                spec_ref=draw(st.none() | _LABEL),
                parent=draw(st.none() | st.sampled_from(names[:place])) if place else None,
            )
        )  # fmt: skip
    kinds = st.sampled_from([None, LinkKind.BLOCKS])
    # From earlier to later as parts go from later to earlier: nothing waits for what it is a part of.
    links = [
        Link(first, on, kind) for place, first in enumerate(names) for on in names[place + 1 :] if (kind := draw(kinds))
    ]
    return Graph(tuple(tasks), tuple(links))


def again(tool: str, text: str) -> Graph:
    settled = settle(read(tool, [File("f", text)], Notes(tool)), tool, "default", {}, NOW, Actor("ann"))
    items = [record.item for record in settled.records]
    return Graph(
        tuple(item for item in items if isinstance(item, Task)), tuple(item for item in items if isinstance(item, Link))
    )


@pytest.mark.parametrize("tool", WRITERS)
@given(graph=graphs())
@settings(max_examples=25, deadline=None)
def test_tasks_and_links_come_back(tool: str, graph: Graph) -> None:
    found = again(tool, WRITERS[tool](graph, {}))
    assert told(tool, found) == told(tool, graph)
    assert {(link.task, link.on) for link in found.links} == {(link.task, link.on) for link in graph.links}


def told(tool: str, graph: Graph) -> dict[str, dict[str, Any]]:
    """What this format can say of each task. A reason that was made up here says no more than its status."""
    kept = set(Task._fields) - WITHOUT[tool]
    return {task.id: {name: value for name, value in task._asdict().items() if name in kept} for task in graph.tasks}


@pytest.mark.parametrize("tool", ["markdown", "github"])
def test_comments_come_back(tool: str) -> None:
    task = Task("default", "a", "A", NOW, NOW, NOW, description="text")
    said = [Event(NOW, "default", "a", "comment", agent="bob", reason="looks --> fine")]
    text = WRITERS[tool](Graph((task,), ()), {"a": said})
    items = settle(read(tool, [File("f", text)], Notes(tool)), tool, "default", {}, NOW, Actor()).records
    events = [record.item for record in items if isinstance(record.item, Event)]
    assert [(event.verb, event.agent, event.reason, event.at) for event in events if event.verb == "comment"] == [
        ("comment", "bob", "looks --> fine", NOW)
    ]
    found = next(record.item for record in items if isinstance(record.item, Task))
    assert found.description == "text"


def test_a_spreadsheet_gets_no_formula() -> None:
    task = Task("default", "a", '=HYPERLINK("x")', NOW, NOW, NOW, description="+1", labels=("@x",))
    cells = write_csv(Graph((task,), ()), {}).splitlines()[1]
    assert "\"'=HYPERLINK" in cells
    assert ",'@x," in cells
    assert ",'+1," in cells
