"""A whole day of an agent, through the official client and a real server on its pipes."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import anyio
import pytest

from support.mcp import PATIENCE, lost_renewal, until

if TYPE_CHECKING:
    from support.mcp import Place

pytestmark = pytest.mark.anyio


async def test_agent_works_through_a_day(anywhere: Place) -> None:
    movable = anywhere.url.startswith("sqlite")  # it goes by the clock of this host, which the test moves
    async with anywhere.process("--lease", "1h", "--sender", "+49 171 1234567", "--grace", "0s") as hand:
        # It writes down what is to be done, and in which order.
        assert (await hand.ask("what_next"))["ready"] == []
        added = await hand.ask(
            "add",
            tasks=[
                {"title": "Write the parser", "id": "parser"},
                {"title": "Test the parser", "id": "tests", "needs": ["parser"]},
                {"title": "Agree on the columns", "id": "columns", "needed_by": ["parser"]},
                {"title": "Ask the customer", "id": "ask", "priority": 3},
                {"title": "Tidy up", "id": "tidy", "priority": 4},
            ],
        )
        assert added["links"] == 2
        assert [row["id"] for row in (await hand.ask("what_next"))["ready"]] == ["columns", "ask", "tidy"]

        # It takes the first, and thinks for longer than several leases.
        first = (await hand.ask("claim"))["claimed"]
        assert first["id"] == "columns"
        for _ in range(6 if movable else 0):
            before = anywhere.expires_at("columns")
            anywhere.clock.advance(minutes=30)
            await until(lambda before=before: anywhere.expires_at("columns") > before)  # type: ignore[misc]
        assert (await hand.ask("progress", note="two of five columns"))["task"]["id"] == "columns"

        # It finishes one task and claims the next in one step, with the results of the first.
        done = await hand.ask("finish", result={"columns": ["name", "email"]}, next=True)
        assert done["unblocked"] == ["parser"]
        assert done["claimed"]["id"] == "parser"
        assert done["claimed"]["inputs"][0]["result"] == {"columns": ["name", "email"]}

        # A person takes the task over: the next answer reports it.
        anywhere.take_over("parser")
        if movable:
            anywhere.clock.advance(minutes=30)
            await until(lambda: lost_renewal(anywhere, "parser"))
        lost = await hand.ask("finish", task="parser", result="too late")
        assert lost.code == "LOST_LOCK"
        assert "boss" in lost["error"]["message"]
        assert anywhere.task("parser").result is None

        # One is blocked, one goes to review, one is given back.
        assert (await hand.ask("claim"))["claimed"]["id"] == "ask"
        blocked = await hand.ask("block", reason="nobody answers", action="call them", next=True)
        assert blocked["task"]["status"] == "blocked"
        assert blocked["claimed"]["id"] == "tidy"
        assert (await hand.ask("ask_review", note="look at the names"))["task"]["status"] == "review"

        # New work becomes a plan, and a request of the person goes to the chat.
        text = "spec: import\ntasks:\n- {id: form, title: Build the form}\n- {id: trial, title: Try it, deps: [form]}\n"
        planned = await hand.ask("plan", text=text)
        assert planned["changed"] == {"added": ["form", "trial"]}
        assert (await hand.ask("plan", text=text))["changed"] == {}
        phases = [[row["id"] for row in phase] for phase in (await hand.ask("plan"))["phases"]]
        assert "form" in phases[0]
        assert "trial" in phases[1]
        assert (await hand.ask("say", text="Write a short history of the abacus"))["kind"] == "message"
        assert (await hand.ask("say", text="What's the plan?"))["kind"] == "command"

        # It looks things up, and leaves in the middle of something.
        assert [row["id"] for row in (await hand.ask("find", text="parser"))["tasks"]] == ["parser", "tests"]
        assert (await hand.ask("show", task="tests"))["task"]["needs"] == ["parser"]
        assert (await hand.ask("claim", task="form"))["claimed"]["id"] == "form"
    assert anywhere.task("form").status == "ready"


async def test_server_stopped_past_its_lease_reports_the_loss(place: Place) -> None:
    place.add("one", "two")
    async with place.process("--lease", "1h", "--grace", "0s") as hand:
        assert (await hand.ask("claim"))["claimed"]["id"] == "one"
        os.kill(hand.pid, signal.SIGSTOP)
        try:
            assert not place.claimed_by_another("one")
            place.clock.advance(hours=1)
            assert place.claimed_by_another("one")
        finally:
            os.kill(hand.pid, signal.SIGCONT)
        await until(lambda: lost_renewal(place, "one"))
        with anyio.fail_after(PATIENCE):  # the store knows of the loss a moment before the session does
            while "news" not in (looked := await hand.ask("what_next")).data:
                continue
        assert "one is now held by bob" in looked["news"]
        assert looked["holding"] == []
        assert "news" not in (await hand.ask("what_next")).data
        assert (await hand.ask("finish", task="one")).code == "LOST_LOCK"
        assert (await hand.ask("claim"))["claimed"]["id"] == "two"
