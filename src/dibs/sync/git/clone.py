"""A vault that is a git clone.

There is no merge in the folder, and no commit on the branch before the remote has it. A change is committed on top of
what the remote is known to have, and pushed; the remote takes it only if that is still all it has. If it is not, what
came is brought into the folder, and if a task of ours is among it, the remote's version wins. First the folder changes,
then the index, then the branch: whoever dies in between leaves a clone from which the next one goes on.
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import StoreBusy, StoreError
from dibs.stores.vault.disk import Disk, translated
from dibs.stores.vault.lock import Flock
from dibs.stores.vault.places import TASK_FOLDERS
from dibs.sync.git import folder
from dibs.sync.git.claims import Claim, ClaimReferences, overtaken
from dibs.sync.git.command import Git
from dibs.sync.git.folder import Folder, Made
from dibs.sync.git.history import History, Reach
from dibs.sync.git.outbox import YOUNG, Group, Outbox, connected, message_of
from dibs.sync.git.outcomes import Flushed, Published, Pulled, Standing
from dibs.sync.git.staged import Staged, add_lines, install_hooks
from dibs.sync.git.trees import REGULAR, Blob, Difference, Trees, by_unit, is_task, shown, unit_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from dibs.sync.git.folder import Brought, Found
    from dibs.sync.git.history import Refs
    from dibs.sync.git.trees import Places


class Offer(NamedTuple):
    """What the remote made of a claim; `holder` is who has the task, if it is known."""

    outcome: Published
    claim: Claim
    holder: Claim | None = None


class Judged(NamedTuple):
    """Groups that may go along."""

    changes: Mapping[str, Difference]
    made: Mapping[str, Made]


class Batch(NamedTuple):
    """What one push is to bring about."""

    commit: str | None  # None: nothing has to be pushed
    refs: Refs
    groups: tuple[Group, ...] = ()
    units: frozenset[str] = frozenset()
    made: Mapping[str, Made] = {}
    ended: tuple[Claim, ...] = ()


_ROUNDS = 50  # of others being first, before we say that the remote cannot be reached
_UNMOVED = 3  # pushes that are refused though nobody was first
_PATIENCE = 3  # turns of others, each as long as git may take
_LOCAL = ("/.dibs/", "/Logs/*.jsonl", "/Logs/*.log")  # what every machine has for itself


def is_clone(root: str) -> bool:
    """Whether this folder is the top of a git clone that has a remote."""
    return os.path.exists(os.path.join(root, ".git")) and bool(Git(root, 10.0).run("remote").out.strip())


class Clone:
    """A vault that is a git clone: one lock per vault, only own paths, every return code checked.

    The remote gets a claim first, and the folder when the remote has taken it:
        claim = clone.offer(Claim(task, "ann", run, attempt, proof, until), path, now)
        with clone.turn():
            desk.claim("ann", refs=[task], tokens=[token])
            clone.post(["Needs_Action/x.md", "In_Progress/ann/x.md"], "ann claims x", claim=True)

    Results are posted in the turn in which they are written, and published later, by any process of the clone:

        with clone.turn():
            clone.post([path_of(desk.done(...))], "ann: done x")
        clone.flush()
    """

    def __init__(
        self,
        root: str,
        *,
        remote: str = "origin",
        branch: str | None = None,
        timeout: float = 60.0,
        git: Git | None = None,
        disk: Disk | None = None,
    ) -> None:
        self.root = os.path.realpath(root)
        self._git = git or Git(self.root, timeout)
        if not os.path.exists(os.path.join(self.root, ".git")):
            raise StoreError(f"{root} is no git clone. 'git clone' makes one; the vault's folder has to be its top.")
        git_dir = self._git.do("rev-parse", "--absolute-git-dir").decode().rstrip("\n")
        home = os.path.join(git_dir, "dibs")
        os.makedirs(home, exist_ok=True)
        self._trees = Trees(self._git, home)
        self._folder = Folder(self.root, self._trees, disk or Disk(durable=True), timeout)
        self._history = History(self._git, self._trees, remote, branch, git_dir, self._folder.keep)
        self._staged = Staged(self._git, home)
        self._lock = Flock(os.path.join(home, "lock"), _PATIENCE * timeout)
        self._thread = threading.RLock()
        self._turns = 0
        self._owner = 0  # the thread whose turn it is
        self._outbox = Outbox(home)
        self._claims = ClaimReferences(self._git, self._trees, remote, home)
        self._home = home
        self._ignore_local()

    @property
    def unreached(self) -> str | None:
        """Why the remote was not reached the last time; None if it was."""
        return self._history.unreached

    @contextmanager
    def turn(self) -> Iterator[None]:
        """This clone's git lock, for as long as it takes; may be nested. StoreBusy if others keep it too long."""
        with self._thread:
            self._turns += 1
            self._owner = threading.get_ident()
            try:
                if self._turns == 1:
                    self._lock.take(shared=False)
                    self._trees.tidy()
                    self._staged.tidy()
                    self._folder.tidy()
                yield
            finally:
                self._turns -= 1
                if not self._turns:
                    self._owner = 0
                    self._lock.close()

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translated(error, self.root) from error

    def pull(self) -> Pulled:
        """Bring in what others pushed. A change made here to the same task gives way, and is told of."""
        with self.turn(), self._at_work():
            began = time.monotonic()
            self._history.look()
            reached = self._fetch()
            brought = self._bring_in()
            if reached:
                self._note_pull(began)
            dropped = tuple(shown(unit) for unit in brought.dropped)
            return Pulled(reached, bool(brought.changed), dropped, brought.set_aside)

    def _fetch(self) -> bool:
        return self._history.fetch(self._claims.refspec) is Reach.REACHED

    def _note_pull(self, began: float) -> None:
        """For other processes that wait to hear from the remote: by a clock that all of this machine share."""
        path = os.path.join(self._home, "pulled")
        with open(f"{path}.new", "w", encoding="ascii") as file:
            file.write(f"{began!r}")
        os.replace(f"{path}.new", path)

    def _pulled_since(self, moment: float) -> bool:
        try:
            with open(os.path.join(self._home, "pulled"), encoding="ascii") as file:
                return moment < float(file.read()) <= time.monotonic()
        except (FileNotFoundError, ValueError):
            return False

    # Claims

    def identity(self, path: str) -> str:
        """By what the task of this file is claimed: a rename does not change it where the file has a `task_id`."""
        return self._folder.identity(path)

    def claims(self) -> dict[str, Claim]:
        """By task, the claims there were when the remote was last asked."""
        return self._claims.all()

    def alone(self, task: str) -> AbstractContextManager[bool]:
        """Whether no other process of this clone claims this task at the moment."""
        return self._claims.alone(task)

    def posted(self) -> set[str]:
        """The units of which something waits to be published."""
        return {unit for group in self._outbox.all() for unit in by_unit(group.paths)}

    def offer(self, claim: Claim, path: str, now: datetime) -> Offer:
        """Ask the remote for a task. Nothing in the folder, the index or the branch changes. Not within a turn.

        ACCEPTED: it is ours, and the task at the remote is what it was when we looked. REFUSED: others were first, or
        have changed the task. OFFLINE: nobody knows; if the remote has it after all, it ends with its time.
        """
        with self.turn(), self._at_work():
            refs = self._history.refs()
            unit = unit_of(path)
            base = self._trees.at(refs.theirs).get(unit, {})
            over = self._claims.all().get(claim.task)
            if over is not None and over.live(now):
                return Offer(Published.REFUSED, claim, over)
            attempt = max(claim.attempt, over.attempt + 1 if over is not None else 0)
            claim = self._claims.make(claim._replace(attempt=attempt), over)
        said = self._claims.push(claim, over)
        pushed = time.monotonic()
        with self.turn(), self._at_work():
            if (said is not None or not self._pulled_since(pushed)) and not self.pull().reached:
                return Offer(Published.OFFLINE, claim)
            found = self._claims.all().get(claim.task)
            if found is None or found.commit != claim.commit:
                if found == over and said is not None and not overtaken(said):
                    raise self._history.refused(said)
                return Offer(Published.REFUSED, claim, found)
            same = self._trees.at(self._history.refs().theirs).get(unit, {}) == base
        if not same:
            self.withdraw(claim)
        return Offer(Published.ACCEPTED if same else Published.REFUSED, claim)

    def renew(self, task: str, proof: str, until: datetime) -> Offer | None:
        """Let a claim of ours hold for longer, at the remote. None: the remote knows of no claim of this task."""
        over = self._claims.all().get(task)
        if over is None:
            return None
        if over.proof != proof:
            return Offer(Published.REFUSED, over)
        claim = self._claims.make(over._replace(until=until), over)
        said = self._claims.push(claim, over)
        if said is not None:
            with self.turn():
                if not self._fetch():
                    return Offer(Published.OFFLINE, over)
                if self._claims.all().get(task) != claim:
                    return Offer(Published.REFUSED, over)
        self._claims.note(claim, claim)
        return Offer(Published.ACCEPTED, claim)

    def withdraw(self, claim: Claim) -> bool:
        """Give up a claim under which no work has begun. Out of reach, it ends with its time."""
        if claim.attempt > 1:
            return self.end(claim)  # the reference may be all that knows of the attempts before
        return self._claims.delete(claim) is None

    def end(self, claim: Claim) -> bool:
        """Let a claim end now. Its reference stays, so that the next attempt has a higher number."""
        return self._claims.end(claim) is None

    def raise_attempt(self, path: str, attempt: int) -> None:
        """Let a file know of attempts that it has not seen, so that the next has a higher number. Within a turn."""
        self._need_turn()
        with self._at_work():
            self._folder.raise_attempt(path, attempt)

    # Results

    def post(self, paths: Sequence[str], message: str, *, claim: bool = False) -> Group:
        """Note these paths (the old and the new place of a task) for publishing. In the turn that changed them."""
        self._need_turn()
        return self._outbox.add(message, paths, time.monotonic() + YOUNG if claim else 0.0)

    def fate(self, group: Group) -> Published:
        """What has become of what was posted. OFFLINE: it waits. A refusal is told once, to one who asks."""
        return self._outbox.fate(group)

    @property
    def waiting(self) -> bool:
        """Something is ready to be published, and nobody has done so."""
        return any(not group.young for group in self._outbox.all())

    def flush(self, *, young: bool = True, people: bool = False) -> Flushed:
        """Publish all that waits, in one push. `young`: claims too that may be over in a moment; `people`: commits that
        people have made, also if nothing else waits.
        """
        with self._publishing(), self._at_work():
            return self._flush(young=young, people=people)

    @contextmanager
    def _publishing(self) -> Iterator[None]:
        """One process at a time; within a turn, which is alone anyway, nobody is waited for."""
        if self._owner == threading.get_ident():
            yield
            return
        lock = Flock(os.path.join(self._home, "publishing"), _PATIENCE * self._git.timeout)
        lock.take(shared=False)
        try:
            yield
        finally:
            lock.close()

    def _flush(self, *, young: bool, people: bool) -> Flushed:
        """What came from the remote is brought into the folder only at the end: who loses a race must be quick."""
        refused: list[Group] = []
        unmoved = 0
        for round_ in range(_ROUNDS):
            with self.turn():
                batch = self._batch(refused, young=young, people=people)
                if batch.commit is None:
                    self._take_in(batch)
                    return Flushed(True, batch.groups, tuple(refused))
            said = self._history.push(batch.commit, batch.ended)
            with self.turn():
                if said is None or self._arrived(batch.commit, batch.refs):
                    self._take_in(batch)
                    return Flushed(True, batch.groups, tuple(refused))
                if self.unreached is not None:
                    self._keep_for_later(batch)
                    return Flushed(False, (), tuple(refused))
                same = self._history.refs().theirs == batch.refs.theirs
                still = self._claims.all()
                same = same and all(still.get(claim.task) == claim for claim in batch.ended)
            unmoved = unmoved + 1 if same else 0
            if unmoved == _UNMOVED:
                raise self._history.refused(said)
            time.sleep(random.random() * min(0.01 * round_, 0.05))  # noqa: S311 - only so that two do not keep step
        raise StoreBusy("Others push all the time; try again later.", retry_after_ms=1000)

    def _batch(self, refused: list[Group], *, young: bool, people: bool) -> Batch:
        """Put one commit together of all that waits; what cannot go along is taken back, and told in `refused`."""
        refs = self._history.look()
        waiting = [one for one in connected(self._outbox.all()) if young or not one[-1].young]
        claims = self._claims.all() if waiting else {}
        changes: dict[str, Difference] = {}
        groups: list[Group] = []
        made: dict[str, Made] = {}
        goal = self._history.goal(refs) if waiting or people else refs.theirs
        for several in waiting:
            asked = by_unit(path for group in several for path in group.paths)
            judged = self._judged(several, asked, refs.head, goal, claims)
            if judged is None:
                self._outbox.refuse(several)
                self._refused(asked)
                refused += several
                return self._batch(refused, young=young, people=people)  # the folder is not what it was
            changes |= judged.changes
            made |= judged.made
            groups += several
        ended = tuple(claim for one in made.values() if (claim := _claim_of(one, claims)) and _spent(one, claim))
        commit = goal
        if changes or (goal is None and groups):
            commit = self._trees.commit(goal, changes, message_of(groups), goal)
        units = frozenset(made)
        nothing = commit == refs.theirs and not ended
        return Batch(None if nothing else commit, refs, tuple(groups), units, made, ended)

    def _judged(
        self,
        several: Sequence[Group],
        asked: Mapping[str, set[str]],
        head: str | None,
        goal: str | None,
        claims: Mapping[str, Claim],
    ) -> Judged | None:
        """What is to be changed for these; None if someone else has a hand in it."""
        made = self._made(asked, head)
        if made is None or self._overtaken(several, made):
            return None
        if any(_foreign(one, _claim_of(one, claims)) for one in made.values()):
            return None
        changes = self._on_top_of(made, self._trees.differences(head, goal))
        return None if changes is None else Judged(changes, made)

    # One task in two places

    def outdated(self, path: str) -> bool:
        """A file that git had before, under a name that has gone on since: a person moved it as others did.

        Git itself leaves it behind when a pull meets a move that nobody has committed.
        """
        with self.turn():
            refs = self._history.refs()
            tree = self._trees.at(refs.theirs)
            if not is_task(unit_of(path)) or path in tree.get(unit_of(path), {}):
                return False
            found = next((one for one in self._folder.look(unit_of(path)) if one.path == path), None)
            if found is None or found.link or not self._trees.knows(found.data):
                return False
            sha = self._trees.hash(path, found.data)
            if any(blob.sha == sha for places in tree.values() for blob in places.values()):
                return False
            return self._history.had(sha, refs)

    def resolve_staged(self) -> tuple[str, ...]:
        """Before a person's commit: leave out what `outdated` finds among its new files, in the folder too."""
        words = ("diff", "--cached", "--name-only", "-z", "-M100%", "--diff-filter=A", "HEAD", "--", *TASK_FOLDERS)
        new = [os.fsdecode(raw) for raw in self._git.do(*words).split(b"\0") if raw]
        dropped = [path for path in new if self.outdated(path)]
        for path in dropped:
            self._git.do("rm", "-q", "-f", "--", path)
        return tuple(dropped)

    def resolve(self) -> tuple[str, ...]:
        """Let every task lie in one place: that of the remote, else the one that has gone furthest."""
        with self.turn(), self._at_work():
            self._history.look()
            dropped = [path for path in self._untracked() if self.outdated(path)]
            for path in dropped:
                self._folder.drop(path)
            for unit, found in self._folder.doubled():
                published = self._trees.at(self._history.refs().theirs).get(unit, {})
                kept = next(iter(published)) if len(published) == 1 else None
                gone = self._folder.settle_doubled(found, kept)
                self.post([one.path for one in found], f"{shown(unit)} lies in one place again")
                dropped += gone
        return tuple(dropped)

    def _untracked(self) -> list[str]:
        words = self._git.do("ls-files", "--others", "--exclude-standard", "-z", "--", *TASK_FOLDERS)
        return [os.fsdecode(raw) for raw in words.split(b"\0") if raw]

    def guard(self) -> None:
        """Have git ask before a person's commit, and let it not move new tasks to where others of their folder went."""
        self._git.do("config", "merge.directoryRenames", "false")
        install_hooks(self._git)

    def undo(self, paths: Sequence[str]) -> None:
        """Put these back to what was last published, if nobody else has moved them. Within a turn."""
        self._need_turn()
        with self._at_work():
            self._undo(by_unit(paths))

    def _undo(self, asked: Mapping[str, set[str]]) -> None:
        head = self._history.look().head
        known = self._trees.at(head)
        ours = [unit for unit in asked if {one.path for one in self._folder.look(unit)} <= asked[unit]]
        published = {unit: known.get(unit, {}) for unit in ours}
        self._folder.bring({unit: Difference(places, places) for unit, places in published.items()}, head)
        self._outbox.remove(group for group in self._outbox.all() if not asked.keys().isdisjoint(by_unit(group.paths)))

    def settle(self) -> tuple[str, ...]:
        """Pull, then publish what could not be published before; what it was is returned.

        Such is left by whoever was out of reach of the remote, or died with a claim that was published. What people
        have committed goes along; what they have changed and not committed is left to them.
        """
        with self.turn():
            if not self.pull().reached:
                return ()
            head = self._history.look().head
            posted = self.posted()
            for unit, found in list(self._unpublished()):
                if unit not in posted:
                    known = self._trees.at(head).get(unit, {})
                    self.post([*known, found.path], f"{shown(unit)}: what was left unpublished")
            people = self.standing().ahead > 0
        if not (self._outbox or people):
            return ()
        flushed = self.flush(people=people)
        return tuple(dict.fromkeys(group.paths[-1] for group in flushed.published)) if flushed.reached else ()

    def standing(self) -> Standing:
        """For those who ask how it goes. Asks no remote, takes no lock."""
        refs = self._history.refs()
        ahead, behind = self._history.count(refs.head, refs.theirs), self._history.count(refs.theirs, refs.head)
        unpublished = tuple(found.path for _, found in self._unpublished())
        trouble = self._history.trouble() or self.unreached
        return Standing(self._history.branch, self._history.remote, ahead, behind, unpublished, trouble)

    # From the remote to the folder

    def _bring_in(self, ours: Collection[str] = ()) -> Brought:
        """Bring the folder, but for what is ours there, then the index, then the branch to where the remote is."""
        while True:
            refs = self._history.look()
            goal = self._history.goal(refs)
            changes = self._trees.differences(refs.head, goal)
            coming = {unit: change for unit, change in changes.items() if unit not in ours}
            brought = self._folder.bring(coming, goal)
            kept = self._staged.follow(changes, self._trees.tree(refs.head), self._folder.keep_text) if changes else ()
            if self._history.advance(refs, goal, refs.theirs):
                return brought._replace(set_aside=brought.set_aside + kept)

    # From the folder to the remote

    def _made(self, asked: Mapping[str, set[str]], head: str | None) -> dict[str, Made] | None:
        """What was changed here; None if someone else has a hand in it."""
        known = self._trees.at(head)
        made = {}
        for unit, paths in asked.items():
            found = self._folder.look(unit)
            if not paths.issuperset(one.path for one in found) or (is_task(unit) and len(found) > 1):
                return None
            before = known.get(unit, {})
            same = self._folder.same(found, before)
            made[unit] = Made(found, before, before if same else {one.path: self._blob(one, before) for one in found})
        return made

    def _on_top_of(self, made: Mapping[str, Made], came: Mapping[str, Difference]) -> dict[str, Difference] | None:
        """What is to be changed there; None if someone was first. What is there already needs no change."""
        changes = {}
        for unit, (found, before, after) in made.items():
            theirs = came[unit].after if unit in came else before
            if theirs == after:
                continue
            if theirs != before and not self._folder.goes_on(found, theirs):
                return None
            changes[unit] = Difference(theirs, after)
        return changes

    def _blob(self, found: Found, before: Places) -> Blob:
        if found.link:
            raise StoreError(f"{found.path} is a symbolic link, which is never followed nor published.")
        mode = before[found.path].mode if found.path in before else REGULAR
        return Blob(mode, self._trees.write(found.path, found.data))

    def _overtaken(self, several: Sequence[Group], made: Mapping[str, Made]) -> bool:
        """Between an earlier try and this one the remote's version came in, or a person has changed it since."""
        offered = {unit: places for group in several for unit, places in group.offered.items()}
        if any(made[unit].after != places for unit, places in offered.items() if unit in made):
            return True
        newest = several[-1].paths[-1] if several[-1].paths else None
        unchanged = all(one.before == one.after for one in made.values())
        return newest is not None and unchanged and newest not in made[unit_of(newest)].after

    def _arrived(self, commit: str, refs: Refs) -> bool:
        """The remote did not say yes: see whether it has it all the same."""
        if not self._fetch():
            return False
        theirs = self._history.refs().theirs
        return theirs is not None and theirs != refs.theirs and self._history.includes(theirs, commit)

    def _take_in(self, batch: Batch) -> None:
        """It counts from here on. What is in the way of the rest is told by the next pull."""
        if batch.commit is not None:
            self._history.pushed(batch.commit)
        for claim in batch.ended:
            self._claims.note(claim, None)
        self._outbox.remove(batch.groups)
        if batch.commit is not None or batch.groups:
            with suppress(StoreError):
                self._bring_in(batch.units)

    def _refused(self, asked: Mapping[str, set[str]]) -> None:
        """All of it, or nothing: what was to be published together is taken back together."""
        self._bring_in()
        self._undo(asked)

    def _keep_for_later(self, batch: Batch) -> None:
        for group in batch.groups:
            units = [unit for unit in by_unit(group.paths) if unit in batch.made]
            self._outbox.write(group._replace(offered={unit: batch.made[unit].after for unit in units}))

    # What is left

    def _unpublished(self) -> Iterator[tuple[str, Found]]:
        """What could not be published, and what holders of published claims did and never came to publish."""
        known = self._trees.at(self._history.refs().head)
        posted = self.posted()
        for unit in sorted({*self._changed_tasks(), *posted}):
            places, found = known.get(unit, {}), self._folder.look(unit)
            if not found or self._folder.same(found, places):
                continue
            if unit in posted or self._folder.goes_on(found, places):
                yield unit, found[0]

    def _changed_tasks(self) -> list[str]:
        words = self._git.do("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no").split(b"\0")
        paths = (os.fsdecode(word[3:]) for word in words if word)
        return sorted(unit for unit in by_unit(paths) if is_task(unit))

    def _need_turn(self) -> None:
        if not self._turns:
            raise RuntimeError("What is published, and what it was made by, belong into one turn of the clone.")

    def _ignore_local(self) -> None:
        """What each machine has for itself is in no clone's way. Their own list of it does not travel either."""
        path = self._git.do("rev-parse", "--git-path", "info/exclude").decode().rstrip("\n")
        add_lines(os.path.join(self.root, path), _LOCAL)


def _claim_of(made: Made, claims: Mapping[str, Claim]) -> Claim | None:
    found = (claims.get(folder.identity((one.path, one.data))) for one in made.found)
    return next((claim for claim in found if claim is not None), None)


def _spent(made: Made, claim: Claim) -> bool:
    """What is to be published ends this claim's attempt."""
    told = (folder.read((one.path, one.data)) for one in made.found)
    return any(one is not None and one.task.spent_token == claim.proof for one in told)


def _foreign(made: Made, claim: Claim | None) -> bool:
    """Someone else holds the task by now: what came of an earlier attempt does not count any more."""
    if claim is None or made.before == made.after:
        return False
    told = [folder.read((one.path, one.data)) for one in made.found]
    proofs = {proof for one in told if one is not None for proof in (one.proof, one.task.spent_token) if proof}
    return bool(proofs) and claim.proof not in proofs
