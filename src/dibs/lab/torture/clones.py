"""A vault in several git clones: agents at work, people with their editors, an auto-committer in each clone.

The faults: agents are killed, the remote disappears, people write, rename, move and delete files, and file
synchronisation leaves conflict copies. The checks: the commits at the remote, the runs of the commands, and the clones.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import StoreError
from dibs.protocols.vault.health import everyone
from dibs.stores.vault.disk import Disk
from dibs.stores.vault.places import CONFLICT_COPY, TASK_FOLDERS
from dibs.stores.vault.vault import host_clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_COMMIT_EVERY = 3.0  # seconds, as obsidian-git does at its shortest
_SETTLE = 240.0  # seconds for the clones to come to rest
_MERGE = 90.0  # seconds for a stopped merge of notes, which agents leave to people for 30
_REUSED = 0.2  # of the names of new tasks
_MARK = re.compile(r"^# (mark-\d+-\d+)$", re.MULTILINE)
_PERSON = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "Pat"), ("EMAIL", "pat@example.org"))
}
# A run holds a lock of its task for as long as it lasts: who finds it taken works on what another works on.
_WORK = """
import fcntl, os, random, re, sys, time
mark = re.search(r"mark-\\d+-\\d+", sys.stdin.read())[0]
runs = sys.argv[1]
lock = os.open(os.path.join(runs, mark + ".lock"), os.O_RDWR | os.O_CREAT)
def note(what):
    with open(os.path.join(runs, "runs"), "a") as file:
        file.write(f"{what} {mark} {os.environ['DIBS_AGENT']} {os.environ['DIBS_ATTEMPT']} {os.getpid()}\\n")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    note("clash")
    sys.exit(1)
