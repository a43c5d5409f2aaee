"""Ways to spoil a true history, each with the rule that has to notice. None: there is nothing to spoil."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from dibs.lab.torture.checker import Assumptions, Story

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.lab.torture.history import Operation

    History = Sequence[Operation]
    Mutation = Callable[[History], "list[Operation] | None"]

NEVER = float("inf")


def _replaced(history: History, old: Operation, **changes: Any) -> list[Operation]:
    return [each._replace(**changes) if each is old else each for each in history]


def _ordered(history: History, *more: Operation) -> list[Operation]:
    return sorted([*history, *more], key=lambda each: each.begin)


def _claims(history: History) -> list[Operation]:
    return [each for each in history if each.given]


def _story(history: History) -> Story:
    return Story(history, Assumptions())


def a_second_holder(history: History) -> list[Operation] | None:
    """Another agent gets a task that is certainly held."""
    for attempts in _story(history).attempts.values():
        for attempt in attempts:
            until = min(attempt.leased, attempt.ended)
            if until - attempt.claim.over > 0.5:
                moment = attempt.claim.over + 0.1
                given = {attempt.task: (attempt.number + 100, "another")}
                intruder = attempt.claim._replace(worker="w9.1", begin=moment, end=moment + 0.1, given=given)
                return _ordered(history, intruder)
    return None


def the_same_number_again(history: History) -> list[Operation] | None:
    for attempts in _story(history).attempts.values():
        if len(attempts) > 1:
            given = {attempts[1].task: (attempts[0].number, attempts[1].token)}
            return _replaced(history, attempts[1].claim, given=given)
    return None


def a_lower_number(history: History) -> list[Operation] | None:
    for attempts in _story(history).attempts.values():
        if len(attempts) > 1:
            given = {attempts[1].task: (attempts[0].number - 1, attempts[1].token)}
            return _replaced(history, attempts[1].claim, given=given)
    return None


def anothers_token(history: History) -> list[Operation] | None:
    claims = _claims(history)
    for word in history:
        if word.token and word.ok and not word.repeated:
            foreign = [token for claim in claims for task, (_, token) in claim.given.items() if task != word.task]
            if foreign:
                return _replaced(history, word, token=foreign[0])
    return None


def a_word_of_an_earlier_attempt(history: History) -> list[Operation] | None:
    for attempts in _story(history).attempts.values():
        for attempt, later in pairwise(attempts):
            for word in attempt.words:
                if word.outcome == "refused" and word.begin > later.claim.over:
                    return _replaced(history, word, outcome="ok", code="")
    return None


def a_word_after_the_lease(history: History) -> list[Operation] | None:
    story = _story(history)
    for attempts in story.attempts.values():
        for attempt in attempts:
            for word in attempt.words:
                if word.outcome == "refused" and word.begin > attempt.lapsed and not story.said_before(word):
                    return _replaced(history, word, outcome="ok", code="")
    return None


def given_after_the_end(history: History) -> list[Operation] | None:
    done = next((each for each in history if each.verb == "done" and each.ok and not each.repeated), None)
    if done is None:
        return None
    given = {done.task: (99, "again")}
    again = done._replace(
        verb="claim", task="", token="", begin=done.over + 0.1, end=done.over + 0.2, given=given, lease=1.0
    )
    return _ordered(history, again)


def given_while_set_aside(history: History) -> list[Operation] | None:
    block = next((each for each in history if each.verb == "block" and each.ok and not each.repeated), None)
    if block is None:
        return None
    given = {block.task: (99, "again")}
    again = block._replace(
        verb="claim", task="", token="", begin=block.over + 0.01, end=block.over + 0.02, given=given, lease=1.0
    )
    return _ordered(history, again)


def a_blocker_that_nobody_finished(history: History) -> list[Operation] | None:
    story = _story(history)
    for task, attempts in story.attempts.items():
        for tie in story.ties.get(task, ()):
            surely = [each for each in attempts if tie.since < each.claim.begin and each.claim.over < tie.until]
            if surely:
                ends = {word.key for word in story.finishes.get(tie.on, ())}
                return [each._replace(outcome="refused", code="HELD") if each.key in ends else each for each in history]
    return None


def _look_changed(history: History, change: Callable[[dict[str, Any]], bool]) -> list[Operation] | None:
    look = history[-1]
    seen = {
        "tasks": [dict(row) for row in look.seen["tasks"]],
        "links": list(look.seen["links"]),
        "counts": dict(look.seen["counts"]),
    }
    return [*history[:-1], look._replace(seen=seen)] if change(seen) else None


def a_task_gone(history: History) -> list[Operation] | None:
    return _look_changed(history, lambda seen: bool(seen["tasks"].pop()))


def a_task_twice(history: History) -> list[Operation] | None:
    return _look_changed(history, lambda seen: seen["tasks"].append(seen["tasks"][0]) is None)


def a_task_from_nowhere(history: History) -> list[Operation] | None:
    return _look_changed(history, lambda seen: seen["tasks"].append({**seen["tasks"][0], "id": "zz"}) is None)


def a_status_that_nobody_gave(history: History) -> list[Operation] | None:
    return _look_changed(history, lambda seen: seen["tasks"][0].update(status="escalated") is None)


def anothers_result(history: History) -> list[Operation] | None:
    def change(seen: dict[str, Any]) -> bool:
        rows = [row for row in seen["tasks"] if row["result"]]
        for row in rows[:1]:
            row["result"] = {"by": "w9.9/1"}
        return bool(rows)

    return _look_changed(history, change)


def a_link_gone(history: History) -> list[Operation] | None:
    sure = [
        (tie.task, tie.on)
        for ties in _story(history).ties.values()
        for tie in ties
        if tie.since < NEVER and tie.until == NEVER
    ]
    return _look_changed(history, lambda seen: seen["links"].remove(sure[0]) is None) if sure else None


def a_link_from_nowhere(history: History) -> list[Operation] | None:
    return _look_changed(history, lambda seen: seen["links"].append(("a", "e")) is None)


def a_ring(history: History) -> list[Operation] | None:
    def change(seen: dict[str, Any]) -> bool:
        seen["links"] += [(on, task) for task, on in seen["links"][:1]]
        return bool(seen["links"])

    return _look_changed(history, change)


def a_ring_of_words(history: History) -> list[Operation] | None:
    """Both links of a ring were accepted, and neither was taken back."""
    for ties in _story(history).ties.values():
        for tie in ties:
            if tie.since < NEVER and tie.until == NEVER:
                begin = tie.since + 0.01
                back = tie.made_by._replace(
                    worker="w9.1", verb="link", made={}, task=tie.on, on=tie.task, begin=begin, end=begin + 0.01
                )
                return _ordered(history, back)
    return None


def counts_that_are_off(history: History) -> list[Operation] | None:
    def change(seen: dict[str, Any]) -> bool:
        first = next(iter(seen["counts"]))
        seen["counts"][first] += 1
        return True

    return _look_changed(history, change)


def a_counter_that_is_off(history: History) -> list[Operation] | None:
    def change(seen: dict[str, Any]) -> bool:
        rows = [row for row in seen["tasks"] if row["status"] not in {"done", "canceled"}]
        for row in rows[:1]:
            row["blockers"] += 1
        return bool(rows)

    return _look_changed(history, change)


def nobody_is_given_it(history: History) -> list[Operation] | None:
    """A task is ready at the end, but all workers got empty answers."""
    look = history[-1]
    ready = [row for row in look.seen["tasks"] if row["status"] in {"ready", "active"} and not row["blockers"]]
    if not ready or any(each.outcome == "unknown" and each.verb != "claim" for each in history):
        return None
    late = look.over + 100
    asked = [
        look._replace(verb="claim", worker="w9.1", number=number, begin=late + number, end=late + number + 0.1, seen={})
        for number in range(30)
    ]
    return [*history[:-1], *asked, look._replace(begin=late + 200, end=late + 201)]


MUTATIONS: dict[Mutation, str] = {
    a_second_holder: "one holder",
    the_same_number_again: "rising attempts",
    a_lower_number: "rising attempts",
    anothers_token: "proof",
    a_word_of_an_earlier_attempt: "latest attempt",
    a_word_after_the_lease: "in time",
    given_after_the_end: "finished once",
    given_while_set_aside: "set aside",
    a_blocker_that_nobody_finished: "blockers first",
    a_task_gone: "nothing lost",
    a_task_twice: "nothing lost",
    a_task_from_nowhere: "nothing lost",
    a_status_that_nobody_gave: "states kept",
    anothers_result: "states kept",
    a_link_gone: "links kept",
    a_link_from_nowhere: "links kept",
    a_ring: "no cycle",
    a_ring_of_words: "no cycle",
    counts_that_are_off: "counters true",
    a_counter_that_is_off: "counters true",
    nobody_is_given_it: "no starvation",
}
