"""Worktrees of tasks: created, reused, merged and removed, without loss of work."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import DibsError, NotFound, Refused
from dibs.core.lifecycle import Verb
from dibs.core.task import Link, Status
from dibs.fleet.worktrees import MergeRefused, Repository, safe_name
from support.http import Server
from support.workers import PATIENCE, lines_of, shell, until

if TYPE_CHECKING:
    from pathlib import Path

    from support.workers import Place

_GIT = {
    "GIT_AUTHOR_NAME": "Ann", "GIT_AUTHOR_EMAIL": "ann@example.org", "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null",
}  # fmt: skip


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.rstrip("\n")


def commit(folder: Path, **files: str) -> str:
    for name, text in files.items():
        (folder / name).write_text(text)
    git(folder, "add", "-f", *files)
    git(folder, "commit", "-q", "-m", f"Change {', '.join(files)}")
    return git(folder, "rev-parse", "HEAD")


@pytest.fixture(autouse=True)
def _name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _GIT.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repo(tmp_path: Path) -> Repository:
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, f="one\n")
    return Repository(str(tmp_path))


@pytest.fixture
def shop(place: Place) -> Place:
    """A project in a git repository, in which git ignores the store and the tests' files."""
    git(place.folder, "init", "-q", "-b", "main")
    (place.folder / ".git/info/exclude").write_text("*\n!/f\n")
    place.environ |= _GIT
    place.environ["PATH"] = f"{place.bin}:{place.environ['PATH']}"
    commit(place.folder, f="".join(f"line {number}\n" for number in range(60)))
    return place


# Names

IDS = st.text(min_size=1, max_size=200) | st.sampled_from(
    ["--force", "-b", "../x", "a/b", ".git", "x.lock", "a..b", "@{-1}", "HEAD~1", "x.", "$(touch x)", "a b", "é" * 90]
)


@given(st.lists(st.tuples(st.sampled_from(["default", "other", "a/b"]), IDS), min_size=1, max_size=5, unique=True))
def test_every_id_gets_a_safe_unique_name(tasks: list[tuple[str, str]]) -> None:
    names = [safe_name(scope, task) for scope, task in tasks]
    assert len(set(names)) == len(names)
    for name in names:
        assert not set(name) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
        assert not name.startswith((".", "-"))
        assert ".." not in name
        assert not name.endswith((".", ".lock"))


def test_plain_ids_keep_their_names() -> None:
    assert [safe_name("default", task) for task in ("parser", "T-1", "v1.2_x")] == ["parser", "T-1", "v1.2_x"]


@pytest.mark.parametrize("task", ["--force", "../../outside", "a/b", "x y;touch z", "HEAD", "ünïcode"])
def test_hostile_id_makes_a_worktree_below_home(repo: Repository, task: str) -> None:
    tree = repo.open("default", task, [repo.commit("HEAD")])
    assert (tree.path.rpartition("/")[0], tree.branch.startswith("dibs/")) == (repo.home, True)
    assert [each.task for each in repo.worktrees()] == [task]
    repo.remove(tree, repo.commit("HEAD"))
    assert repo.worktrees() == []


# Create, reuse, remove


def test_next_attempt_takes_over_what_the_first_left(repo: Repository, tmp_path: Path) -> None:
    base = repo.commit("HEAD")
    tree = repo.open("default", "a", [base])
    place = tmp_path / ".dibs/worktrees/a"
    (place / "uncommitted").write_text("half done")
    (tmp_path / ".git/worktrees/a/index.lock").touch()
    commit(tmp_path, f="two\n")
    again = repo.open("default", "a", [repo.commit("HEAD")])
    assert again == tree
    assert again.base == base
    assert (place / "uncommitted").read_text() == "half done"
    git(place, "add", "uncommitted")  # it needs no lock
    assert git(tmp_path, "status", "--porcelain") == ""


def test_deleted_folder_is_made_again_from_its_branch(repo: Repository, tmp_path: Path) -> None:
    tree = repo.open("default", "a", [repo.commit("HEAD")])
    place = tmp_path / ".dibs/worktrees/a"
    head = commit(place, g="mine\n")
    subprocess.run(["rm", "-r", str(place)], check=True)
    assert repo.open("default", "a", [repo.commit("HEAD")]) == tree
    assert git(place, "rev-parse", "HEAD") == head


