"""What there is to do: tasks that wait for some of those before them, the same for the same seed."""

import random
from collections.abc import Iterator
from typing import NamedTuple

_WINDOW = 40  # a task waits for some of those shortly before it, so that there is always much to do at once
_MOST = 3


class Planned(NamedTuple):
    title: str
    priority: int
    after: tuple[int, ...]  # places of earlier ones


def waves(seed: int, size: int) -> Iterator[list[Planned]]:
    """One plan after the other, each as large as that; nobody ever runs out of work."""
    dice = random.Random(f"{seed} plan")  # noqa: S311 - an experiment that can be repeated, no secret
    number = 0
    while True:
        number += 1
        yield [_planned(dice, number, place) for place in range(size)]


def _planned(dice: random.Random, wave: int, place: int) -> Planned:
    first = max(0, place - _WINDOW)
    after = {dice.randrange(first, place) for _ in range(dice.randint(0, _MOST))} if place else set[int]()
    return Planned(f"wave {wave} task {place}", dice.choice((1, 2, 2, 3)), tuple(sorted(after)))
