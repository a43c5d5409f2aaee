"""The tools at /mcp of a server, with sessions (older protocol) and without (newer)."""

from __future__ import annotations

import json
import re
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import Implementation

from dibs.core.errors import NotFound
from dibs.core.task import Draft
from dibs.desk import open_desk
from dibs.fleet.supervisor.protocol import clock
from dibs.serve.access import LOCAL, Caller, Right, make_token
from dibs.serve.mcp import sessions
from dibs.serve.mcp.sessions import HttpClients, Identity
from dibs.serve.problems import Forbidden
from support.http import Server
from support.mcp import PATIENCE, Hand, Place, until

from .test_sessions import left

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from dibs.desk import Desk
    from dibs.serve.mcp.sessions import Session

pytestmark = [pytest.mark.anyio, pytest.mark.xdist_group("mcp-http")]  # two servers serve them all

JSON = {"Accept": "application/json, text/event-stream"}
NO_SESSIONS = "2026-07-28"  # named explicitly: a client that detects it takes a slow server for an old one
NEWEST = {**JSON, "MCP-Protocol-Version": NO_SESSIONS}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Server]]:
    folder = tmp_path_factory.mktemp("served")
    place = Place(f"sqlite:///{folder}/desk.db?durability=normal", folder)
    server = Server(place.url)
    yield place, server
    told = server.end()
    assert "Traceback" not in told


@pytest.fixture
def own_server(place: Place) -> Iterator[Server]:
    server = Server(place.url, variables=place.clock.environ)
    yield server
    assert "Traceback" not in server.end()


async def test_session_keeps_its_tasks_until_it_is_closed(here: tuple[Place, Server]) -> None:
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
    await until(lambda: left(place, "s3") <= timedelta(minutes=2))
    assert place.task("s1").finished_by == "ann"
    async with Client(f"{server.url}/mcp?agent=ann", mode="legacy") as client:
        again = Hand(client)
        assert (await again.ask("finish")).code == "INVALID_INPUT"
        assert (await again.ask("finish", task="s3", token=token))["task"]["status"] == "done"


async def test_without_sessions_the_token_identifies_the_claim(here: tuple[Place, Server]) -> None:
    place, server = here
    place.add("m1", "m2", assigned_to="bob")
    async with Client(f"{server.url}/mcp?agent=bob", mode=NO_SESSIONS) as client:
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


@pytest.mark.parametrize("mode", ["legacy", NO_SESSIONS])
async def test_unnamed_clients_are_named_after_program_and_session(here: tuple[Place, Server], mode: str) -> None:
    place, server = here
    scope = f"unnamed-{mode}"
    with open_desk(place.url, scope=scope) as desk:
        desk.add([Draft(f"Task {name}", name) for name in "abc"])
    info = Implementation(name="claude-code", version="2")
    names = []
    for _ in range(2):
        async with Client(f"{server.url}/mcp?scope={scope}", mode=mode, client_info=info) as client:
            hand = Hand(client)
            held = (await hand.ask("claim"))["claimed"]
            with open_desk(place.url, scope=scope) as desk:
                lease = desk.get(held["id"]).lease
            assert lease is not None
            names.append(lease.agent)
            assert (await hand.ask("progress", task=held["id"], token=held["token"]))["minutes"] == 20
            assert (await hand.ask("finish", task=held["id"], token=held["token"]))["task"]["status"] == "done"
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"claude-code@[0-9a-z]{5}", name) for name in names)


async def test_server_renews_leases_of_its_clients(place: Place, own_server: Server) -> None:
    """With sessions and without, for longer than a lease lasts. The server goes by the clock that the test moves."""
    server = own_server
    place.add("k1", "k2")
    address = f"{server.url}/mcp?agent=kim&lease=1h"
    async with Client(address, mode="legacy") as old, Client(address, mode=NO_SESSIONS) as new:
        tasks = [(await Hand(client).ask("claim"))["claimed"] for client in (old, new)]
        for _ in range(3):
            before = {task["id"]: place.expires_at(task["id"]) for task in tasks}
            place.clock.advance(minutes=30)
            await until(lambda before=before: all(place.expires_at(name) > before[name] for name in before))  # type: ignore[misc]
        assert (await Hand(old).ask("finish"))["task"]["status"] == "done"
        assert (await Hand(new).ask("finish", task=tasks[1]["id"], token=tasks[1]["token"]))["task"]["status"] == "done"
    async with Client(f"{server.url}/mcp?lease=forever", mode=NO_SESSIONS) as client:
        assert (await Hand(client).ask("claim")).code == "INVALID_INPUT"


