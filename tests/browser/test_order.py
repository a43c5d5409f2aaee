"""The board has the order of the desk, and a dragged card keeps the position of its drop."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dibs.core.task import ServiceClass, Task, order_key
from dibs.core.times import time_from, time_text

if TYPE_CHECKING:
    from support.board import Visit

_START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def some_task(choose: random.Random, number: int) -> Task:
    """With many alike: ties are where an order goes wrong."""
    at = _START + timedelta(microseconds=choose.choice([0, 0, 0, 1, 2, 1_000_000, 999_999]))
    kind = choose.choice([ServiceClass.STANDARD, ServiceClass.STANDARD, ServiceClass.EXPEDITE, ServiceClass.INTANGIBLE])
    return Task(
        "scope", f"t{number}", "title", at, at, at,
        service_class=kind, override=choose.random() < 0.2, priority=choose.choice([0, 1, 2, 2, 2, 2.5]),
    )  # fmt: skip


def as_json(task: Task) -> dict[str, Any]:
    told = {"id": task.id, "service_class": task.service_class.value, "priority": task.priority}
    return {**told, "queued_at": time_text(task.queued_at), **({"override": True} if task.override else {})}


def edited(task: Task, changes: dict[str, Any]) -> Task:
    values = dict(changes)
    if "queued_at" in values:
        values["queued_at"] = time_from(values["queued_at"])
    if "service_class" in values:
        values["service_class"] = ServiceClass(values["service_class"])
    return task._replace(**values)


def test_dropped_card_stays_between_its_neighbours(anna: Visit) -> None:
    choose = random.Random(20)
    cases = []
    for _ in range(400):
        line = sorted((some_task(choose, number) for number in range(choose.randint(2, 7))), key=order_key)
        task = choose.choice(line)
        cases.append((line, task, choose.randrange(len(line))))
    page = anna.at()
    answers = page.evaluate(
        """async cases => { const { placed, inOrder } = await import('./order.js');
        const sorted = line => [...line].sort(inOrder).map(task => task.id);
        return cases.map(([line, task, place]) => [sorted(line), placed(task, line, place)]) }""",
        [[[as_json(each) for each in line], as_json(task), place] for line, task, place in cases],
    )
    for (line, task, place), (sorted_there, edits) in zip(cases, answers, strict=True):
        assert sorted_there == [each.id for each in line]
        changes = dict(edits)
        after = sorted((edited(each, changes.get(each.id, {})) for each in line), key=order_key)
        wanted = [each.id for each in line if each.id != task.id]
        wanted.insert(place, task.id)
        assert [each.id for each in after] == wanted, (line, task.id, place, edits)


def test_card_dropped_in_place_changes_nothing(anna: Visit) -> None:
    choose = random.Random(21)
    line = sorted((some_task(choose, number) for number in range(6)), key=order_key)
    edits = anna.at().evaluate(
        """async line => { const { placed } = await import('./order.js');
        return line.flatMap((task, index) => placed(task, line, index)) }""",
        [as_json(task) for task in line],
    )
    assert edits == []
