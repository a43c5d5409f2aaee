"""Tasks after the end of a session, and the isolation of sessions."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from dibs.cli.main import main
from dibs.core.lifecycle import Verb
from dibs.serve.mcp.sessions import Identity
from support.mcp import DIBS_MCP, PATIENCE, Place, lost_renewal, until

if TYPE_CHECKING:
    from pathlib import Path

    from .conftest import OwnClock

pytestmark = pytest.mark.anyio


def left(place: Place, name: str) -> timedelta:
    """For how long a task is still held."""
    with place.desk() as desk:
        lease = desk.get(name).lease
        assert lease is not None
        assert lease.expires_at is not None
        return lease.expires_at - desk.now()


async def test_killed_server_loses_its_task_at_expiry(place: Place) -> None:
    place.add("one")
    async with place.process("--lease", "1h") as hand:
        await hand.ask("claim")
        os.kill(hand.pid, signal.SIGKILL)
        assert not place.claimed_by_another("one")
        place.clock.advance(hours=1)
        assert place.claimed_by_another("one")
    assert place.task("one").attempt == 2


async def test_client_keeps_its_task_for_the_grace_and_resumes_it(place: Place) -> None:
    place.add("one")
    async with place.process("--lease", "10h", "--grace", "1h", mode="legacy") as hand:
        token = (await hand.ask("claim"))["claimed"]["token"]
    assert timedelta(0) < left(place, "one") <= timedelta(hours=1)

    async with place.process("--lease", "10h", "--grace", "0s") as again:
        assert (await again.ask("finish", task="one")).code == "HELD"
        assert (await again.ask("progress")).code == "INVALID_INPUT"
        assert (await again.ask("progress", task="one", token=token))["minutes"] == 600
        assert left(place, "one") > timedelta(hours=9)
        assert [row["id"] for row in (await again.ask("what_next"))["holding"]] == ["one"]
        assert (await again.ask("finish", result="after all"))["task"]["status"] == "done"
    assert place.task("one").attempt == 1


async def test_terminated_server_without_grace_releases_its_task(place: Place) -> None:
    place.add("one")
    async with place.process("--lease", "10m", "--grace", "0s") as hand:
        await hand.ask("claim")
        os.kill(hand.pid, signal.SIGTERM)
        await until(lambda: place.task("one").status == "ready")
    assert place.task("one").reason == "the session that held it has ended"


async def test_two_sessions_of_one_agent_share_nothing(place: Place) -> None:
    place.add("one", "two")
    async with (
        place.in_process(Identity("ann", "run-1")) as first,
        place.in_process(Identity("ann", "run-2")) as second,
    ):
        mine, hers = (await first.ask("claim"))["claimed"], (await second.ask("claim"))["claimed"]
        assert {mine["id"], hers["id"]} == {"one", "two"}
        assert mine["token"] != hers["token"]
        assert [row["id"] for row in (await second.ask("what_next"))["holding"]] == [hers["id"]]
        assert (await second.ask("finish", task=mine["id"])).code == "HELD"
        assert (await second.ask("finish", task=mine["id"], token=hers["token"])).code == "LOST_LOCK"
        assert (await first.ask("claim", task=hers["id"])).code == "HELD"
        assert (await first.ask("claim", task=mine["id"])).code == "HELD"
        assert (await second.ask("finish"))["task"]["id"] == hers["id"]
        assert (await first.ask("finish"))["task"]["id"] == mine["id"]


async def test_with_two_tasks_held_a_call_must_name_one(place: Place) -> None:
    place.add("one", "two")
    async with place.in_process() as hand:
        await hand.ask("claim")
        await hand.ask("claim")
        unclear = await hand.ask("finish")
        assert unclear.code == "INVALID_INPUT"
        assert "one, two" in unclear["error"]["message"]
        assert (await hand.ask("finish", task="two"))["task"]["id"] == "two"
        assert (await hand.ask("finish"))["task"]["id"] == "one"
        assert (await hand.ask("finish")).code == "INVALID_INPUT"


async def test_store_that_hides_tokens_is_supported(tmp_path: Path) -> None:
    vault = Place(f"vault:///{tmp_path}/vault", tmp_path)
    vault.add("one", "two")
    async with vault.in_process() as first:
        token = (await first.ask("claim"))["claimed"]["token"]
        assert (await first.ask("progress", note="half"))["task"]["id"] == "one"
        assert [row["id"] for row in (await first.ask("what_next"))["holding"]] == ["one"]
        async with vault.in_process(Identity("ann", "run-2")) as second:
            assert (await second.ask("progress", task="one", token=token))["task"]["id"] == "one"
            assert (await second.ask("finish", next=True))["claimed"]["id"] == "two"
            assert (await second.ask("give_back", reason="enough"))["task"]["status"] == "ready"


async def test_finish_can_be_repeated_after_a_lost_answer(place: Place) -> None:
    place.add("one")
    async with place.in_process() as hand:
        token = (await hand.ask("claim"))["claimed"]["token"]
        await hand.ask("finish", result="first")
        again = await hand.ask("finish", task="one", token=token, result="second")
        assert "before" in again["note"]
    assert place.task("one").result == "first"


async def test_task_ended_in_a_shell_is_no_news(place: Place, own_clock: OwnClock) -> None:
    place.add("one", "two")
    async with place.in_process(Identity("ann", "run-1", lease=timedelta(hours=1))) as hand:
        token = (await hand.ask("claim"))["claimed"]["token"]
        with place.desk() as desk:
            desk.move(Verb.DONE, "one", token=token)
        own_clock.advance(minutes=30)
        await until(lambda: lost_renewal(place, "one"))
        with anyio.fail_after(PATIENCE):  # until the renewer has found out, and dropped it
            while (said := await hand.ask("finish", result="again")).code is None:  # noqa: ASYNC110 - nothing signals it
                await anyio.sleep(0.1)
        assert said.code == "INVALID_INPUT"
        assert "news" not in (await hand.ask("what_next")).data


async def test_task_is_renewed_after_a_refused_finish(place: Place, own_clock: OwnClock) -> None:
    place.add("whole")
    place.add("part", parent="whole")
    async with place.in_process(Identity("ann", "run-1", lease=timedelta(hours=1))) as hand:
        await hand.ask("claim", task="whole")
        assert (await hand.ask("finish")).code == "INCOMPLETE_SUBTASKS"
        before = place.expires_at("whole")
        own_clock.advance(minutes=30)
        await until(lambda: place.expires_at("whole") > before)
        assert [row["id"] for row in (await hand.ask("what_next"))["holding"]] == ["whole"]


def test_client_that_stops_reading_ends_the_session(place: Place) -> None:
    """As when stdin is closed: its tasks are released, and no traceback is printed."""
    place.add("one")
    command = [*DIBS_MCP, "--store", place.url, "--grace", "0s"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    for message in _CLAIM:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()
    while '"claimed"' not in server.stdout.readline():
        pass
    server.stdout.close()
    server.stdin.write('{"jsonrpc": "2.0", "id": 3, "method": "ping"}\n')
    server.stdin.flush()
    assert server.wait(PATIENCE) == 0
    assert server.stderr is not None
    assert server.stderr.read() == ""
    assert place.task("one").status == "ready"
    server.stderr.close()
    with suppress(BrokenPipeError):
        server.stdin.close()


_CLAIM: tuple[dict[str, Any], ...] = (
    {
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {"name": "claim", "arguments": {}}},
)


def test_missing_store_is_reported_at_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mcp", "--store", f"{tmp_path}/nothing.db"]) == 7
    told = capsys.readouterr()
    assert "dibs init" in told.err
    assert told.out == ""


def test_start_without_stdin_is_refused(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["mcp", "--store", place.url]) == 2
    assert "There is no stdin" in capsys.readouterr().err


async def test_labels_narrow_what_is_claimed_and_found(place: Place) -> None:
    async with place.process("--grace", "0s") as hand:
        labels = {"header": ["web", "urgent"], "footer": ["web"], "help": []}
        await hand.ask("add", tasks=[{"title": id_, "id": id_, "labels": each} for id_, each in labels.items()])
        assert [row["id"] for row in (await hand.ask("find", labels=["web", "urgent"]))["tasks"]] == ["header"]
        assert (await hand.ask("claim", labels=["urgent"]))["claimed"]["labels"] == ["urgent", "web"]
        none = await hand.ask("claim", labels=["urgent"])
        assert "label urgent" in none["note"]


async def test_tasks_of_any_status_are_found_searched_commented_and_reopened(place: Place) -> None:
    async with place.process("--grace", "0s") as hand:
        await hand.ask("add", tasks=[{"title": "Write the parser", "id": "parser", "description": "a grammar"}])
        await hand.ask("claim")
        await hand.ask("finish")
        assert [row["id"] for row in (await hand.ask("find", status=["done"]))["tasks"]] == ["parser"]
        assert (await hand.ask("find", status=["nonsense"])).code == "INVALID_INPUT"
        assert (await hand.ask("comment", task="parser", text="Look at the corner cases"))["task"]["id"] == "parser"
        (found,) = (await hand.ask("search", text="corner"))["tasks"]
        assert (found["id"], found["about"]) == ("parser", "Look at the corner cases")
        assert (await hand.ask("search", text="parser", unfinished=True))["tasks"] == []
        assert (await hand.ask("reopen", task="parser", reason="not yet"))["task"]["status"] == "ready"
        assert (await hand.ask("reopen", task="parser")).code == "ILLEGAL_MOVE"
