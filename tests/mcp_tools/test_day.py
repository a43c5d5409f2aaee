"""A whole day of an agent, through the official client and a real server on its pipes."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from .place import until

if TYPE_CHECKING:
    from .place import Place

pytestmark = pytest.mark.anyio

LEASE = 3.0


async def test_an_agent_gets_through_its_day(anywhere: Place) -> None:
    quick = anywhere.url.startswith("sqlite")  # a server that is busy may take longer to answer than such a lease lasts
    lease = f"{LEASE:g}s" if quick else "20m"
    async with anywhere.process("--lease", lease, "--sender", "+49 171 1234567", "--grace", "0s") as hand:
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
        if quick:
            await until(lambda: _kept(anywhere, "columns") > 3 * LEASE)
        assert (await hand.ask("progress", note="two of five columns"))["task"]["id"] == "columns"

        # It goes on from one to the next in one step, with what came out of the one before.
        done = await hand.ask("finish", result={"columns": ["name", "email"]}, next=True)
        assert done["released"] == ["parser"]
        assert done["claimed"]["id"] == "parser"
        assert done["claimed"]["handed_over"][0]["result"] == {"columns": ["name", "email"]}

        # A person takes the task away meanwhile: the next answer says so, whatever was asked.
        anywhere.take_over("parser")
        if quick:
            await until(lambda: _lost(anywhere, "parser"))
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

        # What was found on the way becomes a plan, and what the person says goes to the chat.
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


def _kept(place: Place, name: str) -> float:
    """For how many seconds a task is held in all, by now."""
    lease = place.task(name).lease
    assert lease is not None
    assert lease.expires_at is not None
    return (lease.expires_at - lease.claimed_at).total_seconds()


async def test_a_server_that_was_stopped_for_too_long_tells_what_it_has_lost(place: Place) -> None:
    place.add("one", "two")
    async with place.process("--lease", "1s", "--grace", "0s") as hand:
        assert (await hand.ask("claim"))["claimed"]["id"] == "one"
        os.kill(hand.pid, signal.SIGSTOP)
        try:
            await until(lambda: place.claimed_by_another("one"))
        finally:
            os.kill(hand.pid, signal.SIGCONT)
        await until(lambda: _lost(place, "one"))
        looked = await hand.ask("what_next")
        assert "one is now held by bob" in looked["news"]
        assert looked["holding"] == []
        assert "news" not in (await hand.ask("what_next")).data
        assert (await hand.ask("finish", task="one")).code == "LOST_LOCK"
        assert (await hand.ask("claim"))["claimed"]["id"] == "two"


def _lost(place: Place, name: str) -> bool:
    with place.desk() as desk:
        return any(event.verb == "renew" and event.outcome == "lost" for event in desk.events(ref=name))
