"""Mistyped or misplaced input is never repeated if it may be a secret, and files of dibs are private."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any

import pytest

from dibs.cli.commands.completion import catalogues
from dibs.cli.main import main as dibs
from dibs.core.errors import InvalidInput, Misconfigured
from dibs.core.messages import without_password
from dibs.core.task import Draft
from dibs.desk import open_desk
from dibs.protocols.ntask.main import main as ntask
from dibs.protocols.ralph.main import main as ralph

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "s3cret-0f-mine"  # noqa: S105 - to be searched for in the output
SCRIPTS: dict[str, Any] = {"dibs": dibs, "ralph": ralph, "ntask": ntask}
ENTRIES = [entry.words for catalogue in catalogues() for entry in catalogue.entries]
MISTYPED = [("--nonc", SECRET), (f"--tokn={SECRET}",), (f"--token{SECRET}",), ("--tokn", SECRET, "--json")]


@pytest.mark.parametrize("words", ENTRIES, ids=" ".join)
def test_value_of_a_mistyped_option_is_not_repeated(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    for wrong in MISTYPED:
        assert SCRIPTS[words[0]]([*words[1:], "T1", *wrong]) != 0
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err, said
        assert "option" in said.out + said.err or "separate words" in said.out + said.err, said


@pytest.mark.parametrize(
    "words",
    [
        ("--tokn", SECRET, "done", "T1"),
        (f"--tokn={SECRET}", "done"),
        (f"--tokn={SECRET}",),
        ("mesh", f"--nonce={SECRET}", "complete", "T1"),
        ("--nonce", SECRET, "mesh", "complete", "T1"),
        ("done", "T1", "T2", SECRET),
        ("finsh", "T1", "--nonc", SECRET),
        ("finsh", "T1", f"--tokn={SECRET}", "--json"),
        ("finsh", "T1", f"--token{SECRET}"),
        ("finsh", "T1", f"-t{SECRET}"),
        ("finsh", "T1", "--token", SECRET),
        ("token", "new", "--tokn", SECRET),
    ],
    ids=" ".join,
)
def test_misplaced_secret_is_not_repeated(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert dibs([*words]) == InvalidInput.exit_status
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err, said


def test_mistyped_option_names_the_one_that_was_meant(capsys: pytest.CaptureFixture[str]) -> None:
    dibs(["done", "T1", "--tokn", SECRET])
    assert "'--token'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://ann:p@{SECRET}@127.0.0.1:1/desk",
        f"postgresql://ann:{SECRET}@x@127.0.0.1:1/desk",
        f"postgresql://ann:p/{SECRET}@127.0.0.1:1/desk",
        f"postgresql://ann:{SECRET}?@127.0.0.1:1/desk",
        f"postgresql://ann:{SECRET}@127.0.0.1:1/desk?timeout=1",
        f"postgresql:ann:{SECRET}@127.0.0.1/desk",
        f"postgres//ann:{SECRET}@127.0.0.1/desk",
        f"neo4j://ann:p@{SECRET}@127.0.0.1:1?timeout=1",
        f"neo4j://ann:{SECRET}/x@127.0.0.1:1",
        f"bolt:/ann:{SECRET}@127.0.0.1",
        f"{SECRET}@host://x",
    ],
)
def test_password_of_a_store_url_is_not_repeated(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["list"], ["init", "--no-agents-file"], ["doctor", "--json"]):
        assert dibs([*words, "--store", url]) != 0
        said = capsys.readouterr()
        assert SECRET not in said.out + said.err, said


def test_password_in_notions_address_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTION_TOKEN", "ntn_1")
    for address in (f"http://ann:{SECRET}@127.0.0.1:1", f"http://ann:p@{SECRET}@127.0.0.1:1/v1"):
        monkeypatch.setenv("NOTION_API_BASE_URL", address)
        with pytest.raises(Misconfigured) as refused:
            open_desk(f"notion://{'0' * 32}").counts()
        assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:p@h/d", "postgresql://u@h/d"),
        ("postgresql://u:p@q@h/d", "postgresql://u@h/d"),
        ("postgresql://h:5432/d", "postgresql://h:5432/d"),
        ("postgresql://u@h/d", "postgresql://u@h/d"),
    ],
)
def test_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.fixture
def _open_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def _modes(root: Path) -> dict[str, int]:
    found = [root, *root.rglob("*")]
    return {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in found}


@pytest.mark.usefixtures("_open_umask")
def test_store_files_and_folders_are_private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DIBS_STORE", raising=False)
    assert dibs(["init", "--no-agents-file"]) == 0
    home = tmp_path / ".dibs"
    with open_desk(f"sqlite:///{home}/dibs.db") as desk:
        desk.add([Draft("one")])
        modes = _modes(home)
    assert modes.pop(".") == 0o700
    assert {"dibs.db", "dibs.db-wal", "dibs.db-shm", "dibs.db-lock"} <= modes.keys()
    assert {name: mode for name, mode in modes.items() if mode & 0o077 and name != ".gitignore"} == {}


@pytest.mark.usefixtures("_open_umask")
def test_own_files_of_a_vault_are_private(tmp_path: Path) -> None:
    with open_desk(f"vault:///{tmp_path}/vault", create=True) as desk:
        (task,) = desk.add([Draft("one")])
        desk.claim("ann", refs=[task.id])
        home = tmp_path / "vault" / ".dibs"
        modes = _modes(home)
    assert modes.pop(".") == 0o700, "all that is in it is out of reach"
