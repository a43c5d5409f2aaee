"""The prose check finds our habits, and leaves ordinary technical English alone."""

from __future__ import annotations

import pytest

import prose

ODD = (
    "Who waits is told.",
    "A finish writes less: what is done is in no index.",
    "Somebody has to look at it.",
    "The worker is told about the lease.",
    "The file is written anew.",
    "The row that stands in the way.",
    "Its end came of a signal.",
    "A task waits for ever.",
)
PLAIN = (
    "Finished tasks are not indexed.",
    "The worker renews its lease every 20 seconds and stops its command when the lease expires.",
    "Every later write for that attempt must present the token.",
    "List tasks by status. (default: all)",
    "Which tasks are ready? Who holds the task?",
)


@pytest.mark.parametrize("sentence", ODD)
def test_odd_sentence_counts(sentence: str) -> None:
    assert sum(prose.habits(sentence).values()) >= 1


@pytest.mark.parametrize("sentence", PLAIN)
def test_plain_sentence_does_not_count(sentence: str) -> None:
    assert sum(prose.habits(sentence).values()) == 0


def test_code_in_a_page_is_not_prose() -> None:
    assert prose.plain("Run `tell --who stands`.\n```\nsomebody\n```\n").strip() == "Run X."


def test_messages_are_sentences_of_the_code_and_no_docstrings() -> None:
    source = (
        '"""Not this docstring, of course."""\nerror(f"The task {id} is held by ann", "SELECT a FROM b", "short one")\n'
    )
    assert list(prose.messages(source)) == ["The task X is held by ann"]


def test_every_surface_has_text() -> None:
    assert [name for name, texts in prose.surfaces().items() if not any(texts)] == []