async def test_scope_and_sender_are_named_in_the_address(here: tuple[Place, Server]) -> None:
    _, server = here
    async with Client(f"{server.url}/mcp?agent=ann&scope=elsewhere", mode="legacy") as client:
        await Hand(client).ask("add", tasks=[{"title": "There", "id": "there"}])
        assert [row["id"] for row in (await Hand(client).ask("find"))["tasks"]] == ["there"]
    async with Client(f"{server.url}/mcp?agent=ann", mode=NO_SESSIONS) as client:
        assert (await Hand(client).ask("show", task="there")).code == "NOT_FOUND"
        assert (await Hand(client).ask("say", text="What's the plan?")).code == "MISCONFIGURED"
    async with Client(f"{server.url}/mcp?sender_hash={'0' * 64}", mode=NO_SESSIONS) as client:
        assert (await Hand(client).ask("say", text="What's the plan?"))["kind"] == "command"
    async with Client(f"{server.url}/mcp?sender_hash=me", mode=NO_SESSIONS) as client:
        assert (await Hand(client).ask("what_next")).code == "INVALID_INPUT"


async def test_task_continues_at_another_server(here: tuple[Place, Server]) -> None:
    """When the one that it was claimed at is ended."""
    place, server = here
    place.add("g1", "g2", assigned_to="gil")
    other = Server(place.url)
    try:
        async with Client(f"{other.url}/mcp?agent=gil", mode=NO_SESSIONS) as client:
            token = (await Hand(client).ask("claim"))["claimed"]["token"]
    finally:
        other.end()
    assert left(place, "g1") > timedelta(minutes=19)
    async with Client(f"{server.url}/mcp?agent=gil", mode="legacy") as client:
        hand = Hand(client)
        assert (await hand.ask("progress", task="g1", token=token))["task"]["id"] == "g1"
        assert (await hand.ask("finish", next=True))["claimed"]["id"] == "g2"


def _call(tool: str, **given: Any) -> dict[str, Any]:
    meta = {
        "io.modelcontextprotocol/protocolVersion": NO_SESSIONS,
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
def test_invalid_requests_are_refused(
    here: tuple[Place, Server], method: str, body: object, headers: dict[str, str]
) -> None:
    _, server = here
    assert 400 <= server.ask(method, "/mcp", body, headers).status < 500


# Behind a locked door


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Place, Server]]:
    folder = tmp_path_factory.mktemp("locked")
    place = Place(f"sqlite:///{folder}/desk.db?durability=normal", folder)
    place.add("one", "two")
    server = Server(place.url, variables={"DIBS_SERVE_SECRET": SECRET})
    yield place, server
    told = server.end()
    assert "eyJ" not in told
    assert "Traceback" not in told


def bearing(place: Place, agent: str, scopes: frozenset[str] | None = None) -> dict[str, str]:
    with place.desk() as desk:
        now = desk.now()
    caller = Caller(agent, rights=frozenset({Right.READ, Right.CLAIM}), scopes=scopes)
    return {"Authorization": f"Bearer {make_token(caller, SECRET.encode(), now, timedelta(hours=1))}"}


@asynccontextmanager
async def connected(server: Server, query: str, headers: dict[str, str]) -> AsyncIterator[Hand]:
    async with httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http:
        transport = streamable_http_client(f"{server.url}/mcp{query}", http_client=http)
        async with Client(transport, mode=NO_SESSIONS) as client:
            yield Hand(client)


