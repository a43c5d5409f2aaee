"""Claims as references: the remote first, the folder after; what every crash leaves, and how it heals."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import LostLock
from dibs.protocols.vault.claiming import Attempt, Outcome, claim_published
from dibs.protocols.vault.publishing import Publisher
from dibs.protocols.vault.workplace import TrackedDesk
from dibs.stores.vault.reading import sealed
from dibs.sync.git import Claim, Published
from dibs.sync.git.claims import reference_of

from .clones import TEXT, Machine, git
from .soundness import assert_no_markers, twice_in_one_commit

if TYPE_CHECKING:
    from pathlib import Path

    from support.clock import Clock

LEASE = timedelta(minutes=20)
PATH = "Needs_Action/a.md"


def offer(machine: Machine, clock: Clock, agent: str, token: str, path: str = PATH) -> Published:
    task = machine.clone.identity(path)
    claim = Claim(task, agent, f"run-{agent}", 1, sealed(token), clock() + LEASE)
    return machine.clone.offer(claim, path, clock()).outcome


def test_of_two_clones_one_is_given_the_task_and_no_folder_changes(here: Machine, there: Machine, clock: Clock) -> None:
    before = here.files(), there.files(), here.head(), there.head()
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    assert offer(there, clock, "bob", "two") is Published.REFUSED
    assert (here.files(), there.files(), here.head(), there.head()) == before
    assert (here.status(), there.status()) == ([], [])


def test_a_commit_of_everything_while_the_remote_decides_holds_nothing_of_the_claim(
    here: Machine, there: Machine, remote: Path, clock: Clock
) -> None:
    """The remote's hook commits in the clone while the push of the claim waits for its answer."""
    hook = remote / "hooks/pre-receive"
    person = "git -c user.name=P -c user.email=p@e commit -qm auto"
    commit = f"unset $(git rev-parse --local-env-vars) GIT_QUARANTINE_PATH; cd '{here.path}'; git add -A; {person}"
    here.put("Plans/mine.md", "mine\n")
    hook.write_text(f"#!/bin/sh\ntest -e '{remote}/once' || {{ touch '{remote}/once'; {commit}; }}\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(Exception, match="did not take"):
        offer(here, clock, "ann", "one")
    assert here.git("show", "--name-only", "--format=%s", "HEAD").split() == ["auto", "Plans/mine.md"]
    hook.unlink()
    assert offer(there, clock, "bob", "two") is Published.ACCEPTED


def test_a_claim_is_taken_over_only_when_it_has_expired(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    clock.advance(seconds=(LEASE - timedelta(seconds=1)).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.REFUSED
    clock.advance(seconds=(timedelta(seconds=2)).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.ACCEPTED
    taken = there.clone.claims()[there.clone.identity(PATH)]
    assert (taken.agent, taken.attempt) == ("bob", 2)


def test_a_renewal_and_a_takeover_exclude_each_other(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    task = here.clone.identity(PATH)
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


def test_a_task_that_was_finished_since_we_looked_is_not_given_out_again(
    here: Machine, there: Machine, clock: Clock
) -> None:
    """Its claim is over and its reference deleted, so that creating another one succeeds; looking again tells."""
    assert there.finish(there.hold("bob", "a")) is Published.ACCEPTED
    assert offer(here, clock, "ann", "one") is Published.REFUSED
    assert here.find("a.md") == ["Done/a.md"]
    there.clone.pull()
    assert there.clone.claims() == {}


def test_the_end_of_an_attempt_deletes_its_reference_in_the_same_push(
    here: Machine, remote: Path, clock: Clock
) -> None:
    assert offer(here, clock, "ann", "token-1") is Published.ACCEPTED
    reference = reference_of(here.clone.identity(PATH))
    assert git(remote, "for-each-ref", "--format=%(refname)", "refs/dibs").split() == [reference]
    held = here.hold("ann", "a", tokens=["token-1"])
    assert git(remote, "for-each-ref", "--format=%(refname)", "refs/dibs").split() == [reference]
    assert here.finish(held) is Published.ACCEPTED
    assert git(remote, "for-each-ref", "refs/dibs") == ""


@pytest.mark.parametrize("known", [True, False], ids=["pulled", "unpulled"])
def test_a_late_result_is_refused_when_others_have_taken_over(
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
    reference = reference_of(here.clone.identity("In_Progress/ann/a.md"))
    assert '"agent": "bob"' in git(remote, "log", "-1", "--format=%s", reference)


# An agent: the remote first, the folder after


def attempt(machine: Machine) -> Attempt:
    with machine.desk() as desk:
        return claim_published(TrackedDesk(desk), Publisher(machine.clone), desk.get("a"))


def test_agent_leaves_the_folder_alone_when_the_remote_refuses_its_claim(
    here: Machine, there: Machine, clock: Clock
) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    assert attempt(there).outcome is Outcome.LOST
    assert there.find("a.md") == [PATH]


def test_agent_deletes_its_reference_when_a_person_moves_the_task_first(there: Machine, remote: Path) -> None:
    """The remote's hook moves the file in the folder while the push of the claim waits for its answer."""
    source, target = there.path / PATH, there.path / "Done/a.md"
    hook = remote / "hooks/pre-receive"
    hook.write_text(f"#!/bin/sh\ntest ! -e '{source}' || mv '{source}' '{target}'\n")
    hook.chmod(0o755)
    assert attempt(there).outcome is Outcome.LOST
    assert there.find("a.md") == ["Done/a.md"]
    assert git(remote, "for-each-ref", "refs/dibs") == ""


def test_agent_counts_on_from_an_attempt_that_only_the_remote_knows(
    here: Machine, there: Machine, clock: Clock
) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    clock.advance(seconds=(LEASE + timedelta(seconds=1)).total_seconds())
    claimed = attempt(there).claimed
    assert claimed is not None
    assert claimed.task.attempt == 2


def test_agent_that_renews_after_a_takeover_has_lost_the_task(here: Machine, there: Machine, clock: Clock) -> None:
    assert offer(here, clock, "ann", "one") is Published.ACCEPTED
    there.clone.pull()
    clock.advance(seconds=(LEASE + timedelta(seconds=1)).total_seconds())
    assert offer(there, clock, "bob", "two") is Published.ACCEPTED
    with here.desk() as desk, pytest.raises(LostLock, match="in another clone"):
        Publisher(here.clone).renew(desk.get("a"), "one", clock() + LEASE)


# Names


def test_a_renamed_task_with_a_task_id_is_still_the_same(here: Machine, there: Machine, clock: Clock) -> None:
    text = f"---\ntask_id: roof-7\n---\n\n{TEXT}"
    here.put("Needs_Action/roof.md", text)
    here.commit("a task")
    here.git("push", "-q")
    there.clone.pull()
    there.move("Needs_Action/roof.md", "Needs_Action/the roof.md")
    assert offer(here, clock, "ann", "one", "Needs_Action/roof.md") is Published.ACCEPTED
    there.clone.pull()
    assert offer(there, clock, "bob", "two", "Needs_Action/the roof.md") is Published.REFUSED


def test_a_rename_that_nobody_has_committed_does_not_leave_the_task_twice(here: Machine, there: Machine) -> None:
    there.move("Needs_Action/a.md", "Needs_Action/renamed.md")
    here.finish(here.hold("ann", "a"))
    there.clone.pull()
    assert there.find("renamed.md") == []
    assert there.find("a.md") == ["Done/a.md"]


def test_the_hook_leaves_out_of_a_commit_what_has_gone_on(here: Machine, there: Machine, remote: Path) -> None:
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


def test_a_hook_of_the_person_is_left_alone(here: Machine) -> None:
    own = here.path / ".git/hooks/pre-commit"
    own.parent.mkdir(exist_ok=True)
    own.write_text("#!/bin/sh\nexit 0\n")
    here.clone.guard()
    assert own.read_text() == "#!/bin/sh\nexit 0\n"


def test_resolve_lets_a_task_lie_where_the_remote_has_it(here: Machine, there: Machine, remote: Path) -> None:
    here.finish(here.hold("ann", "a"))
    there.clone.pull()
    there.put("Needs_Action/a.md", "# Task a\n\nWords that only this file has.\n")
    assert there.clone.resolve() == ("Needs_Action/a.md",)
    assert there.find("a.md") == ["Done/a.md"]
    (kept,) = there.find("a kept-*")
    assert "Words that only this file has." in there.read(kept)
    there.clone.flush()
    assert_no_markers(remote)


@pytest.mark.parametrize("step", range(3))
def test_an_agent_killed_around_its_push_leaves_a_task_that_goes_on(
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
        "task = one.clone.identity('Needs_Action/a.md')\n"
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
