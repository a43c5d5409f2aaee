"""A vault that is a git clone.

A change is committed beside the folder, on top of the remote's last known commit, and pushed. The branch follows when
the remote has accepted it. If the remote has other commits, they come into the folder first, and for a task that both
have changed the remote's version wins. The folder changes first, then the index, then the branch: after a crash in
between the next process continues.
"""

from __future__ import annotations

import os
import random
import threading
import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import StoreBusy, StoreError
from dibs.stores.vault.disk import Disk, Flock, translated
from dibs.stores.vault.places import NEEDS_ACTION
from dibs.sync.git import folder, outbox
from dibs.sync.git.claims import Claim, ClaimReferences, overtaken
from dibs.sync.git.folder import Brought, Folder, Made
from dibs.sync.git.history import History, Reach
from dibs.sync.git.outbox import (
    YOUNG,
    Batch,
    Flushed,
    Group,
    Judged,
    Offer,
    Outbox,
    Published,
    Pulled,
    Standing,
    connected,
    message_of,
)
from dibs.sync.git.repository import REGULAR, Blob, Difference, Git, Trees, by_unit, is_task, shown, unit_of
from dibs.sync.git.staged import CommitFirst, Copies, Staged, add_lines, install_hooks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from dibs.sync.git.folder import Found
    from dibs.sync.git.history import Refs
    from dibs.sync.git.repository import Places, Units


_LONG_OVER = timedelta(minutes=10)  # such a claim has expired by every machine's clock
_ROUNDS = 50  # lost to other pushes before StoreBusy
_UNMOVED = 3  # pushes refused without another push, before StoreUnavailable
_PATIENCE = 3  # turns of other processes, each as long as git may take
_LOCAL = ("/.dibs/", "/Logs/*.jsonl", "/Logs/*.log")  # files that belong to one machine


def is_clone(root: str) -> bool:
    """Whether this folder is the top of a git clone that has a remote."""
    return os.path.exists(os.path.join(root, ".git")) and bool(Git(root, 10.0).run("remote").out.strip())