async def test_token_determines_agent_and_rights(locked: tuple[Place, Server]) -> None:
    place, server = locked
    async with connected(server, "", bearing(place, "ann")) as hand:
        claimed = (await hand.ask("claim"))["claimed"]
        lease = place.task(claimed["id"]).lease
        assert lease is not None
        assert lease.agent == "ann"
        assert (await hand.ask("add", tasks=[{"title": "x", "parent": claimed["id"]}])).code == "FORBIDDEN"
        assert (await hand.ask("add", tasks=[{"title": "x", "needed_by": [claimed["id"]]}])).code == "FORBIDDEN"
        assert (await hand.ask("add", links=[{"task": claimed["id"], "needs": "x"}])).code == "FORBIDDEN"
        assert (await hand.ask("add", tasks=[{"title": "x", "needs": [claimed["id"]]}]))["links"] == 1
        assert (await hand.ask("say", text="hello")).code == "FORBIDDEN"
        assert (await hand.ask("finish", task=claimed["id"], token=claimed["token"]))["task"]["status"] == "done"
    async with connected(server, "?agent=bob", bearing(place, "ann")) as hand:
        assert (await hand.ask("what_next")).code == "FORBIDDEN"
    async with connected(server, "?scope=secret", bearing(place, "ann", frozenset({"default"}))) as hand:
        assert (await hand.ask("find")).code == "FORBIDDEN"


@pytest.mark.parametrize("shown", [{}, {"Authorization": "Bearer nonsense"}], ids=["none", "bad"])
@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
def test_request_without_valid_token_is_refused(
    locked: tuple[Place, Server], method: str, shown: dict[str, str]
) -> None:
    _, server = locked
    body = _call("what_next") if method == "POST" else None
    assert server.ask(method, "/mcp", body, NEWEST | shown).status == 401
    assert server.ask(method, "/mcp/", body, JSON | shown).status == 401


def test_session_is_refused_to_another_token(locked: tuple[Place, Server]) -> None:
    place, server = locked
    ann, bob = JSON | bearing(place, "ann"), JSON | bearing(place, "bob")
    opened = server.ask("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": _HELLO}, ann)
    session = {"mcp-session-id": opened.headers["mcp-session-id"]}
    server.ask("POST", "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, ann | session)
    call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "what_next", "arguments": {}}}
    assert not server.ok("POST", "/mcp", call, ann | session)["result"].get("isError")
    for method in ("POST", "GET", "DELETE"):
        assert server.ask(method, "/mcp", call if method == "POST" else None, bob | session).status == 404
    assert not server.ok("POST", "/mcp", call, ann | session)["result"].get("isError")


_HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
SECRET = "a secret for the tests, and long enough"  # noqa: S105 - of no one


# Clients without a network


def _nothing(_desk: Desk, session: Session) -> list[str]:
    return [hold.task.id for hold in session.holds]


async def test_session_is_refused_to_another_client(place: Place) -> None:
    """Another client gets the error of an unknown session."""
    place.add("one")
    there = HttpClients(lambda: open_desk(place.url))
    ann, bob = Identity("ann", "run-1"), Identity("bob", "run-2")
    there.require_owner("a-session", bob)
    await there.attend(ann, "a-session", None, _claim)
    assert await there.attend(ann, "a-session", None, _nothing) == ["one"]
    there.require_owner("a-session", ann)
    with pytest.raises(NotFound):
        there.require_owner("a-session", bob)
    await there.close()


async def test_idle_client_is_removed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.add("one", "two")
    there = HttpClients(lambda: open_desk(place.url))
    ann = Identity("ann", "run-1")
    await there.attend(ann, "listens", None, _claim)
    token = await there.attend(ann, None, None, _claim)
    await there.send_off_idle()
    assert await there.attend(ann, None, token, _nothing) == ["two"]
    monkeypatch.setattr(sessions, "IDLE", 0.0)
    with there.there("listens"):  # a stream that is open is a sign of life
        await there.send_off_idle()
        assert left(place, "one") > timedelta(minutes=19)
        assert left(place, "two") <= timedelta(minutes=2)
    await there.send_off_idle()
    assert left(place, "one") <= timedelta(minutes=2)
    await there.close()


def _claim(desk: Desk, session: Session) -> str:
    (claimed,) = session.at(desk).claim(session.who.agent)
    session.take(claimed, clock())
    assert claimed.task.lease is not None
    return claimed.task.lease.token


def test_caller_works_in_the_scope_of_its_token() -> None:

    assert LOCAL.scope(None, "default") == "default"
    assert LOCAL.scope("other", "default") == "other"
    assert Caller(sender="f" * 64).scope(None, "default") == "f" * 64
    with pytest.raises(Forbidden):
        Caller(agent="ann", scopes=frozenset({"a"})).scope("b", "default")
