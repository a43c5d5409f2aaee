"""A request repeated under its key is done once, also when the server dies in between."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import StoreBusy
from dibs.core.task import Draft, Edit
from dibs.desk import open_desk
from dibs.serve.api.tasks import add_once
from dibs.serve.idempotency import IdempotentAnswers, idempotency_key
from dibs.serve.problems import WrongKey
from support.http import Server, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator

DYING = [sys.executable, str(Path(__file__).with_name("dying_server.py"))]
KEY = {"Idempotency-Key": "6d5b1a52-0c0e-4b0f-9a59-3b6f2a3c4d5e"}


class Desk:
    """A store, with one server that lives and others that die of their first write."""

    def __init__(self, store: str) -> None:
        self._store = store
        self.server = Server(store)

    def dies_and_again(self, path: str, body: object) -> Any:
        dying = Server(self._store, command=DYING)
        with pytest.raises((OSError, HTTPException)):
            dying.ask("POST", path, body, {"Idempotency-Key": f"for {path}"})
        dying.end()
        return self.server.ok("POST", path, body, {"Idempotency-Key": f"for {path}"})

    def count(self, path: str) -> int:
        return len(self.server.ok("GET", path)["tasks"])


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    place = Desk(new_store(tmp_path_factory.mktemp("once")))
    yield place
    place.server.end()


def test_tasks_are_added_once_when_the_server_dies(desk: Desk) -> None:
    body = {"tasks": [{"title": "One"}, {"title": "Two"}], "links": [{"task": "", "on": "base"}]}
    desk.server.ok("POST", "tasks?scope=adding", {"tasks": [{"title": "Base", "id": "base"}]})
    added = desk.dies_and_again("tasks?scope=adding", body)["tasks"]
    assert [task["title"] for task in added] == ["One", "Two"]
    assert added[0]["blockers"] == 1
    assert desk.count("tasks?scope=adding") == 3


def test_claim_is_made_once_when_the_server_dies(desk: Desk) -> None:
    base = [{"title": "Base", "id": "base"}, {"title": "One", "id": "one"}, {"title": "Two", "id": "two"}]
    links = [{"task": "one", "on": "base"}]
    desk.server.ok("POST", "tasks?scope=claiming", {"tasks": base, "links": links})
    (first,) = desk.server.ok("POST", "claims?scope=claiming", {"agent": "x", "ids": ["base"]})["claimed"]
    desk.server.ok("POST", "tasks/base/done?scope=claiming", {"token": first["token"], "result": "the ground"})
    (claimed,) = desk.dies_and_again("claims?scope=claiming", {"agent": "ann"})["claimed"]
    assert claimed["inputs"][0]["result"] == "the ground"
    assert desk.count("tasks?scope=claiming&status=active") == 1
    done = {"token": claimed["token"], "next": {"agent": "ann"}}
    moved = desk.dies_and_again("tasks/one/done?scope=claiming", done)
    assert (moved["repeated"], [one["task"]["id"] for one in moved["claimed"]]) == (True, ["two"])
    assert desk.count("tasks?scope=claiming&status=active") == 1


def test_comment_is_added_once_when_the_server_dies(desk: Desk) -> None:
    desk.server.ok("POST", "tasks?scope=remarks", {"tasks": [{"title": "One", "id": "one"}]})
    desk.dies_and_again("tasks/one/comments?scope=remarks", {"text": "Mind the gap"})
    events = desk.server.ok("GET", "tasks/one?scope=remarks")["events"]
    assert [event["verb"] for event in events].count("comment") == 1


def test_message_is_stored_once_when_the_server_dies(desk: Desk) -> None:
    ann = "a" * 64
    body = {"text": "Research the competitors", "sender_hash": ann}
    desk.dies_and_again("say", body)
    (read,) = desk.server.ok("POST", "flush", {"sender_hash": ann})["read"]
    assert len(read["messages"]) == 1


def test_command_is_carried_out_once_when_the_server_dies(desk: Desk) -> None:
    """An undo that is carried out twice would undo itself."""
    eve = "e" * 64
    desk.server.ok("POST", f"tasks?scope={eve}", {"tasks": [{"title": "Paint the fence", "id": "fence"}]})
    said = desk.dies_and_again("say?scope=pausing", {"text": "Pause the fence", "sender_hash": eve})
    assert (said["command"]["name"], len(said["command"]["changes"])) == ("pause", 1)
    assert desk.server.ok("GET", f"tasks/fence?scope={eve}")["task"]["status"] == "paused"
    said = desk.dies_and_again("say?scope=undoing", {"text": "Undo", "sender_hash": eve})
    assert said["reply"].startswith("Undone: 'Pause the fence'.")
    assert desk.server.ok("GET", f"tasks/fence?scope={eve}")["task"]["status"] == "ready"


def test_simultaneous_repeats_are_done_once_and_both_answered(desk: Desk) -> None:
    body = {"tasks": [{"title": "One"}]}

    def ask(_: int) -> str:
        return str(desk.server.ok("POST", "tasks?scope=twice", body, KEY)["tasks"][0]["id"])

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1
    assert desk.count("tasks?scope=twice") == 1


def test_key_is_valid_for_one_request_of_one_caller(desk: Desk) -> None:
    desk.server.ok("POST", "tasks?scope=other", {"tasks": [{"title": "One"}]}, {"Idempotency-Key": "mine"})
    other = {"tasks": [{"title": "Another"}]}
    desk.server.fails(422, "WRONG_KEY", "POST", "tasks?scope=other", other, **{"Idempotency-Key": "mine"})
    desk.server.fails(422, "WRONG_KEY", "POST", "tasks?scope=other", other, **{"Idempotency-Key": "x" * 201})


def test_failed_request_can_be_retried_under_its_key() -> None:
    async def scene() -> bytes:
        kept, key = IdempotentAnswers(), idempotency_key("key", ["body"], None)

        async def fails() -> bytes:
            raise WrongKey("no")

        async def works() -> bytes:
            return b"done"

        with pytest.raises(WrongKey):
            await kept.answer("ann", key, fails)
        return await kept.answer("ann", key, works)

    assert asyncio.run(scene()) == b"done"


def test_repeat_of_an_abandoned_request_gets_retry_advice() -> None:
    async def scene() -> bytes:
        kept, key, begun = IdempotentAnswers(), idempotency_key("key", ["body"], None), asyncio.Event()

        async def hangs() -> bytes:
            begun.set()
            await asyncio.Event().wait()
            raise AssertionError

        async def works() -> bytes:
            return b"done"

        first = asyncio.ensure_future(kept.answer("ann", key, hangs))
        await begun.wait()
        second = asyncio.ensure_future(kept.answer("ann", key, works))
        await asyncio.sleep(0)
        first.cancel()
        with pytest.raises(StoreBusy):
            await second
        return await kept.answer("ann", key, works)

    assert asyncio.run(scene()) == b"done"


def test_answers_are_forgotten_after_a_while() -> None:
    now = [0.0]

    async def scene() -> list[bytes]:
        kept, key = IdempotentAnswers(lambda: now[0]), idempotency_key("key", ["body"], None)
        answers = iter([b"first", b"second"])

        async def make() -> bytes:
            return next(answers)

        found = [await kept.answer("ann", key, make), await kept.answer("ann", key, make)]
        now[0] += 3600
        return [*found, await kept.answer("ann", key, make)]

    assert asyncio.run(scene()) == [b"first", b"first", b"second"]


def test_derived_ids_depend_on_secret_and_request() -> None:
    keys = [idempotency_key("key", body, secret) for body in ("a", "b") for secret in (b"one", b"two")]
    assert len({key.token(0) for key in keys}) == 4
    assert len({key.identifier(0) for key in keys}) == 4
    assert idempotency_key("key", "a", b"one").token(0) == keys[0].token(0)


def test_taken_short_id_is_replaced_by_a_long_one(tmp_path: Path) -> None:
    key = idempotency_key("key", ["body"], None)
    with open_desk(f"sqlite:///{tmp_path}/dibs.db", create=True) as desk:
        desk.add([Draft("Another", id=key.identifier(0, 6))])
        added = add_once(desk, [Draft("One")], [], key)
        assert [task.id for task in added] == [key.identifier(0)]
        assert add_once(desk, [Draft("One")], [], key) == added


def test_repeated_request_finds_its_task_after_a_change_of_title(tmp_path: Path) -> None:
    key = idempotency_key("key", ["body"], None)
    with open_desk(f"sqlite:///{tmp_path}/dibs.db", create=True) as desk:
        (one,) = add_once(desk, [Draft("One")], [], key)
        assert len(one.id) == 6
        desk.edit(one.id, Edit(title="Renamed"))
        assert [task.title for task in add_once(desk, [Draft("One")], [], key)] == ["Renamed"]
