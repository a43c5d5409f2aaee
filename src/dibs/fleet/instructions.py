"""Texts for agents: how to work with dibs, and a task as a worker's command reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dibs.core.task import Claimed, Input, Json, Task


_RULES = """\
Work comes from dibs, a desk that several agents share: one task, one holder.

- Claim a task before you work on it, and work only on tasks that you have claimed.
- {lease}
- LOST_LOCK: another agent has the task now. Stop, write nothing more for it, and claim another.
- Finish with the result and where it is; the agents of dependent tasks read it.
- If you need help, block the task and say who has to do what. If a person has to judge the result, use review.
- Add further work as tasks with their prerequisites, instead of doing it on the side.
- NOTHING_READY: wait, or stop. Never take a task that another agent holds.
"""

_BY_COMMANDS = "A claim is a lease: renew it before half of it is over. Its token is your proof; keep it to yourself."
_BY_TOOLS = "A claim is a lease. The tools renew it while your session lives."
_EITHER_WAY = (
    "A claim is a lease. The tools of dibs renew it; with commands, renew it before half of it is over. "
    "Its token is your proof; keep it to yourself."
)

COMMANDS = """\
    dibs claim
    dibs renew ID --token T
    dibs done ID --token T --note "…" --next
    dibs fail ID --token T --reason "…"
    dibs block ID --token T --reason "…" --action "…"
    dibs review ID --token T --note "…"
    dibs add "…" --blocked-by ID

DIBS_AGENT is your name. Exit status 4: not now; 5: LOST_LOCK. Never use --force.
"""

TOOLS = """\
Use the tools of dibs, not its commands: `what_next` lists tasks, `claim` claims one, `finish` with next=true
finishes it and claims the next. `news` in an answer lists tasks that you lost. Each error says what to do next.
"""


def briefing(*, tools: bool | None) -> str:
    """How to work here, for an agent that has the tools of `dibs mcp`, for one that has not, or for either (None)."""
    if tools is None:
        return f"{_RULES.format(lease=_EITHER_WAY)}\nIf you have the tools of dibs, use them. Else:\n\n{COMMANDS}"
    if tools:
        return f"{_RULES.format(lease=_BY_TOOLS)}\n{TOOLS}"
    return f"{_RULES.format(lease=_BY_COMMANDS)}\n{COMMANDS}"


_HOW_IT_ENDS = """\
## When you are finished

The task is claimed for you, and its lease is renewed while you work: claim no other task, and renew nothing. Your
output is the result: one JSON object on the last line, or plain text. Dependent tasks get it. If you fail, print the
reason and exit with a status other than 0."""


_ON_A_BRANCH = """\
## Where you work

This folder is a git worktree made for this task, on the branch `{branch}`. Stay in it and on that branch, and commit
your work there before you end: uncommitted changes are not merged. Earlier attempts may have left commits and changed
files; continue from them."""


def prompt(claimed: Claimed, failures: Sequence[str] = (), branch: str | None = None) -> str:
    """`failures` is how earlier attempts ended, the latest last; `branch` that of the task's own worktree."""
    place = () if branch is None else (_ON_A_BRANCH.format(branch=branch),)
    task, inputs = _task_lines(claimed.task), _input_lines(claimed.inputs)
    parts = (*task, *inputs, *_failure_lines(failures), *place, _HOW_IT_ENDS)
    return "\n\n".join(parts) + "\n"


def _task_lines(task: Task) -> Iterator[str]:
    yield f"# {task.title}"
    about = {
        "Task": task.id,
        "Category": task.category,
        "Deliverable": task.deliverable,
        "Specification": task.spec_ref,
    }
    yield "\n".join(f"- {name}: {value}" for name, value in about.items() if value)
    if task.description.strip():
        yield task.description.strip()
    if task.steps:
        yield "## Steps\n\n" + "\n".join(f"{number}. {step}" for number, step in enumerate(task.steps, start=1))


def _input_lines(inputs: Iterable[Input]) -> Iterator[str]:
    left = [one for one in inputs if one.result is not None or one.artifacts]
    if not left:
        return
    yield "## What was done before"
    for one in left:
        yield f"### {one.title} ({one.id})"
        if one.result is not None:
            yield _result_text(one.result)
        if one.artifacts:
            yield "\n".join(f"- {artifact}" for artifact in one.artifacts)


def _result_text(result: Json) -> str:
    if isinstance(result, str):
        return result.strip()
    return f"```json\n{json.dumps(result, ensure_ascii=False, indent=2)}\n```"


def _failure_lines(failures: Sequence[str]) -> Iterator[str]:
    if failures:
        yield "## Earlier attempts failed\n\n" + "\n".join(f"- {' '.join(why.split())}" for why in failures)


class Recipe(NamedTuple):
    """A product's headless command. It reads the prompt on stdin, and its answer is the result.

    `writable` is the option that makes another folder writable, such as git's; `last` follows all options.
    """

    words: tuple[str, ...]
    writable: str | None = None
    last: tuple[str, ...] = ()

    def command(self, more: Sequence[str], folders: Sequence[str]) -> tuple[str, ...]:
        opened = [word for folder in folders if self.writable for word in (self.writable, folder)]
        return (*self.words, *opened, *more, *self.last)


# Checked with Claude Code 2.1, Codex 0.169 and Gemini CLI 0.61.
RECIPES = {
    "claude": Recipe(
        (
            "claude", "--print", "--permission-mode", "acceptEdits",
            "--allowedTools=Bash(git:*),Bash(dibs:*),mcp__dibs",
        ),
    ),
    "codex": Recipe(("codex", "exec", "--sandbox", "workspace-write"), "--add-dir", ("-",)),
    "gemini": Recipe(
        (
            "gemini", "--skip-trust", "--approval-mode", "auto_edit",
            "--allowed-tools=run_shell_command(git),run_shell_command(dibs)",
        ),
        last=("--prompt", "Do the task that is described above."),
    ),
}  # fmt: skip
