"""A vault that is a git clone.

There is no merge in the folder, and no commit on the branch before the remote has it. A change is committed on top of
what the remote is known to have, and pushed; the remote takes it only if that is still all it has. If it is not, what
came is brought into the folder, and if a task of ours is among it, the remote's version wins. First the folder changes,
then the index, then the branch: whoever dies in between leaves a clone from which the next one goes on.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dibs.core.errors import StoreBusy, StoreError
from dibs.stores.vault.disk import Disk, translated
from dibs.stores.vault.lock import Flock
from dibs.sync.git.command import Git
from dibs.sync.git.folder import Folder, Made
from dibs.sync.git.history import History, Reach
from dibs.sync.git.outcomes import Published, Pulled, Standing
from dibs.sync.git.staged import Staged
from dibs.sync.git.trees import REGULAR, Blob, Difference, Trees, by_unit, is_task, shown, unit_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from dibs.sync.git.folder import Brought, Found
    from dibs.sync.git.history import Refs
    from dibs.sync.git.trees import Places


class Unheard:
    """A small file beside git's own. Only who has the git lock writes it."""

    def __init__(self, home: str) -> None:
        self._path = os.path.join(home, "unheard")

    def all(self) -> dict[str, Places]:
        """By unit, the state that nobody has heard of. A file that was cut off by a crash says nothing."""
        try:
            with open(self._path, encoding="utf-8", errors="surrogateescape") as file:
                said = json.load(file)
            return {unit: {path: Blob(*blob) for path, blob in places.items()} for unit, places in said.items()}
        except (FileNotFoundError, ValueError, TypeError, AttributeError):
            return {}

    def note(self, offered: Mapping[str, Places]) -> None:
        self._write({**self.all(), **offered})

    def forget(self, units: Iterable[str]) -> None:
        known = self.all()
        left = {unit: places for unit, places in known.items() if unit not in units}
        if len(left) < len(known):
            self._write(left)

    def _write(self, offered: Mapping[str, Places]) -> None:
        fresh = f"{self._path}-next"
        with open(fresh, "w", encoding="utf-8", errors="surrogateescape") as file:
            json.dump(offered, file)
        os.replace(fresh, self._path)


_ROUNDS = 50  # of others being first, before we say that the remote cannot be reached
_UNMOVED = 3  # pushes that are refused though nobody was first
_PATIENCE = 3  # turns of others, each as long as git may take
_LOCAL = ("/.dibs/", "/Logs/*.jsonl", "/Logs/*.log")  # what every machine has for itself


def is_clone(root: str) -> bool:
    """Whether this folder is the top of a git clone that has a remote."""
    return os.path.exists(os.path.join(root, ".git")) and bool(Git(root, 10.0).run("remote").out.strip())


