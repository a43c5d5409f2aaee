"""The text of files: people's lines keep every byte, and any YAML reader understands ours."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Edit, Link, LinkKind
from dibs.stores.vault.page import MARKER, FrontMatter, Page, decoded, encoded

from .folder import SCOPE, add, claim, hold, move

if TYPE_CHECKING:
    from dibs.core.task import Json

    from .folder import Folder

BY_HAND = """---
# What is this about?
task_id:   mail-7   # from the old system
"priority": 'high'
tags:
  - roof   # leaking
  - house

aliases: [Roof, "The roof"]
note: >
  Folded over
  two lines
action: email_send
---
# The roof

Call *them*.\t

    code
"""
THEIR_LINES = BY_HAND.split("---\n")[1]
THEIR_TEXT = BY_HAND.split("---\n")[2]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_text_by_people_stays_byte_for_byte(folder: Folder, newline: str, mark: str) -> None:
    text = mark + BY_HAND.replace("\n", newline)
    folder.put("Needs_Action/roof.md", text)
    with folder.open() as store:
        for verb in (Verb.RELEASE, Verb.BLOCK, Verb.REVIEW, Verb.DONE):
            move(store, verb, "roof", hold(store), reason="so: far", result={"n": [1, "é"]})
            now = folder.read(folder.only("roof"))
            assert now.startswith(f"{mark}---{newline}" + THEIR_LINES.replace("\n", newline))
            assert THEIR_TEXT.replace("\n", newline) in now
            for back in {Verb.BLOCK: [Verb.UNBLOCK], Verb.REVIEW: [Verb.REWORK]}.get(verb, []):
                move(store, back, "roof")
        task = store.get(SCOPE, "roof")
    assert task.title == "The roof"
    assert task.priority == 1
    assert task.extra["tags"] == ["roof", "house"]
    assert task.extra["aliases"] == ["Roof", "The roof"]
    assert task.extra["action"] == "email_send"


def test_only_the_line_that_changes_is_changed(folder: Folder) -> None:
    folder.put("Needs_Action/roof.md", BY_HAND)
    with folder.open() as store:
        store.amend(SCOPE, "roof", Edit(priority=3), Actor())
    now = folder.read("Needs_Action/roof.md")
    kept = [line for line in BY_HAND.splitlines() if "priority" not in line]
    assert [line for line in now.splitlines() if line in kept] == kept
    assert "priority: low\n" in now


def test_front_matter_is_added_above_the_text(folder: Folder) -> None:
    folder.put("Needs_Action/a.md", "Just text, and no line end")
    with folder.open() as store:
        hold(store)
    assert folder.read("In_Progress/ann/a.md").startswith("---\n")
    assert f"\n---\n\nJust text, and no line end\n{MARKER}\n" in folder.read("In_Progress/ann/a.md")


def test_claim_and_end_are_noted_as_the_contract_says(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a", description="Do it.")
        token = hold(store)
        folder.clock.advance(seconds=90)
        move(store, Verb.DONE, "a", token)
    assert folder.read("Done/a.md").partition(f"{MARKER}\n")[2] == (
        "# Claimed Task: a\n\n"
        "**Claimed By**: ann\n**Claimed At**: 2026-01-01T12:00:00Z\n**Status**: processing\n\n"
        "## Progress\n\n<!-- Agent adds progress notes here -->\n\n"
        "## Completion\n\n**Completed At**: 2026-01-01T12:01:30Z\n**Duration**: 90\n**Result**: success\n"
        "**Next State**: Done\n"
    )


def test_front_matter_rewritten_by_an_editor_means_the_same(folder: Folder) -> None:
    """Editors that show properties as a form write the whole block as YAML of their own."""
    with folder.open() as store:
        add(store, "b", "c")
        given = {"k": ["v", 1, None, 2.5], "plain": "yes", "number": "007"}
        due = store.now() + timedelta(hours=1)
        add(store, "a", steps=("one: 1", "two"), extra=given, not_before=due, ref="#7", requires=("x",))
        weighed = Link("a", "c", LinkKind.FEEDS_INTO, 0.5, "semantic", 0.25)
        store.link(SCOPE, [Link("a", "b"), weighed], Actor())
        before = store.get(SCOPE, "a")
        _, block, text = folder.read("Needs_Action/a.md").split("---\n", 2)
        loaded = yaml.load(block, _Plain)  # noqa: S506 - a safe loader
        rewritten = yaml.dump(loaded, allow_unicode=True, default_flow_style=False)
        assert rewritten != block
        folder.put("Needs_Action/a.md", f"---\n{rewritten}---\n{text}")
        assert store.get(SCOPE, "a") == before
        assert sorted(store.links(SCOPE, "a")) == sorted([Link("a", "b"), weighed])


class _Plain(yaml.SafeLoader):
    """YAML whose times stay text, as editors treat them."""


_Plain.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in found if not tag.endswith("timestamp")]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
jsons: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=10,
)


@given(value=jsons)
def test_every_value_survives_a_round_trip(value: Json) -> None:
    line = f"key: {encoded(value)}\n"
    assert "\n" not in line[:-1]
    read = decoded(line)
    assert read == value
    assert json.dumps(read) == json.dumps(value)


@given(value=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40).filter(str.isprintable))
def test_printable_text_reads_the_same_in_any_yaml(value: str) -> None:
    assert yaml.load(f"key: {encoded(value)}\n", _Plain) == {"key": value}  # noqa: S506 - a safe loader


@given(lines=st.lists(st.sampled_from(["a: 1\n", "# c\n", "\n", "b:\n", "  - x\n", "weird\n", "a: 2\n", "'q': z\n"])))
def test_a_front_matter_comes_out_as_it_went_in(lines: list[str]) -> None:
    block = "".join(lines)
    assert FrontMatter(block).text() == block


@given(text=texts, block=texts)
def test_a_page_comes_out_as_it_went_in(text: str, block: str) -> None:
    for whole in (text, f"---\n{block}\n---\n{text}", f"---\n---\n{text}\n{MARKER}\nnotes {text}"):
        try:
            page = Page(whole)
        except ValueError:
            continue
        assert page.text() == whole


def test_second_claim_keeps_the_notes_of_the_first(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        hold(store, "ann")
        folder.append("In_Progress/ann/a.md", "Ann was here.\n")
        folder.clock.advance(hours=1)
        assert claim(store, "bob")[0].task.attempt == 2
    notes = folder.read("In_Progress/bob/a.md")
    assert notes.index("**Claimed By**: ann") < notes.index("Ann was here.") < notes.index("**Claimed By**: bob")