def test_foreign_folder_is_left_alone(repo: Repository, tmp_path: Path) -> None:
    foreign = tmp_path / ".dibs/worktrees/a"
    foreign.mkdir(parents=True)
    (foreign / "mine").write_text("x")
    with pytest.raises(Refused, match="is not a worktree"):
        repo.open("default", "a", [repo.commit("HEAD")])
    assert (foreign / "mine").read_text() == "x"


def test_work_that_would_be_lost_is_never_removed(repo: Repository, tmp_path: Path) -> None:
    tree = repo.open("default", "a", [repo.commit("HEAD")])
    place = tmp_path / ".dibs/worktrees/a"
    (place / "new").write_text("x")
    with pytest.raises(Refused, match="uncommitted"):
        repo.remove(tree, "main")
    commit(place, new="x")
    with pytest.raises(Refused, match="not in main"):
        repo.remove(tree, "main")
    git(tmp_path, "merge", "-q", "dibs/a")
    repo.remove(tree, "main")
    assert git(tmp_path, "branch", "--list", "dibs/*") == ""
    with pytest.raises(NotFound):
        repo.remove(tree, "main")


def test_commits_on_no_branch_are_not_removed(repo: Repository, tmp_path: Path) -> None:
    tree = repo.open("default", "a", [repo.commit("HEAD")])
    place = tmp_path / ".dibs/worktrees/a"
    git(place, "switch", "-q", "--detach")
    lost = commit(place, g="x")
    with pytest.raises(Refused, match=lost):
        repo.remove(tree, "main")
    git(tmp_path, "branch", "kept", lost)
    git(place, "switch", "-q", "dibs/a")
    repo.remove(tree, "main")


def test_bare_repository_keeps_worktrees_in_its_git_directory(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "work")
    commit(tmp_path / "work", f="one\n")
    git(tmp_path, "clone", "-q", "--bare", "work", "bare.git")
    repo = Repository(str(tmp_path / "bare.git"))
    tree = repo.open("default", "a", [repo.commit("HEAD")])
    assert tree.path == str(tmp_path / "bare.git/dibs/worktrees/a")
    commit(tmp_path / "bare.git/dibs/worktrees/a", g="x")
    old = repo.take_in(tree, "main")
    repo.advance(tree, "main", old, None)
    assert git(tmp_path / "bare.git", "log", "--format=%s", "main").splitlines()[0] == "Change g"


def test_record_counts_the_changes_of_the_task_alone(repo: Repository, tmp_path: Path) -> None:
    tree = repo.open("default", "a", [repo.commit("HEAD")])
    place = tmp_path / ".dibs/worktrees/a"
    commit(place, g="1\n2\n3\n")
    (place / "binary").write_bytes(bytes(range(256)))
    git(place, "add", "binary")
    git(place, "commit", "-q", "-m", "binary")
    (place / "left").write_text("x")
    commit(tmp_path, other="of someone else\n")
    repo.take_in(tree, "main")
    found = repo.record(repo.named("default", "a"))
    assert (found["files"], found["insertions"], found["deletions"], found["uncommitted"]) == (2, 3, 0, 1)


def test_conflict_is_undone_and_names_the_way_out(repo: Repository, tmp_path: Path) -> None:
    tree = repo.open("default", "a", [repo.commit("HEAD")])
    place = tmp_path / ".dibs/worktrees/a"
    mine = commit(place, f="mine\n")
    commit(tmp_path, f="theirs\n")
    with pytest.raises(MergeRefused) as refused:
        repo.take_in(tree, "main")
    assert "conflict in f" in refused.value.reason
    assert "dibs unblock a" in refused.value.action
    assert (git(place, "rev-parse", "HEAD"), git(place, "status", "--porcelain")) == (mine, "")


def test_local_changes_in_the_target_are_never_overwritten(repo: Repository, tmp_path: Path) -> None:
    tree = repo.open("default", "a", [repo.commit("HEAD")])
    commit(tmp_path / ".dibs/worktrees/a", f="mine\n")
    (tmp_path / "f").write_text("not committed\n")
    old = repo.take_in(tree, "main")
    with pytest.raises(MergeRefused, match="cannot be moved"):
        repo.advance(tree, "main", old, None)
    assert (tmp_path / "f").read_text() == "not committed\n"
    assert not repo.was_merged(tree)


