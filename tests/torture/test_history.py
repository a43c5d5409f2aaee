"""The checker sees what is wrong: one history for each rule that breaks it, and a sound one that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from torture.history import Log, Operation, read, violations

if TYPE_CHECKING:
    from pathlib import Path

PLAN = {"a": [], "b": ["a"]}


def claim(
    task: str, attempt: int, asked: float, *, by: str = "w1", lease: float = 100, handed: tuple[str, ...] | None = None
) -> Operation:
    before = PLAN[task] if handed is None else handed
    return Operation(
        by,
        "ann",
        "claim",
        asked,
        asked + 1,
        "ok",
        tasks={task: attempt},
        tokens={task: f"{task}{attempt}"},
        handoffs={task: before},
        lease=lease,
    )


def said(
    verb: str, task: str, attempt: int, asked: float, outcome: str = "ok", *, by: str = "w1", lease: float = 0
) -> Operation:
    answered = None if outcome == "unknown" else asked + 1
    return Operation(by, "ann", verb, asked, answered, outcome, task, f"{task}{attempt}", lease=lease)


SOUND = [claim("a", 1, 0), said("done", "a", 1, 2), claim("b", 1, 4), said("done", "b", 1, 6)]


def test_a_sound_history_passes() -> None:
    assert violations(SOUND, PLAN) == []


@pytest.mark.parametrize("outcome", ["unknown", "STORE_UNAVAILABLE"])
def test_an_operation_whose_answer_was_lost_may_have_taken_place_or_not(outcome: str) -> None:
    committed = [claim("a", 1, 0), said("done", "a", 1, 2, outcome), *SOUND[2:]]
    assert violations(committed, PLAN) == []
    said_again = [claim("a", 1, 0), said("done", "a", 1, 2, outcome), said("done", "a", 1, 3), *SOUND[2:]]
    assert violations(said_again, PLAN) == []
    lost = [
        claim("a", 1, 0, lease=5),
        said("done", "a", 1, 2, outcome),
        claim("a", 2, 10),
        said("done", "a", 2, 12),
        claim("b", 1, 14),
        said("done", "b", 1, 16),
    ]
    assert violations(lost, PLAN) == []


def test_a_repeated_finish_of_ones_own_is_fine() -> None:
    assert violations([*SOUND, said("replay", "a", 1, 20)], PLAN) == []


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        (SOUND[:3], "b was never finished"),
        ([*SOUND, said("done", "a", 1, 20)], "a was finished 2 times"),
        ([*SOUND, claim("a", 2, 200), said("done", "a", 2, 202)], "a was finished by two attempts"),
        ([claim("a", 1, -9, by="w2", lease=2), *SOUND], "a: attempt 1 was given twice, to w2 and w1"),
        ([claim("a", 2, -9, lease=2), *SOUND], "a: attempt 1 was given after attempt 2"),
        ([claim("a", 2, -9, lease=2), *SOUND], "a was finished by attempt 1, but attempt 2 was the latest"),
        (
            [claim("a", 1, 0), claim("b", 1, 0), said("done", "a", 1, 4), said("done", "b", 1, 6)],
            "b was claimed before a was finished",
        ),
        (
            [claim("a", 1, 0), claim("a", 2, 5), said("done", "a", 2, 8), *SOUND[2:]],
            "a was held twice: attempt 1 and attempt 2",
        ),
        (
            [
                claim("a", 1, 0, lease=5),
                said("renew", "a", 1, 3, lease=100),
                claim("a", 2, 10),
                said("done", "a", 2, 12),
                claim("b", 1, 14),
                said("done", "b", 1, 16),
            ],
            "a was held twice: attempt 1 and attempt 2",
        ),
        ([*SOUND[:2], claim("b", 1, 4, handed=()), SOUND[3]], "b was given the results of [] instead of ['a']"),
        ([*SOUND, said("imposture", "b", 9, 20)], "b: a token of another task got ok"),
        ([*SOUND, said("replay", "b", 9, 20)], "b: a token whose lease was over was accepted"),
        ([*SOUND, said("replay", "b", 9, 20, "HELD")], "b: a late holder got HELD"),
    ],
)
def test_what_no_truthful_desk_says_is_noticed(history: list[Operation], complaint: str) -> None:
    assert complaint in violations(sorted(history, key=lambda operation: operation.asked), PLAN)


def test_a_history_is_read_back_as_it_was_written_even_if_its_writer_died(tmp_path: Path) -> None:
    path = str(tmp_path / "w1.log")
    log = Log(path, "w1", "ann")
    first = log.asked("claim", lease=5)
    log.answered(first, "ok", tasks={"a": 1}, tokens={"a": "a1"}, handoffs={"a": []})
    log.asked("done", task="a", token="a" + "1")
    with open(path, "ab") as file:
        file.write(b'{"number": 2, "answered": 12')
    claimed, finished = read([path])
    assert (claimed.verb, claimed.outcome, claimed.tasks, claimed.lease) == ("claim", "ok", {"a": 1}, 5)
    assert (finished.verb, finished.outcome, finished.task, finished.answered) == ("done", "unknown", "a", None)
