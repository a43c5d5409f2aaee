"""What was found in the end, held against what was said: nothing lost, nothing twice, nothing that nobody did."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dibs.lab.torture.checking.story import NEVER, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.lab.torture.checking.story import Story
    from dibs.lab.torture.history import Operation

_LEADS_TO = {
    "add": "ready",
    "claim": "active",
    "renew": "active",
    "done": "done",
    "fail": "ready",
    "release": "ready",
    "block": "blocked",
    "unblock": "ready",
    "cancel": "canceled",
}
_FINISHED = frozenset({"done", "canceled"})


def nothing_lost(story: Story) -> Iterator[Violation]:
    """Each task that was taken in is there once, and no other is."""
    look = story.last_look
    if look is None:
        return
    found = Counter(str(row["id"]) for row in look.seen["tasks"])
    for task, additions in story.additions.items():
        sure = [each for each in additions if each.ok]
        if sure and not found[task]:
            yield Violation("nothing lost", task, f"{task} is gone", (sure[0], look))
    for task, times in found.items():
        if times > 1:
            yield Violation("nothing lost", task, f"{task} is there {times} times", (*story.additions[task], look))
        elif not story.additions.get(task):
            yield Violation("nothing lost", task, f"{task} is there, and nobody added it", (look,))


def as_said(story: Story) -> Iterator[Violation]:
    """Each task stands where one of the last things that were said of it has put it."""
    look = story.last_look
    anybody = [each for each in story.operations if each.verb == "claim" and each.outcome == "unknown"]
    for row in look.seen["tasks"] if look else ():
        task = str(row["id"])
        said = _said(story, task)
        latest = max((each.begin for each in said if each.ok), default=0.0)
        last = [each for each in said if each.over >= latest]
        allowed = {_LEADS_TO[each.verb] for each in last}
        if any(claim.over >= latest for claim in anybody):
            allowed.add("active")  # a claim whose answer was lost may have taken any of them
        if said and row["status"] not in allowed and look:
            message = (
                f"{task} is {row['status']}, but the last that was said of it makes it {' or '.join(sorted(allowed))}"
            )
            yield Violation("as it was said", task, message, (*last[-3:], look))
        yield from _result(story, task, row.get("result"))


def _said(story: Story, task: str) -> list[Operation]:
    claims = [attempt.claim for attempt in story.attempts.get(task, ())]
    words = [word for word in story.words[task] if word.verb in _LEADS_TO]
    said = [*story.additions.get(task, ()), *claims, *words]
    return sorted((each for each in said if each.possible and not story.echoes(each)), key=lambda each: each.begin)


def _result(story: Story, task: str, result: object) -> Iterator[Violation]:
    """What is kept was brought by one whose finish was accepted, or may have been."""
    if not isinstance(result, dict) or "by" not in result:
        return
    words = [word for word in story.finishes.get(task, ()) if word.verb == "done"]
    accepted = [word for word in words if word.ok] or words
    if result["by"] not in {signature(word.worker, word.number) for word in words} and story.last_look:
        message = f"the result of {task} is that of an attempt that did not finish it"
        yield Violation("as it was said", task, message, (*accepted, story.last_look))


def signature(worker: str, number: int) -> str:
    """What a worker leaves as its result, to tell whose it is."""
    return f"{worker}/{number}"


def links_kept(story: Story) -> Iterator[Violation]:
    """Every link that was surely made and never taken back is there, and none that nobody made."""
    look = story.last_look
    if look is None:
        return
    found = {(task, on) for task, on in look.seen["links"]}
    ties = [tie for each in story.ties.values() for tie in each]
    possible = {(tie.task, tie.on) for tie in ties if tie.gone == NEVER}
    for tie in ties:
        if tie.since < NEVER and tie.until == NEVER and (tie.task, tie.on) not in found:
            message = f"the link of {tie.task} to {tie.on} is gone"
            yield Violation("links kept", tie.task, message, (tie.made_by, look))
    for task, on in found - possible:
        yield Violation("links kept", task, f"{task} is linked to {on}, and nobody has asked for that", (look,))


def counters_true(story: Story) -> Iterator[Violation]:
    """What the store counts is what is there."""
    look = story.last_look
    if look is None:
        return
    rows = {str(row["id"]): row for row in look.seen["tasks"]}
    tally = Counter(str(row["status"]) for row in look.seen["tasks"])
    told = {status: number for status, number in look.seen["counts"].items() if number}
    if told != dict(tally):
        yield Violation("counters true", "", f"the store counts {told}, and there are {dict(tally)}", (look,))
    waiting = Counter(
        str(task) for task, on in look.seen["links"] if on in rows and rows[on]["status"] not in _FINISHED
    )
    for task, row in rows.items():
        if row["status"] not in _FINISHED and row["blockers"] != waiting[task]:
            message = f"{task} is said to wait for {row['blockers']}, and it waits for {waiting[task]}"
            yield Violation("counters true", task, message, (look,))