class Clone:
    """A vault that is a git clone: one lock per vault, only own paths, every return code checked.

    What is changed through the desk and published belongs into one turn, so that no pull of another process comes
    between the two:

        with clone.turn():
            clone.pull()
            claimed = desk.claim(agent)
            outcome = clone.publish(["Needs_Action/x.md", "In_Progress/ann/x.md"], "ann claims x")
            if outcome is Published.OFFLINE:
                clone.undo(...)  # the same paths: a claim that is not published is none

    Then work, if it was ACCEPTED. Renewals and results are published in the same way.
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
        self._history = History(self._git, self._trees, remote, branch, git_dir)
        self._folder = Folder(self.root, self._trees, disk or Disk(durable=True), timeout)
        self._staged = Staged(self._git, home)
        self._lock = Flock(os.path.join(home, "lock"), _PATIENCE * timeout)
        self._thread = threading.RLock()
        self._turns = 0
        self._unheard = Unheard(home)
        self._offered: dict[str, Places] = {}  # what we ourselves have tried to publish in vain
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
            self._history.look()
            reached = self._history.fetch() is Reach.REACHED
            brought = self._bring_in()
            dropped = tuple(shown(unit) for unit in brought.dropped)
            return Pulled(reached, bool(brought.changed), dropped, brought.set_aside)

    def publish(self, paths: Sequence[str], message: str) -> Published:
        """Commit exactly these paths (the old and the new place of a task) and push them. Within a turn.

        REFUSED: someone was first, the remote's version is in the folder; or a person has moved the task here, and it
        is left to them. OFFLINE, or an error: the change is in this folder only; `undo` takes it back.
        """
        self._need_turn()
        with self._at_work():
            return self._publish(by_unit(paths), paths[-1] if paths else None, message)

    def _publish(self, asked: Mapping[str, set[str]], newest: str | None, message: str) -> Published:
        """What came from the remote is brought into the folder only at the end: who loses a race must be quick."""
        head = self._history.look().head
        made = self._made(asked, head)
        if made is None or self._overtaken(made, newest):
            return self._refused(asked)
        unmoved = 0
        for round_ in range(_ROUNDS):
            refs = self._history.look()
            goal = self._history.goal(refs)
            changes = self._on_top_of(made, self._trees.differences(head, goal))
            if changes is None:
                return self._refused(asked)
            commit = self._trees.commit(goal, changes, message, goal) if changes or goal is None else goal
            said = self._history.push(commit) if commit != refs.theirs else None
            if said is None or self._arrived(commit, refs):
                return self._accepted(commit, asked)
            if self.unreached is not None:
                self._keep_for_later({unit: one.after for unit, one in made.items()})
                return Published.OFFLINE
            unmoved = unmoved + 1 if self._history.refs().theirs == refs.theirs else 0
            if unmoved == _UNMOVED:
                raise self._history.refused(said)
            time.sleep(random.random() * min(0.01 * round_, 0.05))  # noqa: S311 - only so that two do not keep step
        raise StoreBusy("Others push all the time; try again later.", retry_after_ms=1000)

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
        self._forget(asked)

    def settle(self) -> tuple[str, ...]:
        """Pull, then publish what could not be published before; what it was is returned.

        Such is left by whoever was out of reach of the remote, or died with a claim that was published. What people
        have committed goes along; what they have changed and not committed is left to them.
        """
        with self.turn():
            if not self.pull().reached:
                return ()
            if self.standing().ahead:
                self._publish({}, None, "")
            settled = []
            for unit, found in list(self._unpublished()):
                known = self._trees.at(self._history.look().head).get(unit, {})
                outcome = self.publish([*known, found.path], f"{shown(unit)}: what was left unpublished")
                if outcome is Published.ACCEPTED:
                    settled.append(found.path)
            return tuple(settled)

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

    def _overtaken(self, made: Mapping[str, Made], newest: str | None) -> bool:
        """Between an earlier try and this one the remote's version came in: nothing of ours is left."""
        offered = {unit: self._offered.pop(unit) for unit in made if unit in self._offered}
        if any(made[unit].after != places for unit, places in offered.items()):
            return True
        unchanged = all(one.before == one.after for one in made.values())
        return newest is not None and unchanged and newest not in made[unit_of(newest)].after

    def _arrived(self, commit: str, refs: Refs) -> bool:
        """The remote did not say yes: see whether it has it all the same."""
        if self._history.fetch() is Reach.OFFLINE:
            return False
        theirs = self._history.refs().theirs
        return theirs is not None and theirs != refs.theirs and self._history.includes(theirs, commit)

    def _accepted(self, commit: str, asked: Mapping[str, set[str]]) -> Published:
        """It counts from here on. What is in the way of the rest is told by the next pull."""
        self._history.pushed(commit)
        self._forget(asked)
        with suppress(StoreError):
            self._bring_in(asked)
        return Published.ACCEPTED

    def _refused(self, asked: Mapping[str, set[str]]) -> Published:
        """All of it, or nothing: what was to be published together is taken back together."""
        self._bring_in()
        self._undo(asked)
        return Published.REFUSED

    def _keep_for_later(self, offered: Mapping[str, Places]) -> None:
        self._offered |= offered
        self._unheard.note(offered)

    def _forget(self, units: Collection[str]) -> None:
        for unit in units:
            self._offered.pop(unit, None)
        self._unheard.forget(units)

    # What is left

    def _unpublished(self) -> Iterator[tuple[str, Found]]:
        """What could not be published, and what holders of published claims did and never came to publish."""
        known = self._trees.at(self._history.refs().head)
        unheard = self._unheard.all()
        for unit in sorted({*self._changed_tasks(), *unheard}):
            places, found = known.get(unit, {}), self._folder.look(unit)
            if not found or self._folder.same(found, places):
                continue
            if self._folder.same(found, unheard.get(unit, {})) or self._folder.goes_on(found, places):
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
        _add_lines(os.path.join(self.root, path), _LOCAL)


def _add_lines(path: str, lines: Iterable[str]) -> None:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            known = file.read()
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        known = ""
    missing = [line for line in lines if line not in known.splitlines()]
    if missing:
        with open(path, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write("".join(f"{line}\n" for line in ([""] if known and not known.endswith("\n") else []) + missing))
