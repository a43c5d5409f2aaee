"""People edit, stage, commit and merge in a clone while dibs syncs it: none of it is lost, or published for them."""

from __future__ import annotations

import os
import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreBusy, StoreError, StoreUnavailable
from dibs.sync.git import Clone, Published
from support.vault import until

from .clones import PATIENCE, TEXT, Machine, git, machine
from .soundness import assert_no_markers, twice_in_one_commit
from .steps import PromptedGit

if TYPE_CHECKING:
    from pathlib import Path

    from support.clock import Clock


def push(where: Machine, place: str, text: str | None, *, source: str | None = None) -> None:
    """A person elsewhere changes one file and pushes it."""
    where.git("pull", "-q", "--no-rebase")
    if text is not None:
        where.put(place, text)
    elif source is not None:
        where.move(source, place)
    else:
        os.unlink(where.path / place)
    where.commit(f"{place} by hand")
    where.git("push", "-q")


# In the folder


def test_edit_of_an_unchanged_task_stays(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/a.md", "mine\n")
    push(there, "Needs_Action/b.md", "theirs\n")
    pulled = here.clone.pull()
    assert (pulled.changed, pulled.dropped) == (True, ())
    assert here.read("Needs_Action/a.md") == "mine\n"
    assert here.read("Needs_Action/b.md") == "theirs\n"
    assert here.status() == [" M Needs_Action/a.md"]


@pytest.mark.parametrize("place", ["Needs_Action/a.md", "Plans/plan.md"])
def test_edit_of_a_changed_file_is_copied_to_errors(here: Machine, there: Machine, place: str) -> None:
    here.put(place, "# Mine\n\nWritten here.\n")
    push(there, place, "# Theirs\n\nWritten there.\n")
    pulled = here.clone.pull()
    assert here.read(place) == "# Theirs\n\nWritten there.\n"
    assert len(pulled.dropped) == 1
    (kept,) = pulled.set_aside
    assert here.read(kept) == "# Mine\n\nWritten here.\n"
    assert kept.startswith("Errors/")


def test_edit_of_a_claimed_task_is_copied_to_errors(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/a.md", "# Task a\n\nThe text of a, and more.\n")
    there.hold("bob", "a")
    pulled = here.clone.pull()
    assert here.find("a.md") == ["In_Progress/bob/a.md"]
    assert [here.read(path) for path in pulled.set_aside] == ["# Task a\n\nThe text of a, and more.\n"]


def test_edit_in_a_refused_claim_is_copied_to_errors(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/a.md", "# Task a\n\nThe text of a, and more.\n")
    there.hold("bob", "a")
    published, _ = here.claim("ann", "a")
    assert published is Published.REFUSED
    (kept,) = here.find("a kept-*.md")
    assert "The text of a, and more." in here.read(kept)


def test_untracked_file_in_a_pull_is_copied_to_errors(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/new.md", "# Mine\n")
    push(there, "Needs_Action/new.md", "# Theirs\n")
    (kept,) = here.clone.pull().set_aside
    assert here.read("Needs_Action/new.md") == "# Theirs\n"
    assert here.read(kept) == "# Mine\n"


def test_same_file_on_both_sides_is_no_conflict(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/new.md", TEXT)
    push(there, "Needs_Action/new.md", TEXT)
    pulled = here.clone.pull()
    assert (pulled.dropped, pulled.set_aside) == ((), ())
    assert here.status() == []


def test_staged_edit_stays_staged(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/a.md", "mine, staged\n")
    here.git("add", "-A")
    push(there, "Needs_Action/b.md", "theirs\n")
    here.clone.pull()
    assert here.status() == ["M  Needs_Action/a.md"]
    here.hold("ann", "c")
    assert here.status() == ["M  Needs_Action/a.md"]
    assert here.git("show", "HEAD:Needs_Action/a.md") == "# Task a\n\nThe text of a.\n"


def test_staged_and_changed_file_keeps_both_versions(here: Machine, there: Machine) -> None:
    here.put("Needs_Action/a.md", "# First\n")
    here.git("add", "-A")
    here.put("Needs_Action/a.md", "# Second\n")
    push(there, "Needs_Action/a.md", "# Theirs\n")
    kept = here.clone.pull().set_aside
    assert sorted(here.read(path) for path in kept) == ["# First\n", "# Second\n"]
    assert here.read("Needs_Action/a.md") == "# Theirs\n"
    assert all(line.startswith("?? Errors/") for line in here.status())


def test_a_file_deleted_here_and_changed_there_comes_back(here: Machine, there: Machine) -> None:
    os.unlink(here.path / "Needs_Action/a.md")
    push(there, "Needs_Action/a.md", "# Theirs\n")
    assert here.clone.pull().dropped == ("a.md",)
    assert here.read("Needs_Action/a.md") == "# Theirs\n"


def test_pushed_move_by_a_person_arrives_as_one_file(here: Machine, there: Machine) -> None:
    push(there, "Done/a.md", None, source="Needs_Action/a.md")
    here.clone.pull()
    assert here.find("a.md") == ["Done/a.md"]
    push(there, "Done/a.md", None)
    here.clone.pull()
    assert here.find("a.md") == []


NAMES = [
    "Needs_Action/with some spaces.md",
    "Needs_Action/😀 emoji.md",
    "Needs_Action/email/ümläut & [brackets] *.md",
    "Needs_Action/x --y.md",
    "Plans/a line\nbreak.md",
    'Plans/"quoted" \\ back.md',
    "Plans/tab\tbed.md",
    os.fsdecode(b"Plans/not utf-8 \xff.md"),
]


@pytest.mark.parametrize("place", NAMES)
def test_any_name_travels(here: Machine, there: Machine, place: str) -> None:
    push(there, place, TEXT)
    here.clone.pull()
    assert here.read(place) == TEXT
    assert here.status() == []
    if place.startswith("Needs_Action/"):
        scope = "email" if "email" in place else "default"
        with here.clone.turn(), here.desk() as desk:
            desk.scope = scope
            (found,) = [task for task in desk.ready(limit=9) if task.id not in {"a", "b", "c"}]
            desk.claim("ann", refs=[found.id])
            target = place.replace("Needs_Action/", "In_Progress/ann/")
            assert here.publish([place, target], f"ann claims {found.id}") is Published.ACCEPTED
        there.clone.pull()
        assert there.files() == here.files()
    else:
        here.put(place, "changed\n")
        with here.clone.turn():
            assert here.publish([place], "changed") is Published.ACCEPTED
        there.clone.pull()
        assert there.read(place) == "changed\n"


@pytest.mark.parametrize(
    "text", ["a\r\nb\r\n", "a\r\nb\n", "no end", "", "\ufeff---\r\ntitle: x\r\n---\r\nb", "\x00\x01"]
)
def test_bytes_do_not_depend_on_git_settings(here: Machine, there: Machine, text: str) -> None:
    here.git("config", "core.autocrlf", "true")
    there.git("config", "core.autocrlf", "input")
    here.put("Needs_Action/raw.md", text)
    with here.clone.turn():
        here.publish(["Needs_Action/raw.md"], "raw")
    there.clone.pull()
    assert there.read("Needs_Action/raw.md") == text


def test_attributes_of_the_repository_convert_both_ways(tmp_path: Path, here: Machine, remote: Path) -> None:
    """As with encrypted files: the remote must not see the plain text, and the folder must not see the other."""
    here.put(".gitattributes", "Needs_Action/*.md filter=rot\nIn_Progress/**/*.md filter=rot\n")
    for name, value in (("clean", "tr a-z n-za-m"), ("smudge", "tr n-za-m a-z")):
        here.git("config", f"filter.rot.{name}", value)
    here.put("Needs_Action/secret.md", "# hello\n")
    with here.clone.turn():
        here.publish([".gitattributes", "Needs_Action/secret.md"], "converted")
    assert git(remote, "show", "main:Needs_Action/secret.md") == "# uryyb\n"
    git(tmp_path, "clone", "-q", str(remote), "other")
    for name, value in (("clean", "tr a-z n-za-m"), ("smudge", "tr n-za-m a-z")):
        git(tmp_path / "other", "config", f"filter.rot.{name}", value)
    other = Machine(tmp_path / "other")
    here.put("Needs_Action/secret.md", "# hello again\n")
    with here.clone.turn():
        here.publish(["Needs_Action/secret.md"], "changed")
    git(other.path, "checkout", "-q", "--force", "HEAD", "--", "Needs_Action")
    other.clone.pull()
    assert other.read("Needs_Action/secret.md") == "# hello again\n"


def test_links_and_programs_arrive_unchanged(tmp_path: Path, here: Machine, there: Machine) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (there.path / "Plans/link.md").symlink_to("plan.md")
    program = there.put("Plans/run.sh", "#!/bin/sh\n")
    program.chmod(0o755)
    there.commit()
    there.git("push", "-q")
    here.clone.pull()
    assert os.readlink(here.path / "Plans/link.md") == "plan.md"
    assert os.access(here.path / "Plans/run.sh", os.X_OK)
    (here.path / "Updates/.gitkeep").unlink()
    (here.path / "Updates").rmdir()
    (here.path / "Updates").symlink_to(outside)
    push(there, "Updates/x.md", TEXT)
    with pytest.raises(StoreError, match="symbolic link"):
        here.clone.pull()
    assert os.listdir(outside) == []


def test_file_and_folder_may_replace_each_other(here: Machine, there: Machine) -> None:
    push(there, "Plans/x", "a file\n")
    here.clone.pull()
    there.git("pull", "-q")
    os.unlink(there.path / "Plans/x")
    push(there, "Plans/x/y/z.md", "deep\n")
    here.clone.pull()
    assert here.read("Plans/x/y/z.md") == "deep\n"
    there.git("rm", "-rq", "Plans/x")
    push(there, "Plans/x", "a file again\n")
    here.clone.pull()
    assert here.read("Plans/x") == "a file again\n"
    assert here.status() == []


def test_files_of_one_machine_are_ignored_by_git(here: Machine, there: Machine) -> None:
    here.finish(here.hold("ann", "a"))
    here.put("Logs/agent-ann.log", "a line\n")
    assert any(name.endswith(".jsonl") for name in os.listdir(here.path / "Logs"))
    assert here.status() == []
    here.git("add", "-A")
    assert here.status() == []
    there.clone.pull()
    assert os.listdir(there.path / "Logs") == [".gitkeep"]


# On the branch


def test_commit_by_a_person_is_pushed_with_the_next_change(here: Machine, there: Machine, remote: Path) -> None:
    here.put("Plans/mine.md", "mine\n")
    here.commit("mine")
    there.hold("bob", "b")
    here.hold("ann", "a")
    assert git(remote, "show", "main:Plans/mine.md") == "mine\n"
    there.clone.pull()
    assert there.head() == here.head()
    assert there.files() == here.files()
    assert here.status() == there.status() == []


def test_settling_pushes_what_a_person_committed(here: Machine, remote: Path) -> None:
    here.put("Plans/mine.md", "mine\n")
    here.commit("mine")
    assert here.clone.standing().ahead == 1
    here.clone.settle()
    assert here.clone.standing().ahead == 0
    assert git(remote, "show", "main:Plans/mine.md") == "mine\n"


def test_conflicting_commits_of_a_task_resolve_to_the_remote(here: Machine, there: Machine, remote: Path) -> None:
    here.put("Needs_Action/a.md", "# Mine\n\nWords of mine.\n")
    here.move("Needs_Action/a.md", "Done/a.md")
    here.commit("done by hand")
    there.hold("bob", "a")
    here.clone.pull()
    assert here.find("a.md") == ["In_Progress/bob/a.md"]
    (kept,) = here.find("a kept-*")
    assert "Words of mine." in here.read(kept)
    here.hold("ann", "c")
    assert twice_in_one_commit(remote) == []
    assert_no_markers(remote)


def test_conflicting_commits_of_a_note_keep_both_lines(here: Machine, there: Machine, remote: Path) -> None:
    push(there, "Plans/diary.md", "Monday\n")
    here.clone.pull()
    push(there, "Plans/diary.md", "Monday\nTuesday, there\n")
    here.put("Plans/diary.md", "Monday\nTuesday, here\n")
    here.commit("diary")
    here.clone.settle()
    assert set(here.read("Plans/diary.md").splitlines()) == {"Monday", "Tuesday, there", "Tuesday, here"}
    assert git(remote, "show", "main:Plans/diary.md") == here.read("Plans/diary.md")
    assert_no_markers(remote)


@pytest.mark.parametrize("how", ["--no-rebase", "--rebase"])
@pytest.mark.parametrize("mine", ["edit", "delete", "rename", "claim"])
def test_pull_stopped_over_a_task_needs_no_person(
    here: Machine, there: Machine, remote: Path, how: str, mine: str
) -> None:
    """An auto-committer has committed and pulled, and git left a conflict in the folder."""
    match mine:
        case "edit":
            here.put("Needs_Action/a.md", "# Mine\n\nWords of mine.\n")
        case "delete":
            (here.path / "Needs_Action/a.md").unlink()
        case "rename":
            here.move("Needs_Action/a.md", "Needs_Action/another.md")
        case _:
            here.move("Needs_Action/a.md", "In_Progress/ann/a.md")
    here.put("Plans/mine.md", "mine\n")
    here.commit("auto")
    there.finish(there.hold("bob", "a"))
    here.git("pull", "-q", how, ok=False)
    here.put("Needs_Action/new.md", "# New\n")
    here.clone.settle()
    assert here.find("a.md") == ["Done/a.md"]
    assert here.find("another.md") == []
    assert here.read("Needs_Action/new.md") == "# New\n"
    assert here.clone.standing().trouble is None
    assert git(remote, "show", "main:Plans/mine.md") == "mine\n"
    kept = [here.read(place) for place in here.find("a kept-*")]
    assert any("Words of mine." in text for text in kept) == (mine == "edit")
    here.hold("ann", "b")
    assert [line for line in here.status() if "Errors/" not in line] == ["?? Needs_Action/new.md"]
    assert twice_in_one_commit(remote) == []
    assert_no_markers(remote)


def test_unattended_merge_of_notes_is_ended(here: Machine, there: Machine, remote: Path) -> None:
    push(there, "Plans/plan.md", "# Theirs\n")
    here.put("Plans/plan.md", "# Mine\n")
    here.commit("mine")
    here.git("pull", "-q", "--no-rebase", ok=False)
    for place in (".git/MERGE_HEAD", "Plans/plan.md"):
        os.utime(here.path / place, (0, 0))
    here.clone.settle()
    assert {"# Mine", "# Theirs"} <= set(here.read("Plans/plan.md").splitlines())
    assert_no_markers(remote)


@pytest.mark.parametrize("conflict", [True, False], ids=["conflict", "failed git"])
def test_stopped_rebase_loses_no_commit(here: Machine, there: Machine, remote: Path, *, conflict: bool) -> None:
    """An auto-committer pulls with --rebase; git stops at the first of two commits, and a third follows."""
    push(there, "Plans/plan.md", "# Theirs\n")
    here.put("Plans/plan.md" if conflict else "Plans/other.md", "# Mine\n")
    here.commit("mine")
    here.put("Plans/second.md", "# Second\n")
    here.commit("second")
    hook = here.path / ".git/hooks/post-checkout"
    if not conflict:
        hook.write_text("#!/bin/sh\ntouch .git/index.lock\n")  # another git, at this moment
        hook.chmod(0o755)
    here.git("pull", "-q", "--rebase", ok=False)
    assert not (here.path / "Plans/second.md").exists()
    if not conflict:
        hook.unlink()
        (here.path / ".git/index.lock").unlink()
        here.put("Plans/third.md", "# Third\n")
        here.commit("third")
    assert here.clone.standing().trouble is not None
    for place in (".git/rebase-merge", "Plans/plan.md"):
        os.utime(here.path / place, (0, 0))
    here.clone.settle()
    assert here.clone.standing().trouble is None
    lines = set().union(*(here.read(place).splitlines() for place in here.find("*.md")))
    assert {"# Mine", "# Theirs", "# Second"} | (set() if conflict else {"# Third"}) <= lines
    assert here.status() == []
    assert git(remote, "show", "main:Plans/second.md") == "# Second\n"
    assert_no_markers(remote)


def test_rebase_that_could_not_move_the_branch_is_ended(here: Machine, there: Machine, remote: Path) -> None:
    """An auto-committer pulls a change that it has too, with --rebase, while another git locks the branch."""
    push(there, "Plans/plan.md", "# Ours\n")
    push(there, "Plans/theirs.md", "# Theirs\n")
    here.put("Plans/plan.md", "# Ours\n")
    here.commit("the same plan")
    hook, lock = here.path / ".git/hooks/post-checkout", here.path / ".git/refs/heads/main.lock"
    hook.write_text("#!/bin/sh\ntouch .git/refs/heads/main.lock\n")
    hook.chmod(0o755)
    here.git("pull", "-q", "--rebase", ok=False)
    hook.unlink()
    lock.unlink()
    assert (here.path / ".git/rebase-merge/done").read_text().split() == ["noop"]
    os.utime(here.path / ".git/rebase-merge", (0, 0))
    here.clone.settle()
    assert here.clone.standing().trouble is None
    assert here.read("Plans/theirs.md") == "# Theirs\n"
    assert here.status() == []
    assert_no_markers(remote)


def test_alike_files_are_not_taken_for_one_another(here: Machine, there: Machine) -> None:
    """Git would see a renamed file here, and carry a change over to another task."""
    for name in ("x", "y"):
        push(there, f"Needs_Action/{name}.md", TEXT * 10)
    here.clone.pull()
    os.unlink(here.path / "Needs_Action/x.md")
    here.put("Done/z.md", TEXT * 10)
    here.commit("x away, z there")
    there.hold("bob", "y")
    here.hold("ann", "a")
    assert here.read("Done/z.md") == TEXT * 10
    assert here.find("y.md") == ["In_Progress/bob/y.md"]


def test_history_rewritten_at_the_remote_is_followed(here: Machine, there: Machine) -> None:
    push(there, "Needs_Action/new.md", TEXT)
    here.hold("ann", "a")
    there.git("reset", "-q", "--hard", "HEAD~1")
    there.put("Needs_Action/other.md", TEXT)
    there.commit("another history")
    there.git("push", "-q", "--force")
    here.clone.pull()
    assert here.head() == there.head()
    assert here.files() == there.files()
    here.hold("ann", "a")


def test_rewritten_history_keeps_local_commits(here: Machine, there: Machine) -> None:
    push(there, "Needs_Action/new.md", TEXT)
    here.clone.pull()
    here.put("Plans/mine.md", "mine\n")
    here.commit("mine")
    there.git("commit", "-q", "--amend", "-m", "rewritten")
    there.git("push", "-q", "--force")
    with pytest.raises(StoreUnavailable, match="rewritten"):
        here.clone.pull()
    assert here.read("Plans/mine.md") == "mine\n"
    assert "mine" in here.git("log", "--format=%s")


def test_unrelated_histories_are_refused(tmp_path: Path, remote: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main", "apart")
    git(tmp_path / "apart", "remote", "add", "origin", str(remote))
    (tmp_path / "apart/mine.md").write_text("mine\n")
    git(tmp_path / "apart", "add", "-A")
    git(tmp_path / "apart", "commit", "-qm", "apart")
    with pytest.raises(StoreUnavailable, match="in common"):
        Machine(tmp_path / "apart").clone.pull()
    assert sorted(os.listdir(tmp_path / "apart")) == [".git", "mine.md"]


def test_a_shallow_clone_claims_like_any_other(tmp_path: Path, here: Machine, there: Machine, remote: Path) -> None:
    push(there, "Needs_Action/new.md", TEXT)
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{remote}", "shallow")
    shallow = Machine(tmp_path / "shallow")
    here.hold("ann", "a")
    shallow.hold("sue", "b")
    here.clone.pull()
    assert here.files() == shallow.files()


@pytest.mark.parametrize("under_way", ["detached", "elsewhere", "merge", "rebase"])
def test_agents_wait_for_a_merge_by_a_person(here: Machine, there: Machine, under_way: str) -> None:
    push(there, "Plans/plan.md", "# Theirs\n")
    here.put("Plans/plan.md", "# Mine\n")
    here.commit("mine")
    match under_way:
        case "detached":
            here.git("checkout", "-q", "--detach")
        case "elsewhere":
            here.git("checkout", "-q", "-b", "side")
        case _:
            here.git("pull", "-q", "--rebase" if under_way == "rebase" else "--no-rebase", ok=False)
    before, status = here.files(), here.status()
    expected = {"detached": "no branch", "elsewhere": "side"}.get(under_way, under_way)
    with pytest.raises(StoreBusy, match=expected):
        here.clone.pull()
    with here.clone.turn(), pytest.raises(StoreBusy, match=expected):
        here.publish(["Needs_Action/b.md"], "x")
    assert (here.files(), here.status()) == (before, status)
    assert expected in (here.clone.standing().trouble or "")


def test_clone_on_no_branch_continues_after_a_switch(here: Machine, clock: Clock) -> None:
    here.git("checkout", "-q", "--detach")
    early = Machine(here.path, clock=clock)
    assert "no branch" in (early.clone.standing().trouble or "")
    with pytest.raises(StoreBusy, match="no branch"):
        early.clone.pull()
    here.git("switch", "-q", "main")
    early.hold("ann", "a")


def test_a_branch_may_have_any_name(tmp_path: Path, here: Machine, remote: Path, clock: Clock) -> None:
    name = "fleet/Ünï-code.v2"
    here.git("switch", "-q", "-c", name)
    Machine(here.path, clock=clock).hold("ann", "a")
    other = machine(tmp_path, "other", remote)
    other.git("switch", "-q", name)
    assert other.find("a.md") == ["In_Progress/ann/a.md"]
    Machine(other.path, branch=name).hold("bob", "b")
    with pytest.raises(StoreBusy, match="git switch main"):
        Machine(other.path, branch="main").clone.pull()


def test_commit_during_a_pull_succeeds(here: Machine, there: Machine, tmp_path: Path) -> None:
    """Agents let a person's commit finish: git refuses it if the branch has moved since it began."""
    there.clone.guard()
    here.hold("ann", "a")
    there.put("Plans/diary.md", "# Diary\n")
    there.git("add", "-A")
    open_, close = tmp_path / "open", tmp_path / "close"
    editor = tmp_path / "editor"
    editor.write_text(f'#!/bin/sh\ntouch {open_}\nwhile [ ! -e {close} ]; do sleep 0.01; done\necho diary > "$1"\n')
    editor.chmod(0o755)
    words = ["git", "-c", "user.name=Pat", "-c", "user.email=pat@example.org", "commit", "-q"]
    commit = subprocess.Popen(words, cwd=there.path, env=os.environ | {"GIT_EDITOR": str(editor)})
    until(open_.exists, lambda: "the commit has not opened its editor")
    pull = threading.Thread(target=there.clone.pull)
    pull.start()
    pull.join(0.5)
    assert pull.is_alive()
    close.touch()
    assert commit.wait(PATIENCE) == 0
    pull.join(PATIENCE)
    assert there.find("a.md") == ["In_Progress/ann/a.md"]
    assert "diary" in there.git("log", "--format=%s")


@pytest.mark.parametrize("hook", [True, False])
@pytest.mark.parametrize("more", ["", "Plans/other.md", "Plans/plan.md"])
def test_failed_merge_is_not_committed_as_done(
    here: Machine, there: Machine, remote: Path, more: str, *, hook: bool
) -> None:
    """Git records a merge that it has not begun if another git has locked the index: a commit would drop theirs."""
    push(here, "Plans/plan.md", "Monday\n")
    there.clone.pull()
    push(here, "Plans/plan.md", "Monday\nTuesday\n")
    here.finish(here.hold("ann", "a"))
    there.put("Plans/mine.md", "mine\n")
    there.commit("mine")
    if hook:
        there.clone.guard()
    (there.path / ".git/index.lock").touch()
    there.git("pull", "-q", "--no-rebase", ok=False)
    (there.path / ".git/index.lock").unlink()
    assert (there.path / ".git/MERGE_HEAD").exists()
    if more:
        there.put(more, "Monday\nWritten since.\n")
    if hook:
        there.put("Plans/third.md", "third\n")
        there.git("add", "-A")
        there.git("commit", "-qm", "refused", ok=False)
        there.git("commit", "-qm", "vault backup")
    there.clone.settle()
    there.git("add", "-A")
    there.git("commit", "-qm", "the rest", ok=False)
    there.clone.settle()
    assert "Tuesday\n" in git(remote, "show", "main:Plans/plan.md")
    assert "mine" in git(remote, "show", "main:Plans/mine.md")
    assert there.find("a.md") == ["Done/a.md"]
    lines = {line for place in there.find("*.md") for line in there.read(place).splitlines()}
    assert not more or "Written since." in lines


def test_merge_that_waits_for_its_commit_is_left_to_the_person(here: Machine, there: Machine) -> None:
    push(here, "Plans/plan.md", "theirs\n")
    there.put("Plans/mine.md", "mine\n")
    there.commit("mine")
    there.git("pull", "-q", "--no-rebase", "--no-commit")
    with pytest.raises(StoreBusy, match="merge"):
        there.clone.pull()
    there.git("commit", "-qm", "merged")
    there.clone.settle()
    assert there.find("plan.md") == ["Plans/plan.md"]


def test_commit_that_begins_during_a_pull_comes_first(here: Machine, there: Machine) -> None:
    """Its hook waits for the agent's turn: the agent gives it up instead of moving the branch."""
    there.clone.guard()
    here.hold("ann", "a")
    there.put("Plans/diary.md", "# Diary\n")
    there.git("add", "-A")
    words = ["git", "-c", "user.name=Pat", "-c", "user.email=pat@example.org", "commit", "-qm", "diary"]
    started: list[subprocess.Popen[bytes]] = []

    def commit() -> None:
        marker = there.path / ".git/dibs/committing"
        started.append(subprocess.Popen(words, cwd=there.path))
        until(marker.exists, lambda: "the hook has not run")

    git_ = PromptedGit(str(there.path), "fetch", commit)
    Clone(str(there.path), timeout=PATIENCE, git=git_).pull()
    assert started[0].wait(PATIENCE) == 0
    assert "diary" in there.git("log", "--format=%s")
    there.clone.pull()
    assert there.find("a.md") == ["In_Progress/ann/a.md"]
