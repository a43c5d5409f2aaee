"""Who holds a task, and whose word counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.lab.torture.checking.story import NEVER, Violation
from dibs.lab.torture.history import ENDINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.lab.torture.checking.story import Attempt, Story
    from dibs.lab.torture.history import Operation


def one_holder(story: Story) -> Iterator[Violation]:
    """Surely held: from the claim's answer until its lease is over at the earliest, or its end was asked for."""
    for task, attempts in story.attempts.items():
        longest: Attempt | None = None
        for attempt in sorted(attempts, key=lambda attempt: attempt.claim.over):
            if longest is not None and attempt.claim.over < _until(longest) and attempt.claim.over < _until(attempt):
                message = f"{task} was held twice, by {_who(longest)} and by {_who(attempt)}"
                yield Violation("one holder", task, message, (*_hold(longest), attempt.claim))
            if longest is None or _until(attempt) > _until(longest):
                longest = attempt


def _until(attempt: Attempt) -> float:
    return min(attempt.leased, attempt.ended)


def _hold(attempt: Attempt) -> list[Operation]:
    """The claim, and the renewal that its lease lasts by."""
    renewals = [word for word in attempt.words if word.verb == "renew" and word.ok]
    return [attempt.claim, *renewals[-1:]]


def _who(attempt: Attempt) -> str:
    return f"{attempt.claim.worker} (attempt {attempt.number})"


def rising_attempts(story: Story) -> Iterator[Violation]:
    for task, attempts in story.attempts.items() if story.assumptions.fenced else ():
        for place, attempt in enumerate(attempts):
            for earlier in attempts[:place]:
                if earlier.number == attempt.number:
                    message = f"attempt {attempt.number} of {task} was given out twice"
                elif earlier.number > attempt.number and earlier.claim.over < attempt.claim.begin:
                    message = f"attempt {attempt.number} of {task} was given out after attempt {earlier.number}"
                else:
                    continue
                yield Violation("rising attempts", task, message, (earlier.claim, attempt.claim))


def proof(story: Story) -> Iterator[Violation]:
    """A word counts with the token of an attempt at this very task."""
    for task, words in story.words.items():
        known = {attempt.token for attempt in story.attempts.get(task, ())}
        for word in words:
            if word.token and word.ok and word.token not in known:
                yield Violation(
                    "proof", task, f"{task}: '{word.verb}' was accepted with a token of another task", (word,)
                )


def latest_attempt(story: Story) -> Iterator[Violation]:
    """Once a later attempt has been given out, an earlier one has nothing to say any more."""
    for task, attempts in story.attempts.items():
        for attempt in attempts:
            for word in attempt.words:
                later = next((other for other in attempts if word.ok and _overtaken(attempt, other, word)), None)
                if later is not None:
                    message = f"{task}: '{word.verb}' by {_who(attempt)} was accepted after {_who(later)} had taken it"
                    yield Violation("latest attempt", task, message, (attempt.claim, later.claim, word))


def _overtaken(attempt: Attempt, other: Attempt, word: Operation) -> bool:
    """`other` had its answer before this word was said, and its claim came later."""
    came_later = other.number > attempt.number or other.claim.begin > attempt.claim.over
    return other.token != attempt.token and other.claim.over < word.begin and came_later


def in_time(story: Story) -> Iterator[Violation]:
    """Whose lease is over is refused, even while nobody else has the task; but may hear again what it heard before."""
    for task, attempts in story.attempts.items():
        for attempt in attempts:
            for word in attempt.words:
                late = word.begin - attempt.lapsed
                if word.ok and late > 0 and not (word.verb in ENDINGS and story.said_before(word)):
                    message = f"{task}: '{word.verb}' by {_who(attempt)} was accepted {late:.2f} s after its lease"
                    yield Violation("in time", task, message, (*_hold(attempt), word))


def finished_once(story: Story) -> Iterator[Violation]:
    """What is done or canceled stays so, and nobody is given it again."""
    for task, finishes in story.finishes.items():
        accepted = [word for word in finishes if word.ok]
        for word in accepted:
            again = next((each for each in story.attempts.get(task, ()) if each.claim.begin > word.over), None)
            if again is not None:
                message = f"{task} was given to {_who(again)} after it had been finished"
                yield Violation("finished once", task, message, (word, again.claim))
        first = accepted[0] if accepted else None
        for word in accepted[1:]:
            if first is not None and (word.token, word.verb) != (first.token, first.verb):
                yield Violation("finished once", task, f"{task} was finished by two attempts", (first, word))


def set_aside(story: Story) -> Iterator[Violation]:
    """What is blocked is not given out before somebody has asked to unblock it."""
    for task, words in story.words.items():
        for block in words:
            if block.verb != "block" or not block.ok or story.echoes(block):
                continue
            back = [
                word.begin for word in words if word.verb == "unblock" and word.possible and word.over > block.begin
            ]
            for attempt in story.attempts.get(task, ()):
                if attempt.claim.begin > block.over and attempt.claim.over < min(back, default=NEVER):
                    message = f"{task} was given to {_who(attempt)} while it was set aside"
                    yield Violation("set aside", task, message, (block, attempt.claim))
                    break
