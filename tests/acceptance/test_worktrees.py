"""One store for all worktrees of a git repository, and a name for each agent in them, with real repositories."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from docs.test_reference import AGENT_VARIABLES as VARIABLES
from support.cli import SCRIPT

if TYPE_CHECKING:
    from collections.abc import Callable


def git(folder: Path, *words: str) -> None:
    settings = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *settings, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with one commit."""
    folder = tmp_path / "main"
    folder.mkdir()
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


@pytest.fixture
def dibs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    for name in (*VARIABLES, "DIBS_STORE", "DIBS_AGENT"):
        monkeypatch.delenv(name, raising=False)

    def run(folder: Path, *words: str, status: int = 0, **variables: str) -> str:
        done = subprocess.run(
            [str(SCRIPT), *words], cwd=folder, env=os.environ | variables, capture_output=True, text=True, check=False
        )
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    return run


def store_of(folder: Path) -> str:
    return str(folder / ".dibs" / "dibs.db")


@pytest.mark.parametrize("place", ["../wt1", "nested/wt1", "../far/away/wt1"])
def test_worktree_uses_the_store_of_the_main_checkout(main: Path, dibs: Callable[..., str], place: str) -> None:
    dibs(main, "init", "--no-agents-file")
    dibs(main, "add", "Write the parser", "--id", "parser")
    worktree = Path(os.path.normpath(main / place))
    git(main, "worktree", "add", "-q", str(worktree))
    below = worktree / "src" / "deep"
    below.mkdir(parents=True)
    assert "parser" in dibs(below, "list")
    dibs(worktree, "claim", "parser", "--agent", "ann")
    assert "ann" in dibs(main, "list")


def test_init_in_a_worktree_makes_the_store_of_the_repository(main: Path, dibs: Callable[..., str]) -> None:
    git(main, "worktree", "add", "-q", "../wt1")
    worktree = main.parent / "wt1"
    assert "makes one for all worktrees" in dibs(worktree, "list", status=7)
    said = dibs(worktree, "init", "--no-agents-file")
    assert store_of(main) in said
    assert "shares this store with all worktrees" in said
    assert not (worktree / ".dibs").exists()
    dibs(worktree, "add", "job", "--id", "job")
    assert "job" in dibs(main, "list")


def test_init_here_gives_a_worktree_a_separate_store(main: Path, dibs: Callable[..., str]) -> None:
    dibs(main, "init", "--no-agents-file")
    git(main, "worktree", "add", "-q", "../wt1")
    worktree = main.parent / "wt1"
    assert store_of(worktree) in dibs(worktree, "init", "--here", "--no-agents-file")
    dibs(worktree, "add", "job", "--id", "job")
    assert "job" not in dibs(main, "list")
    assert store_of(worktree) in dibs(worktree, "init", "--no-agents-file"), "the second store stays in use"


