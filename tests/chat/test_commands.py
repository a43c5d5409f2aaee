"""Commands in plain English, and texts that resemble them."""

from __future__ import annotations

import pytest

from dibs.chat.steering.commands import Command, Name, parse, recognise


@pytest.mark.parametrize(
    ("said", "name", "targets"),
    [
        ("Priority: competitors first", "priority", ("competitors",)),
        ("Do research before strategy", "before", ("research", "strategy")),
        ("Strategy needs the research", "after", ("Strategy", "research")),
        ("These are independent", "independent", ()),
        ("Focus on the thesis, pause others", "focus", ("thesis",)),
        ("What's the plan?", "plan", ()),
        ("Why is the invoice waiting?", "why", ("invoice",)),
        ("The newsletter can wait", "defer", ("newsletter",)),
        ("Cancel the flyer", "cancel", ("flyer",)),
        ("Resume", "resume", ("everything",)),
        ("Undo", "undo", ()),
        ("Notion sync", "sync", ()),
    ],
)
def test_each_form_is_understood(said: str, name: str, targets: tuple[str, ...]) -> None:
    assert parse(said) == Command(Name(name), targets)


@pytest.mark.parametrize(
    "said", ["WHAT\u2019S THE PLAN", "please, what's the plan?!", '"What\'s the plan?"', " what\u2019s  the plan "]
)
def test_case_punctuation_and_quotes_are_ignored(said: str) -> None:
    assert parse(said) == Command(Name.PLAN)


@pytest.mark.parametrize(
    "said",
    [
        "do tomorrow before noon",
        "don't sync notion yet",
        "the priority: is unclear?",
        "Should we pause the campaign?",
        "Write a resume for my sister",
        "The car needs an oil change",
        "Undo the damage from the flood",
        "Cancel my flight to Rome",
        "Undo\nthen deploy",
        "",
        "priority: " + "x " * 500,
    ],
)
def test_text_that_resembles_a_command_is_a_message(said: str) -> None:
    assert parse(said) is None


def test_doubtful_command_needs_existing_tasks() -> None:
    assert recognise("Cancel my podcast", lambda _: False) is None
    assert recognise("Cancel my podcast", lambda _: True) == Command(Name.CANCEL, ("my podcast",), sure=False)


def test_certain_reading_precedes_a_doubtful_one() -> None:
    found = recognise("The plumber needs the tyres first", lambda _: True)
    assert found is not None
    assert (found.name, found.sure) == (Name.AFTER, True)
