"""Wordings that people really use: what they report, announce and tie together."""

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


def test_how_things_are_goes_with_what_is_asked_for_next() -> None:
    found = analysed("the boiler has packed in", "get someone out to fix it", "call Anna")
    assert [(task.title, task.messages) for task in found.tasks] == [
        ("Get someone out to fix it (the boiler has packed in)", (2, 1)),
        ("Call Anna", (3,)),
    ]
    assert "the boiler has packed in" in found.tasks[0].text


def test_how_things_are_is_a_task_where_nothing_follows_from_it() -> None:
    assert titles(analysed("the boiler has packed in")) == ["The boiler has packed in"]
    assert titles(analysed("the boiler has packed in", "Paint the fence")) == [
        "The boiler has packed in",
        "Paint the fence",
    ]


@pytest.mark.parametrize(
    "said", ["Three things please.", "a few bits for today:", "need the following on Hartley:", "ta"]
)
def test_what_only_announces_is_no_task(said: str) -> None:
    found = analysed(said, "Book the hall")
    assert titles(found) == ["Book the hall"]
    assert found.idle == (1,)


def test_what_follows_from_how_it_is_is_what_is_asked_for() -> None:
    assert titles(analysed("The guests are coming at six, so book a taxi")) == ["Book a taxi"]
    found = analysed(
        "The carpet goes down only when the walls are painted, so arrange the carpet fitters", "Paint the walls"
    )
    assert [(link.task, link.on) for link in found.links if link.detected_by == "explicit"] == [("t1", "t2")]


def test_what_is_made_by_one_is_what_the_next_is_about() -> None:
    found = analysed("Collect water from the pond", "Filter it the same day")
    assert [(link.task, link.on, link.kind, link.detected_by) for link in found.links] == [
        ("t2", "t1", "blocks", "inferred")
    ]


def test_turning_on_and_turning_off_are_two() -> None:
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
def test_wording_that_ties_is_understood_however_it_is_put(second: str, kind: str) -> None:
    found = analysed("Interview the witnesses", second)
    assert [(link.task, link.on, link.kind) for link in found.links if link.detected_by == "explicit"] == [
        ("t2", "t1", kind)
    ]


@pytest.mark.parametrize(
    "bit", ["a", "a ", "a-", "the a b c is ", "with the ", "it's ", "from what you ", "can't go until "]
)
def test_a_long_message_that_says_nothing_is_read_in_no_time(bit: str) -> None:
    started = time.process_time()
    analysed((bit * 20_000)[:20_000])
    assert time.process_time() - started < 2


def test_a_polite_question_is_a_request_and_a_real_one_stays_a_question() -> None:
    assert titles(analysed("Could you please draft the contract?")) == ["Draft the contract"]
    assert titles(analysed("Which landlords take cats?")) == ["Which landlords take cats?"]
