"""Claims and results across clones: the remote's first push wins, and every clone learns of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import LostLock
from dibs.core.lifecycle import Verb
from dibs.core.task import Status
from dibs.sync.git import Published

from .clones import TEXT, Machine, git, place_of
from .steps import DeafGit

if TYPE_CHECKING:
    from pathlib import Path

    from support.clock import Clock


def commits(remote: Path) -> list[str]:
    return git(remote, "log", "--format=%s", "main").splitlines()


def changed(remote: Path, commit: str = "main") -> list[str]:
    return git(remote, "show", "--format=", "--name-only", "--no-renames", commit).splitlines()


def test_accepted_claim_reaches_the_other_clones(here: Machine, there: Machine, remote: Path) -> None:
    here.hold("ann", "a")
    assert changed(remote) == ["In_Progress/ann/a.md", "Needs_Action/a.md"]
    assert there.clone.pull().changed
    assert there.find("a.md") == ["In_Progress/ann/a.md"]
    with there.desk() as desk:
        task = desk.get("a")
        assert (task.status, task.lease and task.lease.agent) == (Status.ACTIVE, "ann")
        assert [claimed.task.id for claimed in desk.claim("bob", count=3)] == ["b", "c"]


def test_second_clone_is_refused_and_gets_the_claim_of_the_first(here: Machine, there: Machine, remote: Path) -> None:
    here.hold("ann", "a")
    published, _ = there.claim("bob", "a")
    assert published is Published.REFUSED
    assert there.find("a.md") == ["In_Progress/ann/a.md"]
    assert there.read("In_Progress/ann/a.md") == here.read("In_Progress/ann/a.md")
    assert commits(remote) == ["ann claims a", "a vault"]
    assert there.status() == here.status() == []
    assert there.find("*kept*") == []


def test_agents_of_one_name_never_hold_one_task(here: Machine, there: Machine) -> None:
    first = here.hold("ann", "a")
    published, second = there.claim("ann", "a")
    assert published is Published.REFUSED
    assert second is not None
    with pytest.raises(LostLock):
        there.finish(second)
    assert here.finish(first) is Published.ACCEPTED


def test_pushes_about_other_tasks_do_not_interfere(here: Machine, there: Machine, remote: Path) -> None:
    here.hold("ann", "a")
    there.hold("bob", "b")
    assert commits(remote) == ["bob claims b", "ann claims a", "a vault"]
    assert there.find("a.md") == ["In_Progress/ann/a.md"]


def test_result_reaches_other_clones_byte_for_byte(here: Machine, there: Machine) -> None:
    claimed = here.hold("ann", "a")
    assert here.finish(claimed, result={"n": 1}) is Published.ACCEPTED
    there.clone.pull()
    assert there.read("Done/a.md") == here.read("Done/a.md")
    assert "# Task a\n\nThe text of a.\n" in there.read("Done/a.md")
    with there.desk() as desk:
        assert desk.get("a").result == {"n": 1}


def test_a_renewal_is_published_like_anything_else(here: Machine, there: Machine, clock: Clock) -> None:
    claimed = here.hold("ann", "a")
    clock.advance(minutes=15)
    with here.clone.turn(), here.desk() as desk:
        assert claimed.task.lease is not None
        renewed = desk.renew("a", claimed.task.lease.token)
        assert here.publish([place_of(renewed)], "ann goes on") is Published.ACCEPTED
    clock.advance(minutes=15)
    there.clone.pull()
    with there.desk() as desk:
        assert [one.task.id for one in desk.claim("bob", count=3)] == ["b", "c"]


def test_expired_lease_lets_another_clone_take_the_task(here: Machine, there: Machine, clock: Clock) -> None:
    late = here.hold("ann", "a")
    there.clone.pull()
    clock.advance(minutes=21)
    taken = there.hold("bob", "a")
    clock.advance(minutes=-2)  # no two machines have quite the same time
    assert taken.task.attempt == 2
    assert here.finish(late) is Published.REFUSED
    assert here.find("a.md") == ["In_Progress/bob/a.md"]
    assert there.finish(taken) is Published.ACCEPTED
    here.clone.pull()
    assert here.files() == there.files()


def test_of_two_clones_that_take_over_one_gets_it(here: Machine, there: Machine, clock: Clock) -> None:
    here.hold("ann", "a")
    there.clone.pull()
    clock.advance(minutes=21)
    there.hold("bob", "a")
    published, _ = here.claim("cid", "a")
    assert published is Published.REFUSED
    assert here.find("a.md") == ["In_Progress/bob/a.md"]


def test_result_gives_way_to_a_push_by_a_person(here: Machine, there: Machine) -> None:
    claimed = here.hold("ann", "a")
    there.clone.pull()
    there.move("In_Progress/ann/a.md", "Rejected/a.md")
    there.commit()
    there.git("push", "-q")
    assert here.finish(claimed) is Published.REFUSED
    assert here.find("a.md") == ["Rejected/a.md"]


def test_lost_answer_does_not_undo_an_accepted_push(here: Machine, remote: Path, clock: Clock) -> None:
    deaf = Machine(here.path, clock=clock, git=DeafGit(str(here.path), "push"))
    deaf.hold("ann", "a")
    assert commits(remote) == ["ann claims a", "a vault"]
    assert here.status() == []


def test_nothing_is_committed_but_the_paths_that_were_given(here: Machine, remote: Path) -> None:
    here.put("Needs_Action/b.md", "# Task b\n\nAnother text.\n")  # changed, not staged
    here.put("Plans/mine.md", "staged\n")
    here.git("add", "Plans/mine.md")
    here.put("Plans/mine.md", "staged, and changed again\n")
    here.put("Updates/new.md", "not even added\n")
    before = here.status()
    here.hold("ann", "a")
    assert changed(remote) == ["In_Progress/ann/a.md", "Needs_Action/a.md"]
    assert here.status() == before == [" M Needs_Action/b.md", "AM Plans/mine.md", "?? Updates/new.md"]
    assert here.git("show", ":Plans/mine.md") == "staged\n"


def test_task_moved_on_by_a_person_is_left_to_them(here: Machine, remote: Path) -> None:
    with here.clone.turn(), here.desk() as desk:
        desk.claim("ann", refs=["a"])
        here.move("In_Progress/ann/a.md", "Rejected/a.md")
        outcome = here.publish(["Needs_Action/a.md", "In_Progress/ann/a.md"], "ann claims a")
    assert outcome is Published.REFUSED
    assert here.find("a.md") == ["Rejected/a.md"]
    assert commits(remote) == ["a vault"]


def test_group_is_refused_together_and_loses_no_text(here: Machine, there: Machine) -> None:
    claimed = here.hold("ann", "a")
    there.clone.pull()
    there.move("In_Progress/ann/a.md", "Rejected/a.md")
    there.commit()
    there.git("push", "-q")
    with here.clone.turn(), here.desk() as desk:
        assert claimed.task.lease is not None
        desk.move(Verb.REVIEW, "a", token=claimed.task.lease.token)
        here.put("Pending_Approval/draft-a.md", "# A draft\n\nDear landlord.\n")
        paths = ["Pending_Approval/draft-a.md", "In_Progress/ann/a.md", "Pending_Approval/a.md"]
        assert here.publish(paths, "a draft for a") is Published.REFUSED
    assert here.find("a.md") == ["Rejected/a.md"]
    assert here.find("draft-a.md") == []
    (kept,) = here.find("draft-a kept-*.md")
    assert here.read(kept) == "# A draft\n\nDear landlord.\n"


def test_new_file_can_be_published_and_removed(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/email/new one.md", TEXT)
    with here.clone.turn():
        assert here.publish(["Needs_Action/email/new one.md"], "added") is Published.ACCEPTED
    there.clone.pull()
    assert there.read("Needs_Action/email/new one.md") == TEXT
    os.unlink(here.path / "Needs_Action/b.md")
    with here.clone.turn():
        assert here.publish(["Needs_Action/b.md"], "removed") is Published.ACCEPTED
    there.clone.pull()
    assert there.find("b.md") == []


def test_publishing_needs_a_turn(here: Machine) -> None:
    with pytest.raises(RuntimeError):
        here.publish(["Needs_Action/a.md"], "no turn")


# Out of reach


def away(remote: Path) -> Path:
    return remote.rename(remote.with_name("away.git"))


def test_unpublished_claim_can_be_undone_to_the_byte(here: Machine, remote: Path) -> None:
    before = here.files()
    away(remote)
    published, _ = here.claim("ann", "a")
    assert published is Published.OFFLINE
    assert here.files() == before
    assert here.status() == []
    assert here.clone.unreached is not None
    assert here.clone.standing().trouble == here.clone.unreached
    assert not here.clone.pull().reached


def test_unpublished_result_is_kept_and_settled_later(here: Machine, remote: Path) -> None:
    claimed = here.hold("ann", "a")
    gone = away(remote)
    assert here.finish(claimed) is Published.OFFLINE
    assert here.find("a.md") == ["Done/a.md"]
    assert here.clone.settle() == ()
    assert here.clone.standing().unpublished == ("Done/a.md",)
    gone.rename(remote)
    assert here.clone.settle() == ("Done/a.md",)
    assert changed(remote) == ["Done/a.md", "In_Progress/ann/a.md"]
    assert here.clone.standing().unpublished == ()
    assert here.clone.settle() == ()


def test_task_added_offline_is_published_by_another_process(
    here: Machine, there: Machine, remote: Path, clock: Clock
) -> None:
    gone = away(remote)
    for name in ("new", "gone"):
        with here.clone.turn():
            here.put(f"Needs_Action/{name}.md")
            assert here.publish([f"Needs_Action/{name}.md"], "added") is Published.OFFLINE
    here.put("Needs_Action/mine.md")  # no process was asked to publish this
    gone.rename(remote)
    os.unlink(here.path / "Needs_Action/gone.md")
    later = Machine(here.path, clock=clock)
    assert later.clone.standing().unpublished == ("Needs_Action/new.md",)
    assert later.clone.settle() == ("Needs_Action/new.md",)
    assert later.clone.settle() == ()
    there.clone.pull()
    assert there.find("*.md") == [f"Needs_Action/{name}.md" for name in ("a", "b", "c", "new")]
    with here.clone.turn():  # the first one's word is out by now
        assert here.publish(["Needs_Action/new.md"], "added") is Published.ACCEPTED


@pytest.mark.parametrize("known", [True, False], ids=["published", "new"])
def test_attempt_given_back_after_an_outage_is_published(
    here: Machine, remote: Path, clock: Clock, *, known: bool
) -> None:
    """An agent dies while its claim waits for the remote, and its next run gives the task back."""
    task = "a" if known else "new"
    if not known:
        here.put("Needs_Action/new.md")
    gone = away(remote)
    with here.clone.turn(), here.desk() as desk:
        (claimed,) = desk.claim("ann", refs=[task])
        assert here.publish([f"Needs_Action/{task}.md", place_of(claimed.task)], "ann claims") is Published.OFFLINE
    later = Machine(here.path, clock=clock)
    with later.clone.turn(), later.desk() as desk:
        assert claimed.task.lease is not None
        desk.move(Verb.FAIL, task, token=claimed.task.lease.token)
        later.clone.post([place_of(claimed.task), f"Needs_Action/{task}.md"], "ann gives it back")
    gone.rename(remote)
    later.clone.settle()
    assert later.find(f"{task}*.md") == [f"Needs_Action/{task}.md"]
    assert "attempt: 1" in git(remote, "show", f"main:Needs_Action/{task}.md")


def test_late_result_after_an_outage_is_refused(here: Machine, there: Machine, remote: Path, clock: Clock) -> None:
    claimed = here.hold("ann", "a")
    gone = away(remote)
    assert here.finish(claimed) is Published.OFFLINE
    gone.rename(remote)
    clock.advance(minutes=21)
    there.clone.pull()
    assert there.finish(there.hold("bob", "a")) is Published.ACCEPTED
    Machine(here.path, clock=clock).clone.pull()  # another process of this clone brings it in first
    with here.clone.turn():
        assert here.publish(["In_Progress/ann/a.md", "Done/a.md"], "at last") is Published.REFUSED
    assert here.read("Done/a.md") == there.read("Done/a.md")


# Left behind


def test_changes_by_people_are_not_settled_for_them(here: Machine, remote: Path) -> None:
    here.hold("ann", "a")
    here.move("In_Progress/ann/a.md", "Done/a.md")
    here.put("Needs_Action/b.md", "edited\n")
    here.move("Needs_Action/c.md", "Done/c.md")
    here.put("Needs_Action/new.md", "new\n")
    assert here.clone.settle() == ()
    assert commits(remote) == ["ann claims a", "a vault"]


def test_unpublished_claim_is_not_settled(here: Machine, there: Machine, clock: Clock) -> None:
    with here.desk() as desk:
        desk.claim("ann", refs=["a"])  # and died
    assert here.clone.settle() == ()
    there.hold("bob", "a")
    pulled = here.clone.pull()
    assert pulled.dropped == ("a.md",)
    assert here.find("a.md") == ["In_Progress/bob/a.md"]
    with here.desk() as desk:
        desk.claim("ann", refs=["b"])  # and died
    clock.advance(minutes=21)
    taken = here.hold("cid", "b")
    assert taken.task.attempt == 2
    there.clone.pull()
    assert there.find("b.md") == ["In_Progress/cid/b.md"]


@pytest.mark.parametrize("verb", [Verb.DONE, Verb.FAIL, Verb.RELEASE, Verb.REVIEW, Verb.RENEW])
def test_whatever_a_holder_did_before_it_died_is_settled(
    here: Machine, there: Machine, clock: Clock, verb: Verb
) -> None:
    claimed = here.hold("ann", "a")
    clock.advance(minutes=5)
    assert claimed.task.lease is not None
    with here.desk() as desk:
        desk.move(verb, "a", token=claimed.task.lease.token, lease=desk.policy.lease if verb is Verb.RENEW else None)
    (place,) = here.find("a.md")
    assert here.clone.settle() == (place,)
    there.clone.pull()
    assert there.files() == here.files()
