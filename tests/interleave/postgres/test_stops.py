"""Tests of the stepping itself: it finds every statement, pauses where asked, and detects waits."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interleave import acts
from interleave.postgres.player import Paused, Waiting
from interleave.postgres.stops import with_stops, without_stops
from interleave.stepper import Answer

if TYPE_CHECKING:
    from dibs.desk import Desk
    from interleave.postgres.conftest import StageMaker
    from interleave.postgres.stage import Stage

claim_a = partial(acts.claim, agent="x", proof="x1", ids=("a",))


def two_tasks(desk: Desk) -> None:
    acts.add(desk, "a", "b")


def test_a_stop_is_put_before_each_statement_and_before_the_end() -> None:
    body = """
DECLARE
    moment timestamptz := now();
BEGIN
    -- a comment; with BEGIN in it
    IF a OR EXISTS (SELECT CASE WHEN b THEN 1 ELSE 2 END) THEN
        PERFORM f('x; y');
    ELSE
        RETURN;
    END IF;
    FOR i IN 1..3 LOOP
        UPDATE t SET x = CASE WHEN y THEN 1 END;
        EXIT WHEN done;
    END LOOP;
END """
    stopped = with_stops("f", body, "s")
    assert without_stops(stopped) == body
    assert [line.partition("THEN END IF; ")[2] for line in stopped.splitlines() if "pause" in line] == [
        "IF a OR EXISTS (SELECT CASE WHEN b THEN 1 ELSE 2 END) THEN",
        "PERFORM f('x; y');",
        "RETURN;",
        "FOR i IN 1..3 LOOP",
        "UPDATE t SET x = CASE WHEN y THEN 1 END;",
        "EXIT WHEN done;",
        "END ",
    ]


def test_every_function_that_changes_anything_has_stops(theatre: Stage) -> None:
    bodies = theatre._functions.bodies
    expected = {
        "claim_next",
        "claim_named",
        "lease_out",
        "wake",
        "finish_and_claim",
        "finish_all",
        "release_dependents",
    }
    assert expected <= bodies.keys()
    for name, body in bodies.items():
        stopped = with_stops(name, body, "s")
        assert without_stops(stopped) == body
        assert stopped.count("s_stops.pause(") == _statements(body) + 1, name


def _statements(body: str) -> int:
    """The number of statements, counted by lines of the source."""
    lines = [line.strip() for line in body.partition("BEGIN\n")[2].splitlines()]
    ends = sum(line.endswith(";") and not line.startswith(("END", "--")) for line in lines)
    return ends + sum(line.endswith(("THEN", "LOOP")) and not line.startswith("ELSIF") for line in lines)


def test_an_operation_is_stepped_through_inside_its_function_and_out_of_it(stage: StageMaker) -> None:
    scene = stage(two_tasks)
    claiming = scene.places(claim_a)
    assert claiming[0] == "claim_named"
    assert claiming[1].startswith("claim_named 1: ")
    assert claiming[-1].startswith("claim_named ")
    assert any(place.startswith("lease_") for place in claiming)
    adding = scene.places(partial(acts.add_one, task="c", on=("a",)))
    assert adding[0] == "begin"
    order = [adding.index(name) for name in ("lock_scope", "share_tasks", "ways_round", "COMMIT")]
    assert order == sorted(order)


def test_function_is_invisible_before_its_end_and_visible_after(stage: StageMaker) -> None:
    scene = stage(two_tasks)
    player = scene.players[0]
    last = len(scene.places(claim_a))
    scene.reset()
    assert isinstance(player.start(claim_a, stop=last), Paused)
    assert scene.desk.get("a").lease is None
    assert isinstance(player.let_go(), Answer)
    assert scene.desk.get("a").lease is not None


def test_wait_for_a_row_is_detected(stage: StageMaker) -> None:
    scene = stage(two_tasks)
    one, other = scene.players[:2]
    last = len(scene.places(claim_a))
    scene.reset()
    one.start(claim_a, stop=last)
    assert other.start(claim_a) == Waiting("transactionid")
    assert one.finish().code is None
    assert other.finish().code == "HELD"


def test_player_without_a_conflict_does_not_wait(stage: StageMaker) -> None:
    scene = stage(two_tasks)
    one, other = scene.players[:2]
    last = len(scene.places(claim_a))
    scene.reset()
    one.start(claim_a, stop=last)
    assert isinstance(other.start(partial(acts.claim, agent="y", proof="y1", ids=("b",))), Answer)
    assert one.finish().code is None
