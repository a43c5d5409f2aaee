"""Real wordings of reports, announcements and links."""

from __future__ import annotations

import time

import pytest

from dibs.chat.analyst.analysis import Analysis, Message
from dibs.chat.analyst.embedders import Builtin
from dibs.chat.analyst.word_analyst import WordAnalyst


def analysed(*texts: str) -> Analysis:
    return WordAnalyst(Builtin()).analyse([Message(number, text) for number, text in enumerate(texts, 1)])


def titles(found: Analysis) -> list[str]:
    return [task.title for task in found.tasks]


def test_statement_joins_the_following_request() -> None:
    found = analysed("the boiler has packed in", "get someone out to fix it", "call Anna")
    assert [(task.title, task.messages) for task in found.tasks] == [
        ("Get someone out to fix it (the boiler has packed in)", (2, 1)),
        ("Call Anna", (3,)),
    ]
    assert "the boiler has packed in" in found.tasks[0].text


def test_report_alone_makes_no_task() -> None:
    """Reports are almost never meant as work; see docs/decisions/0032-message-acts.md."""
    assert titles(analysed("the boiler has packed in")) == []
    assert titles(analysed("the boiler has packed in", "Paint the fence")) == ["Paint the fence"]


@pytest.mark.parametrize(
    "said", ["Three things please.", "a few bits for today:", "need the following on Hartley:", "ta"]
)
def test_announcement_is_not_a_task(said: str) -> None:
    found = analysed(said, "Book the hall")
    assert titles(found) == ["Book the hall"]
    assert found.idle == (1,)


def test_request_implied_by_a_statement_is_found() -> None:
    assert titles(analysed("The guests are coming at six, so book a taxi")) == ["Book a taxi"]
    found = analysed(
        "The carpet goes down only when the walls are painted, so arrange the carpet fitters", "Paint the walls"
    )
    assert [(link.task, link.on) for link in found.links if link.detected_by == "explicit"] == [("t1", "t2")]


def test_object_of_one_task_is_subject_of_the_next() -> None:
    found = analysed("Collect water from the pond", "Filter it the same day")
    assert [(link.task, link.on, link.kind, link.detected_by) for link in found.links] == [
        ("t2", "t1", "blocks", "inferred")
    ]


def test_turning_on_and_turning_off_are_two_tasks() -> None:
    assert analysed("Turn on caching for images", "Turn off caching for images").merges == ()


@pytest.mark.parametrize(
    ("second", "kind"),
    [
        ("Draft the letter off the back of that", "feeds_into"),
        ("Draft the letter accordingly", "feeds_into"),
        ("Draft the letter from what the witnesses said", "feeds_into"),
        ("Tailor the letter to what the witnesses said", "feeds_into"),
        ("With the witnesses interviewed, draft the letter", "blocks"),
        ("Draft the letter, provided the witnesses have been interviewed", "blocks"),
        ("Only draft the letter when the witnesses have been interviewed", "blocks"),
        ("Draft the letter, but we need the interviews first", "blocks"),
        ("If so, draft the letter", "blocks"),
        ("Separately from the witnesses, draft the letter", "parallel_ok"),
        ("While that's going on, draft the letter", "parallel_ok"),
    ],
)
def test_linking_wording_is_understood_in_all_forms(second: str, kind: str) -> None:
    found = analysed("Interview the witnesses", second)
    assert [(link.task, link.on, link.kind) for link in found.links if link.detected_by == "explicit"] == [
        ("t2", "t1", kind)
    ]


@pytest.mark.parametrize(
    "bit", ["a", "a ", "a-", "the a b c is ", "with the ", "it's ", "from what you ", "can't go until "]
)
def test_long_repetitive_message_is_read_quickly(bit: str) -> None:
    started = time.process_time()
    analysed((bit * 20_000)[:20_000])
    assert time.process_time() - started < 2


def test_polite_question_is_a_request() -> None:
    assert titles(analysed("Could you please draft the contract?")) == ["Draft the contract"]
    assert titles(analysed("Which landlords take cats?")) == ["Which landlords take cats?"]
