"""The same tools at /mcp of a server: with sessions as they were, and without as they are now."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client

from dibs.serve.callers import LOCAL, Caller
from dibs.serve.mcp import visitors
from dibs.serve.mcp.session import Who
from dibs.serve.mcp.visitors import Visitors
from dibs.stores.opening import open_store
from serve.place import Server

from .place import Hand, Place
from .test_sessions import left

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.serve.mcp.session import Session
    from dibs.stores.port import Store

pytestmark = pytest.mark.anyio

JSON = {"Accept": "application/json, text/event-stream"}
NEWEST = {**JSON, "MCP-Protocol-Version": "2026-07-28"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Server]]:
    folder = tmp_path_factory.mktemp("served")
    place = Place(f"sqlite:///{folder}/desk.db?durability=normal", folder)
    server = Server(place.url)
    yield place, server
    told = server.end()
    assert "Traceback" not in told


async def test_a_session_remembers_what_it_holds_and_gives_it_up_when_it_is_closed(here: tuple[Place, Server]) -> None:
    place, server = here
    place.add("s1", "s2", "s3", assigned_to="ann")
    async with Client(f"{server.url}/mcp?agent=ann", mode="legacy") as client:
        hand = Hand(client)
        assert (await hand.ask("claim"))["claimed"]["id"] == "s1"
        assert (await hand.ask("finish", result=1, next=True))["claimed"]["id"] == "s2"
        assert (await hand.ask("progress", note="on it"))["task"]["id"] == "s2"
        assert (await hand.ask("finish"))["task"]["id"] == "s2"
        token = (await hand.ask("claim"))["claimed"]["token"]
        assert left(place, "s3") > timedelta(minutes=19)
    assert left(place, "s3") <= timedelta(minutes=2)
    assert place.task("s1").finished_by == "ann"
    async with Client(f"{server.url}/mcp?agent=ann", mode="legacy") as client:
        again = Hand(client)
        assert (await again.ask("finish")).code == "INVALID_INPUT"
        assert (await again.ask("finish", task="s3", token=token))["task"]["status"] == "done"


async def test_without_sessions_the_token_says_whose_it_is(here: tuple[Place, Server]) -> None:
    place, server = here
    place.add("m1", "m2", assigned_to="bob")
    async with Client(f"{server.url}/mcp?agent=bob") as client:
        hand = Hand(client)
        first = (await hand.ask("claim"))["claimed"]
        assert (await hand.ask("finish")).code == "INVALID_INPUT"
        assert (await hand.ask("finish", task=first["id"])).code == "HELD"
        assert (await hand.ask("progress", task=first["id"], token=first["token"]))["minutes"] == 20
        done = await hand.ask("finish", task=first["id"], token=first["token"], next=True)
        assert done["claimed"]["id"] == "m2"
        place.take_over("m2")
        assert (await hand.ask("finish", task="m2", token=done["claimed"]["token"])).code == "LOST_LOCK"
        assert json.loads((await client.read_resource("dibs://task/m1")).contents[0].text)["task"]["status"] == "done"  # type: ignore[union-attr]


async def test_scope_and_sender_are_named_in_the_address(here: tuple[Place, Server]) -> None:
    _, server = here
    async with Client(f"{server.url}/mcp?agent=ann&scope=elsewhere", mode="legacy") as client:
        await Hand(client).ask("add", tasks=[{"title": "There", "id": "there"}])
        assert [row["id"] for row in (await Hand(client).ask("find"))["tasks"]] == ["there"]
    async with Client(f"{server.url}/mcp?agent=ann") as client:
        assert (await Hand(client).ask("show", task="there")).code == "NOT_FOUND"
        assert (await Hand(client).ask("say", text="What's the plan?")).code == "MISCONFIGURED"
    async with Client(f"{server.url}/mcp?sender_hash={'0' * 64}") as client:
        assert (await Hand(client).ask("say", text="What's the plan?"))["kind"] == "command"
    async with Client(f"{server.url}/mcp?sender_hash=me") as client:
        assert (await Hand(client).ask("what_next")).code == "INVALID_INPUT"


async def test_a_task_goes_on_at_the_next_server(place: Place) -> None:
    place.add("one", "two")
    server = Server(place.url)
    try:
        async with Client(f"{server.url}/mcp?agent=ann") as client:
            token = (await Hand(client).ask("claim"))["claimed"]["token"]
        server.end()
        assert left(place, "one") > timedelta(minutes=19)
        server = Server(place.url)
        async with Client(f"{server.url}/mcp?agent=ann", mode="legacy") as client:
            hand = Hand(client)
            assert (await hand.ask("progress", task="one", token=token))["task"]["id"] == "one"
            assert (await hand.ask("finish", next=True))["claimed"]["id"] == "two"
    finally:
        server.end()


def _call(tool: str, **given: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": given, "_meta": meta}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


@pytest.mark.parametrize(
    ("method", "body", "headers"),
    [
        ("GET", None, JSON),
        ("DELETE", None, JSON),
        ("PUT", {}, JSON),
        ("POST", b"{", JSON),
        ("POST", b"\xff\xfe", JSON),
        ("POST", [], JSON),
        ("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}, JSON),
        ("POST", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, {**JSON, "mcp-session-id": "0" * 32}),
        ("POST", _call("what_next"), {**NEWEST, "Accept": "text/html"}),
        ("POST", _call("what_next"), {**JSON, "MCP-Protocol-Version": "1999-01-01"}),
        ("POST", b'{"a":' * 100_000, NEWEST),
        ("POST", b" " * (5 << 20), NEWEST),
    ],
)
def test_what_is_no_request_is_refused(
    here: tuple[Place, Server], method: str, body: object, headers: dict[str, str]
) -> None:
    _, server = here
    assert 400 <= server.ask(method, "/mcp", body, headers).status < 500


# Who comes and goes, without a wire


def _nothing(_store: Store, session: Session) -> list[str]:
    return [hold.task.id for hold in session.holds]


async def test_a_session_is_of_no_use_to_another(place: Place) -> None:
    """Whatever its name: as if there were none."""
    from dibs.core.errors import NotFound

    place.add("one")
    there = Visitors(lambda: open_store(place.url))
    ann, bob = Who("ann", "run-1"), Who("bob", "run-2")
    await there.attend(ann, "a-session", None, _claim)
    assert await there.attend(ann, "a-session", None, _nothing) == ["one"]
    with pytest.raises(NotFound):
        await there.attend(bob, "a-session", None, _nothing)
    await there.close()


async def test_who_says_nothing_for_long_is_sent_off(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.add("one", "two")
    there = Visitors(lambda: open_store(place.url))
    ann = Who("ann", "run-1")
    await there.attend(ann, "listens", None, _claim)
    token = await there.attend(ann, None, None, _claim)
    await there.send_off_idle()
    assert await there.attend(ann, None, token, _nothing) == ["two"]
    monkeypatch.setattr(visitors, "IDLE", 0.0)
    with there.there("listens"):  # a stream that is open is a sign of life
        await there.send_off_idle()
        assert left(place, "one") > timedelta(minutes=19)
        assert left(place, "two") <= timedelta(minutes=2)
    await there.send_off_idle()
    assert left(place, "one") <= timedelta(minutes=2)
    await there.close()


def _claim(store: Store, session: Session) -> str:
    from dibs.fleet.minder.words import clock

    (claimed,) = session.desk(store).claim(session.who.agent)
    session.take(claimed, clock())
    assert claimed.task.lease is not None
    return claimed.task.lease.token


def test_a_caller_is_at_work_where_their_token_is_good() -> None:
    from dibs.serve.refusals import Forbidden

    assert LOCAL.scope(None, "default") == "default"
    assert LOCAL.scope("other", "default") == "other"
    assert Caller(sender="f" * 64).scope(None, "default") == "f" * 64
    with pytest.raises(Forbidden):
        Caller(agent="ann", scopes=frozenset({"a"})).scope("b", "default")
