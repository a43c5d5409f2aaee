"""Text from people: messages, commands, times, spans and addresses; and answers of a language model."""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from dibs.chat.analyst import requests
from dibs.chat.analyst.analysis import Message
from dibs.chat.analyst.model_analyst import model_links, model_tasks
from dibs.chat.analyst.services import InvalidAnswer
from dibs.chat.steering import commands
from dibs.core.errors import DibsError, InvalidInput
from dibs.core.times import in_words, parse_duration, time_from, time_text
from dibs.stores.neo4j.database import target_of as neo4j_target
from dibs.stores.opening import open_store
from dibs.stores.postgres.connection import target_of as postgres_target
from fuzz.outside import JSON, answered, bounded, disturbed, survived, texts

if TYPE_CHECKING:
    from collections.abc import Callable

SAID = texts(
    "Do the research before the strategy", "Priority: competitors first", "Focus on the thesis, pause others",
    "Please write the report, then send it to Ann; and cancel the flyer", "Why is the invoice waiting?", "Undo",
)  # fmt: skip


@bounded
@given(SAID)
def test_a_message_is_understood_or_is_no_command(text: str) -> None:
    found = answered(commands.parse, text)
    assert found is None or all(target.strip() for target in found.targets)
    answered(lambda said: commands.recognise(said, lambda _: True), text)
    answered(requests.read, text)


@bounded
@given(texts("1h30m", "20m", "1.5h", "90s", "2d", "1w"))
def test_span_is_refused_or_survives_a_round_trip(text: str) -> None:
    span = answered(parse_duration, text)
    if span is not None:
        assert span.total_seconds() >= 0
        answered(parse_duration, in_words(span))


@bounded
@given(texts("2026-01-31T12:00:00Z", "2026-01-31", "2026-01-31T12:00:00.123456+02:00", "0001-01-01T00:00:00+14:00"))
def test_time_is_refused_or_survives_a_round_trip(text: str) -> None:
    moment = answered(time_from, text)
    if moment is not None:
        assert moment.tzinfo is UTC
        assert time_from(time_text(moment)) == moment


URLS = texts(
    "postgresql://ann:s3cret@host:5432/db?sslmode=require", "neo4j+s://ann:s3cret@host:7687/db", "bolt://[::1]:7687",
    "postgresql://%00@/", "nowhere://x", "postgresql://ann:s3cret%zz@host/db",
)  # fmt: skip


@bounded
@given(URLS)
def test_url_is_read_or_refused_without_its_password(url: str) -> None:
    for read in (postgres_target, neo4j_target):
        try:
            answered(read, url)
            read(url)
        except DibsError as error:
            assert "s3cret" not in error.message  # noqa: PT017 - to be read is as good


@pytest.mark.parametrize(
    ("read", "url"),
    [(postgres_target, "postgresql://ann:s3cret@host/db"), (neo4j_target, "neo4j://ann:s3cret@host:7687")],
    ids=["postgresql", "neo4j"],
)
def test_an_address_that_was_read_shows_no_password(read: Callable[[str], object], url: str) -> None:
    assert "s3cret" not in repr(read(url))


@bounded
@given(URLS)
def test_a_store_of_an_unknown_kind_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput):
        open_store("x://" + url)


MESSAGES = {"m1": Message("m1", "Sweep the floor, then lock the door")}
ANSWER: dict[str, Any] = {
    "tasks": [{"ref": "t1", "title": "Sweep the floor", "messages": ["m1"], "deliverable": "testing"},
              {"ref": "t2", "title": "Lock the door", "messages": ["m1"]}],
    "relations": [{"from": "t1", "to": "t2", "kind": "blocks", "because": "then"}],
    "idle": [],
}  # fmt: skip


@bounded
@given(disturbed(ANSWER) | JSON)
def test_model_answer_is_checked_or_refused(answer: Any) -> None:
    said = answer if isinstance(answer, dict) else {"tasks": answer, "relations": answer}
    answered(_checked, said)


def _checked(answer: dict[str, Any]) -> object:
    try:
        found = model_tasks(answer, MESSAGES, ["Open the door"])
        return model_links(answer, {one.ref: one.ref for one in found.tasks}, {}, "then")
    except InvalidAnswer:
        return None


@pytest.mark.parametrize(
    "bomb", ["before " * 5_000, "do a, " * 5_000, "(" * 10_000, " " * 100_000, "a" * 100_000, "then and " * 5_000]
)
def test_a_message_that_is_made_to_cost_much_is_read_cheaply(bomb: str) -> None:
    survived(commands.parse, bomb)
    survived(parse_duration, bomb)
    survived(time_from, bomb)