# Workers


def test_worker_records_the_branch_and_the_store_is_found_from_the_worktree(shop: Place) -> None:
    shop.add("a")
    script = """
        pwd > $DIBS_WORKTREE/../pwd; echo mine >> f; git commit -qam mine; echo more >> new
        echo "$DIBS_BRANCH" && dibs comment "$DIBS_TASK_ID" "on my way" >&2
    """
    ended = shop.worked("--once", "--worktree", *shell(script))
    assert ended.status == 0, ended.said
    task = shop.task("a")
    record = task.extra["git"]
    assert isinstance(record, dict)
    assert (record["branch"], record["insertions"], record["deletions"]) == ("dibs/a", 1, 0)
    assert task.result == "dibs/a"
    assert lines_of(shop.folder / ".dibs/worktrees/pwd") == [str(shop.folder / ".dibs/worktrees/a")]
    shown = subprocess.run(
        [shop.bin / "dibs", "show", "a", "--json"], env=shop.environ, capture_output=True, check=True
    )
    assert json.loads(shown.stdout)["data"]["git"] == record


def test_server_in_the_repository_shows_the_diff_of_the_task_alone(
    shop: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.add("a", "b")
    assert shop.worked("--once", "--worktree", *shell("echo mine >> f; git commit -qam mine")).status == 0
    monkeypatch.chdir(shop.folder)
    server = Server(shop.url)
    try:
        found = server.ok("GET", "tasks/a/diff")
        assert (found["branch"], found["truncated"]) == ("dibs/a", False)
        assert "+mine" in found["diff"].splitlines()
        first = git(shop.folder, "hash-object", "-t", "tree", "/dev/null")
        record = {"git": {"branch": "main", "base": first, "head": git(shop.folder, "rev-parse", "main")}}
        server.ok("PATCH", "tasks/b", {"keep": record})
        assert server.ask("GET", "tasks/b/diff").status == 404
    finally:
        server.end()


def test_failed_check_fails_the_attempt_and_the_next_one_reads_why(shop: Place) -> None:
    shop.add("a", max_retries=3)
    script = """
        if [ "$DIBS_ATTEMPT" = 2 ]; then grep -q "no good" "$DIBS_PROMPT_FILE" && echo good > g; fi
        echo "$DIBS_ATTEMPT" >> f; git add -A -f .; git commit -qm mine
    """
    check = "test -e g || { echo no good >&2; exit 1; }"
    words = ("--worktree", "--merge", "squash", "--check", check, "--retry-in", "0s")
    ended = shop.worked("--until-empty", *words, *shell(script))
    assert ended.status == 0, ended.said
    assert shop.told("a") == ["claim", "edit", "fail", "claim", "done"]
    assert git(shop.folder, "log", "--format=%s").splitlines()[0] == "Task a"
    assert shop.task("a").status is Status.DONE


def test_uncommitted_work_is_not_merged_and_not_lost(shop: Place) -> None:
    shop.add("a", max_retries=0)
    ended = shop.worked("--once", "--worktree", "--merge", "ff", *shell("echo mine > f"))
    assert shop.task("a").status is Status.ESCALATED, ended.said
    assert "not committed" in str(shop.task("a").reason)
    assert (shop.folder / ".dibs/worktrees/a/f").read_text() == "mine\n"


_WORK = """
import os, pathlib, signal, subprocess, sys, time
task, attempt, main = os.environ["DIBS_TASK_ID"], os.environ["DIBS_ATTEMPT"], sys.argv[1]
git = lambda *words: subprocess.run(["git", *words], check=True, capture_output=True, text=True).stdout
number = int(task.removeprefix("t"))
if attempt == "1" and number in (3, 7):          # killed with a commit made, a file changed, and git's lock held
    pathlib.Path(f"half-{task}").write_text("half")
    lines = pathlib.Path("f").read_text().splitlines()
    lines[number * 4] = f"by {task}"
    pathlib.Path("f").write_text("\\n".join(lines) + "\\n")
    pathlib.Path(git("rev-parse", "--git-path", "index.lock").strip()).touch()
    os.kill(os.getpid(), signal.SIGKILL)
while task == "t2" and "by t1" not in git("-C", main, "show", "main:f"):
    time.sleep(0.05)                             # so that it began before t1 was merged, and meets it
lines = pathlib.Path("f").read_text().splitlines()
if f"by {task}" not in lines:
    lines[4 if task == "t2" else number * 4] = f"by {task}"
    pathlib.Path("f").write_text("\\n".join(lines) + "\\n")
git("add", "-A", "-f", ".")
subprocess.run(["git", "commit", "-q", "-m", f"Work on {task}"])  # a later attempt may have nothing to add
print(task)
"""


def test_slots_finish_overlapping_tasks_once_despite_kills_and_a_conflict(shop: Place) -> None:
    names = [f"t{number}" for number in range(1, 13)]
    links = tuple(Link(f"t{number}", f"t{number - 3}") for number in range(4, 13))
    shop.add(*names, links=links, max_retries=3)
    (shop.folder / "agent.py").write_text(_WORK)
    words = (
        "--slots",
        "3",
        "--worktree",
        "--merge",
        "ff",
        "--check",
        "python3 -c 'assert len(open(\"f\").readlines()) == 60'",
    )
    one = shop.work("--retry-in", "0s", *words, "--", "python3", str(shop.folder / "agent.py"), str(shop.folder))
    until(lambda: shop.task("t2").status is Status.BLOCKED, lambda: one.said)
    action = str(shop.task("t2").unblock_action)
    assert "dibs unblock t2" in action
    place = shop.folder / ".dibs/worktrees/t2"
    subprocess.run(["git", "merge", "-q", "main"], cwd=place, capture_output=True, check=False)
    (place / "f").write_text(
        (shop.folder / "f").read_text().replace("by t1\n", "by t1\nby t2\n").replace("line 5\n", "")
    )
    git(place, "commit", "-q", "-a", "-m", "Resolve")
    with shop.desk() as desk:
        desk.move(Verb.UNBLOCK, "t2")
    until(lambda: all(shop.task(name).status is Status.DONE for name in names), lambda: one.said)
    one.process.terminate()
    one.process.wait(PATIENCE)
    for name in names:
        assert shop.told(name).count("done") == 1
        record = shop.task(name).extra["git"]
        assert isinstance(record, dict)
        assert (record["branch"], record["target"]) == (f"dibs/{name}", "main")
        assert record["head"] == git(shop.folder, "rev-parse", f"dibs/{name}")
    text = git(shop.folder, "show", "main:f")
    assert sorted(line for line in text.splitlines() if line.startswith("by ")) == sorted(
        f"by {name}" for name in names
    )
    assert [git(shop.folder, "show", f"main:half-{name}") for name in ("t3", "t7")] == ["half", "half"]
    assert (shop.folder / "f").read_text() == text + "\n"
    _prune(shop)


def _prune(shop: Place) -> None:
    subprocess.run([shop.bin / "dibs", "worktree", "prune"], cwd=shop.folder, env=shop.environ, check=True)
    assert len(git(shop.folder, "worktree", "list").splitlines()) == 1
    assert git(shop.folder, "branch", "--list", "dibs/*") == ""


_BY_HAND = """
cd "$1"
while eval "$(dibs claim --export --lease 1h)"; do
  git switch -q -c "task/$DIBS_TASK_ID" main 2>/dev/null || git switch -q "task/$DIBS_TASK_ID"
  grep -q "by $DIBS_TASK_ID" f || sed -i "$(( ${DIBS_TASK_ID#t} * 4 ))s/.*/by $DIBS_TASK_ID/" f
  if [ -e "$2/kill-$DIBS_TASK_ID" ]; then rm "$2/kill-$DIBS_TASK_ID"; kill -9 $$; fi
  git commit -qam "Work on $DIBS_TASK_ID"
  flock "$2/merging" sh -c "git merge -q --no-edit main && git -C '$2' merge -q --ff-only task/$DIBS_TASK_ID" &&
    dibs done --note merged || dibs block --reason conflict --action merge
done
"""


def test_agents_in_manual_worktrees_share_tasks(shop: Place) -> None:
    names = [f"t{number}" for number in range(1, 13)]
    shop.add(*names, links=tuple(Link(f"t{number}", f"t{number - 3}") for number in range(4, 13)))
    (shop.folder / "agent.sh").write_text(_BY_HAND)
    places = [shop.folder.parent / f"hand-{shop.folder.name}-{number}" for number in range(3)]
    for number, place in enumerate(places):
        git(shop.folder, "worktree", "add", "-q", "--detach", str(place))
        (shop.folder / f"kill-t{number + 4}").touch()
    (shop.folder / "kill-t6").unlink()

    def round_of_agents() -> list[int]:
        agents = [
            subprocess.Popen(
                ["sh", str(shop.folder / "agent.sh"), str(place), str(shop.folder)], cwd=place,
                env=shop.environ | {"DIBS_AGENT": place.name}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )
            for place in places
        ]  # fmt: skip
        return [agent.wait(PATIENCE) for agent in agents]

    rounds = 0
    while not all(shop.task(name).finished for name in names):
        killed = round_of_agents().count(-9)
        rounds += 1
        assert rounds < 9, [shop.task(name).status for name in names]
        if killed:  # its change is uncommitted in its worktree, on the task's branch
            for place in places:
                if git(place, "status", "--porcelain", "--untracked-files=no"):
                    git(place, "commit", "-q", "-a", "-m", "What a killed agent left")
                    git(place, "switch", "-q", "--detach")
            shop.clock.advance(hours=2)
    assert all(shop.told(name).count("done") == 1 for name in names)
    text = git(shop.folder, "show", "main:f")
    assert sorted(line for line in text.splitlines() if line.startswith("by ")) == sorted(
        f"by {name}" for name in names
    )
    assert not list(shop.folder.glob("kill-*"))
    assert len(git(shop.folder, "worktree", "list").splitlines()) == 4


@pytest.mark.parametrize("product", ["claude", "codex", "gemini"])
def test_product_gets_options_and_prompt_and_its_changes_are_committed(shop: Place, product: str) -> None:
    shop.add("a", description="All of it.")
    programs = shop.folder / "programs"
    programs.mkdir()
    (programs / product).write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" > {programs}/words\ncat > {programs}/prompt\necho more >> f\necho made\n'
    )
    (programs / product).chmod(0o755)
    shop.environ["PATH"] = f"{programs}:{shop.environ['PATH']}"
    shop.environ.pop("DIBS_AGENT", None)
    one = shop.work("--once", "--worktree", "--run", "r1", "--with", product, "--", "--model", "x y", agent="")
    assert one.leaves() == 0, one.said
    words = lines_of(programs / "words")
    at = words.index("--model")
    assert words[at : at + 2] == ["--model", "x y"]
    expected = {"claude": "acceptEdits", "codex": "workspace-write", "gemini": "auto_edit"}[product]
    assert expected in words
    assert words[-1] == {"claude": "x y", "codex": "-", "gemini": "Do the task that is described above."}[product]
    prompt = (programs / "prompt").read_text()
    for part in ("# Task a", "All of it.", "`dibs/a`", "claim no other task"):
        assert part in prompt
    task = shop.task("a")
    record = task.extra["git"]
    assert isinstance(record, dict)
    assert (task.result, task.finished_by, record["insertions"]) == ("made", f"{product}@r1", 1)
    assert git(shop.folder, "log", "-1", "--format=%s", "dibs/a") == "Task a"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--merge", "ff"), "--merge needs --worktree"),
        (("--base", "main"), "--base needs --worktree"),
        (("--worktree", "--check", "true"), "--check runs before a merge"),
        (("--worktree", "--merge", "ff", "--pr"), "Choose one"),
        (("--worktree", "--base=--upload-pack=x"), "no commit"),
        (("--worktree", "--merge", "ff", "--into", "nowhere"), "no branch 'nowhere'"),
    ],
)
def test_invalid_options_are_refused_before_a_claim(shop: Place, words: tuple[str, ...], why: str) -> None:
    shop.add("a")
    ended = shop.worked("--once", *words, "--", "true")
    assert ended.status == 2
    assert why in ended.said
    assert shop.told("a") == []


def test_folder_without_git_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DibsError, match="no git repository"):
        Repository(str(tmp_path))
