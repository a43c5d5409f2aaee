"""Adding tasks, and the terms on which they are taken in."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dibs.core import checks
from dibs.core.errors import AlreadyExists, CycleDetected, InvalidInput, LostLock, NotFound, OverQuota
from dibs.core.fleet import Quota
from dibs.core.lifecycle import Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Json, Lease, ServiceClass, Status, Task
from dibs.stores.port import Terms

from .builders import (
    LEASE,
    MAKER,
    SCOPE,
    add,
    blockers,
    blocks,
    claim,
    draft,
    events,
    feeds,
    finish,
    get,
    hold,
    link,
    links_of,
    move,
    no_trace,
    parallel,
    peek_ids,
    state,
    statuses,
)
from .suite import Suite, needs

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store
    from dibs.testing import Clock

    from .suite import Harness


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


def _leaves(value: Json) -> list[Json]:
    """1, 1.0 and true are equal in Python but not in JSON."""
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _leaves(value[key])]
    if isinstance(value, list):
        return [leaf for inner in value for leaf in _leaves(inner)]
    return [value]


class AddingTests(Suite):
    """Added tasks have the given fields, and a call adds all of its tasks or none."""

    def test_a_task_keeps_everything_its_draft_states(self, store: Store) -> None:
        due = store.now() + LEASE
        add(store, "mail")
        (added,) = store.add(SCOPE, [FULL._replace(not_before=due)], [], MAKER)
        stated = {name: value for name, value in FULL._asdict().items() if name != "not_before"}
        assert {name: getattr(added, name) for name in stated} == stated
        assert added.not_before == due
        assert get(store, "letter") == added

    def test_a_bare_task_has_the_defaults_and_the_stores_time(self, store: Store) -> None:
        (added,) = store.add(SCOPE, [Draft("Sweep", id="s")], [], MAKER)
        now = store.now()
        assert added == Task(SCOPE, "s", "Sweep", created_at=now, updated_at=now, queued_at=now)

    def test_added_tasks_are_returned_in_order(self, store: Store) -> None:
        assert [task.id for task in add(store, "c", "a", "b")] == ["c", "a", "b"]

    @needs("scopes")
    def test_the_same_id_may_live_in_two_scopes(self, store: Store) -> None:
        add(store, draft("a", description="here"))
        add(store, draft("a", description="there"), scope="elsewhere")
        assert get(store, "a").description == "here"
        assert get(store, "a", "elsewhere").description == "there"

    @pytest.mark.parametrize("twins", [("a",), ("b", "c", "b"), ("b", "a")])
    def test_an_id_is_taken_once_and_then_nothing_of_the_call_is_kept(
        self, store: Store, twins: tuple[str, ...]
    ) -> None:
        add(store, "a")
        with no_trace(store), pytest.raises(AlreadyExists):
            add(store, *twins)

    @needs("links")
    def test_links_are_added_with_their_tasks_and_count_at_once(self, store: Store) -> None:
        added = add(store, "a", "b", "c", links=[blocks("c", "a"), blocks("c", "b"), feeds("b", "a")])
        assert [task.blockers for task in added] == [0, 0, 2]
        assert links_of(store, "c") == {
            (link.task, link.on, link.kind) for link in (blocks("c", "a"), blocks("c", "b"))
        }
        assert peek_ids(store) == ["a", "b"]

    @needs("links")
    def test_a_new_task_may_depend_on_one_that_is_there_already(self, store: Store) -> None:
        add(store, "a")
        add(store, "b", links=[blocks("b", "a")])
        assert blockers(store) == {"a": 0, "b": 1}

    @needs("links")
    def test_new_task_may_become_a_prerequisite_of_an_old_one(self, store: Store) -> None:
        add(store, "late")
        add(store, "early", links=[blocks("late", "early")])
        assert peek_ids(store) == ["early"]

    @needs("links")
    def test_add_with_an_unknown_prerequisite_changes_nothing(self, store: Store) -> None:
        with no_trace(store), pytest.raises(NotFound):
            add(store, "a", "b", links=[blocks("b", "a"), blocks("b", "nowhere")])

    @needs("links")
    def test_add_with_a_cycle_changes_nothing(self, store: Store) -> None:
        with no_trace(store), pytest.raises(CycleDetected):
            add(store, "a", "b", links=[blocks("b", "a"), feeds("a", "b")])

    @pytest.mark.parametrize("order", [("child", "parent"), ("parent", "child")])
    def test_a_parent_may_be_added_in_the_same_call_before_or_after_its_child(
        self, store: Store, order: tuple[str, str]
    ) -> None:
        parents = {"child": "parent"}
        add(store, *(draft(task, parent=parents.get(task)) for task in order))
        assert get(store, "child").parent == "parent"

    def test_add_with_an_unknown_parent_changes_nothing(self, store: Store) -> None:
        with no_trace(store), pytest.raises(NotFound):
            add(store, "a", draft("b", parent="nowhere"))

    @needs("scopes")
    def test_a_parent_of_another_scope_is_unknown(self, store: Store) -> None:
        add(store, "p", scope="elsewhere")
        with no_trace(store), pytest.raises(NotFound):
            add(store, draft("a", parent="p"))

    def test_a_task_is_not_its_own_parent(self, store: Store) -> None:
        with no_trace(store), pytest.raises(CycleDetected):
            add(store, draft("a", parent="a"))

    def test_tasks_that_are_each_others_parents_are_refused(self, store: Store) -> None:
        with no_trace(store), pytest.raises(CycleDetected):
            add(store, draft("a", parent="b"), draft("b", parent="a"))

    @needs("links")
    def test_a_parent_that_its_child_waits_for_is_refused(self, store: Store) -> None:
        with no_trace(store), pytest.raises(CycleDetected):
            add(store, "p", draft("a", parent="p"), links=[blocks("a", "p")])

    def test_only_ready_drafts_are_claimable(self, store: Store) -> None:
        add(store, draft("b", status=Status.BACKLOG), draft("v", status=Status.REVIEW), draft("r"))
        assert peek_ids(store) == ["r"]

    def test_adding_nothing_leaves_no_trace(self, store: Store) -> None:
        with no_trace(store):
            assert store.add(SCOPE, [], [], MAKER) == []

    @needs("links")
    def test_added_task_is_visible_after_reopening(self, store: Store, reopen: Callable[[], Store]) -> None:
        add(store, "mail", FULL, "a", links=[blocks("a", "letter"), parallel("a", "mail")])
        hold(store, "mail")
        before = list(store.dump())
        assert list(reopen().dump()) == before

    @needs("scopes")
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
    def test_texts_and_json_values_round_trip(
        self,
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
            Draft(
                title, id="a", description=description, steps=steps, extra=extra, requires=tuple(requires), ref=reason
            )
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

    @needs("scopes")
    @given(ids=st.sets(names.filter(_allowed(checks.identifier)), min_size=1, max_size=6))
    def test_every_id_that_is_allowed_can_be_stored_linked_and_found(self, store: Store, ids: set[str]) -> None:
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


INBOX = "inbox"
HOUR = timedelta(hours=1)


def done(task: str, token: str, scope: str = INBOX) -> Move:
    return Move(Verb.DONE, task, scope, Actor("ann"), token=token)


def hand_in(store: Store, *ids: str, ending: tuple[Move, ...] = (), quota: Quota | None = None) -> list[Task]:
    return store.add(SCOPE, [draft(task) for task in ids], [], MAKER, Terms(quota, ending))


def _hand_in_three(store: Store, name: str, quota: Quota, together: Barrier) -> bool:
    together.wait(timeout=120)
    try:
        hand_in(store, *(f"{name}{number}" for number in range(3)), quota=quota)
    except OverQuota:
        return False
    return True


@needs("transactions")
class TermsTests(Suite):
    """Taking tasks in on terms: within a quota, and only along with the end of others."""

    def test_add_can_finish_tasks_of_another_scope(self, store: Store) -> None:
        add(store, "m1", "m2", scope=INBOX)
        held = {task: hold(store, task, scope=INBOX) for task in ("m1", "m2")}
        added = hand_in(store, "a", "b", ending=tuple(done(task, token) for task, token in held.items()))
        assert [task.id for task in added] == ["a", "b"]
        assert statuses(store, INBOX) == {"m1": Status.DONE, "m2": Status.DONE}
        assert peek_ids(store) == ["a", "b"]
        assert [event.verb for event in events(store, "m1", INBOX)] == ["add", "claim", "done"]

    def test_expired_lease_rejects_added_tasks(self, store: Store, clock: Clock) -> None:
        add(store, "m1", "m2", scope=INBOX)
        kept, lost = hold(store, "m1", scope=INBOX, lease=3 * LEASE), hold(store, "m2", scope=INBOX)
        clock.advance(seconds=(2 * LEASE).total_seconds())
        with no_trace(store), pytest.raises(LostLock):
            hand_in(store, "a", ending=(done("m1", kept), done("m2", lost)))
        taken = claim(store, "bob", "m2", scope=INBOX)[0].task.lease
        assert taken is not None
        hand_in(store, "a", ending=(done("m1", kept), done("m2", taken.token)))
        assert statuses(store) == {"a": Status.READY}

    def test_repeated_terms_are_not_applied_twice(self, store: Store) -> None:
        add(store, "m1", scope=INBOX)
        ending = (done("m1", hold(store, "m1", scope=INBOX)),)
        hand_in(store, "a", ending=ending)
        with no_trace(store), pytest.raises(LostLock):
            hand_in(store, "b", ending=ending)

    def test_invalid_tasks_leave_the_others_unchanged(self, store: Store) -> None:
        add(store, "m1", scope=INBOX)
        add(store, "a")
        ending = (done("m1", hold(store, "m1", scope=INBOX)),)
        with no_trace(store), pytest.raises(AlreadyExists):
            hand_in(store, "b", "a", ending=ending)
        drafts, links = [draft("b"), draft("c")], [blocks("b", "c"), blocks("c", "b")]
        with no_trace(store), pytest.raises(CycleDetected):
            store.add(SCOPE, drafts, links, MAKER, Terms(ending=ending))
        with no_trace(store), pytest.raises(NotFound):
            hand_in(store, "b", ending=(*ending, done("nobody", "no token")))

    def test_task_can_be_added_as_merged_and_separated_again(self, store: Store) -> None:
        add(store, "a")
        merging = Move(Verb.CANCEL, "b", SCOPE, MAKER, reason="says the same as a", merged_into="a")
        (merged,) = hand_in(store, "b", ending=(merging,))
        assert (merged.status, merged.merged_into, merged.reason) == (Status.CANCELED, "a", "says the same as a")
        assert get(store, "b") == merged
        assert events(store, "b")[-1].detail == {"merged_into": "a"}
        move(store, Verb.REOPEN, "b")
        assert (get(store, "b").status, get(store, "b").merged_into) == (Status.READY, None)

    def test_terms_decide_the_effect_of_a_cancelation(self, store: Store) -> None:
        add(store, "a", "b")
        link(store, blocks("b", "a"))
        canceling = Move(Verb.CANCEL, "a", SCOPE, MAKER)
        store.add(SCOPE, [draft("c")], [], MAKER, Terms(ending=(canceling,), on_cancel=CanceledBlocker.CASCADES))
        assert statuses(store) == {"a": Status.CANCELED, "b": Status.CANCELED, "c": Status.READY}

    def test_quota_counts_tasks_added_within_its_span(self, store: Store, clock: Clock) -> None:
        quota = Quota(3, HOUR)
        hand_in(store, "a", quota=quota)
        clock.advance(minutes=20)
        hand_in(store, "b", quota=quota)
        add(store, "elsewhere", scope="another")
        finish(store, "b")
        with no_trace(store), pytest.raises(OverQuota) as refused:
            hand_in(store, "c", "d", quota=quota)
        assert refused.value.room == 1
        assert refused.value.retry_after_ms == pytest.approx(40 * 60 * 1000, abs=2)
        hand_in(store, "c", quota=quota)
        clock.advance(minutes=40, milliseconds=1)
        hand_in(store, "d", quota=quota)
        with pytest.raises(OverQuota) as refused:
            hand_in(store, "e", quota=quota)
        assert refused.value.room == 0

    def test_batch_above_the_quota_is_refused_in_an_empty_scope(self, store: Store) -> None:
        with no_trace(store), pytest.raises(OverQuota) as refused:
            hand_in(store, "a", "b", quota=Quota(1, HOUR))
        assert refused.value.room == 1

    def test_concurrent_adds_keep_to_the_quota(self, store: Store, harness: Harness[Store]) -> None:
        turns = 5
        together = Barrier(2)

        def try_to(who: str) -> list[bool]:
            with harness.join(store) as own:
                return [
                    _hand_in_three(own, f"{who}{turn}", Quota(5 + 3 * turn, HOUR), together) for turn in range(turns)
                ]

        with ThreadPoolExecutor(2) as pool:
            tries = zip(*pool.map(try_to, "ab", timeout=240), strict=True)
            assert [sorted(both) for both in tries] == [[False, True]] * turns

    @needs("scopes")
    def test_scopes_with_something_to_claim(self, store: Store, clock: Clock) -> None:
        add(store, "a", "b", scope="held")
        hold(store, "a", scope="held")
        hold(store, "b", scope="held")
        add(store, draft("a", not_before=store.now() + 2 * LEASE), scope="later")
        add(store, draft("a", requires=("ears",)), draft("b", assigned_to="cid"), scope="special")
        add(store, draft("a", max_retries=0), scope="hopeless")
        hold(store, "a", scope="hopeless")
        move(store, Verb.CANCEL, add(store, "a", scope="over")[0].id, scope="over")
        assert store.scopes(claimable=True) == ["special"]
        clock.advance(seconds=LEASE.total_seconds())
        assert store.scopes(claimable=True) == ["held", "special"]
        clock.advance(seconds=LEASE.total_seconds())
        assert store.scopes(claimable=True) == ["held", "later", "special"]
        claim(store, scope="held")
        assert store.scopes(claimable=True) == ["held", "later", "special"]
        claim(store, scope="held")
        assert store.scopes(claimable=True) == ["later", "special"]
