"""Every printed command can be pasted into a shell, with any names of tasks, agents and scopes."""

from __future__ import annotations

import io
import os
import re
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, TypeAlias

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from dibs.cli.main import main as dibs
from dibs.core.checks import derived_identifier, new_identifier
from dibs.core.errors import InvalidInput
from dibs.core.messages import command
from dibs.core.task import Actor, Draft, Link
from dibs.desk import open_desk
from dibs.onboarding.demo.director import typed
from dibs.protocols.ralph.main import main as ralph
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

Place: TypeAlias = "Callable[[str, str], str]"

SENDER = "0" * 64
_SHELL = "ab;$(){}'\"`\\|&<>#!~*?[]=^%,:@+é语"  # characters with a meaning for a shell, and others
HOSTILE = st.text(st.sampled_from(_SHELL), min_size=1, max_size=24).filter(lambda name: "/" not in name)
_SUGGESTED = re.compile(r"(?:dibs|ralph|ntask) [a-z][^\n]*|export [A-Z_]+=[^\n]*")
_RECORDER = '#!/bin/bash\n{ printf "%s\\0" "${0##*/}" "$@"; printf "\\n"; } >> "$CALLS"\n'


class Shell:
    """An empty folder, and a PATH on which dibs, ralph and ntask log their arguments."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._programs, self._calls = folder / "empty", folder / "bin", folder / "calls"
        self._folder.mkdir()
        self._programs.mkdir()
        for name in ("dibs", "ralph", "ntask"):
            program = self._programs / name
            program.write_text(_RECORDER)
            program.chmod(0o755)

    def run(self, lines: list[str]) -> list[list[str]]:
        """Run each line as pasted into a shell; it may only call our programs."""
        self._calls.unlink(missing_ok=True)
        path = f"{self._programs}:{os.environ['PATH']}"
        environment = {"PATH": path, "HOME": str(self._folder), "CALLS": str(self._calls), "LC_ALL": "C.UTF-8"}
        for line in lines:
            subprocess.run(
                ["bash", "-c", line], cwd=self._folder, env=environment, capture_output=True, timeout=600, check=False
            )
        assert not os.listdir(self._folder), f"{lines} wrote {os.listdir(self._folder)}"
        if not self._calls.exists():
            return []
        return [call.rstrip("\0").split("\0") for call in self._calls.read_text().splitlines()]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DIBS_STORE", "DIBS_SCOPE", "DIBS_TOKEN", "DIBS_TASK_ID", "DIBS_RUN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DIBS_AGENT", "ann")


def _said(call: Callable[[list[str]], int], *words: str) -> str:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        call([*words])
    return out.getvalue() + err.getvalue()


def _suggested(text: str) -> list[str]:
    """The commands in a text: to the end of the line, or to the closing quote if a message quotes them."""
    found = _SUGGESTED.findall(text)
    return found + [line.rpartition("'")[0] for line in found if "'" in line]


def _store(folder: str, name: str, scope: str) -> str:
    """A store with a task of this id, as an import or an older dibs left it, and a dependent of it."""
    url = f"sqlite:///{folder}/dibs.db"
    with open_store(url, create=True) as store:
        tasks = [Draft("one", id=name, priority=1), Draft("two", id=f"{name}w", priority=2)]
        store.add(scope, tasks, [Link(f"{name}w", name)], Actor("ann"))
    return url


def _of_dibs(folder: str, name: str) -> str:
    url = _store(folder, name, "default")
    waiting = _said(dibs, "claim", f"{name}w", "--store", url)
    text = waiting + _said(dibs, "claim", name, "--store", url)
    return text + _said(dibs, "prime", "--store", url, "--agent", name)


def _of_dibs_in_a_scope(folder: str, name: str) -> str:
    return _said(dibs, "claim", name, "--store", _store(folder, name, "s;touch scope"), "--scope", "s;touch scope")


def _of_an_unknown_agent(folder: str, name: str) -> str:
    return _said(dibs, "agent", "show", "--store", _store(folder, "a", "default"), "--", name)


def _of_mesh(folder: str, name: str) -> str:
    store = ("--store", _store(folder, name, "default"))
    text = _said(dibs, "mesh", "claim", name, "--agent", "Oracle", *store)
    nonce = re.search(r"MESH_NONCE=(\S+)", text)
    assert nonce is not None, text
    return text + _said(dibs, "mesh", "complete", name, "--agent", "ann", "--nonce", nonce[1], *store)


def _of_kurultai(folder: str, name: str) -> str:
    url = f"sqlite:///{folder}/dibs.db"
    with open_store(url, create=True) as store:
        store.add(SENDER, [Draft("one", id=name, deliverable="code")], [], Actor("ann"))
    return _said(dibs, "kurultai", "claim", name, "--store", url, "--sender-hash", SENDER, "--agent", "developer")


def _of_ralph(folder: str, name: str) -> str:
    os.environ["RALPH_DB_URL"] = _store(folder, name, "default")
    try:
        text = _said(ralph, "task", "claim", f"{name}w", "--agent", "ann")
        return text + _said(ralph, "task", "unblock", name, "--by", f"{name}w")
    finally:
        del os.environ["RALPH_DB_URL"]


def _of_vault(folder: str, name: str) -> str:
    assume("\\" not in name)  # a vault refuses such a file name
    vault = Path(folder) / "vault;touch vault"
    _said(dibs, "vault", "init", str(vault))
    (vault / "Needs_Action" / f"{name}.md").write_text("# One\n")
    return _said(dibs, "vault", "claim", f"{name}.md", "--vault", str(vault), "--agent", "ann")


def _of_the_demo(_folder: str, name: str) -> str:
    return typed(command("dibs", "approve", name))


PLACES = [
    _of_dibs,
    _of_dibs_in_a_scope,
    _of_an_unknown_agent,
    _of_mesh,
    _of_kurultai,
    _of_ralph,
    _of_vault,
    _of_the_demo,
]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=HOSTILE)
@example(name="a;touch${IFS}PWN;#")
@example(name="a'$(touch${IFS}PWN)'")
@example(name="$(touch$IFS''PWN)`touch$IFS''PWN`")
@example(name="a'>PWN'")
@example(name="a\\';touch${IFS}PWN;\\'")
def test_suggested_command_runs_dibs_and_nothing_else(
    place: Callable[[str, str], str], shell: Shell, name: str
) -> None:
    with TemporaryDirectory() as folder:
        lines = _suggested(place(folder, name))
    assert lines, "the place suggests no command; this test has nothing to look at"
    calls = shell.run(lines)
    words = {word for call in calls for word in call}
    assert {name, f"{name}w", f"{name}.md", name[:8]} & words, (lines, calls)


@pytest.mark.parametrize("name", ["parser", "a.b_c-1", "größe", "任务-1", "हिन्दी", "1"])
def test_new_id_takes_letters_and_digits_of_any_script(name: str) -> None:
    assert new_identifier(name) == name


@given(name=HOSTILE)
def test_new_id_refuses_characters_with_a_meaning_for_a_shell(name: str) -> None:
    try:
        taken = new_identifier(name)
    except InvalidInput:
        return
    assert command(taken) == taken


@given(name=HOSTILE)
def test_derived_id_is_one_a_new_task_may_have(name: str) -> None:
    assert new_identifier(derived_identifier("draft", name, "1"))


def test_new_task_with_a_hostile_id_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/dibs.db"
    _said(dibs, "init", "--store", url)
    assert "letters and digits" in _said(dibs, "add", "x", "--id", "a;b", "--store", url)
    plan = tmp_path / "plan.jsonl"
    plan.write_text('{"id": "a;b", "title": "x"}\n')
    assert "line 1" in _said(dibs, "plan", str(plan), "--store", url)
    with open_desk(url) as desk:
        assert desk.counts().claimable == 0


def test_plan_keeps_a_task_whose_id_is_of_an_older_kind(tmp_path: Path) -> None:
    url = _store(str(tmp_path), "a;b", "default")
    plan = tmp_path / "plan.jsonl"
    plan.write_text('{"id": "a;b", "title": "renamed"}\n')
    _said(dibs, "plan", str(plan), "--store", url)
    with open_desk(url) as desk:
        assert desk.get("a;b").title == "renamed"
