"""A changed embedder, and an unavailable one, lose no message and no task."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dibs.chat.analyst.external_embedders import Endpoint
from dibs.chat.analyst.services import Service
from dibs.chat.analyst.word_analyst import WordAnalyst
from dibs.chat.conversation.reader import Reader
from dibs.core.task import Draft
from dibs.desk import Desk
from support.chat import ANN, analyst, embedder
from support.openai_server import Asked, Told, endpoint

if TYPE_CHECKING:
    from support.chat import Scene


def letters(asked: Asked) -> Told:
    """A simple embedder: the frequency of each letter."""
    rows = [
        {"index": at, "embedding": [text.lower().count(chr(97 + number % 26)) + 0.01 for number in range(384)]}
        for at, text in enumerate(asked.body["input"])
    ]
    return Told({"data": rows})


def reader(scene: Scene, url: str) -> Reader:
    service = Service(
        "The embedding endpoint", f"{url}/embeddings", "k", key_name="K", timeout=120, rest=lambda _: None
    )
    other = Endpoint("letters", service)
    return Reader(Desk(scene.store), WordAnalyst(other), other)


def test_new_embedder_embeds_open_tasks_once(quick: Scene) -> None:
    quick.hear("Paint the fence", "Call the plumber")
    quick.read(now=True)
    assert quick.scopes().tasks.settings()["chat_embedder"] == embedder().name
    with endpoint(letters) as server:
        quick.hear("Order a lamp")
        reader(quick, server.url).read(ANN, now=True)
        asked = [len(each.body["input"]) for each in server.asked]
        quick.hear("Water the roses")
        reader(quick, server.url).read(ANN, now=True)
        assert asked == [2, 1], "the two that were there, then what was said"
        assert [len(each.body["input"]) for each in server.asked[2:]] == [1]
    desk = quick.scopes().tasks
    assert desk.settings()["chat_embedder"] == "openai:letters"
    for vector in desk.vectors().values():
        assert len(set(vector)) > 1
        assert vector[0] == vector[26], "every one of them is of the new kind"
        assert math.isclose(math.hypot(*vector), 1, abs_tol=1e-5)


def test_silent_embedder_delays_nothing_and_keeps_vectors(quick: Scene) -> None:
    with endpoint(letters) as server:
        quick.hear("Paint the fence")
        reader(quick, server.url).read(ANN, now=True)
        quick.hear("Once the fence is painted, plant the roses")
        server.answers = [lambda _: Told({}, 401)]
        outcome = reader(quick, server.url).read(ANN, now=True)
    assert outcome is not None
    assert [task.title for task in outcome.tasks] == ["Once the fence is painted, plant the roses"]
    assert len(outcome.links) == 1
    assert outcome.notes == (
        (
            "The embedding endpoint cannot be used: it rejected the key; check K (HTTP status 401). "
            "The built-in analyst was used instead."
        ),
    )
    desk = quick.scopes().tasks
    assert desk.settings()["chat_embedder"] == "openai:letters"
    assert list(desk.vectors()) == [task.id for task in quick.tasks().values() if task.title == "Paint the fence"]


def test_longer_stored_vectors_do_not_prevent_reading(quick: Scene) -> None:
    task = quick.scopes("b" * 64).tasks
    task.add([Draft("something", id="x")])
    task.keep_vectors({"x": [1.0] * 768})
    quick.hear("Paint the fence")
    outcome = Reader(Desk(quick.store), analyst(), embedder()).read(ANN, now=True)
    assert outcome is not None
    assert [each.title for each in outcome.tasks] == ["Paint the fence"]
