"""The order of work: total, and each reason counts only where those before it are even."""

from __future__ import annotations

from datetime import timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.task import CLASS_RANK, ServiceClass, Task, order_key

from .samples import NOW, make_task

# Few values for each field, so that ties are common.
TASKS = st.builds(
    lambda scope, service_class, override, priority, minutes, name: make_task(
        name,
        service_class=service_class,
        override=override,
        priority=priority,
        queued_at=NOW + timedelta(minutes=minutes),
    )._replace(scope=scope),
    st.sampled_from(["desk", "door"]),
    st.sampled_from(ServiceClass),
    st.booleans(),
    st.one_of(st.integers(-1, 2), st.sampled_from([0.5, 1.5])),
    st.integers(0, 2),
    st.sampled_from(["a", "b", "c", "ä", "B"]),
)

BEST = make_task(
    "z",
    service_class=ServiceClass.EXPEDITE,
    override=True,
    priority=-5,
    queued_at=NOW - timedelta(days=1),
)


def first_of(*tasks: Task) -> Task:
    return min(tasks, key=order_key)


@given(
    st.lists(TASKS, unique_by=lambda task: (task.scope, task.id)).flatmap(
        lambda t: st.tuples(st.just(t), st.permutations(t))
    )
)
def test_any_two_readers_agree_whatever_order_they_read_in(tasks: tuple[list[Task], list[Task]]) -> None:
    one, other = tasks
    assert sorted(one, key=order_key) == sorted(other, key=order_key)


@given(TASKS, TASKS)
def test_only_the_same_task_is_neither_before_nor_after(one: Task, other: Task) -> None:
    same = (one.scope, one.id) == (other.scope, other.id)
    before, after = order_key(one) < order_key(other), order_key(other) < order_key(one)
    assert not (before and after)
    assert before or after or same


@given(TASKS, TASKS, TASKS)
def test_before_is_transitive(one: Task, two: Task, three: Task) -> None:
    if order_key(one) < order_key(two) < order_key(three):
        assert order_key(one) < order_key(three)


@pytest.mark.parametrize(("sooner", "later"), list(pairwise(ServiceClass)))
def test_the_service_class_beats_everything(sooner: ServiceClass, later: ServiceClass) -> None:
    plain = make_task("a", service_class=sooner, priority=9)
    favoured = BEST._replace(service_class=later, id="A")
    assert first_of(favoured, plain) is plain


def test_the_classes_are_ranked_from_one_to_four() -> None:
    assert [CLASS_RANK[service_class] for service_class in ServiceClass] == [1, 2, 3, 4]


def test_user_override_beats_priority() -> None:
    plain = BEST._replace(override=False)
    favoured = make_task("zz", service_class=ServiceClass.EXPEDITE, override=True, priority=9, queued_at=NOW)
    assert first_of(plain, favoured) is favoured


@pytest.mark.parametrize(("sooner", "later"), [(0, 1), (-1, 0), (1, 1.5), (1.5, 2)])
def test_a_lower_priority_beats_the_queue(sooner: float, later: float) -> None:
    urgent = make_task("z", priority=sooner, queued_at=NOW + timedelta(days=1))
    assert first_of(make_task("a", priority=later), urgent) is urgent


def test_the_queue_beats_the_id() -> None:
    earlier = make_task("z", queued_at=NOW - timedelta(microseconds=1))
    assert first_of(make_task("a"), earlier) is earlier


def test_the_id_decides_in_the_end_by_code_point() -> None:
    assert [task.id for task in sorted(map(make_task, ["b", "ä", "B", "a", "aa"]), key=order_key)] == [
        "B", "a", "aa", "b", "ä",
    ]  # fmt: skip


def test_the_scope_keeps_tasks_of_the_same_id_apart() -> None:
    here, there = make_task("a"), make_task("a")._replace(scope="attic")
    assert first_of(here, there) is there
