"""Texts for agents: how to work with dibs, and a task as a worker's command reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dibs.core.task import Claimed, Input, Json, Task


RULES = """\
Work comes from dibs, a desk that several agents share: one task, one holder.

- Claim a task before you work on it, and work on nothing that you have not claimed.
- A claim is a lease: renew it before half of it is over. Its token is your proof; keep it to yourself.
- LOST_LOCK: the task is another's by now. Stop, write nothing more of it, and claim anew.
- Finish with what came out and where it is; whoever waits for your task reads that.
- You need help: block the task, and say who has to do what. A person has to judge it: review.
- Further work: add it, with what it waits for, instead of doing it on the side.
- NOTHING_READY: wait, or stop. What others hold is never yours to take.
"""

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

INSTRUCTIONS = f"{RULES}\n{COMMANDS}"


_HOW_IT_ENDS = """\
## When you are finished

What you print is the result: one JSON object on the last line, or plain text. It is handed to the tasks that wait for
this one. Should you fail, say why, and end with an exit status other than 0."""


def prompt(claimed: Claimed, failures: Sequence[str] = ()) -> str:
    """`failures` is how earlier attempts ended, the latest last."""
    parts = (*_task_lines(claimed.task), *_input_lines(claimed.inputs), *_failure_lines(failures), _HOW_IT_ENDS)
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
