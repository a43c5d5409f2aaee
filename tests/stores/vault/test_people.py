"""People and agents in one folder: a person's change wins, and the agent that lost the task learns why."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, LostLock, NotFound, StoreBusy, StoreCorrupt
from dibs.core.events import Outcome
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Edit, Holder, Status
from dibs.stores.port import EventQuery, Query

from .folder import SCOPE, add, claim, hold, move

if TYPE_CHECKING:
    from support.clock import Clock

    from .folder import Folder

MOVES = {
    "Needs_Action/a.md": Status.READY,
    "Pending_Approval/a.md": Status.REVIEW,
    "Done/a.md": Status.DONE,
    "Rejected/a.md": Status.CANCELED,
    "In_Progress/bob/a.md": Status.ACTIVE,
}


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RENEW, Verb.RELEASE, Verb.FAIL, Verb.BLOCK])
@pytest.mark.parametrize("target", MOVES)
def test_person_who_moves_a_held_file_wins(folder: Folder, target: str, verb: Verb) -> None:
    with folder.open() as store:
        add(store, "a")
        token = hold(store)
        folder.move("In_Progress/ann/a.md", target)
        before = folder.read(target)
        with pytest.raises(LostLock, match=f"moved to {target.rpartition('/')[0]} by someone"):
            move(store, verb, "a", token)
        assert folder.only("a") == target
        assert folder.read(target) == before
        assert store.get(SCOPE, "a").status is MOVES[target]
        lost = store.events(EventQuery(SCOPE, "a"))[-1]
        assert (lost.outcome, lost.detail) == (Outcome.LOST, {"because": f"moved to {target.rpartition('/')[0]}"})


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RENEW, Verb.RELEASE])
@pytest.mark.parametrize("how", ["in place", "by a new file"])
def test_person_who_edits_a_held_file_wins(folder: Folder, how: str, verb: Verb) -> None:
    with folder.open() as store:
        add(store, "a", description="Write two pages.")
        token = hold(store)
        edited = folder.read("In_Progress/ann/a.md").replace("two pages", "three pages")
        if how == "in place":
            folder.put("In_Progress/ann/a.md", edited)
        else:
            folder.replace("In_Progress/ann/a.md", edited)
        with pytest.raises(LostLock, match="edited by someone while you held it"):
            move(store, verb, "a", token)
        assert folder.read(folder.only("a")) == edited
        again = claim(store, "bob")[0].task
        assert (again.description, again.attempt) == ("Write three pages.", 2)


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.RENEW, Verb.RELEASE])
def test_person_who_deletes_a_held_file_wins(folder: Folder, verb: Verb) -> None:
    with folder.open() as store:
        add(store, "a")
        token = hold(store)
        (folder.path / "In_Progress/ann/a.md").unlink()
        with pytest.raises(LostLock, match="deleted by someone"):
            move(store, verb, "a", token)
        assert folder.find("a") == []
        with pytest.raises(NotFound):
            move(store, verb, "never", "made-up")


def test_notes_of_the_agent_are_not_an_edit(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        token = hold(store)
        folder.append("In_Progress/ann/a.md", "Half of it is done.\n")
        move(store, Verb.RENEW, "a", token)
        move(store, Verb.DONE, "a", token)
    assert "Half of it is done.\n" in folder.read("Done/a.md")


def test_person_may_edit_the_file_they_hold(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a", description="old")
        token = hold(store, "hannah", "a", holder=Holder.HUMAN)
        folder.put("In_Progress/hannah/a.md", folder.read("In_Progress/hannah/a.md").replace("old", "new"))
        assert move(store, Verb.DONE, "a", token).task.description == "new"


def test_file_dropped_into_the_folder_is_a_task(folder: Folder) -> None:
    with folder.open() as store:
        assert claim(store) == []
        folder.put("Needs_Action/Call Anna.md", "# Call Anna\n\nAbout the roof.\n")
        task = claim(store)[0].task
    assert (task.id, task.title, task.description) == ("Call%20Anna", "Call Anna", "# Call Anna\n\nAbout the roof.")
    assert folder.read("In_Progress/ann/Call Anna.md").endswith("<!-- Agent adds progress notes here -->\n")
    assert "\n\n# Call Anna\n\nAbout the roof.\n" in folder.read("In_Progress/ann/Call Anna.md")


def test_a_long_name_with_many_spaces_is_a_task(folder: Folder) -> None:
    name = "Ask " + "a " * 54 + "b"
    assert len(name) == 113
    with folder.open() as store:
        folder.put(f"Needs_Action/{name}.md", "# Long\n")
        claimed = claim(store)[0]
        assert folder.only(name) == f"In_Progress/ann/{name}.md"
        assert claimed.task.lease is not None
        move(store, Verb.DONE, claimed.task.id, claimed.task.lease.token)
    assert folder.only(name) == f"Done/{name}.md"


def test_approval_rejection_and_reopening_by_hand(folder: Folder, clock: Clock) -> None:
    with folder.open() as store:
        add(store, "a", max_retries=0)
        move(store, Verb.REVIEW, "a", hold(store), result={"n": 1})
        folder.move("Pending_Approval/a.md", "Done/a.md")
        approved = store.get(SCOPE, "a")
        assert (approved.status, approved.finished_by, approved.result) == (Status.DONE, "ann", {"n": 1})
        assert approved.finished_at is not None
        folder.move("Done/a.md", "Needs_Action/a.md")
        assert store.get(SCOPE, "a").finished_at is None
        move(store, Verb.FAIL, "a", hold(store, "bob"), reason="too hard")
        assert folder.only("a") == "Pending_Approval/a.md"
        assert store.get(SCOPE, "a").status is Status.ESCALATED
        folder.move("Pending_Approval/a.md", "Needs_Action/a.md")
        clock.advance(minutes=1)
        task = claim(store, "cid")[0].task
        assert (task.attempt, task.retries, task.reason) == (3, 0, None)


def test_prerequisite_finished_by_hand_unblocks_its_dependent(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        folder.put("Needs_Action/b.md", "---\ndepends_on: [a]\npriority: urgent\n---\nAfter a.\n")
        assert [claimed.task.id for claimed in claim(store)] == ["a"]
        folder.move("In_Progress/ann/a.md", "Done/a.md")
        assert [claimed.task.id for claimed in claim(store)] == ["b"]


def test_prerequisite_reopened_by_hand_blocks_again(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a", "b")
        folder.put("Needs_Action/c.md", '---\ndepends_on:\n  - "[[a]]"\n---\n')
        move(store, Verb.DONE, "a", hold(store, "ann", "a"))
        assert [task.id for task in store.find(Query(SCOPE, (Status.READY,)))] == ["b", "c"]
        folder.move("Done/a.md", "Pending_Approval/a.md")
        assert [claimed.task.id for _ in range(2) for claimed in claim(store)] == ["b"]


def test_move_by_hand_holds_the_task_for_20_minutes(folder: Folder, clock: Clock) -> None:
    with folder.open(clock=lambda: clock.time) as store:
        folder.put("In_Progress/other/a.md")
        held = store.get(SCOPE, "a")
        assert held.lease is not None
        assert held.lease.agent == "other"
        clock.time = held.lease.claimed_at
        with pytest.raises(Held):
            claim(store, "ann", "a")
        clock.advance(minutes=20)
        taken = claim(store, "ann")[0].task
        assert (taken.id, taken.attempt) == ("a", 2)
    assert folder.only("a") == "In_Progress/ann/a.md"


def test_task_goes_beside_an_older_file_of_its_name(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        token = hold(store)
        folder.put("Done/a.md", "An old one.\n")
        assert move(store, Verb.DONE, "a", token).task.status is Status.DONE
        assert folder.read("Done/a.md") == "An old one.\n"
        assert folder.only("a 2") == "Done/a 2.md"
        assert store.get(SCOPE, "a").title == "Task a"
        assert store.check(fix=False) == []


def test_task_in_two_files_is_listed_and_never_claimed(folder: Folder) -> None:
    for place in ("Needs_Action/a.md", "Needs_Action/a copy.md"):
        folder.put(place, "---\ntask_id: a\n---\n\n# A\n")
    folder.put("Needs_Action/b.md")
    with folder.open() as store:
        assert [claimed.task.id for claimed in claim(store)] == ["b"]
        with pytest.raises(StoreCorrupt, match=r"Needs_Action/a copy\.md and of Needs_Action/a\.md"):
            claim(store, "ann", "a")
        assert claim(store) == []
        assert [finding.subject for finding in store.check(fix=False)] == ["default/a"]
        folder.put("Needs_Action/a copy.md", "---\ntask_id: other\n---\n\n# A\n")
        assert {claimed.task.id for _ in range(2) for claimed in claim(store)} == {"a", "other"}


def test_file_being_written_is_claimed_after_it_is_closed(folder: Folder) -> None:
    with folder.open() as store:
        with open(folder.path / "Needs_Action/a.md", "w", encoding="utf-8") as writer:
            writer.write("# Half a ti")
            writer.flush()
            assert claim(store) == []
            with pytest.raises(StoreBusy):
                store.amend(SCOPE, "a", Edit(priority=1), by=Actor())
            writer.write("tle\n")
        assert claim(store)[0].task.title == "Half a title"


def test_finish_waits_for_a_program_saving_the_file(folder: Folder) -> None:
    with folder.open() as store:
        add(store, "a")
        token = hold(store)
        with open(folder.path / "In_Progress/ann/a.md", "a", encoding="utf-8"), pytest.raises(StoreBusy):
            move(store, Verb.DONE, "a", token)
        assert move(store, Verb.DONE, "a", token).task.status is Status.DONE


def test_domains_are_scopes_and_their_folders_are_kept(folder: Folder) -> None:
    folder.put("Needs_Action/email/x.md", "Mail.\n")
    folder.put("Needs_Action/social/x.md", "Post.\n")
    with folder.open() as store:
        assert store.scopes() == ["email", "social"]
        claimed = [claim(store, "ann", scope=None)[0].task for _ in range(2)]
        assert sorted(task.scope for task in claimed) == ["email", "social"]
    assert folder.find("x") == ["In_Progress/ann/email/x.md", "In_Progress/ann/social/x.md"]
