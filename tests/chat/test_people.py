"""The labels of the independent writers are complete, and the measures count correctly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from eval import people
from eval.measures import Counts, Miss

from dibs.chat.analyst.embedders import Builtin
from dibs.chat.steering.commands import Name

if TYPE_CHECKING:
    from dibs.core.task import Json

FOLDER = Path(people.__file__).parent / "people"
FILES = sorted(FOLDER.glob("*/*.jsonl"))
ACTS = {"request", "command", "correction", "constraint", "report", "question", "chatter", "quote"}
TYPES = {"research", "code", "analysis", "content", "strategy", "ops", "testing"}
NAMES = {*(name.value for name in Name), "edit", "done"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_labels_name_only_messages_and_tasks_of_their_burst(file: Path) -> None:
    for line in file.read_text(encoding="utf-8").splitlines():
        burst: dict[str, Any] = json.loads(line)
        count = len(burst["messages"])
        ids = [task["id"] for task in burst["tasks"]]
        names = {*ids, *(f"open:{number}" for number in range(1, len(burst["open"]) + 1))}
        assert len(set(ids)) == len(ids)
        assert len(burst["acts"]) == count > 0
        assert set().union(*burst["acts"]) <= ACTS
        assert all(task["type"] in TYPES for task in burst["tasks"])
        assert all({link["later"], link["earlier"]} <= names for link in burst["links"])
        assert all(one["name"] in NAMES and set(one["targets"]) <= names for one in burst["commands"])
        assert all(one["same_as"] in names for one in burst["merges"])
        told = [*burst["tasks"], *burst["commands"], *burst["merges"]]
        assert all(1 <= number <= count for number in [*(one["message"] for one in told), *burst["ask"]])


def test_writers_of_both_sets_differ() -> None:
    train, test = ({file.stem for file in (FOLDER / name).glob("*.jsonl")} for name in people.SETS)
    assert train
    assert test
    assert not train & test


def burst(messages: list[str], **labels: Json) -> people.Burst:
    said: dict[str, Json] = {"open": [], "tasks": [], "links": [], "commands": [], "merges": [], "ask": []}
    return people._burst("w", {"language": "en", "messages": messages, **said, **labels})


def test_right_reading_scores_in_full() -> None:
    labelled = burst(
        ["Fix the login bug on mobile", "After that, write an article about the fix", "thanks!", "Priority: the logo"],
        open=["Draw the logo"],
        acts=[["request"], ["request"], ["chatter"], ["command"]],
        tasks=[{"id": "a", "message": 1, "type": "code"}, {"id": "b", "message": 2, "type": "content"}],
        links=[{"later": "b", "earlier": "a", "kind": "blocks"}],
        commands=[{"message": 4, "name": "priority", "targets": ["open:1"]}],
    )
    found = people.scores(labelled, Builtin(), lambda _: None)
    assert [found.commands, found.links, found.number, found.types, found.chatter] == [
        Counts(1), Counts(1), Counts(1), Counts(2), Counts(2),
    ]  # fmt: skip
    assert found.changes.wrong == 0


def test_wrong_reading_is_counted_as_wrong() -> None:
    labelled = burst(
        ["thanks!", "Cancel the logo", "Write a test"],
        open=["Draw the logo", "Write the report"],
        acts=[["request"], ["command"], ["chatter"]],
        tasks=[{"id": "a", "message": 1, "type": "code"}],
        commands=[{"message": 2, "name": "cancel", "targets": ["open:2"]}],
    )
    misses: list[Miss] = []
    found = people.scores(labelled, Builtin(), misses.append)
    assert (found.commands.wrong, found.commands.missed, found.changes.wrong) == (1, 1, 1)
    assert found.chatter == Counts(1, 0, 1)
    assert {miss.what for miss in misses} == {"Cancel the logo", "Write a test"}
