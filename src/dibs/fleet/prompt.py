"""A task as its worker reads it: Markdown, with what earlier tasks have left for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dibs.core.task import Claimed, Input, Json, Task

_HOW_IT_ENDS = """\
## When you are finished

What you print is the result: one JSON object on the last line, or plain text. It is handed to the tasks that wait for
this one. Should you fail, say why, and end with an exit status other than 0."""


def prompt(claimed: Claimed, failures: Sequence[str] = ()) -> str:
    """`failures` is how earlier attempts ended, the latest last."""
    parts = (*_task(claimed.task), *_before(claimed.inputs), *_failed(failures), _HOW_IT_ENDS)
    return "\n\n".join(parts) + "\n"


def _task(task: Task) -> Iterator[str]:
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


def _before(inputs: Iterable[Input]) -> Iterator[str]:
    left = [one for one in inputs if one.result is not None or one.artifacts]
    if not left:
        return
    yield "## What was done before"
    for one in left:
        yield f"### {one.title} ({one.id})"
        if one.result is not None:
            yield _shown(one.result)
        if one.artifacts:
            yield "\n".join(f"- {artifact}" for artifact in one.artifacts)


def _shown(result: Json) -> str:
    if isinstance(result, str):
        return result.strip()
    return f"```json\n{json.dumps(result, ensure_ascii=False, indent=2)}\n```"


def _failed(failures: Sequence[str]) -> Iterator[str]:
    if failures:
        yield "## Earlier attempts failed\n\n" + "\n".join(f"- {' '.join(why.split())}" for why in failures)
