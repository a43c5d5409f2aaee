"""Taking tasks in: what is stated is kept, and all or nothing of a call is taken."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dibs.core import checks
from dibs.core.errors import AlreadyExists, CycleDetected, InvalidInput, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Json, Lease, ServiceClass, Status, Task

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    blockers,
    blocks,
    draft,
    feeds,
    get,
    hold,
    links_of,
    move,
    no_trace,
    parallel,
    peek_ids,
    state,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store

FULL = Draft(
    "Write the letter",
    id="letter",
    description="Two pages.\n\n\tSigned.",
    status=Status.BACKLOG,
    reason="waits for the address",
    service_class=ServiceClass.FIXED_DATE,
    override=True,
    priority=1.5,
    category="post",
    deliverable="text",
    steps=("draft", "sign", "draft"),
    spec_ref="specs/post.md",
    ref="issue 7",
    parent="mail",
    requires=("pen", "stamp"),
    assigned_to="ann",
    max_retries=3,
    origin="chat",
    extra={"colour": "blue", "pages": [1, 2.5, None, True]},
)


def test_a_task_keeps_everything_its_draft_states(store: Store) -> None:
    due = store.now() + LEASE
    add(store, "mail")
    (added,) = store.add(SCOPE, [FULL._replace(not_before=due)], [], MAKER)
    stated = {name: value for name, value in FULL._asdict().items() if name != "not_before"}
    assert {name: getattr(added, name) for name in stated} == stated
    assert added.not_before == due
    assert get(store, "letter") == added


def test_a_bare_task_has_the_defaults_and_the_stores_time(store: Store) -> None:
    (added,) = store.add(SCOPE, [Draft("Sweep", id="s")], [], MAKER)
    now = store.now()
    assert added == Task(SCOPE, "s", "Sweep", created_at=now, updated_at=now, queued_at=now)


def test_tasks_come_back_in_the_order_they_were_given(store: Store) -> None:
    assert [task.id for task in add(store, "c", "a", "b")] == ["c", "a", "b"]


@pytest.mark.needs("scopes")
def test_the_same_id_may_live_in_two_scopes(store: Store) -> None:
    add(store, draft("a", description="here"))
    add(store, draft("a", description="there"), scope="elsewhere")
    assert get(store, "a").description == "here"
    assert get(store, "a", "elsewhere").description == "there"


@pytest.mark.parametrize("twins", [("a",), ("b", "c", "b"), ("b", "a")])
def test_an_id_is_taken_once_and_then_nothing_of_the_call_is_kept(store: Store, twins: tuple[str, ...]) -> None:
    add(store, "a")
    with no_trace(store), pytest.raises(AlreadyExists):
        add(store, *twins)


@pytest.mark.needs("links")
def test_links_are_added_with_their_tasks_and_count_at_once(store: Store) -> None:
    added = add(store, "a", "b", "c", links=[blocks("c", "a"), blocks("c", "b"), feeds("b", "a")])
    assert [task.blockers for task in added] == [0, 0, 2]
    assert links_of(store, "c") == {(link.task, link.on, link.kind) for link in (blocks("c", "a"), blocks("c", "b"))}
    assert peek_ids(store) == ["a", "b"]


@pytest.mark.needs("links")
def test_a_new_task_may_depend_on_one_that_is_there_already(store: Store) -> None:
    add(store, "a")
    add(store, "b", links=[blocks("b", "a")])
    assert blockers(store) == {"a": 0, "b": 1}


@pytest.mark.needs("links")
def test_a_new_task_may_come_before_one_that_is_there_already(store: Store) -> None:
    add(store, "late")
    add(store, "early", links=[blocks("late", "early")])
    assert peek_ids(store) == ["early"]


@pytest.mark.needs("links")
def test_a_link_to_nowhere_refuses_the_whole_call(store: Store) -> None:
    with no_trace(store), pytest.raises(NotFound):
        add(store, "a", "b", links=[blocks("b", "a"), blocks("b", "nowhere")])


@pytest.mark.needs("links")
def test_a_cycle_among_new_tasks_refuses_the_whole_call(store: Store) -> None:
    with no_trace(store), pytest.raises(CycleDetected):
        add(store, "a", "b", links=[blocks("b", "a"), feeds("a", "b")])


@pytest.mark.parametrize("order", [("child", "parent"), ("parent", "child")])
def test_a_parent_may_be_added_in_the_same_call_before_or_after_its_child(store: Store, order: tuple[str, str]) -> None:
    parents = {"child": "parent"}
    add(store, *(draft(task, parent=parents.get(task)) for task in order))
    assert get(store, "child").parent == "parent"


def test_an_unknown_parent_refuses_the_whole_call(store: Store) -> None:
    with no_trace(store), pytest.raises(NotFound):
        add(store, "a", draft("b", parent="nowhere"))


@pytest.mark.needs("scopes")
def test_a_parent_of_another_scope_is_unknown(store: Store) -> None:
    add(store, "p", scope="elsewhere")
    with no_trace(store), pytest.raises(NotFound):
        add(store, draft("a", parent="p"))


def test_a_task_is_not_its_own_parent(store: Store) -> None:
    with no_trace(store), pytest.raises(CycleDetected):
        add(store, draft("a", parent="a"))


def test_tasks_that_are_each_others_parents_are_refused(store: Store) -> None:
    with no_trace(store), pytest.raises(CycleDetected):
        add(store, draft("a", parent="b"), draft("b", parent="a"))


@pytest.mark.needs("links")
def test_a_parent_that_its_child_waits_for_is_refused(store: Store) -> None:
    with no_trace(store), pytest.raises(CycleDetected):
        add(store, "p", draft("a", parent="p"), links=[blocks("a", "p")])


def test_only_ready_tasks_are_up_for_work_from_the_start(store: Store) -> None:
    add(store, draft("b", status=Status.BACKLOG), draft("v", status=Status.REVIEW), draft("r"))
    assert peek_ids(store) == ["r"]


def test_adding_nothing_leaves_no_trace(store: Store) -> None:
    with no_trace(store):
        assert store.add(SCOPE, [], [], MAKER) == []


@pytest.mark.needs("links")
def test_what_was_added_is_there_for_a_newcomer(store: Store, reopen: Callable[[], Store]) -> None:
    add(store, "mail", FULL, "a", links=[blocks("a", "letter"), parallel("a", "mail")])
    hold(store, "mail")
    before = list(store.dump())
    assert list(reopen().dump()) == before


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
special = st.sampled_from(
    [
        "👩‍👩‍👧‍👦 🇩🇪",
        "שלום عالم \u202e",
        "e\u0301 ≠ é",
        "a\r\nb\n\u2028\u0085",
        "'; --\\ \" %_*?",
        "\ufeff\u200b",
        "\U0010ffff",
    ]
)
anything = texts | special
jsons: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | anything,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(anything, inner, max_size=4),
    max_leaves=12,
)


def _allowed(check: Callable[[str], object]) -> Callable[[str], bool]:
    def allowed(text: str) -> bool:
        try:
            check(text)
        except InvalidInput:
            return False
        return True

    return allowed


names = anything.map(str.strip).filter(_allowed(lambda text: checks.name_of("name", text)))


@pytest.mark.needs("scopes")
@given(
    description=anything,
    steps=st.lists(anything, max_size=4).map(tuple),
    title=names,
    extra=st.dictionaries(anything, jsons, max_size=4),
    result=jsons,
    artifacts=st.lists(anything, max_size=3).map(tuple),
    reason=anything,
    requires=st.lists(names, max_size=3),
    agent=names,
)
def test_every_text_and_every_json_value_comes_back_as_it_went_in(
    store: Store,
    description: str,
    steps: tuple[str, ...],
    title: str,
    extra: dict[str, Json],
    result: Json,
    artifacts: tuple[str, ...],
    reason: str,
    requires: list[str],
    agent: str,
) -> None:
    scope = f"scope {len(store.scopes())}"
    stated = checks.draft(
        Draft(title, id="a", description=description, steps=steps, extra=extra, requires=tuple(requires), ref=reason)
    )
    (added,) = store.add(scope, [stated], [], Actor(agent, agent))
    assert added == store.get(scope, "a")
    assert {name: getattr(added, name) for name in stated._fields} == stated._asdict()
    token = hold(store, "a", agent, scope=scope, run=agent, can=frozenset(requires))
    held = store.get(scope, "a").lease
    assert isinstance(held, Lease)
    assert (held.agent, held.run) == (agent, agent)
    done = move(store, Verb.REVIEW, "a", token, scope=scope, result=result, artifacts=artifacts, reason=reason).task
    read = store.get(scope, "a")
    assert (read.result, read.artifacts, read.reason) == (result, artifacts, reason)
    assert read == done
    assert [type(value) for value in _leaves(read.result)] == [type(value) for value in _leaves(result)]


def _leaves(value: Json) -> list[Json]:
    """1, 1.0 and true are equal in Python but not in JSON."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key])]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [value]


@pytest.mark.needs("scopes")
@given(ids=st.sets(names.filter(_allowed(checks.identifier)), min_size=1, max_size=6))
def test_every_id_that_is_allowed_can_be_stored_linked_and_found(store: Store, ids: set[str]) -> None:
    if store.capabilities.ids == "file names":
        assume(not any("/" in task or task.startswith(".") for task in ids))
    scope = f"ids {len(store.scopes())}"
    ordered = sorted(ids)
    add(store, *ordered, scope=scope, links=[blocks(task, ordered[0]) for task in ordered[1:]])
    assert [
        record.item.id for record in state(store) if record.scope == scope and isinstance(record.item, Task)
    ] == ordered
    for task in ordered:
        assert store.get(scope, task).id == task
        assert task in store.match(scope, task[:1], 10)
        assert task in store.match(scope, task, 10)
    assert len(store.links(scope, ordered[0])) == len(ordered) - 1