class Clone:
    """A vault that is a git clone.

    `offer` claims a task at the remote; only then does the caller move its file. A result is written and posted in one
    turn, and published later by any process of the clone.
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
        self._history = History(self._git, self._trees, remote, branch, git_dir, self._folder)
        self._staged = Staged(self._git, home)
        self._copies = Copies(self._git, self._trees, self._folder, self._history)
        self._lock = Flock(os.path.join(home, "lock"), _PATIENCE * timeout)
        self._thread = threading.RLock()
        self._turns = 0
        self._owner = 0  # the thread that has the turn
        self._outbox = Outbox(home)
        self._claims = ClaimReferences(self._git, self._trees, remote, home)
        self._home = home
        self._ignore_local()

    @property
    def unreached(self) -> str | None:
        """Why the last attempt to reach the remote failed; None if it succeeded."""
        return self._history.unreached

    @contextmanager
    def turn(self) -> Iterator[None]:
        """The clone's lock; may be nested. StoreBusy if another process keeps it too long."""
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
        """Bring in commits of the remote. Local changes to the same tasks give way, and are listed in the answer."""
        while True:
            self._let_commit_finish()
            with suppress(CommitFirst):
                return self._pull()

    def _pull(self) -> Pulled:
        with self.turn(), self._at_work():
            began = time.monotonic()
            self._history.look()
            reached = self._fetch()
            brought = self._bring_in()
            if reached:
                self._history.note_fetch(began)
            dropped = tuple(shown(unit) for unit in brought.dropped)
            return Pulled(reached, bool(brought.changed), dropped, brought.set_aside)

    def _let_commit_finish(self) -> None:
        """Wait for a person's commit, which fails if the branch moves. Not within a turn: its hook waits for that."""
        while self._owner != threading.get_ident() and self._staged.commit_under_way():
            time.sleep(0.02)

    def _fetch(self) -> bool:
        return self._history.fetch(self._claims.refspec) is Reach.REACHED

    # Claims

    def claims(self) -> dict[str, Claim]:
        """The claims by task, as of the last fetch."""
        return self._claims.all()

    def alone(self, task: str) -> AbstractContextManager[bool]:
        """Whether no other process of this clone claims this task at the moment."""
        return self._claims.alone(task)

    def posted(self) -> set[str]:
        """The units with changes that wait to be published."""
        return {unit for group in self._outbox.all() for unit in by_unit(group.paths)}

    def offer(self, claim: Claim, path: str, now: datetime) -> Offer:
        """Claim a task at the remote, without changing folder, index or branch. Not within a turn.

        ACCEPTED: the claim is ours, and the task has not changed at the remote. REFUSED: another clone was first, or
        has changed the task. OFFLINE: unknown; if the remote has accepted the claim, it expires.
        """
        with self.turn(), self._at_work():
            refs = self._history.refs()
            base = self._places(claim.task, path, refs.theirs)
            over = self._claims.all().get(claim.task)
            if over is not None and over.live(now):
                return Offer(Published.REFUSED, claim, over)
            attempt = max(claim.attempt, over.attempt + 1 if over is not None else 0)
            claim = self._claims.make(claim._replace(attempt=attempt), over)
        said = self._claims.push(claim, over)
        pushed = time.monotonic()
        if (said is not None or not self._history.fetched_since(pushed)) and not self.pull().reached:
            return Offer(Published.OFFLINE, claim)
        with self.turn(), self._at_work():
            found = self._claims.all().get(claim.task)
            if found is None or found.commit != claim.commit:
                if found == over and said is not None and not overtaken(said):
                    raise self._history.refused(said)
                return Offer(Published.REFUSED, claim, found)
            same = self._places(claim.task, path, self._history.refs().theirs) == base
        if not same:
            self.withdraw(claim)
        return Offer(Published.ACCEPTED if same else Published.REFUSED, claim)

    def publish_rename(self, path: str, now: datetime) -> Published | None:
        """Publish that a person has renamed or moved this waiting task; None if the remote knows it by this path.

        Not within a turn. REFUSED: another clone has claimed or changed it under its old name.
        """
        with self.turn(), self._at_work():
            old = self._folder.renamed_from(path, self._trees.at(self._history.refs().theirs))
            if old is None:
                return None
            task = folder.identity(old)
            if self._claimed(task, now):
                return Published.REFUSED
            group = self.post([old[0], path], f"{shown(unit_of(old[0]))} is {shown(unit_of(path))} now")
        self.flush()
        fate = self.fate(group)
        if fate is Published.ACCEPTED and not self.pull().reached:
            return Published.OFFLINE
        return Published.REFUSED if self._claimed(task, now) else fate

    def _claimed(self, task: str, now: datetime) -> bool:
        claim = self._claims.all().get(task)
        return claim is not None and claim.live(now)

    def _places(self, task: str, path: str, commit: str | None) -> Places:
        """The files of a task in a commit, by id and by file name."""
        units = self._trees.at(commit)
        return {**units.get(unit_of(path), {}), **self._folder.places(task, units)}

    def renew(self, task: str, proof: str, until: datetime) -> Offer | None:
        """Extend a claim at the remote. None if the remote has no claim of this task."""
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
        """Give up a claim before work has begun. If the remote is out of reach, the claim expires."""
        if claim.attempt > 1:
            return self.end(claim)  # the reference may be the only record of earlier attempts
        return self._claims.delete(claim) is None

    def end(self, claim: Claim) -> bool:
        """End a claim now. Its reference stays, so that the next attempt gets a higher number."""
        return self._claims.end(claim) is None

    def collect(self, now: datetime) -> tuple[Claim, ...]:
        """Delete the references of ended claims of finished or deleted tasks, and return them.

        A waiting task keeps its reference, which may be the only record of its attempts.
        """
        over = [claim for claim in self._claims.all().values() if claim.ended or claim.until + _LONG_OVER < now]
        if not over:
            return ()
        with self.turn(), self._at_work():
            theirs = self._history.refs().theirs
            left = {folder.identity(file) for file in self._folder.unfinished(self._trees.at(theirs))}
        gone = tuple(claim for claim in over if claim.task not in left) if theirs is not None else ()
        if gone:
            self._claims.delete_all(gone)
        return gone

    def raise_attempt(self, path: str, attempt: int) -> None:
        """Write a higher attempt number to a file that has missed attempts. Within a turn."""
        self._need_turn()
        with self._at_work():
            self._folder.raise_attempt(path, attempt)

    # Results

    def post(self, paths: Sequence[str], message: str, *, claim: bool = False) -> Group:
        """Note the old and new paths of a task for publishing, in the turn that changed them."""
        self._need_turn()
        return self._outbox.add(message, paths, time.monotonic() + YOUNG if claim else 0.0)

    def fate(self, group: Group) -> Published:
        """The outcome of a posted group. OFFLINE: it still waits. A refusal is returned once."""
        return self._outbox.fate(group)

    @property
    def waiting(self) -> bool:
        """Whether a group is ready to be published."""
        return any(not group.young for group in self._outbox.all())

    def flush(self, *, young: bool = True, people: bool = False) -> Flushed:
        """Publish all waiting groups in one push.

        `young`: also fresh claims, which may end in a moment. `people`: also commits by people, if no group waits.
        """
        with self._publishing(), self._at_work():
            return self._flush(young=young, people=people)

    @contextmanager
    def _publishing(self) -> Iterator[None]:
        """Let one process publish at a time. Within a turn no lock is needed."""
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
        """Publish. The remote's commits come into the folder only at the end: a lost race must be retried quickly."""
        refused: list[Group] = []
        unmoved = 0
        for round_ in range(_ROUNDS):
            with self.turn():
                batch = self._batch(refused, young=young, people=people)
                if batch.commit is None:
                    self._record_push(batch)
                    return Flushed(True, batch.groups, tuple(refused))
            said = self._history.push(batch.commit, batch.ended)
            self._let_commit_finish()
            with self.turn():
                if said is None or self._arrived(batch.commit, batch.refs):
                    self._record_push(batch)
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
        """Build one commit of all waiting groups. Groups that cannot join are undone and added to `refused`."""
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
                return self._batch(refused, young=young, people=people)  # the folder has changed
            changes |= judged.changes
            made |= judged.made
            groups += several
        ended = tuple(
            claim for one in made.values() if (claim := outbox.claim_of(one, claims)) and outbox.spent(one, claim)
        )
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
        """The changes for these groups; None if another clone or a person has changed the same tasks."""
        made = self._made(asked, head)
        if made is None or outbox.changed_since_try(several, made, self._folder.goes_on):
            return None
        if any(outbox.foreign(one, outbox.claim_of(one, claims)) for one in made.values()):
            return None
        changes = self._missing_at_remote(made, self._trees.differences(head, goal))
        if changes is None or self._moved_elsewhere(made, changes, goal):
            return None
        return Judged(changes, made)

    def _moved_elsewhere(self, made: Mapping[str, Made], changes: Mapping[str, Difference], goal: str | None) -> bool:
        """Whether one of these tasks has moved on at the remote under another name."""
        units = self._trees.at(goal)
        for one in made.values():
            for file in outbox.changed_files(one):
                there = self._folder.places(folder.identity((file.path, file.data)), units)
                left = (path for path in there if path in outbox.after(changes, units, path))
                if any(path != file.path for path in left):
                    return True
        return False

    # One task in two places

    def outdated(self, path: str) -> bool:
        """Whether a file is an old copy of a task that has moved on under another name."""
        with self.turn():
            return self._copies.outdated(path)

    def resolve_staged(self) -> tuple[str, ...]:
        """Before a person's commit: remove outdated copies from the commit and the folder, and return them."""
        with self.turn():  # no agent has the index now
            if self._history.end_failed_merge():
                raise StoreBusy("The last pull has failed half-way, because the index was locked. Commit again.")
            return tuple(self._copies.leave_out())

    def resolve(self) -> tuple[str, ...]:
        """Keep one file of each task: the remote's, else the one that has got furthest. Returns the removed files."""
        with self.turn(), self._at_work():
            self._history.look()
            dropped = self._copies.drop_outdated()
            published = {path for places in self._trees.at(self._history.refs().theirs).values() for path in places}
            for task, found in self._folder.doubled():
                known = [one.path for one in found if one.path in published]
                gone = self._folder.settle_doubled(found, known[0] if len(known) == 1 else None)
                self.post([one.path for one in found], f"{task} has one file again")
                dropped += gone
        return tuple(dropped)

    def guard(self) -> None:
        """Install the commit hooks, and stop git from moving new tasks into renamed folders."""
        self._git.do("config", "merge.directoryRenames", "false")
        install_hooks(self._git, self._home)

    def undo(self, paths: Sequence[str]) -> None:
        """Restore these paths to the published state, unless a person has moved them. Within a turn."""
        self._need_turn()
        with self._at_work():
            self._undo(by_unit(paths))

    def _undo(self, asked: Mapping[str, set[str]]) -> None:
        head = self._history.look().head
        known = self._trees.at(head)
        found = ((unit, self._folder.look(unit)) for unit in asked)
        here = {unit: files for unit, files in found if {one.path for one in files} <= asked[unit]}
        ours = [unit for unit, files in here.items() if not self._only_here(files, known)]
        published = {unit: known.get(unit, {}) for unit in ours}
        self._folder.bring({unit: Difference(places, places) for unit, places in published.items()}, head)
        self._outbox.remove(group for group in self._outbox.all() if not asked.keys().isdisjoint(by_unit(group.paths)))

    def _only_here(self, files: Sequence[Found], known: Units) -> bool:
        """Whether these are waiting tasks that were never published: there is nothing to restore."""
        return all(
            one.path.startswith(f"{NEEDS_ACTION}/") and not self._folder.places(folder.identity(one.file), known)
            for one in files
        )

    def settle(self) -> tuple[str, ...]:
        """Pull, then publish changes that earlier processes could not, and commits by people. Returns their paths.

        Uncommitted changes by people are not published.
        """
        if not self.pull().reached:
            return ()
        with self.turn():
            head = self._history.look().head
            posted = self.posted()
            for unit, found in list(self._unpublished()):
                if unit not in posted:
                    known = self._trees.at(head).get(unit, {})
                    self.post([*known, found.path], f"{shown(unit)}: publish an earlier change")
            people = self.standing().ahead > 0
        if not (self._outbox or people):
            return ()
        flushed = self.flush(people=people)
        return tuple(dict.fromkeys(group.paths[-1] for group in flushed.published)) if flushed.reached else ()

    def standing(self) -> Standing:
        """The state of the clone as known here, without asking the remote."""
        refs = self._history.refs()
        ahead, behind = self._history.count(refs.head, refs.theirs), self._history.count(refs.theirs, refs.head)
        unpublished = tuple(found.path for _, found in self._unpublished())
        trouble = self._history.trouble() or self.unreached
        return Standing(self._history.branch, self._history.remote, ahead, behind, unpublished, trouble)

    # From the remote to the folder

    def _bring_in(self, ours: Collection[str] = ()) -> Brought:
        """Bring the folder (except the units in `ours`), then the index, then the branch to the remote's state."""
        while True:
            refs = self._history.look()
            if refs.head == refs.theirs == refs.seen:
                return Brought()
            with self._staged.locked(yielding=self._turns == 1):  # no pull by a person changes the same files now
                refs = self._history.refs_at_rest()
                goal = self._history.goal(refs)
                changes = self._trees.differences(refs.head, goal)
                coming = {unit: change for unit, change in changes.items() if unit not in ours}
                brought = self._folder.bring(coming, goal)
                kept = self._staged.follow(changes, self._trees.tree(refs.head), self._folder.keep_text)
                if self._history.advance(refs, goal, refs.theirs):
                    return brought._replace(set_aside=brought.set_aside + kept)

    # From the folder to the remote

    def _made(self, asked: Mapping[str, set[str]], head: str | None) -> dict[str, Made] | None:
        """The changes in the folder; None if a person has changed the same tasks."""
        known = self._trees.at(head)
        made = {}
        for unit, paths in asked.items():
            before = known.get(unit, {})
            found = self._folder.without_old_claim(unit)
            changed = [one for one in found if not self._folder.same([one], outbox.only(before, one.path))]
            new = outbox.new_tasks(changed)
            found, changed = ([one for one in files if one not in new] for files in (found, changed))
            if not paths.issuperset(one.path for one in changed):
                return None
            if is_task(unit) and changed and not outbox.beside_finished(changed, found):
                return None
            same = self._folder.same(found, before)
            made[unit] = Made(found, before, before if same else {one.path: self._blob(one, before) for one in found})
        return made

    def _missing_at_remote(
        self, made: Mapping[str, Made], came: Mapping[str, Difference]
    ) -> dict[str, Difference] | None:
        """The changes that the remote still lacks; None if it has other changes of the same tasks."""
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

    def _arrived(self, commit: str, refs: Refs) -> bool:
        """Whether the remote has a commit whose push reported a failure."""
        if not self._fetch():
            return False
        theirs = self._history.refs().theirs
        return theirs is not None and theirs != refs.theirs and self._history.includes(theirs, commit)

    def _record_push(self, batch: Batch) -> None:
        """Record an accepted push. Problems in the folder are reported by the next pull."""
        if batch.commit is not None:
            self._history.pushed(batch.commit)
        for claim in batch.ended:
            self._claims.note(claim, None)
        self._outbox.remove(batch.groups)
        if batch.commit is not None or batch.groups:
            with suppress(StoreError):
                self._bring_in(batch.units)

    def _refused(self, asked: Mapping[str, set[str]]) -> None:
        """Undo all changes that were posted together."""
        self._bring_in()
        self._undo(asked)

    def _keep_for_later(self, batch: Batch) -> None:
        for group in batch.groups:
            units = [unit for unit in by_unit(group.paths) if unit in batch.made]
            self._outbox.write(group._replace(offered={unit: batch.made[unit].after for unit in units}))

    # Unpublished changes

    def _unpublished(self) -> Iterator[tuple[str, Found]]:
        """Posted changes, and changes by holders of published claims that were never posted."""
        known = self._trees.at(self._history.refs().head)
        posted = self.posted()
        for unit in sorted({*self._changed_tasks(), *posted}):
            places, found = known.get(unit, {}), self._folder.look(unit)
            if not found or self._folder.same(found, places):
                continue
            if unit in posted or self._folder.goes_on(found, places):
                yield unit, found[0]

    def _changed_tasks(self) -> list[str]:
        lines = self._git.names("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no")
        return sorted(unit for unit in by_unit(line[3:] for line in lines) if is_task(unit))

    def _need_turn(self) -> None:
        if not self._turns:
            raise RuntimeError("A change and its publication must happen in one turn of the clone.")

    def _ignore_local(self) -> None:
        """Exclude files of one machine from git. The list is in .git and is not shared either."""
        path = self._git.do("rev-parse", "--git-path", "info/exclude").decode().rstrip("\n")
        add_lines(os.path.join(self.root, path), _LOCAL)
