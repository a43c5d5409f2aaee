"""A file's task is given by its `task_id`, under any name, also one that another task had before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.stores.port import EventQuery, Query
from dibs.sync.git.folder import resolve_folder

from .folder import SCOPE, claim, hold, move

if TYPE_CHECKING:
    from dibs.stores.vault.store import VaultStore

    from .folder import Folder

NAMES = {
    "113 with spaces": "Ask " + "a " * 54 + "b",
    "240 characters": "x" * 240,
    "emoji of several signs": "Call \U0001f468\u200d\U0001f469\u200d\U0001f467 home",
    "leading dash": "- buy milk",
    "percent sign": "es%20caped",
    "quotes and brackets": 'He said "no" [again] (v2) & more; $HOME',
    "umlauts in two forms": "Gru\u0308n und gr\u00fcn",
}


def done(store: VaultStore, agent: str = "ann") -> str:
    """Claim what is next and finish it; its id."""
    task = claim(store, agent)[0].task
    assert task.lease is not None
    move(store, Verb.DONE, task.id, task.lease.token)
    return task.id


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_any_name_a_person_gives_is_a_task(folder: Folder, name: str) -> None:
    folder.put(f"Needs_Action/{name}.md", "# It\n")
    with folder.open() as store:
        (task,) = store.find(Query())
        assert done(store) == task.id
        assert store.check(fix=False) == []
    assert (folder.path / f"Done/{name}.md").is_file()


def test_similar_names_with_special_characters_are_two_tasks(folder: Folder) -> None:
    for name in ("a b", "a%20b", "x" * 200, "x" * 201):
        folder.put(f"Needs_Action/{name}.md")
    with folder.open() as store:
        assert len({done(store) for _ in range(4)}) == 4


@pytest.mark.parametrize("says_id", [False, True])
@pytest.mark.parametrize("reopened", [False, True], ids=["one process", "another process"])
def test_name_of_a_finished_task_is_used_again(folder: Folder, *, says_id: bool, reopened: bool) -> None:
    front = "---\ntask_id: {}\n---\n\n" if says_id else ""
    store = folder.open()
    for number in range(3):
        folder.put("Needs_Action/weekly report.md", f"{front.format(number)}# Week {number}\n")
        done(store)
        if reopened:
            store.close()
            store = folder.open()
    with store:
        found = store.find(Query(statuses=(Status.DONE,)))
        assert {task.title for task in found} == {"Week 0", "Week 1", "Week 2"}
        assert [len(store.events(EventQuery(SCOPE, task.id))) for task in found] == [2, 2, 2]
        assert store.check(fix=False) == []
    names = sorted(path.name for path in (folder.path / "Done").glob("*.md"))
    assert names == ["weekly report 2.md", "weekly report 3.md", "weekly report.md"]


def test_every_process_agrees_on_the_task_of_a_reused_name(folder: Folder) -> None:
    with folder.open() as one, folder.open() as other:
        folder.put("Needs_Action/a.md")
        first = done(one)
        folder.put("Needs_Action/a.md", "# Again\n")
        assert {task.id for task in other.find(Query())} == {task.id for task in one.find(Query())}
        claimed = claim(one, "ann")[0].task
        assert claimed.id != first
        with pytest.raises(Held):
            claim(other, "bob", claimed.id)
        assert claim(other, "bob") == []


@pytest.mark.parametrize("place", ["Needs_Action", "In_Progress/ann", "Pending_Approval", "Done", "Rejected"])
def test_renamed_file_is_the_same_task_with_its_history(folder: Folder, place: str) -> None:
    folder.put("Needs_Action/first name.md", "---\ntask_id: t7\n---\n\n# It\n")
    folder.put("Needs_Action/after.md", "---\ntask_id: t8\ndepends_on: [t7]\n---\n\n# After\n")
    with folder.open() as store, folder.open() as other:
        token = hold(store, "ann", "t7")
        if place != "In_Progress/ann":
            verb = {"Needs_Action": Verb.RELEASE, "Pending_Approval": Verb.REVIEW, "Rejected": Verb.CANCEL}
            move(store, verb.get(place, Verb.DONE), "t7", token)
        before = store.get(SCOPE, "t7")
        folder.move(f"{place}/first name.md", f"{place}/another name.md")
        for reader in (store, other):
            reader.check(fix=False)  # which looks at every file
            assert reader.get(SCOPE, "t7")._replace(extra={}) == before._replace(extra={})
            assert reader.events(EventQuery(SCOPE, "t7"))[0].verb == "claim"
            assert not [task for task in reader.find(Query()) if task.title == "It" and task.id != "t7"]
        if place == "In_Progress/ann":
            move(store, Verb.DONE, "t7", token)
            assert folder.only("another name") == "Done/another name.md"
        if place in {"In_Progress/ann", "Done"}:
            assert done(store) == "t8"


def test_claimed_file_keeps_its_task_after_a_rename(folder: Folder) -> None:
    folder.put("Needs_Action/plain.md", "# Plain\n")
    with folder.open() as store:
        token = hold(store, "ann", "plain")
        move(store, Verb.RELEASE, "plain", token)
        folder.move("Needs_Action/plain.md", "Needs_Action/renamed.md")
        task = claim(store)[0].task
        assert (task.id, task.title, task.attempt) == ("plain", "Plain", 2)


def test_links_name_files_or_ids(folder: Folder) -> None:
    folder.put("Needs_Action/Call Anna.md", "---\ntask_id: T-7\npriority: low\n---\n\n# Call\n")
    folder.put("Needs_Action/by name.md", '---\npriority: high\ndepends_on: "[[Call Anna]]"\n---\n')
    folder.put("Needs_Action/by id.md", "---\npriority: high\ndepends_on: T-7\n---\n")
    with folder.open() as store:
        assert store.check(fix=False) == []
        assert done(store) == "T-7"
        assert {done(store), done(store)} == {"by%20name", "by%20id"}


def test_resolve_keeps_the_file_that_has_gone_furthest(folder: Folder) -> None:
    with folder.open() as store:
        folder.put("Needs_Action/a.md", "---\ntask_id: a\n---\n\n# A\n")
        done(store)
        folder.put("Needs_Action/a again.md", "---\ntask_id: a\n---\n\n# A\n\nWith a word of mine.\n")
        assert claim(store) == []
    assert resolve_folder(str(folder.path)) == ["Needs_Action/a again.md"]
    with folder.open() as store:
        assert store.check(fix=False) == []
    (kept,) = (folder.path / "Errors").glob("*.md")
    assert "With a word of mine." in kept.read_text()


def test_task_id_that_changes_makes_another_task(folder: Folder) -> None:
    folder.put("Needs_Action/a.md", "---\ntask_id: one\n---\n")
    with folder.open() as store:
        assert [task.id for task in store.find(Query())] == ["one"]
        folder.replace("Needs_Action/a.md", "---\ntask_id: two words\n---\n\n# It\n")
        assert done(store) == "two%20words"
        assert "task_id: two words" in folder.read("Done/a.md")
