"""What waits for what: nothing is given out before its time, and nothing waits for itself."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from dibs.lab.torture.checking.story import NEVER, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dibs.lab.torture.checking.story import Story, Tie


def blockers_first(story: Story) -> Iterator[Violation]:
    """Given out while it surely waited for something that nobody had so much as asked to finish."""
    for task, attempts in story.attempts.items():
        for attempt in attempts:
            claim = attempt.claim
            for tie in story.ties.get(task, ()):
                waits = tie.since < claim.begin and claim.over < tie.until
                if waits and claim.over < story.maybe_finished(tie.on):
                    message = f"{task} was given to {claim.worker} before {tie.on}, which it waits for, was finished"
                    yield Violation("blockers first", task, message, (tie.made_by, claim))


def no_cycle(story: Story) -> Iterator[Violation]:
    """Not among the links that were surely there together, nor among those that were found in the end."""
    there: dict[str, list[Tie]] = defaultdict(list)
    for tie in sorted(_suspects(story), key=lambda tie: tie.since):
        there[tie.task].append(tie)
        if way := _way(there, tie.on, tie.task, tie.since):
            made = {each.made_by.key: each.made_by for each in (tie, *way)}
            message = f"{tie.task} waits for itself, by way of {tie.on}"
            yield Violation("no cycle", tie.task, message, tuple(made.values()))
    look = story.last_look
    found: dict[str, list[str]] = defaultdict(list)
    for task, on in look.seen["links"] if look else ():
        found[task].append(on)
    for task in _circular(found):
        yield Violation("no cycle", task, f"{task} was found to wait for itself", (look,) if look else ())


def _suspects(story: Story) -> list[Tie]:
    """Those that would be part of a cycle if all had been there together; in a plan without one, none is."""
    sure = [tie for each in story.ties.values() for tie in each if tie.since < NEVER]
    links: dict[str, list[str]] = defaultdict(list)
    for tie in sure:
        links[tie.task].append(tie.on)
    circular = set(_circular(links))
    return [tie for tie in sure if tie.task in circular and tie.on in circular]


def _way(there: Mapping[str, Sequence[Tie]], start: str, goal: str, moment: float) -> list[Tie]:
    """Ties that lead from one task to another, all of them there at one moment."""
    reached: dict[str, list[Tie]] = {start: []}
    ahead = [start]
    while ahead:
        task = ahead.pop()
        for tie in there.get(task, ()):
            if tie.since <= moment < tie.until and tie.on not in reached:
                reached[tie.on] = [*reached[task], tie]
                if tie.on == goal:
                    return reached[goal]
                ahead.append(tie.on)
    return []


def _circular(links: Mapping[str, Sequence[str]]) -> list[str]:
    """What is left when everything that waits for nothing is taken away, again and again."""
    waiting = {task: set(before) for task, before in links.items()}
    freed = {on for before in links.values() for on in before} - waiting.keys()
    behind: dict[str, list[str]] = defaultdict(list)
    for task, before in links.items():
        for on in before:
            behind[on].append(task)
    while freed:
        done = freed.pop()
        for task in behind[done]:
            waiting[task].discard(done)
            if not waiting[task]:
                freed.add(task)
    return sorted(task for task, before in waiting.items() if before)
