"""The story of the Kurultai document: three messages in eight seconds become one plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.chat import Scene

PLAN = """\
4 tasks, ~2h 0m of work; ~1h 0m if all run in parallel.

Phase 1
  1. Earn 1,000 USDC [ready]
  2. Start Moltbook community [ready]
  3. Research competitors [ready]

Phase 2
  4. Write a strategy [ready; better after Research competitors (because of "based on the research")]

Critical path: Research competitors → Write a strategy (~1h 0m)"""


WORKING = """\
Working on 4 tasks. First result in ~30m.
  - Earn 1,000 USDC
  - Start Moltbook community
  - Research competitors
  - Write a strategy (pending: needs Research competitors)
Estimated: everything in ~1h 0m."""


def test_burst_of_three_messages_becomes_one_plan_and_answer(scene: Scene) -> None:
    scene.hear("Earn 1,000 USDC", pause=3)
    scene.hear("Start Moltbook community", pause=5)
    (third,) = scene.hear("Research competitors, and write a strategy based on the research")
    assert third.messages == 3
    assert scene.tick() == []
    scene.clock.advance(seconds=40)
    (outcome,) = scene.tick()
    assert len(outcome.messages) == 3
    assert scene.say("What\u2019s the plan?").reply.text == PLAN
    assert scene.texts() == [WORKING]
    assert scene.finish_next("1,020 USDC") == "Earn 1,000 USDC"
    assert scene.texts() == ["Task complete: Earn 1,000 USDC\n  1,020 USDC"]
    assert scene.finish_next({"members": 12}) == "Start Moltbook community"
    assert scene.finish_next("3 players, a gap in AI", agent="jochi") == "Research competitors"
    assert scene.texts() == [
        "Phase 1 of 2 is complete: Research competitors.\nStill to come: Write a strategy.",
        "Task complete: Start Moltbook community\n  members: 12",
    ]
    assert scene.finish_next("Fill the gap", agent="chagatai") == "Write a strategy"
    (answer,) = scene.heard()
    assert (answer.extra["kind"], answer.extra["mode"]) == ("answer", "hybrid")
    assert answer.description == (
        "Your 2 related tasks are complete.\n\n"
        "PHASE 1 (research - jochi)\n• Research competitors\n  3 players, a gap in AI\n\n"
        "PHASE 2 (strategy - chagatai)\n• Write a strategy\n  Fill the gap"
    )
    assert scene.texts() == []
