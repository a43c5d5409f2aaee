"""Markdown-KV survives any content: values are read back, and none can look like a key or a task."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dibs.core.errors import InvalidInput
from dibs.protocols.ralph.markdown import Section, escaped, json_line, parse_kv, render, unescaped

NASTY = [
    "## Task x",
    "\n## Task x\nid: x\nstatus: done",
    "- dash",
    "-",
    "a|b | c",
    "back\\slash \\n \\x41",
    "CR\rLF\r\n",
    "\u2028line\u2029separators\x85\x0b\x0c\x1c",
    " leading and trailing ",
    "\ttab\t",
    "\u00a0no-break\u00a0",
    "\u202eturned around\u202c",
    "\ufeffmark",
    "\x1b[31mred",
    "👩‍👩‍👧 日本語 ﷽",
    "key: value",
    "blocker_results:",
    "`code` **bold** <b>",
    "null",
    ": ",
]
TEXT = st.one_of(st.sampled_from(NASTY), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00")))
FULL = TEXT.filter(bool)
ID = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=9).filter(lambda text: text[0] != "-")
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXT, inner, max_size=3)),
    max_leaves=6,
)
PRIORITY = st.one_of(st.integers(-5, 5), st.floats(-1e9, 1e9).filter(lambda number: not number.is_integer()))
SECTION = st.builds(
    Section,
    id=ID,
    title=FULL,
    description=TEXT,
    priority=PRIORITY,
    status=st.sampled_from(["open", "active", "done", "deleted"]),
    category=st.none() | FULL,
    spec=st.none() | FULL,
    ref=st.none() | FULL,
    assignee=st.none() | FULL,
    lease_expires_at=st.none() | st.just("2026-01-01T12:00:00.5Z"),
    retry_count=st.integers(0, 9),
    deps=st.lists(ID, max_size=3).map(tuple),
    steps=st.lists(TEXT, max_size=3).map(tuple),
    blocker_results=st.lists(st.tuples(ID, JSON), max_size=3).map(tuple),
    reason=st.none() | FULL,
    result=JSON,
)


@given(st.lists(SECTION, max_size=4))
@example([Section("a,b", "t", deps=("x,y", "z:", ":"), blocker_results=(("c:", {"a: b": None}),), steps=("", " "))])
@example([Section("a", "t", description=text, steps=(text, text), result=text) for text in NASTY])
def test_rendered_text_is_read_back(sections: list[Section]) -> None:
    assert parse_kv(render(sections)) == sections


@given(st.lists(SECTION, max_size=2))
def test_it_also_survives_a_terminal_that_knows_ascii_only(sections: list[Section]) -> None:
    printed = render(sections, ascii_only=True).encode("ascii", errors="backslashreplace").decode()
    assert parse_kv(printed) == sections


@given(SECTION)
def test_no_content_adds_a_line(section: Section) -> None:
    text = render([section])
    lists = len(section.steps) + len(section.blocker_results)
    given = [key for key, value in zip(section._fields, section, strict=True) if value not in (None, "", ())]
    # An empty result is printed too; only None is left out.
    given += ["result"] if section.result is not None and "result" not in given else []
    assert text.count("\n") == len(given) + lists
    assert len(text.splitlines()) == text.count("\n") + 1
    assert sum(line.startswith("## Task ") for line in text.split("\n")) == 1


@given(TEXT)
def test_an_escaped_text_is_one_trimmed_line_without_a_bare_pipe(text: str) -> None:
    line = escaped(text)
    assert unescaped(line) == text
    assert line == line.strip()
    assert line.splitlines() in ([], [line])
    assert "|" not in line.replace("\\|", "")


@given(JSON)
def test_json_stays_json(value: object) -> None:
    line = json_line(value)  # type: ignore[arg-type]  # the strategy generates Json
    assert json.loads(line) == value
    assert line.splitlines() == [line]
    assert "|" not in line


def test_plain_text_is_unchanged() -> None:
    text = "Read it: 日本語, café — “quoted”, 100% [x](y) #1"
    assert escaped(text) == text


def test_the_order_of_the_keys_is_fixed() -> None:
    full = Section("i", "t", "d", 1, "open", "c", "s", "r", "a", "2026", 1, ("x",), ("y",), (("x", 1),))
    assert render([full]).split("\n") == [
        "## Task i",
        "id: i",
        "title: t",
        "description: d",
        "priority: 1",
        "status: open",
        "category: c",
        "spec: s",
        "ref: r",
        "assignee: a",
        "lease_expires_at: 2026",
        "retry_count: 1",
        "deps: x",
        "steps:",
        "- y",
        "blocker_results:",
        "- x: 1",
    ]


def test_only_null_and_empty_values_are_left_out() -> None:
    assert render([Section("i", "t", priority=0)]).split("\n") == [
        "## Task i",
        "id: i",
        "title: t",
        "priority: 0",
        "status: open",
        "retry_count: 0",
    ]


def test_one_empty_line_separates_tasks() -> None:
    text = render([Section("a", "t"), Section("b", "t")])
    assert text.count("\n\n") == 1
    assert not text.endswith("\n")
    assert render([]) == ""


@pytest.mark.parametrize(
    "text",
    [
        "id: a",
        "- item",
        "## Task a\nid: b\ntitle: t",
        "## Task a\nid: a\ntitle: t\nid: a",
        "## Task a\ntitle: t\nid: a",
        "## Task a\nid: a\ntitle: t\nnobody: knows",
        "## Task a\nid: a\ntitle: t\nheading: a",
        "## Task a\nheading: a\nid: a\ntitle: t",
        "## Task a\nnobody: knows\nid: a\ntitle: t",
        "## Task a\nid: a\ntitle: t\npriority: high",
        "## Task a\nid: a\ntitle: t\nretry_count: 1.5",
        "## Task a\nid: a\ntitle: t\n- loose",
        "## Task a\nid: a\ntitle: t\\q",
        "## Task a\nid: a\ntitle: \\Uffffffff",
        "## Task a\nid: a\ntitle: t\nblocker_results:\n- a",
        "## Task a\nid: a\ntitle: t\nblocker_results:\n- a: {",
        "## Task a\nid: a\ntitle: t\nno key at all",
        "## Task a\nid: a",
        "## Task a",
    ],
)
def test_what_could_not_have_been_rendered_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_kv(text)


def test_line_ends_of_another_system_do_no_harm() -> None:
    sections = [Section("a", "t", steps=("x\r",)), Section("b", "t")]
    assert parse_kv(render(sections).replace("\n", "\r\n") + "\r\n") == sections