note("begin")
time.sleep(random.random() * float(sys.argv[2]))
note("end")
print(f"run {mark} {os.getpid()}")
"""


class CloneExperiment(NamedTuple):
    """What to do, and for how long. `folder` does not exist yet, and is removed afterwards."""

    folder: str
    seconds: float = 300.0
    seed: int = 1
    clones: int = 3
    agents: int = 6
    kills: int = 50
    absences: int = 10  # of the remote
    work: float = 0.5  # seconds that a task takes at most
    commit_every: float = _COMMIT_EVERY


class CloneReport(NamedTuple):
    experiment: CloneExperiment
    violations: tuple[str, ...]
    figures: dict[str, int]


class Clone:
    """One clone, with the edits of people and of the auto-committer, which are recorded with their times."""

    def __init__(self, path: str, number: int, seed: int) -> None:
        self.path = path
        self.number = number
        self._disk = Disk(durable=False)
        self._record = os.path.join(os.path.dirname(path), "record")
        self._pulling = threading.Lock()  # a file that is saved during git's own pull is overwritten by git
        self.dice = random.Random(f"{seed} clone {number}")  # noqa: S311 - an experiment that can be repeated
        self.written: list[str] = []  # lines that must not get lost
        self.deleted: set[str] = set()  # marks of tasks that a person took away
        self.marks: list[str] = []
        self.task_lines: dict[str, str] = {}  # by mark, its line
        self.commits = self.conflicts = self.reused = 0
        self._pull = "--rebase" if number % 2 else "--no-rebase"  # obsidian-git has a setting for this

    def git(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(  # noqa: S603 - fixed words
            ["git", *words],  # noqa: S607 - the git that people use
            cwd=self.path,
            env={**os.environ, **_PERSON, "LC_ALL": "C", "GIT_EDITOR": "true", "GIT_TERMINAL_PROMPT": "0"},
            capture_output=True,
            text=True,
            errors="surrogateescape",
            check=False,
        )

    def note_deed(self, what: str, *about: object) -> None:
        with open(self._record, "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(f"{host_clock().timestamp():.3f} {what} {' '.join(map(str, about))}\n")

    # The auto-committer

    def commit_all(self) -> None:
        """Commit, pull, push. Like obsidian-git, it commits nothing while files are in conflict."""
        if self.git("ls-files", "--unmerged").stdout:
            self.conflicts += 1
            return
        self._step("add", "-A")
        self.commits += self._step("commit", "-qm", f"vault backup {self.number}")
        with self._pulling:
            self._step("pull", "-q", self._pull)
        self._step("push", "-q")

    def _step(self, *words: str) -> bool:
        self.note_deed("begin", *words)
        ran = self.git(*words)
        said = f"{ran.stdout}{ran.stderr}".replace("\n", " | ")
        self.note_deed(
            "end", words[0], ran.returncode, self.git("rev-parse", "--short=12", "HEAD").stdout.strip(), said
        )
        return ran.returncode == 0

    # People

    def act(self) -> None:
        """One thing that a person does in an editor or a file manager."""
        deeds = (*[self.note] * 3, *[self.add] * 2, self.rename, self.reject, self.delete, self.copy)
        try:
            with self._pulling:
                self.dice.choice(deeds)()
        except (FileNotFoundError, FileExistsError):
            return  # an agent was quicker

    def _line(self) -> str:
        line = f"line {self.number} {len(self.written)} {self.dice.random()}"
        self.written.append(line)
        return line

    def note(self) -> None:
        names = ("Plans/diary.md", f"Plans/plan {self.number}.md", "Notes/ideas.md", "Updates/news.md", "Dashboard.md")
        self._save(self.dice.choice(names), self._line())

    def _save(self, name: str, line: str) -> None:
        """Add a line, as an editor that writes the whole text again, and loads a file that others have changed."""
        path, fresh = os.path.join(self.path, name), os.path.join(os.path.dirname(self.path), "saved")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        unsaved = [line]
        while unsaved:
            text = _text_of(path)
            _write(fresh, "".join(f"{one}\n" for one in (*(text or "# Notes").splitlines(), *unsaved)))
            with suppress(FileNotFoundError, FileExistsError):  # it has come or gone in this moment
                (self._disk.move if text is None else self._disk.swap)(fresh, path)
                known = {*(text or "").splitlines(), *unsaved}
                unsaved = [one for one in (_text_of(fresh) or "").splitlines() if one not in known]
        self.note_deed("wrote", name, line)

    def add(self) -> None:
        mark = f"mark-{self.number}-{len(self.marks)}"
        domain = self.dice.choice(("", "", "mail/"))
        name = self._used_name() or f"{domain}{self.dice.choice(('call', 'write to', 'ask'))} {mark}.md"
        front = f"---\ntask_id: {mark}\npriority: {self.dice.choice(('low', 'medium', 'high'))}\n---\n\n"
        path = os.path.join(self.path, "Needs_Action", name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        line = self._line()
        _write(f"{path}.tmp", f"{front}# {mark}\n\n{line}\n")
        try:
            self._disk.move(f"{path}.tmp", path)
        except FileExistsError:
            os.unlink(f"{path}.tmp")
            self.written.remove(line)
            raise
        self.task_lines[mark] = line
        self.marks.append(mark)
        self.note_deed("added", mark, name)

    def _used_name(self) -> str | None:
        """Now and then a new task gets the name of a finished one."""
        path = self._file_in("Done") if self.dice.random() < _REUSED else None
        name = path and os.path.relpath(path, os.path.join(self.path, "Done"))
        if not name or os.path.exists(os.path.join(self.path, "Needs_Action", name)):
            return None
        self.reused += 1
        return name

    def _waiting(self) -> str | None:
        return self._file_in("Needs_Action")

    def _file_in(self, folder: str) -> str | None:
        found = [
            os.path.join(place, name)
            for place, _, names in os.walk(os.path.join(self.path, folder))
            for name in names
            if name.endswith(".md") and CONFLICT_COPY.search(name) is None
        ]
        return self.dice.choice(sorted(found)) if found else None

    def rename(self) -> None:
        path = self._file_in(self.dice.choice(("Needs_Action", "Needs_Action", "In_Progress", "Done")))
        if path is not None:
            self._move(path, f"{path.removesuffix('.md')} r.md")

    def reject(self) -> None:
        path = self._waiting()
        if path is not None:
            self._move(path, os.path.join(self.path, "Rejected", os.path.basename(path)), forget=True)

    def delete(self) -> None:
        path = self._waiting()
        if path is not None:
            self._move(path, os.path.join(os.path.dirname(self.path), "trash"), forget=True)
            os.unlink(os.path.join(os.path.dirname(self.path), "trash"))

    def _move(self, source: str, target: str, *, forget: bool = False) -> None:
        """As file managers do it, over no other file."""
        self._disk.move(source, target)
        mark = _mark(_text_of(target) or "")
        if forget and mark:
            self.deleted.add(mark)
        self.note_deed("moved", mark, os.path.relpath(source, self.path), "to", os.path.relpath(target, self.path))

    def copy(self) -> None:
        path = self._waiting()
        if path is not None:
            shutil.copyfile(path, f"{path.removesuffix('.md')}.sync-conflict-20261118-120000-ABCDEF7.md")


class Storm:
    """All that happens at once, until its time is over."""

    def __init__(self, experiment: CloneExperiment) -> None:
        self._experiment = experiment
        self._dice = random.Random(f"{experiment.seed} storm")  # noqa: S311 - an experiment that can be repeated
        self.folder = experiment.folder
        self.remote = os.path.join(self.folder, "remote.git")
        self.runs = os.path.join(self.folder, "runs")
        os.makedirs(self.runs)
        self._run("git", "init", "-q", "--bare", "-b", "main", os.path.join(self.folder, "disk.git"))
        os.symlink("disk.git", self.remote)  # without the link it is away, and a push under way there still ends
        self.clones = [self._clone(number) for number in range(experiment.clones)]
        self._agents: dict[str, tuple[Clone, subprocess.Popen[bytes]]] = {}
        self._over = threading.Event()
        self.kills = self.absences = 0
        self._found: list[tuple[str, str, str]] = []
        self._texts: dict[str, str] = {}

    def _run(self, *words: str) -> str:
        done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
        if done.returncode:
            raise StoreError(f"{words[0]} failed: {done.stderr.strip()[-300:]}")
        return done.stdout

    def _clone(self, number: int) -> Clone:
        clone = Clone(os.path.join(self.folder, f"clone-{number}", "vault"), number, self._experiment.seed)
        if number == 0:
            self._run(sys.executable, "-m", "dibs", "vault", "init", clone.path)
            os.makedirs(os.path.join(clone.path, ".obsidian"))
            with open(os.path.join(clone.path, ".obsidian", "app.json"), "w", encoding="utf-8") as file:
                file.write("{}\n")
            for words in (("init", "-q", "-b", "main"), ("remote", "add", "origin", self.remote), ("add", "-A")):
                clone.git(*words)
            clone.git("commit", "-qm", "a vault")
            clone.git("push", "-q", "-u", "origin", "main")
        else:
            os.makedirs(os.path.dirname(clone.path))
            self._run("git", "clone", "-q", self.remote, clone.path)
        return clone

    def _start(self, clone: Clone, name: str) -> None:
        words = [sys.executable, "-m", "dibs", "vault", "agent", "--agent", name, "--interval", "1s", "--lease", "60s"]
        words += ["--retry-in", "1s", "--", sys.executable, "-c", _WORK, self.runs, str(self._experiment.work)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("DIBS_", "GIT_"))}
        environment |= {"VAULT_PATH": clone.path, "SYNC_INTERVAL": "2", "AGENT_ROLE": "LOCAL"}
        with open(os.path.join(self.folder, f"{name}.out"), "ab") as out:
            process = subprocess.Popen(words, env=environment, stdout=out, stderr=out)  # noqa: S603 - our own program
        self._agents[name] = clone, process

    def run(self, stopped_within: Callable[[float], bool]) -> None:
        experiment = self._experiment
        for clone in self.clones:
            clone.add()
        for number in range(experiment.agents):
            self._start(self.clones[number % len(self.clones)], f"agent-{number}")
        threads = [
            threading.Thread(target=act, args=(clone,), daemon=True)
            for clone in self.clones
            for act in (self._committer, self._person)
        ]
        threads.append(threading.Thread(target=self._remote_away, daemon=True))
        for thread in threads:
            thread.start()
        until = time.monotonic() + experiment.seconds
        try:
            while time.monotonic() < until:
                if stopped_within(experiment.seconds / (experiment.kills + 1) if experiment.kills else 0.5):
                    break
                if self.kills < experiment.kills:
                    self._kill(self._dice.choice(sorted(self._agents)))
                self._replace()
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        self._settle()

    def _committer(self, clone: Clone) -> None:
        while not self._over.wait(self._experiment.commit_every):
            clone.commit_all()

    def _person(self, clone: Clone) -> None:
        while not self._over.wait(clone.dice.random() * 1.5):
            clone.act()

    def _remote_away(self) -> None:
        away = f"{self.remote}.away"
        pause = self._experiment.seconds / (self._experiment.absences + 1)
        while self.absences < self._experiment.absences and not self._over.wait(pause):
            os.rename(self.remote, away)
            self._over.wait(min(3.0, pause / 2))
            os.rename(away, self.remote)
            self.absences += 1

    def _kill(self, name: str) -> None:
        clone, process = self._agents[name]
        if self._dice.random() < 0.3:  # noqa: PLR2004 - sometimes the git that it runs, too
            with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as children:
                for child in children.read().split():
                    _end(int(child))
        process.kill()
        process.wait()
        clone.note_deed("killed", name)
        self.kills += 1
        self._start(clone, name)

    def _replace(self) -> None:
        for name, (clone, process) in self._agents.items():
            if process.poll() is not None:
                self._start(clone, name)

    def _settle(self) -> None:
        """Add a last task in each clone, then wait until agents have done all tasks and the clones agree."""
        for clone in self.clones:
            clone.add()
        deadline = time.monotonic() + _SETTLE
        try:
            while time.monotonic() < deadline:
                for clone in self.clones:
                    clone.commit_all()
                self._replace()
                if not self._open() and not self._differences():
                    break
                time.sleep(1.0)
        finally:
            for _, process in self._agents.values():
                process.send_signal(signal.SIGTERM)
            for _, process in self._agents.values():
                process.wait()
        for clone in [*self.clones, *self.clones]:
            self._sync(clone)
            clone.commit_all()

    def _sync(self, clone: Clone) -> None:
        """Sync as a person does: try again while a stopped merge of notes waits for them."""
        deadline = time.monotonic() + _MERGE
        while True:
            try:
                self._run(sys.executable, "-m", "dibs", "vault", "sync", "--vault", clone.path)
            except StoreError:
                if time.monotonic() > deadline:
                    raise
                clone.commit_all()
                time.sleep(1.0)
            else:
                return

    def _open(self) -> list[str]:
        """Tasks that wait or are in progress, at the remote or in a clone."""
        names = self._run("git", "-C", self.remote, "ls-tree", "-r", "-z", "--name-only", "main").split("\0")
        for clone in self.clones:
            names += self._run("git", "-C", clone.path, "ls-files", "-z", "--others", "--cached").split("\0")
        return [name for name in names if name.startswith(("Needs_Action/", "In_Progress/")) and _is_task(name)]

    def _differences(self) -> list[str]:
        head = self._run("git", "-C", self.remote, "rev-parse", "main").strip()
        return [clone.path for clone in self.clones if clone.git("rev-parse", "HEAD").stdout.strip() != head]

    # The verdict

    def report(self) -> CloneReport:
        found = [*self._worked_twice(), *self._in_two_places(), *self._lost(), *self._stuck(), *self._uncounted()]
        runs = self._runs()
        figures = {
            "commits": int(self._run("git", "-C", self.remote, "rev-list", "--count", "main")),
            "tasks": sum(len(clone.marks) for clone in self.clones),
            "done": len({mark for what, mark, *_ in runs if what == "end"}),
            "runs": sum(what == "begin" for what, *_ in runs),
            "names used again": sum(clone.reused for clone in self.clones),
            "lines": sum(len(clone.written) for clone in self.clones),
            "commits by committers": sum(clone.commits for clone in self.clones),
            "kills": self.kills,
            "absences of the remote": self.absences,
        }
        if not figures["done"]:
            found.append("no task was worked on: this run shows nothing")
        return CloneReport(self._experiment, tuple(found), figures)

    def _runs(self) -> list[list[str]]:
        try:
            with open(os.path.join(self.runs, "runs"), encoding="utf-8") as file:
                return [line.split() for line in file]
        except FileNotFoundError:
            return []

    def _worked_twice(self) -> Iterator[str]:
        runs = self._runs()
        clashes = [(mark, who) for what, mark, who, *_ in runs if what == "clash"]
        yield from (f"double work: {mark} was begun by {who} while another worked on it" for mark, who in clashes)
        for mark, results in self._results().items():
            if len(results) > 1:
                yield f"double work: {len(results)} results of {mark} were accepted"

    def _results(self) -> dict[str, set[str]]:
        """By task, the results that the remote has ever had."""
        found: dict[str, set[str]] = {}
        for text in {blob: self._text(blob) for _, name, blob in self._files() if name.startswith("Done/")}.values():
            for said in re.findall(r"^result: .*?(run (mark-\d+-\d+) \d+)", text, re.MULTILINE):
                found.setdefault(said[1], set()).add(said[0])
        return found

    def _files(self) -> list[tuple[str, str, str]]:
        """Every task file of every commit that the remote has accepted."""
        if not self._found:
            for commit in self._run("git", "-C", self.remote, "rev-list", "main").split():
                listed = self._run("git", "-C", self.remote, "ls-tree", "-r", "-z", commit).split("\0")[:-1]
                for line in listed:
                    about, _, name = line.partition("\t")
                    if name.startswith(tuple(f"{folder}/" for folder in TASK_FOLDERS)) and _is_task(name):
                        self._found.append((commit, name, about.split(" ")[2]))
        return self._found

    def _text(self, blob: str) -> str:
        if blob not in self._texts:
            self._texts[blob] = self._run("git", "-C", self.remote, "cat-file", "blob", blob)
        return self._texts[blob]

    def _in_two_places(self) -> Iterator[str]:
        by_commit: dict[str, Counter[str]] = {}
        for commit, _, blob in self._files():
            mark = _mark(self._text(blob))
            if mark is not None:
                by_commit.setdefault(commit, Counter())[mark] += 1
        for commit, marks in by_commit.items():
            yield from (f"two places: {mark} in commit {commit[:12]}" for mark, times in marks.items() if times > 1)

    def _lost(self) -> Iterator[str]:
        """Every line that was written is in some file now, or a person has deleted its task."""
        there = "\n".join(_texts_below(clone.path) for clone in self.clones)
        deleted = {mark for clone in self.clones for mark in clone.deleted}
        gone = {clone.task_lines.get(mark) for clone in self.clones for mark in deleted}
        for clone in self.clones:
            lost = [line for line in clone.written if line not in there and line not in gone]
            yield from (f"lost text: {line!r} of clone {clone.number}" for line in lost)
        done = {mark for what, mark, *_ in self._runs() if what == "end"}
        left = {mark for clone in self.clones for mark in clone.marks} - done - deleted
        yield from (f"never worked on: {mark}" for mark in sorted(left))

    def _uncounted(self) -> Iterator[str]:
        """The counters of agents that stopped regularly include the end of every claim."""
        for clone in self.clones:
            for state in everyone(clone.path):
                ended = state.done + state.failed + state.lost_leases + state.released
                if state.total_claims != ended:
                    yield f"counters: {state.agent} claimed {state.total_claims} times, and counted {ended} ends"

    def _stuck(self) -> Iterator[str]:
        for clone in self.clones:
            status = clone.git("status", "--porcelain").stdout.strip()
            under_way = [name for name in ("MERGE_HEAD", "rebase-merge") if os.path.exists(f"{clone.path}/.git/{name}")]
            if status or under_way:
                yield f"stuck: clone {clone.number}: {' '.join(under_way)} {status[:200]}"
        yield from (f"stuck: {path} is not where the remote is" for path in self._differences())
        yield from (f"markers: {name}" for _, name, blob in self._files() if "\n<<<<<<< " in self._text(blob))


def _text_of(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _mark(text: str) -> str | None:
    """The id of the task in a file, under any file name."""
    found = _MARK.search(text)
    return None if found is None else found[1]


def _is_task(name: str) -> bool:
    return name.endswith(".md") and CONFLICT_COPY.search(name) is None


def _texts_below(root: str) -> str:
    found = []
    for place, folders, names in os.walk(root):
        folders[:] = [folder for folder in folders if folder not in {".git", ".dibs", "Logs"}]
        for name in names:
            with open(os.path.join(place, name), encoding="utf-8", errors="replace") as file:
                found.append(file.read())
    return "\n".join(found)


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def run(experiment: CloneExperiment, stopped_within: Callable[[float], bool]) -> CloneReport:
    """Let it all happen, and judge. The folder is removed unless something was violated."""
    storm = Storm(experiment)
    storm.run(stopped_within)
    report = storm.report()
    with open(os.path.join(experiment.folder, "report.json"), "w", encoding="utf-8") as file:
        json.dump({"violations": report.violations, **report.figures}, file, indent=2)
    if not report.violations:
        shutil.rmtree(experiment.folder)
    return report


def lines(report: CloneReport) -> Iterator[str]:
    told = len(report.violations)
    yield f"{told or 'no'} violation{'' if told == 1 else 's'} in {report.experiment.clones} clones of a vault"
    yield from (f"  {name:<24} {number}" for name, number in report.figures.items())
    yield from (f"✗ {violation}" for violation in report.violations)
    if told:
        yield f"  kept: {report.experiment.folder}"
