"""One clone is stopped before each git command of a claim, while another acts as a whole: exactly one has the task."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError, LostLock
from dibs.core.lifecycle import Verb
from dibs.sync.git import Published

from .clones import Machine, git, new_remote
from .conftest import FILES
from .crashes import copied
from .soundness import assert_sound, twice_in_one_commit
from .steps import SteppedGit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dibs.core.task import Claimed
    from support.clock import Clock

TEXTS = {name: f"The text of {name}." for name in ("a", "b", "c")}
_STRIDE = 1 if os.environ.get("DIBS_TORTURE") else 4
Outcome = tuple[Published | None, "Claimed | None"]


class Stage:
    """Two clones; what `there` does happens at one step of what `here` does."""

    def __init__(self, origin: Path, where: Path, clock: Clock) -> None:
        self.remote, self.plain, self.there = copied(origin, where, clock)
        self._clock = clock
        self.git: SteppedGit

    def here(self, act: Callable[[], None], at: int) -> Machine:
        self.git = SteppedGit(os.path.realpath(self.plain.path), act, at)
        return Machine(self.plain.path, clock=self._clock, git=self.git)


def stages(tmp_path: Path, clock: Clock, stride: int = 1) -> Iterator[tuple[Stage, int]]:
    """A new stage for each step, or for every so many, until the one before had no such step any more."""
    step, stage = 0, None
    remote = new_remote(tmp_path, FILES)
    for name in ("here", "there"):
        git(tmp_path, "clone", "-q", str(remote), name)
    while stage is None or stage.git.taken >= step:
        step += stride
        stage = Stage(tmp_path, tmp_path / f"{step}", clock)
        yield stage, step
    assert step > 8, "there was nothing to come between"


@pytest.mark.timeout(3600)  # thousands of git commands
def test_concurrent_claim_at_any_step_has_one_winner(tmp_path: Path, clock: Clock) -> None:
    winners = set()
    for stage, step in stages(tmp_path, clock):
        theirs: list[Outcome] = []
        here = stage.here(lambda stage=stage, theirs=theirs: theirs.append(stage.there.claim("bob", "a")), step)  # type: ignore[misc]
        stage.git.arm()
        ours = here.claim("ann", "a")
        stage.git.act = None
        outcomes = [ours, *theirs] if theirs else [ours]
        won = [claimed for published, claimed in outcomes if published is Published.ACCEPTED]
        assert len(won) == 1
        winners.add(won[0] is ours[1])
        for where, (_, claimed) in zip((here, stage.there), outcomes, strict=False):
            finish(where, claimed, won[0])
        assert_sound(stage.remote, [here, stage.there], TEXTS)
        assert here.find("a.md") == ["Done/a.md"]
        assert twice_in_one_commit(stage.remote) == []
    assert winners == {True, False}, "each has to be first at some step"


def finish(where: Machine, claimed: Claimed | None, winner: Claimed | None) -> None:
    assert claimed is not None
    if claimed is winner:
        assert where.finish(claimed) is Published.ACCEPTED
    else:
        with pytest.raises(LostLock):
            where.finish(claimed)


@pytest.mark.timeout(3600)  # thousands of git commands
def test_takeover_at_any_step_leaves_one_result(tmp_path: Path, clock: Clock) -> None:
    for stage, step in stages(tmp_path, clock):
        claimed = stage.plain.hold("ann", "a")
        stage.there.clone.pull()

        def take_over(there: Machine = stage.there) -> None:
            clock.advance(minutes=21)
            there.clone.pull()
            there.claim("bob", "b" if there.find("a.md") == ["Done/a.md"] else "a")
            clock.advance(minutes=-21)

        here = stage.here(take_over, step)
        stage.git.arm()
        outcome = here.finish(claimed)
        stage.git.act = None
        assert_sound(stage.remote, [here, stage.there], TEXTS)
        expected = ["Done/a.md"] if outcome is Published.ACCEPTED else ["In_Progress/bob/a.md"]
        assert here.find("a.md") == expected
        assert twice_in_one_commit(stage.remote) == []


def edit(here: Machine) -> None:
    (place,) = here.find("a.md")
    here.put(place, here.read(place) + "\nAdded by hand.\n")


def save_another(here: Machine) -> None:
    here.put("Plans/note.md", "Added by hand.\n")


def stage_another(here: Machine) -> None:
    save_another(here)
    here.git("add", "Plans/note.md", ok=False)  # while the index is locked, git asks them to try again


def commit_another(here: Machine) -> None:
    stage_another(here)
    here.git("commit", "-qm", "by hand", ok=False)


def carry_off(here: Machine) -> None:
    (place,) = here.find("a.md")
    here.put(place, here.read(place) + "\nAdded by hand.\n")
    here.move(place, "Rejected/a.md")


@pytest.mark.timeout(3600)  # thousands of git commands
@pytest.mark.parametrize("contested", [False, True])
@pytest.mark.parametrize("act", [edit, save_another, stage_another, commit_another, carry_off])
def test_person_acting_at_any_step_loses_nothing(
    tmp_path: Path, clock: Clock, act: Callable[[Machine], None], contested: bool
) -> None:
    for stage, step in stages(tmp_path, clock, _STRIDE):
        if contested:
            stage.there.hold("bob", "a")
        here = stage.here(lambda stage=stage: act(stage.plain), step)  # type: ignore[misc]
        stage.git.arm()
        try:
            published, claimed = here.claim("ann", "a")
        except DibsError as error:
            assert act is carry_off, error  # noqa: PT017 - the desk refuses what is rejected already
            published, claimed = Published.REFUSED, None
        acted, stage.git.act = stage.git.taken >= step, None
        if acted:
            written = [*stage.plain.files().values(), *committed(stage.plain)]
            assert any(b"Added by hand." in text for text in written)
        if published is Published.ACCEPTED and act not in {edit, carry_off}:
            assert claimed is not None
            assert here.finish(claimed, Verb.DONE) is Published.ACCEPTED
        assert len(stage.plain.find("a.md")) == 1
        assert "Added by hand." not in mixed_in(stage.remote, act)


def back_up(where: Machine, how: str) -> None:
    """What an auto-committer does. Each step may fail."""
    for words in (("add", "-A"), ("commit", "-qm", "vault backup"), ("pull", "-q", how), ("push", "-q")):
        where.git(*words, ok=False)


@pytest.mark.timeout(1800)  # thousands of git commands
@pytest.mark.parametrize("how", ["--no-rebase", "--rebase"])
def test_auto_committer_at_any_step_of_a_pull_drops_no_change(tmp_path: Path, clock: Clock, how: str) -> None:
    for stage, step in stages(tmp_path, clock, _STRIDE):
        there, plain = stage.there, stage.plain
        there.finish(there.hold("bob", "b"))
        plain.put("Plans/mine.md", "mine\n")

        def meanwhile(there: Machine = there, plain: Machine = plain) -> None:
            there.put("Plans/theirs.md", "theirs\n")
            there.commit()
            there.clone.settle()
            back_up(plain, how)

        here = stage.here(meanwhile, step)
        stage.git.arm()
        with suppress(DibsError):
            here.clone.pull()
        stage.git.act = None
        for _ in range(2):
            back_up(plain, how)
            for name in {"rebase-merge", "MERGE_HEAD"} & set(os.listdir(plain.path / ".git")):
                os.utime(plain.path / ".git" / name, (0, 0))
            Machine(plain.path, clock=clock).clone.settle()
        assert git(stage.remote, "show", "main:Plans/mine.md") == "mine\n"
        if stage.git.taken >= step:
            assert git(stage.remote, "show", "main:Plans/theirs.md") == "theirs\n"
        assert plain.find("b.md") == ["Done/b.md"]
        assert plain.status() == []
        assert twice_in_one_commit(stage.remote) == []


def committed(where: Machine) -> list[bytes]:
    return [where.git("log", "-p", "--all").encode(errors="surrogateescape")]


def mixed_in(remote: Path, act: Callable[[Machine], None]) -> str:
    """Text by a person that was published, though they neither committed it nor wrote it into the task's file."""
    return git(remote, "log", "-p", "main", "--", "Plans") if act in {save_another, stage_another} else ""
