"""Tasks are named by id or by the beginning of one; those without a name get one."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from dibs import desk as desk_module
from dibs.core.errors import (
    AlreadyExists,
    AmbiguousId,
    InvalidInput,
    NotFound,
)
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Edit, Link
from dibs.desk import Desk, mint_id, mint_token

from .hands import add, hold, state

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.port import Store

# How tasks are named


def test_task_is_found_by_id_or_unique_prefix(desk: Desk) -> None:
    add(desk, "apple", "apricot", "banana")
    assert [desk.get(ref).id for ref in ("apple", "app", "b", "banana")] == ["apple", "apple", "banana", "banana"]


def test_an_id_that_is_also_the_beginning_of_others_means_itself(desk: Desk) -> None:
    add(desk, "ab", *(f"ab{number}" for number in range(9)))
    assert desk.get("ab").id == desk.resolve("ab") == "ab"
    assert desk.move(Verb.SHELVE, "ab").task.id == "ab"
    assert [claimed.task.id for claimed in desk.claim("ann", refs=["ab0"])] == ["ab0"]


def test_an_ambiguous_beginning_lists_some_candidates(desk: Desk) -> None:
    add(desk, *(f"ab{number}" for number in range(9)))
    with pytest.raises(AmbiguousId) as refused:
        desk.get("ab")
    assert refused.value.candidates == ("ab0", "ab1", "ab2", "ab3", "ab4")
    assert all(task in str(refused.value) for task in refused.value.candidates)
    assert refused.value.code == "AMBIGUOUS_ID"


@pytest.mark.parametrize("ref", ["c", "abc", "AB", "%", "ab0x"])
def test_unmatched_reference_is_not_found(desk: Desk, ref: str) -> None:
    add(desk, "ab0", "ab1")
    with pytest.raises(NotFound) as refused:
        desk.get(ref)
    assert refused.value.code == "NOT_FOUND"


def test_nothing_is_no_name(desk: Desk) -> None:
    add(desk, "a")
    with pytest.raises(InvalidInput):
        desk.get("")


def test_a_desk_knows_its_own_scope_only(desk: Desk, store: Store) -> None:
    other = Desk(store, scope="work")
    add(other, "apple")
    with pytest.raises(NotFound):
        desk.get("app")
    assert other.get("app").scope == "work"


# Every verb that names a task, with the beginning of a name; b waits for a, c is on its own.
BY_PREFIX: dict[str, Callable[[Desk, str], Any]] = {
    "get": lambda desk, ref: desk.get(ref).id,
    "links": lambda desk, ref: len(desk.links(ref)),
    "events": lambda desk, ref: len(desk.events(ref=ref)),
    "claim": lambda desk, ref: desk.claim("ann", refs=[ref])[0].task.id,
    "move": lambda desk, ref: desk.move(Verb.BLOCK, ref).task.id,
    "renew": lambda desk, ref: desk.renew(ref, hold(desk, ref)).id,
    "edit": lambda desk, ref: desk.edit(ref, Edit(title="New")).id,
    "link": lambda desk, ref: desk.link([Link("cherry", ref)])[0].on,
    "unlink": lambda desk, ref: desk.unlink([Link("banana", ref)])[0].on,
    "parent": lambda desk, ref: desk.edit("cherry", Edit(parent=ref)).parent,
}


@pytest.mark.parametrize("verb", BY_PREFIX)
def test_every_verb_takes_the_beginning_of_a_name(fruit: Desk, verb: str) -> None:
    expected = {"links": 1, "events": 1}.get(verb, "apple")
    assert BY_PREFIX[verb](fruit, "ap") == expected


@pytest.mark.parametrize("verb", BY_PREFIX)
def test_every_verb_refuses_an_ambiguous_beginning_and_changes_nothing(fruit: Desk, verb: str) -> None:
    add(fruit, "apricot")
    before = state(fruit)
    with pytest.raises(AmbiguousId):
        BY_PREFIX[verb](fruit, "ap")
    assert state(fruit) == before


def test_full_names_and_beginnings_may_be_claimed_together(fruit: Desk) -> None:
    assert [claimed.task.id for claimed in fruit.claim("ann", refs=["cherry", "ap"])] == ["cherry", "apple"]


@pytest.mark.parametrize("refs", [["apple", "apple"], ["apple", "ap"], ["ap", "app"]])
def test_the_same_task_is_not_claimed_twice_in_one_call(fruit: Desk, refs: list[str]) -> None:
    before = state(fruit)
    with pytest.raises(InvalidInput):
        fruit.claim("ann", refs=refs)
    assert state(fruit) == before


def test_one_unknown_name_refuses_the_whole_claim(fruit: Desk) -> None:
    before = state(fruit)
    with pytest.raises(NotFound):
        fruit.claim("ann", refs=["apple", "zebra"])
    assert state(fruit) == before


def test_references_resolve_in_the_desks_scope(fruit: Desk) -> None:
    assert [claimed.task.id for claimed in fruit.claim("ann", refs=["ap"], anywhere=True)] == ["apple"]


# Minted ids


def test_a_task_without_an_id_gets_a_short_one(desk: Desk) -> None:
    minted = [task.id for task in desk.add([Draft("One"), Draft("Two", id="two"), Draft("Three")])]
    assert minted[1] == "two"
    assert [len(task) for task in (minted[0], minted[2])] == [6, 6]
    assert {desk.get(task).title for task in minted} == {"One", "Two", "Three"}


def test_minted_ids_can_be_read_aloud() -> None:
    minted = {mint_id() for _ in range(2000)}
    assert len(minted) > 1990
    assert set("".join(minted)) == set("0123456789abcdefghjkmnpqrstvwxyz")
    assert [len(mint_id(length)) for length in (6, 8, 12)] == [6, 8, 12]


def test_tokens_are_random_uuids() -> None:
    tokens = {mint_token() for _ in range(1000)}
    assert len(tokens) == 1000
    assert {uuid.UUID(token).version for token in tokens} == {4}
    assert all(str(uuid.UUID(token)) == token for token in tokens)


def minting(monkeypatch: pytest.MonkeyPatch, *ids: str) -> list[int]:
    """Mint these ids, one after the other, and remember which lengths were asked for."""
    asked: list[int] = []
    coming = iter(ids)

    def mint(length: int = 6) -> str:
        asked.append(length)
        return next(coming)

    monkeypatch.setattr(desk_module, "mint_id", mint)
    return asked


def test_an_id_that_is_taken_is_minted_again_and_longer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    add(desk, "taken", "also")
    lengths = minting(monkeypatch, "taken", "also", "free")
    assert [task.id for task in desk.add([Draft("New")])] == ["free"]
    assert lengths == sorted(set(lengths))


def test_minting_gives_up_when_every_id_is_taken(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    add(desk, "taken")
    before = state(desk)
    minting(monkeypatch, *["taken"] * 9)
    with pytest.raises(AlreadyExists):
        desk.add([Draft("New")])
    assert state(desk) == before


def test_two_new_tasks_never_share_a_minted_id(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    minting(monkeypatch, "same", "same", "one", "two")
    assert [task.id for task in desk.add([Draft("A"), Draft("B")])] == ["one", "two"]


def test_taken_id_is_refused_beside_a_generated_one(desk: Desk) -> None:
    add(desk, "taken")
    before = state(desk)
    with pytest.raises(AlreadyExists):
        desk.add([Draft("New"), Draft("Mine", id="taken")])
    assert state(desk) == before


def test_links_of_a_new_task_may_leave_its_end_open(desk: Desk) -> None:
    add(desk, "a", "b")
    (new,) = desk.add([Draft("New")], [Link("", "a"), Link("b", "")])
    assert {(link.task, link.on) for link in desk.links(new.id)} == {(new.id, "a"), ("b", new.id)}


def test_an_open_end_means_the_task_that_has_no_id_yet(desk: Desk) -> None:
    _, new = desk.add([Draft("A", id="a"), Draft("New")], [Link("", "a")])
    assert [(link.task, link.on) for link in desk.links(new.id)] == [(new.id, "a")]


def test_links_follow_a_regenerated_id(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    add(desk, "a", "taken")
    minting(monkeypatch, "taken", "free")
    desk.add([Draft("New")], [Link("", "a")])
    assert [(link.task, link.on) for link in desk.links("a")] == [("free", "a")]