@pytest.mark.parametrize("bare", ["repository.git", ".bare", ".git"])
def test_bare_repository_keeps_the_store_in_its_git_directory(
    main: Path, dibs: Callable[..., str], tmp_path: Path, bare: str
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    git(project, "clone", "-q", "--bare", str(main), bare)
    git(project / bare, "worktree", "add", "-q", "../wt1")
    git(project / bare, "worktree", "add", "-q", "../wt2")
    assert str(project / bare / "dibs" / "dibs.db") in dibs(project / "wt1", "init", "--no-agents-file")
    dibs(project / "wt1", "add", "job", "--id", "job")
    assert "job" in dibs(project / "wt2", "list")
    assert "job" in dibs(project / bare, "list")


def test_submodule_uses_the_store_above_it_unless_it_has_one(
    main: Path, dibs: Callable[..., str], tmp_path: Path
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    git(library, "init", "-q")
    git(library, "commit", "-q", "--allow-empty", "-m", "first")
    git(main, "submodule", "add", "-q", str(library), "lib")
    dibs(main, "init", "--no-agents-file")
    dibs(main, "add", "job", "--id", "job")
    assert "job" in dibs(main / "lib", "list")
    dibs(main / "lib", "init", "--no-agents-file")
    assert "job" not in dibs(main / "lib", "list")
    git(main / "lib", "worktree", "add", "-q", str(tmp_path / "lib-wt"))
    dibs(main / "lib", "add", "inner", "--id", "inner")
    assert "inner" in dibs(tmp_path / "lib-wt", "list")


def test_init_excludes_the_store_in_the_shared_git_directory(main: Path, dibs: Callable[..., str]) -> None:
    git(main, "worktree", "add", "-q", "../wt1")
    dibs(main.parent / "wt1", "init", "--no-agents-file")
    dibs(main, "init", "--no-agents-file")
    assert (main / ".git" / "info" / "exclude").read_text().split("\n").count(".dibs/") == 1
    (main / ".dibs" / ".gitignore").unlink()
    status = subprocess.run(["git", "status", "--short"], cwd=main, capture_output=True, text=True, check=True)
    assert status.stdout == ""


@pytest.mark.parametrize("said", ["", "gitdir: ", "gitdir: /nowhere/at/all", "gitdir: \0odd", "rubbish"])
def test_unreadable_git_file_is_no_worktree(tmp_path: Path, dibs: Callable[..., str], said: str) -> None:
    (tmp_path / ".git").write_text(said)
    assert "There is no dibs project" in dibs(tmp_path, "list", status=7)
    dibs(tmp_path, "init", "--no-agents-file")
    assert dibs(tmp_path, "list") == ""


@pytest.mark.parametrize(
    ("variables", "product"),
    [
        ({"CLAUDECODE": "1", "CLAUDE_SESSION_ID": "one"}, "claude"),
        ({"CODEX_SANDBOX": "seatbelt"}, "codex"),
        ({"CODEX_SANDBOX_NETWORK_DISABLED": "1"}, "codex"),
        ({"GEMINI_CLI": "1"}, "gemini"),
        ({"CURSOR_AGENT": "1"}, "cursor"),
        ({"OPENCODE": "1"}, "opencode"),
        ({"AI_AGENT": "devin@1.2"}, "devin"),
    ],
    ids=str,
)
def test_agent_in_a_worktree_is_named_after_product_and_worktree(
    main: Path, dibs: Callable[..., str], variables: dict[str, str], product: str
) -> None:
    dibs(main, "init", "--no-agents-file")
    git(main, "worktree", "add", "-q", "-b", "fix", "../fix it!")
    dibs(main, "add", "job")
    assert f"held by     {product}@fix-it," in dibs(main.parent / "fix it!", "claim", **variables)


def test_sessions_in_the_main_checkout_have_different_names(main: Path, dibs: Callable[..., str]) -> None:
    dibs(main, "init", "--no-agents-file")
    dibs(main, "add", "--id", "a", "a")
    dibs(main, "add", "--id", "b", "b")
    dibs(main, "add", "--id", "c", "c")
    dibs(main, "claim", CODEX_THREAD_ID="one")
    dibs(main, "claim", CODEX_THREAD_ID="two")
    dibs(main, "claim", CLAUDECODE="1", CLAUDE_CODE_SESSION_ID="one")
    names = [line.split()[4].rstrip(",") for line in dibs(main, "list").splitlines()[1:]]
    assert [name.partition("@")[0] for name in names] == ["codex", "codex", "claude"]
    assert len(set(names)) == len(names)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
def test_commands_of_a_session_share_a_name_unlike_other_sessions(main: Path, dibs: Callable[..., str]) -> None:
    """The session is the process that starts commands with CLAUDECODE set, here a shell without it."""
    dibs(main, "init", "--no-agents-file")
    for name in "abc":
        dibs(main, "add", "--id", name, name)
    one = f"export PATH; CLAUDECODE=1 {SCRIPT} claim; CLAUDECODE=1 sh -c '{SCRIPT} claim; true'"
    for script in (one, f"CLAUDECODE=1 {SCRIPT} claim; true"):
        subprocess.run(["sh", "-c", script], cwd=main, check=True, capture_output=True)
    names = [line.split()[4].rstrip(",") for line in dibs(main, "list").splitlines()[1:]]
    assert names[0] == names[1]
    assert names[0] != names[2]


def test_user_has_a_different_name_in_each_linked_worktree(main: Path, dibs: Callable[..., str]) -> None:
    dibs(main, "init", "--no-agents-file")
    for name in ("one", "two"):
        git(main, "worktree", "add", "-q", "-b", name, f"../{name}")
        dibs(main, "add", name)
    folders = [main.parent / "one", main.parent / "two", main]
    dibs(main, "add", "three")
    held = [dibs(folder, "claim", USER="ann").partition("held by")[2].split(",")[0].strip() for folder in folders]
    assert held == ["ann@one", "ann@two", "ann"]


def test_user_without_a_login_variable_has_a_name(main: Path, dibs: Callable[..., str]) -> None:
    dibs(main, "init", "--no-agents-file")
    dibs(main, "add", "job")
    assert "someone" not in dibs(main, "claim", USER="")
