"""Claims as references: the remote first, the folder after; what every crash leaves, and how it heals."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import LostLock
from dibs.core.lifecycle import Verb
from dibs.protocols.vault.claiming import Attempt, Outcome, claim_published
from dibs.protocols.vault.publishing import Publisher
from dibs.protocols.vault.workplace import TrackedDesk
from dibs.stores.port import Query
from dibs.stores.vault.reading import sealed
from dibs.sync.git import Claim, Published
from dibs.sync.git.claims import reference_of

from .clones import TEXT, Machine, git, place_of
from .soundness import assert_no_markers, twice_in_one_commit
from .steps import PromptedGit

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.core.task import Claimed
    from support.clock import Clock

LEASE = timedelta(minutes=20)
PATH = "Needs_Action/a.md"


def offer(machine: Machine, clock: Clock, agent: str, token: str, path: str = PATH) -> Published:
    task = machine.identity(path)
    claim = Claim(task, agent, f"run-{agent}", 1, sealed(token), clock() + LEASE)
    return machine.clone.offer(claim, path, clock()).outcome


def test_offer_gives_the_task_to_one_clone_only(here: Machine, there: Machine, clock: Clock) -> None:
    before = here.files(), there.files(), here.head(), there.head()
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    assert offer(there, clock, "bob", "two") is Published.REFUSED
    assert (here.files(), there.files(), here.head(), there.head()) == before
    assert (here.status(), there.status()) == ([], [])


def test_commit_during_an_offer_holds_nothing_of_the_claim(
    here: Machine, there: Machine, remote: Path, clock: Clock
) -> None:
    """The remote's hook commits in the clone while the push of the claim waits for its answer."""
    hook = remote / "hooks/pre-receive"
    person = "git -c user.name=P -c user.email=p@e commit -qm auto"
    commit = f"unset $(git rev-parse --local-env-vars) GIT_QUARANTINE_PATH; cd '{here.path}'; git add -A; {person}"
    here.put("Plans/mine.md", "mine\n")
    hook.write_text(f"#!/bin/sh\ntest -e '{remote}/once' || {{ touch '{remote}/once'; {commit}; }}\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(Exception, match="refused the push"):
        offer(here, clock, "ann", "one")
    assert here.git("show", "--name-only", "--format=%s", "HEAD").split() == ["auto", "Plans/mine.md"]
    hook.unlink()
    assert offer(there, clock, "bob", "two") is Published.ACCEPTED


def test_only_an_expired_claim_is_taken_over(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    clock.advance(seconds=(LEASE - timedelta(seconds=1)).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.REFUSED
    clock.advance(seconds=(timedelta(seconds=2)).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.ACCEPTED
    taken = there.clone.claims()[there.identity(PATH)]
    assert (taken.agent, taken.attempt) == ("bob", 2)


def test_renewal_and_takeover_exclude_each_other(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    task = here.identity(PATH)
    renewed = here.clone.renew(task, sealed("one"), clock() + 2 * LEASE)
    assert renewed is not None
    assert renewed.outcome is Published.ACCEPTED
    clock.advance(seconds=(LEASE).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.REFUSED, "there, the renewal has not been seen"
    clock.advance(seconds=(2 * LEASE).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.ACCEPTED
    for _ in range(2):  # before and after the takeover is known here
        late = here.clone.renew(task, sealed("one"), clock() + LEASE)
        assert late is not None
        assert late.outcome is Published.REFUSED
        here.clone.pull()


def test_task_finished_since_the_look_is_not_given_out(here: Machine, there: Machine, clock: Clock) -> None:
    """Its claim has ended and its reference is deleted, so another can be created; a second look shows the end."""
    assert there.finish(there.hold("bob", "a")) is Published.ACCEPTED
    assert offer(here, clock, "ann", "one") is Published.REFUSED
    assert here.find("a.md") == ["Done/a.md"]
    there.clone.pull()
    assert there.clone.claims() == {}


def test_end_of_an_attempt_deletes_its_reference(here: Machine, remote: Path, clock: Clock) -> None:
    assert offer(here, clock, "ann", "token-1") is Published.ACCEPTED
    reference = reference_of(here.identity(PATH))
    assert git(remote, "for-each-ref", "--format=%(refname)", "refs/dibs").split() == [reference]
    held = here.hold("ann", "a", tokens=["token-1"])
    assert git(remote, "for-each-ref", "--format=%(refname)", "refs/dibs").split() == [reference]
    assert here.finish(held) is Published.ACCEPTED
    assert git(remote, "for-each-ref", "refs/dibs") == ""


@pytest.mark.parametrize("known", [True, False], ids=["pulled", "unpulled"])
def test_late_result_is_refused_after_a_takeover(
    here: Machine, there: Machine, remote: Path, clock: Clock, known: bool
) -> None:
    assert offer(here, clock, "ann", "token-1") is Published.ACCEPTED
    held = here.hold("ann", "a", tokens=["token-1"], lease=2 * LEASE)
    clock.advance(seconds=(LEASE + timedelta(seconds=1)).total_seconds())
    there.clone.pull()
    assert offer(there, clock, "bob", "token-2", "In_Progress/ann/a.md") is Published.ACCEPTED
    if known:
        here.clone.pull()
    assert here.finish(held) is Published.REFUSED
    assert "Done/a.md" not in git(remote, "ls-tree", "-r", "--name-only", "main")
    reference = reference_of(here.identity("In_Progress/ann/a.md"))
    assert '"agent": "bob"' in git(remote, "log", "-1", "--format=%s", reference)


# An agent: the remote first, the folder after


def attempt_of(machine: Machine, task: str, *, publish: bool = True) -> Claimed:
    """Claim as agents do, at the remote first, then publish the file."""
    with machine.desk() as desk:
        publisher = Publisher(machine.clone)
        claimed = claim_published(TrackedDesk(desk), publisher, desk.get(task), lease=LEASE).claimed
    assert claimed is not None
    if publish:
        machine.clone.flush()
    return claimed


def attempt(machine: Machine) -> Attempt:
    with machine.desk() as desk:
        return claim_published(TrackedDesk(desk), Publisher(machine.clone), desk.get("a"))


def test_agent_with_a_refused_claim_changes_no_folder(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    assert attempt(there).outcome is Outcome.LOST
    assert there.find("a.md") == [PATH]


def test_agent_deletes_its_reference_after_a_move_by_hand(there: Machine, remote: Path) -> None:
    """The remote's hook moves the file in the folder while the push of the claim waits for its answer."""
    source, target = there.path / PATH, there.path / "Done/a.md"
    hook = remote / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\ntest ! -e '{source}' || mv '{source}' '{target}'\n")
    hook.chmod(0o755)
    assert attempt(there).outcome is Outcome.LOST
    assert there.find("a.md") == ["Done/a.md"]
    assert git(remote, "for-each-ref", "refs/dibs") == ""


def test_agent_continues_the_attempt_number_of_the_remote(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    clock.advance(seconds=(LEASE + timedelta(seconds=1)).total_seconds())
    claimed = attempt(there).claimed
    assert claimed is not None
    assert claimed.task.attempt == 2


def test_agent_cannot_renew_after_a_takeover(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    clock.advance(seconds=(LEASE + timedelta(seconds=1)).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.ACCEPTED
    with here.desk() as desk, pytest.raises(LostLock, match="in another clone"):
        Publisher(here.clone).renew(desk.get("a"), "one", clock() + LEASE)


# Names


def test_renamed_task_with_a_task_id_is_the_same(here: Machine, there: Machine, clock: Clock) -> None:
    text = f"---\ntask_id: roof-7\n---\n\n{TEXT}"
    here.put("Needs_Action/roof.md", text)
    here.commit("a task")
    here.git("push", "-q")
    there.clone.pull()
    there.move("Needs_Action/roof.md", "Needs_Action/the roof.md")
    assert offer(here, clock, "ann", "one", "Needs_Action/roof.md") is Published.ACCEPTED
    there.clone.pull()
    assert offer(there, clock, "bob", "two", "Needs_Action/the roof.md") is Published.REFUSED


@pytest.mark.parametrize("text", ["# Week 2\n", TEXT], ids=["another text", "the same text"])
@pytest.mark.parametrize("committed", [False, True])
def test_name_of_a_finished_task_is_reused_in_clones(
    here: Machine, there: Machine, remote: Path, committed: bool, text: str
) -> None:
    here.finish(attempt_of(here, "a"))
    there.clone.pull()
    there.put(PATH, text)
    if committed:
        there.clone.guard()
        there.commit("a new task")
        there.git("push", "-q")
        here.clone.pull()
    worker = here if committed else there
    claimed = attempt_of(worker, "a%202")
    assert worker.finish(claimed) is Published.ACCEPTED
    for machine in (here, there):
        machine.clone.pull()
        assert machine.find("a*.md") == ["Done/a 2.md", "Done/a.md"]
    assert git(remote, "ls-tree", "-r", "--name-only", "main", "Needs_Action", "In_Progress", "Done").count("a") >= 2
    assert git(remote, "for-each-ref", "refs/dibs") == ""


def test_committed_new_task_survives_changes_of_its_namesake(here: Machine, there: Machine) -> None:
    here.finish(attempt_of(here, "a"))
    there.clone.pull()
    there.put(PATH, "# Week 2\n")
    there.commit("a new task")
    here.put("Done/a.md", here.read("Done/a.md") + "\nA word on it.\n")
    here.commit("a word")
    here.git("push", "-q")
    there.clone.pull()
    assert there.find("a.md") == ["Done/a.md", PATH]
    assert "A word on it." in there.read("Done/a.md")


def test_claim_brought_back_by_git_is_removed(here: Machine, remote: Path) -> None:
    """An auto-committer pulls the commit of a claim whose task this folder has finished since."""
    with here.clone.turn(), here.desk() as desk:
        claimed = desk.claim("ann", refs=["a"])[0]
        here.clone.post([PATH, "In_Progress/ann/a.md"], "ann claims a", claim=True)
    here.clone.flush()
    published = here.read("In_Progress/ann/a.md")
    with here.clone.turn(), here.desk() as desk:
        desk.move(Verb.DONE, "a", token=claimed.task.lease.token if claimed.task.lease else "")
        here.clone.post(["In_Progress/ann/a.md", "Done/a.md"], "ann: done a")
    here.put("In_Progress/ann/a.md", published)
    assert here.clone.flush().refused == ()
    assert here.find("a.md") == ["Done/a.md"]
    assert twice_in_one_commit(remote) == []


@pytest.mark.parametrize(("fate", "kept"), [("deleted", False), ("done", False), ("waits", True)])
def test_references_of_ended_tasks_are_collected(
    here: Machine, there: Machine, remote: Path, clock: Clock, fate: str, kept: bool
) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    if fate == "deleted":
        (there.path / PATH).unlink()
    elif fate == "done":
        there.move(PATH, "Done/a.md")
    there.put("Plans/mine.md", "mine\n")
    there.commit()
    there.git("push", "-q")
    there.clone.pull()
    assert there.clone.collect(clock()) == ()  # it may still be worked on
    clock.advance(seconds=(LEASE + timedelta(minutes=11)).total_seconds())
    assert len(there.clone.collect(clock())) == (not kept)
    assert (git(remote, "for-each-ref", "refs/dibs") != "") is kept
    here.clone.pull()
    assert bool(here.clone.claims()) is kept


def test_task_finished_under_another_name_is_not_given_out(here: Machine, there: Machine, clock: Clock) -> None:
    """One person renames a task, in another clone it is claimed and finished; the references are gone by then."""
    here.put("Needs_Action/roof.md", f"---\ntask_id: roof-7\n---\n\n{TEXT}")
    here.commit("a task")
    here.git("push", "-q")
    there.clone.pull()
    there.move("Needs_Action/roof.md", "Needs_Action/the roof.md")
    here.finish(attempt_of(here, "roof-7"))
    assert offer(there, clock, "bob", "two", "Needs_Action/the roof.md") is Published.REFUSED
    assert there.find("the roof.md") == []


def test_uncommitted_rename_leaves_one_file(here: Machine, there: Machine) -> None:
    there.move("Needs_Action/a.md", "Needs_Action/renamed.md")
    here.finish(here.hold("ann", "a"))
    there.clone.pull()
    assert there.find("renamed.md") == []
    assert there.find("a.md") == ["Done/a.md"]


def test_hook_leaves_moved_tasks_out_of_a_commit(here: Machine, there: Machine, remote: Path) -> None:
    """A person moves a task, and git pulls its finish before the move is committed: git keeps both."""
    there.clone.guard()
    here.finish(here.hold("ann", "a"))
    there.move("Needs_Action/a.md", "Rejected/a.md")
    there.git("pull", "-q", "--no-rebase")
    assert there.find("a.md") == ["Done/a.md", "Rejected/a.md"]
    there.put("Plans/mine.md", "mine\n")
    there.commit("vault backup")
    there.git("push", "-q")
    assert git(remote, "show", "--name-only", "--format=%s", "main").split("\n")[:1] == ["vault backup"]
    assert git(remote, "show", "main:Plans/mine.md") == "mine\n"
    assert there.find("a.md") == ["Done/a.md"]
    assert twice_in_one_commit(remote) == []


@pytest.mark.parametrize("more", ["", "\nA word of mine.\n"])
def test_hook_leaves_a_second_file_out_of_a_commit(here: Machine, remote: Path, more: str) -> None:
    here.clone.guard()
    here.finish(attempt_of(here, "a"))
    here.put("Done/a again.md", here.read("Done/a.md") + more)
    here.put("Plans/mine.md", "mine\n")
    here.commit("vault backup")
    here.git("push", "-q")
    assert twice_in_one_commit(remote) == []
    assert git(remote, "ls-tree", "--name-only", "main", "Done/").count("again") == 0
    assert bool(here.find("a again.md")) is bool(more)


def test_hook_leaves_out_a_new_task_that_moved_while_git_add_ran(here: Machine, remote: Path) -> None:
    """`git add` finds the file in both folders when a person moves it between its two looks."""
    here.clone.guard()
    here.put("Needs_Action/new.md", "---\ntask_id: new\n---\n\n# New\n")
    here.git("add", "-A")
    here.move("Needs_Action/new.md", "Rejected/new.md")
    here.git("add", "Rejected/new.md")
    here.git("commit", "-qm", "vault backup")
    here.git("push", "-q")
    assert twice_in_one_commit(remote) == []
    assert git(remote, "show", "main:Rejected/new.md").endswith("# New\n")
    assert here.find("new.md") == ["Rejected/new.md"]


def test_hook_of_the_person_is_not_changed(here: Machine) -> None:
    own = here.path / ".git/hooks/pre-commit"
    own.parent.mkdir(exist_ok=True)
    own.write_text("#!/bin/sh\nexit 0\n")
    here.clone.guard()
    assert own.read_text() == "#!/bin/sh\nexit 0\n"


def test_resolve_keeps_the_file_of_the_remote(here: Machine, there: Machine, remote: Path) -> None:
    here.finish(here.hold("ann", "a"))
    there.clone.pull()
    there.put("Needs_Action/a.md", "---\ntask_id: a\n---\n\n# Task a\n\nWords that only this file has.\n")
    assert there.clone.resolve() == ("Needs_Action/a.md",)
    assert there.find("a.md") == ["Done/a.md"]
    (kept,) = there.find("a kept-*")
    assert "Words that only this file has." in there.read(kept)
    there.clone.flush()
    assert_no_markers(remote)


@pytest.mark.parametrize("step", range(3))
def test_agent_killed_around_its_push_leaves_a_claimable_task(
    here: Machine, there: Machine, remote: Path, clock: Clock, step: int
) -> None:
    """Killed before the push, after the remote has taken it, or after the folder has changed."""
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from datetime import datetime, timedelta\n"
        "from sync.git.clones import Machine\n"
        "from dibs.sync.git import Claim\n"
        "from dibs.stores.vault.reading import sealed\n"
        "path, step, now = sys.argv[1], int(sys.argv[2]), datetime.fromisoformat(sys.argv[3])\n"
        "one = Machine(Path(path), clock=lambda: now)\n"
        "die = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "if step == 0: one.clone._claims.push = die\n"
        "task = one.identity('Needs_Action/a.md')\n"
        "claim = Claim(task, 'ann', 'run', 1, sealed('t'), now + timedelta(minutes=20))\n"
        "if step == 1: one.clone.pull = die\n"
        "one.clone.offer(claim, 'Needs_Action/a.md', now)\n"
        "one.hold('ann', 'a', tokens=['t']) if step < 2 else None\n"
        "with one.clone.turn(), one.desk() as desk:\n"
        "    desk.claim('ann', refs=['a'], tokens=['t'])\n"
        "    die()\n"
    )
    tests = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    killed = subprocess.run(
        [sys.executable, "-c", script, str(here.path), str(step), clock().isoformat()],
        env=os.environ | {"PYTHONPATH": tests},
        check=False,
        capture_output=True,
    )
    assert killed.returncode == -9, killed.stderr.decode()
    there.clone.pull()
    outcome = offer(there, clock, "bob", "two")
    assert outcome is (Published.ACCEPTED if step == 0 else Published.REFUSED)
    clock.advance(seconds=(LEASE + timedelta(seconds=1)).total_seconds())
    if step:
        assert offer(there, clock, "bob", "two") is Published.ACCEPTED
    there.finish(there.hold("bob", "a", tokens=["two"]))
    here.clone.settle()
    assert here.find("a.md") == ["Done/a.md"]
    assert twice_in_one_commit(remote) == []


def test_new_task_survives_changes_of_its_namesake(here: Machine, there: Machine) -> None:
    here.finish(attempt_of(here, "a"))
    there.clone.pull()
    there.put(PATH, "---\ntask_id: week-2\n---\n\n# Week 2\n")
    here.put("Done/a.md", here.read("Done/a.md") + "\nA word on it.\n")
    here.commit("a word")
    here.git("push", "-q")
    there.clone.pull()
    assert there.find("a*.md") == ["Done/a.md", PATH]
    assert "A word on it." in there.read("Done/a.md")
    assert there.finish(attempt_of(there, "week-2")) is Published.ACCEPTED


def test_task_renamed_here_and_rejected_elsewhere_is_there_once(here: Machine, there: Machine) -> None:
    """One person renames the file while an agent works on it, another rejects the task in another clone."""
    for machine in (here, there):
        if machine is here:
            machine.put("Needs_Action/roof.md", f"---\ntask_id: roof-7\n---\n\n{TEXT}")
            machine.commit("a task")
            machine.git("push", "-q")
        machine.clone.pull()
    with there.desk() as desk:
        attempt = claim_published(TrackedDesk(desk), Publisher(there.clone), desk.get("roof-7"), lease=LEASE)
    assert attempt.claimed is not None
    there.move("In_Progress/ann/roof.md", "In_Progress/ann/the roof.md")
    here.move("Needs_Action/roof.md", "Rejected/roof.md")
    here.commit("no roof")
    here.git("push", "-q")
    there.clone.pull()
    with pytest.raises(LostLock):
        there.finish(attempt.claimed)
    there.clone.flush()
    there.clone.pull()
    assert there.find("*roof.md") == ["Rejected/roof.md"]


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("ended", [False, True], ids=["held", "finished"])
def test_name_is_reused_before_the_first_task_is_published(
    here: Machine, remote: Path, *, ended: bool, committed: bool
) -> None:
    """A person writes a new task under the name of one whose claim or result still waits to be published."""
    here.put("Needs_Action/roof.md", f"---\ntask_id: roof-7\n---\n\n{TEXT}")
    if committed:
        here.commit("a task")
    attempt = attempt_of(here, "roof-7", publish=False)
    if ended:
        assert attempt.task.lease is not None
        with here.clone.turn(), here.desk() as desk:
            done = desk.move(Verb.DONE, "roof-7", token=attempt.task.lease.token).task
            here.clone.post([place_of(attempt.task), place_of(done)], "ann: done roof-7")
    new = "---\ntask_id: roof-8\n---\n\n# Another roof\n"
    here.put("Needs_Action/roof.md", new)
    here.clone.flush()
    here.clone.pull()
    place = "Done/roof.md" if ended else "In_Progress/ann/roof.md"
    assert here.find("roof*.md") == sorted([place, "Needs_Action/roof.md"])
    assert here.read("Needs_Action/roof.md") == new
    assert place in git(remote, "ls-tree", "-r", "--name-only", "main")
    assert here.finish(attempt_of(here, "roof-8")) is Published.ACCEPTED


@pytest.mark.parametrize("target", ["Rejected/roof.md", "Rejected/home/the roof.md"])
@pytest.mark.parametrize("ended", [False, True], ids=["held", "finished"])
def test_task_moved_to_another_domain_and_worked_on_elsewhere_has_one_file(
    here: Machine, there: Machine, remote: Path, target: str, *, ended: bool
) -> None:
    here.put("Needs_Action/mail/roof.md", f"---\ntask_id: roof-7\n---\n\n{TEXT}")
    here.put("Needs_Action/roof-8.md", f"---\ntask_id: roof-8\n---\n\n{TEXT}")
    here.commit("tasks of two domains")
    here.git("push", "-q")
    there.clone.pull()
    there.move("Needs_Action/mail/roof.md", target)
    there.commit("no roof")
    here.move("Needs_Action/mail/roof.md", "Needs_Action/mail/roof r.md")
    here.commit("renamed")
    here.git("push", "-q")
    with here.desk() as desk:
        place = "Done/mail/roof r.md" if ended else "In_Progress/ann/mail/roof r.md"
        (claimed,) = desk.at("mail").claim("ann", refs=["roof-7"])
        if ended:
            desk.at("mail").move(Verb.DONE, "roof-7", token=claimed.task.lease and claimed.task.lease.token)
    here.commit("the agent's")
    here.git("push", "-q")
    there.clone.settle()
    assert there.find("*roof*.md") == sorted([place, "Needs_Action/roof-8.md"])
    assert twice_in_one_commit(remote) == []


def new_task(where: Machine, task: str, place: str = "Needs_Action/weekly.md") -> None:
    where.put(place, f"---\ntask_id: {task}\n---\n\n# {task}\n")


@pytest.mark.parametrize("before", [None, "Done/weekly.md", "Rejected/weekly.md"])
@pytest.mark.parametrize("state", ["new", "staged", "committed"])
def test_two_new_tasks_of_one_name_are_both_kept(
    here: Machine, there: Machine, remote: Path, state: str, before: str | None
) -> None:
    """In two clones, people write different tasks under the same name, perhaps that of a finished one."""
    if before is not None:
        new_task(here, "week-0", before)
        here.commit("an old one")
        here.git("push", "-q")
        there.clone.pull()
    new_task(here, "week-1")
    here.commit("week 1")
    here.git("push", "-q")
    new_task(there, "week-2")
    if state != "new":
        there.git("add", "-A")
    if state == "committed":
        there.git("commit", "-qm", "week 2")
    there.clone.settle()
    assert there.read("Needs_Action/weekly.md").count("week-1")
    assert there.read("Needs_Action/weekly 2.md").count("week-2")
    assert there.finish(attempt_of(there, "week-2")) is Published.ACCEPTED
    here.clone.pull()
    assert here.finish(attempt_of(here, "week-1")) is Published.ACCEPTED
    done = git(remote, "ls-tree", "-r", "--name-only", "main", "Done").splitlines()
    assert len(done) == 2 + (before == "Done/weekly.md") + 1  # .gitkeep
    assert len(here.find("weekly*.md")) == 2 + (before is not None)


@pytest.mark.parametrize("place", ["Rejected/roof.md", "Done/the roof.md", "Needs_Action/the roof.md"])
def test_hook_commits_one_file_of_a_new_task(here: Machine, remote: Path, place: str) -> None:
    """After a failed pull, git restores the staged file of a task that a person has moved since."""
    here.clone.guard()
    new_task(here, "roof", "Needs_Action/mail/roof.md")
    new_task(here, "roof", f"{place.partition('/')[0]}/mail/{place.partition('/')[2]}")
    here.commit("vault backup")
    here.git("push", "-q")
    there = git(remote, "ls-tree", "-r", "--name-only", "main").splitlines()
    assert len([name for name in there if "roof" in name]) == 1
    kept = here.find("*roof.md")
    assert len(kept) == (2 if place.startswith("Needs_Action") else 1)


def test_hook_keeps_tasks_of_one_id_in_two_domains(here: Machine, remote: Path) -> None:
    here.clone.guard()
    for domain, text in (("mail", "one"), ("home", "two")):
        here.put(f"Needs_Action/{domain}/roof.md", f"---\ntask_id: roof\n---\n\n# {text}\n")
    here.commit("vault backup")
    here.git("push", "-q")
    assert git(remote, "ls-tree", "-r", "--name-only", "main").count("roof.md") == 2


def test_hook_commits_one_file_of_a_task_moved_to_another_domain(here: Machine, remote: Path) -> None:
    here.clone.guard()
    new_task(here, "roof", "Needs_Action/mail/roof.md")
    new_task(here, "roof", "Rejected/roof.md")
    here.commit("vault backup")
    here.git("push", "-q")
    assert git(remote, "ls-tree", "-r", "--name-only", "main").count("roof.md") == 1
    assert here.find("roof.md") == ["Rejected/roof.md"]


MOVES = {
    "renamed": "Needs_Action/mail/the roof.md",
    "a long name": f"Needs_Action/mail/{'x' * 200}.md",
    "another domain": "Needs_Action/home/deep/er/Dach äöü 屋根.md",
}


@pytest.mark.parametrize("target", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("text", [f"---\ntask_id: roof-7\n---\n\n{TEXT}", "# Roof\n"], ids=["task_id", "no id"])
def test_move_by_a_person_is_published_with_the_claim(here: Machine, there: Machine, text: str, target: str) -> None:
    """The person has not committed it: the old file must not wait at the remote for another agent."""
    here.put("Needs_Action/mail/roof.md", text)
    here.commit("a task")
    here.git("push", "-q")
    there.clone.pull()
    there.move("Needs_Action/mail/roof.md", target)
    scope = target.removeprefix("Needs_Action/").rpartition("/")[0]
    with there.desk() as desk:
        at = desk.at(scope)
        (task,) = (one for one in at.find(Query(scope)) if one.id not in {"a", "b", "c"})
        attempt = claim_published(TrackedDesk(desk), Publisher(there.clone), task, lease=LEASE)
        assert attempt.claimed is not None
        lease = attempt.claimed.task.lease
        done = at.move(Verb.DONE, task.id, token=lease and lease.token).task
    with there.clone.turn():
        assert there.publish([place_of(attempt.claimed.task), place_of(done)], "done") is Published.ACCEPTED
    here.clone.pull()
    for machine in (here, there):
        assert machine.status() == []
        found = [name for name in machine.files() if name.endswith(target[-12:])]
        assert found == [target.replace("Needs_Action", "Done")]
        assert machine.find("roof.md") == []


@pytest.mark.parametrize("moment", ["before", "meanwhile"])
@pytest.mark.parametrize("text", [f"---\ntask_id: roof-7\n---\n\n{TEXT}", "# Roof\n"], ids=["task_id", "no id"])
def test_task_claimed_under_its_old_name_is_not_claimed_under_the_new(
    here: Machine, tmp_path: Path, remote: Path, clock: Clock, text: str, moment: str
) -> None:
    old, new = "Needs_Action/mail/roof.md", "Needs_Action/home/the roof.md"
    here.put(old, text)
    here.commit("a task")
    here.git("push", "-q")
    won: list[Published] = []
    git(tmp_path, "clone", "-q", str(remote), "there")

    def claim() -> None:
        won.append(offer(here, clock, "ann", "one", old))

    there = Machine(tmp_path / "there", clock=clock, git=PromptedGit(str(tmp_path / "there"), "push", claim))
    there.move(old, new)
    if moment == "before":
        claim()
        there.clone.pull()
    with there.desk() as desk:
        at = desk.at("home")
        (task,) = at.find(Query("home"))
        attempt = claim_published(TrackedDesk(desk), Publisher(there.clone), task, lease=LEASE)
    won += [Published.ACCEPTED] if attempt.claimed is not None else []
    assert won.count(Published.ACCEPTED) == 1


def test_tasks_that_exchange_names_are_merged_one_by_one(here: Machine, there: Machine) -> None:
    new_task(here, "week-0", "Done/weekly.md")
    new_task(here, "week-1", "Needs_Action/next.md")
    here.commit("two tasks")
    here.git("push", "-q")
    there.clone.pull()
    there.move("Done/weekly.md", "Done/weekly r.md")
    there.move("Needs_Action/next.md", "Done/next.md")
    new_task(there, "week-2")
    new_task(there, "week-3", "Needs_Action/next.md")
    there.commit("other names")
    new_task(here, "week-4", "Rejected/weekly.md")
    here.commit("another one")
    here.git("push", "-q")
    there.clone.settle()
    expected = {
        "Done/weekly r.md": "week-0",
        "Done/next.md": "week-1",
        "Needs_Action/weekly.md": "week-2",
        "Needs_Action/next.md": "week-3",
        "Rejected/weekly.md": "week-4",
    }
    assert {
        place: there.read(place).split()[2] for place in there.find("*.md") if "week-" in there.read(place)
    } == expected
    assert there.status() == []


def test_conflict_copy_never_replaces_its_task(here: Machine, remote: Path) -> None:
    here.clone.guard()
    copy = "Needs_Action/roof.sync-conflict-20261118-120000-ABCDEF7.md"
    for place in ("Needs_Action/roof.md", copy):
        new_task(here, "roof", place)
    here.commit("both")
    here.git("mv", "Needs_Action/roof.md", "Needs_Action/the roof.md")
    here.commit("renamed")
    here.git("push", "-q")
    assert here.find("*roof*.md") == [copy, "Needs_Action/the roof.md"]
    there = git(remote, "ls-tree", "-r", "--name-only", "main", "Needs_Action/").splitlines()
    assert {copy, "Needs_Action/the roof.md"} <= set(there)


def test_hook_leaves_out_a_renamed_file_of_a_task_that_others_have_moved(here: Machine, remote: Path) -> None:
    here.clone.guard()
    new_task(here, "roof", "Rejected/roof.md")
    here.commit("moved there from the domain mail")
    new_task(here, "roof", "Needs_Action/mail/roof r.md")
    here.put("Plans/mine.md", "mine\n")
    here.commit("vault backup")
    here.git("push", "-q")
    assert git(remote, "ls-tree", "-r", "--name-only", "main").count("roof") == 1
    assert here.find("*roof*.md") == ["Rejected/roof.md"]
