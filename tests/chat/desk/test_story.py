"""The document's story: three messages in eight seconds become one plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chat_scenes import ANN
from dibs.core.lifecycle import ClaimRequest, Verb

if TYPE_CHECKING:
    from chat_scenes import Scene

PLAN = """\
4 tasks, ~2h 0m of work; ~1h 0m if all goes side by side.

Phase 1
  1. Earn 1,000 USDC [ready]
  2. Start Moltbook community [ready]
  3. Research competitors [ready]

Phase 2
  4. Write a strategy [ready; better after Research competitors (because of "based on the research")]

Critical path: Research competitors → Write a strategy (~1h 0m)"""


def test_three_messages_in_eight_seconds_become_one_batch_with_a_plan_and_an_order(scene: Scene) -> None:
    scene.hear("Earn 1,000 USDC", pause=3)
    scene.hear("Start Moltbook community", pause=5)
    (third,) = scene.hear("Research competitors, and write a strategy based on the research")
    assert third.messages == 3
    assert scene.tick() == []
    scene.clock.advance(seconds=40)
    (outcome,) = scene.tick()
    assert len(outcome.messages) == 3
    assert scene.say("What\u2019s the plan?").reply.text == PLAN
    assert claimed_in_order(scene, 3) == ["Earn 1,000 USDC", "Start Moltbook community", "Research competitors"]
    assert claimed_in_order(scene, 1) == ["Write a strategy"]


def claimed_in_order(scene: Scene, number: int) -> list[str]:
    """What agents are given and finish, one after the other."""
    titles = []
    for turn in range(number):
        (claimed,) = scene.store.claim(ClaimRequest("worker", (f"token {turn} {number}",), ANN))
        titles.append(claimed.task.title)
        assert claimed.task.lease is not None
        scene.room().tasks.move(Verb.DONE, claimed.task.id, token=claimed.task.lease.token, result={"fine": True})
        scene.clock.advance(seconds=1)
    return titles
