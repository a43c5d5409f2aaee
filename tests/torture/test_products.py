"""Claude Code, Codex and Gemini CLI themselves, headless in git worktrees, against a model on this machine.

They come from npm, so this is a part of the torture: `npm install @anthropic-ai/claude-code @openai/codex
@google/gemini-cli` in a folder, and DIBS_TEST_AGENTS=FOLDER/node_modules/.bin.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.cli import SCRIPT
from support.fake_model import FakeModel, ToolCall

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

AGENTS = os.environ.get("DIBS_TEST_AGENTS", "")
pytestmark = pytest.mark.timeout(900)
every_product = pytest.mark.parametrize("product", ["claude", "codex", "gemini"])

_PATIENCE = 400.0
_SHELLS = ("Bash", "exec_command", "run_shell_command", "shell_command")
_FOREIGN = ("DIBS", "CLAUDE", "CODEX", "GEMINI", "ANTHROPIC", "OPENAI", "HTTP_PROXY", "HTTPS_PROXY", "http", "GOOGLE")


def named(tools: Sequence[str], *ends: str) -> str | None:
    return next((tool for tool in tools if tool.endswith(ends)), None)


def shell(tools: Sequence[str], line: str) -> ToolCall:
    name = named(tools, *_SHELLS)
    assert name is not None, tools
    return ToolCall(name, {"cmd": line} if name == "exec_command" else {"command": line, "description": "work"})


class Machine:
    """A home without settings, a repository with a desk and a linked worktree, and the product set up in both."""

    def __init__(self, folder: Path, product: str, model: FakeModel) -> None:
        self.main, self.worktree, home = folder / "main", folder / "wt", folder / "home"
        for each in (self.main, home, home / ".codex", home / ".gemini"):
            each.mkdir()
        self.product = product
        self.model = model
        self.environ = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN)} | {
            "HOME": str(home), "PATH": f"{SCRIPT.parent}:{AGENTS}:{os.environ['PATH']}", "NO_PROXY": "127.0.0.1",
            "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@b",
            "ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": "sk-ant-none", "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "GEMINI_API_KEY": "none", "IS_SANDBOX": "1",
            "GOOGLE_GEMINI_BASE_URL": model.url, "NONE_KEY": "none", "CODEX_HOME": str(home / ".codex"),
        }  # fmt: skip
        (home / ".claude.json").write_text(json.dumps({"hasCompletedOnboarding": True}))
        chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
        (home / ".gemini/settings.json").write_text(json.dumps(chosen))
        (home / ".gemini/trustedFolders.json").write_text(json.dumps({str(folder): "TRUST_FOLDER"}))
        (home / ".codex/config.toml").write_text(
            'model_provider = "none"\nmodel = "gpt-4.1"\n[model_providers.none]\nname = "none"\n'
            f'base_url = "{model.url}/v1"\nwire_api = "responses"\nenv_key = "NONE_KEY"\n'
            f'[projects."{self.worktree}"]\ntrust_level = "trusted"\n'
            f'[projects."{self.main}"]\ntrust_level = "trusted"\n'
        )
        self.run("git", "init", "-q", "-b", "main")
        self.run("dibs", "init")
        self.run("dibs", "setup", product, "--yes")
        self.run("git", "add", "--all")
        self.run("git", "commit", "-q", "-m", "Set up")
        self.run("dibs", "add", "Task a", "--id", "a")
        self.run("git", "worktree", "add", "-q", str(self.worktree))

    def run(self, *words: str, folder: Path | None = None, given: str = "") -> str:
        ran = subprocess.run(
            words, cwd=folder or self.main, env=self.environ, input=given, text=True, capture_output=True,
            timeout=_PATIENCE, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, (words, ran.stdout[-2000:], ran.stderr[-4000:])
        return ran.stdout

    def headless(self) -> None:
        words = {
            "claude": (
                "claude", "--print", "--permission-mode", "acceptEdits", "--mcp-config", ".mcp.json",
                "--allowedTools=Bash(git:*),Bash(dibs:*),mcp__dibs",
            ),
            "codex": ("codex", "exec", "--sandbox", "workspace-write", "--add-dir", str(self.main / ".dibs"), "-"),
            "gemini": (
                "gemini", "--skip-trust", "--approval-mode", "yolo", "--prompt", "Work through the tasks of dibs.",
            ),
        }[self.product]  # fmt: skip
        self.run(*words, folder=self.worktree, given="Work through the tasks of dibs.\n")

    def task(self) -> dict[str, object]:
        found: dict[str, object] = json.loads(self.run("dibs", "show", "a", "--json"))["data"]
        return found


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    models: list[FakeModel] = []

    def make(product: str, script: Callable[[Sequence[str], Sequence[str]], ToolCall | str]) -> Machine:
        models.append(FakeModel(script))
        return Machine(tmp_path, product, models[-1])

    yield make
    for model in models:
        model.close()


@every_product
def test_product_claims_and_finishes_by_commands(machine: Callable[..., Machine], product: str) -> None:
    # Codex's login shell sets another PATH, and Claude's permissions name the program as typed.
    dibs = str(SCRIPT) if product == "codex" else "dibs"

    def script(outputs: Sequence[str], tools: Sequence[str]) -> ToolCall | str:
        if not outputs:
            return shell(tools, f"{dibs} claim --json")
        token = re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}", outputs[0])
        if len(outputs) == 1 and token:
            return shell(tools, f"{dibs} done a --token {token[0]} --note made")
        return "All done."

    here = machine(product, script)
    here.headless()
    task = here.task()
    assert (task["status"], task["finished_by"]) == ("done", f"{product}@wt"), here.model.requests[-1]


@pytest.mark.parametrize("product", ["claude", "gemini"])  # Codex 0.169 did not offer the server's tools to this model
def test_product_claims_and_finishes_by_tools(machine: Callable[..., Machine], product: str) -> None:
    waited: list[bool] = []

    def script(outputs: Sequence[str], tools: Sequence[str]) -> ToolCall | str:
        claim, finish = named(tools, "claim"), named(tools, "finish")
        if claim is None and "WaitForMcpServers" in tools and not waited:
            waited.append(True)
            return ToolCall("WaitForMcpServers", {})
        done = len(outputs) - len(waited)
        if done == 0 and claim:
            return ToolCall(claim, {})
        if done == 1 and finish:
            return ToolCall(finish, {"result": "made"})
        return "All done."

    here = machine(product, script)
    here.headless()
    task = here.task()
    assert (task["status"], task.get("result")) == ("done", "made"), here.model.requests[-1]


@every_product
def test_worker_runs_the_product_in_a_worktree(machine: Callable[..., Machine], product: str) -> None:
    def script(outputs: Sequence[str], tools: Sequence[str]) -> ToolCall | str:
        if outputs:
            return "Made."
        write = named(tools, "Write", "write_file")
        if write is None:
            return shell(tools, "echo made > made.txt")
        return ToolCall(write, {"file_path": f"{here.main}/.dibs/worktrees/a/made.txt", "content": "made\n"})

    here = machine(product, script)
    said = here.run("dibs", "work", "--with", product, "--worktree", "--merge", "ff", "--once", "--lease", "1h")
    task = here.task()
    assert (task["status"], task["result"]) == ("done", "Made."), said
    assert (here.main / "made.txt").read_text() == "made\n"
    assert "Made." in here.run("dibs", "logs", "a")
