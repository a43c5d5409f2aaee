"""What notes say. Titles and results are quoted as they are; whoever prints them makes them safe to look at."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from dibs.chat.conversation.plan import about, plan_of
from dibs.chat.groups import Group, Groups, Mode
from dibs.chat.replies import listed
from dibs.core.duration import in_words
from dibs.core.task import Json, Status, Task

_CANCELED = " (canceled)"
_NAMED = 8  # tasks in a sentence
_MOST = 500_000  # characters of results in one answer


class Batch(NamedTuple):
    """What came of messages that were read together, with what else is to be said. `tasks` are all of the sender's."""

    made: tuple[Task, ...]
    merged: tuple[Task, ...]
    besides: tuple[str, ...]
    groups: Groups
    tasks: Mapping[str, Task]
    each: timedelta


class Answer(NamedTuple):
    """A group that has ended. `fresh` are those of its tasks that were in no answer before; others are `going_on`."""

    group: Group
    fresh: frozenset[str]
    going_on: tuple[Task, ...] = ()


# What was made of messages


def batch_text(batch: Batch) -> str:
    """Nothing where there is nothing to say: small talk, or work that has ended meanwhile."""
    open_ones = [task for task in batch.made if not task.finished]
    parts = [_working(batch, open_ones)] if open_ones else []
    parts += [_merged(task, batch.tasks) for task in batch.merged]
    return "\n\n".join([*parts, *batch.besides])


def _working(batch: Batch, open_ones: Sequence[Task]) -> str:
    if len(open_ones) == 1:
        return f"Working on '{open_ones[0].title}'. Result in {about(batch.each)}."
    group = batch.groups.of[open_ones[0].id]
    related = " related" if all(batch.groups.of[task.id] is group for task in open_ones) else ""
    plan = plan_of(batch.groups.open_graph(open_ones))
    lines = [f"Working on {len(open_ones)}{related} tasks. First result in {about(batch.each)}."]
    for item in plan.order:
        needs = [wait.on.title for wait in item.waits]
        lines.append(f"  - {item.task.title}" + (f" (pending: needs {', '.join(needs)})" if needs else ""))
    whole = batch.each * len(plan.path)
    return "\n".join([*lines, f"Estimated: everything in {about(whole)}."]) if len(plan.path) > 1 else "\n".join(lines)


def _merged(task: Task, tasks: Mapping[str, Task]) -> str:
    other = tasks.get(task.merged_into or "")
    if other and other.title == task.title:
        return f"'{task.title}' was asked for more than once, and is done once."
    return f"'{task.title}' says the same as '{other.title if other else task.merged_into}', so it is done once."


def question_text(question: Mapping[str, Json], tasks: Mapping[str, Task]) -> str:
    """With what can be said in answer, by the names that the tasks have got."""
    ends, asked = question.get("about"), str(question.get("text", ""))
    ids = map(str, ends) if isinstance(ends, list | tuple) else ()
    match question.get("kind"), [tasks[each].title if each in tasks else each for each in ids]:
        case "duplicate", [one, _]:
            return f'{asked} If so, say "Cancel {one}".'
        case "which", [one, other, *_]:
            return f"For '{one}': {asked} Say \"Do {one} after {other}\", or after the one you mean."
        case "conflict", [one, other]:
            return (
                f"'{one}' should wait for '{other}', which waits for it already; so '{one}' still comes first. "
                f'If that is wrong, say "{one} and {other} are independent", and then "Do {other} before {one}".'
            )
    return asked


def later_text(messages: Sequence[Task], until: datetime, now: datetime) -> str:
    what = "1 message waits" if len(messages) == 1 else f"{len(messages)} messages wait"
    head = f"{what} to be read for another {in_words(until - now)}: {messages[0].reason}"
    return listed(head, (message.title for message in messages))


def aside_text(message: Task) -> str:
    return f"'{message.title}' was not read: {message.reason or 'it could not be'}."


# What became of tasks


def failed_text(task: Task) -> str:
    why = f": {task.reason}" if task.reason else ""
    return f"An attempt at '{task.title}' failed{why}. It is tried again."


_PREREQUISITE = re.compile(r"^prerequisite (\S+) was canceled$")  # as the desk says it, by the id


def _by_title(found: re.Match[str], tasks: Mapping[str, Task]) -> str:
    other = tasks.get(found[1])
    return found[0] if other is None else f"it waits for '{other.title}', which was canceled"


_STUCK = {Status.ESCALATED: "needs you", Status.BLOCKED: "is blocked", Status.REVIEW: "is ready to be reviewed"}


def trouble_text(stuck: Sequence[tuple[Task, Sequence[Task]]], tasks: Mapping[str, Task]) -> str:
    return "\n\n".join(_stuck(task, waiting, tasks) for task, waiting in stuck)


def _stuck(task: Task, waiting: Sequence[Task], tasks: Mapping[str, Task]) -> str:
    why = f": {_PREREQUISITE.sub(lambda found: _by_title(found, tasks), task.reason)}" if task.reason else ""
    wanted = f" To go on: {task.unblock_action}." if task.unblock_action else ""
    held_up = f" Waiting for it: {_titles(waiting)}." if waiting else ""
    return f"'{task.title}' {_STUCK[task.status]}{why}.{wanted}{held_up}"


def progress_text(group: Group, over: Sequence[int]) -> str:
    """Which phases have ended, and what comes next. Results wait for the whole."""
    total = len(group.phases)
    lines = [f"Phase {number + 1} of {total} is complete: {_ended(group.phases[number])}." for number in over]
    rest = [task for task in group.tasks if not task.finished]
    return "\n".join([*lines, f"Still to come: {_titles(rest)}."])


def answer_text(answer: Answer) -> str:
    group = answer.group
    room = _MOST // max(1, len(answer.fresh))
    if len(group.tasks) == 1:
        (task,) = group.tasks
        said = ["\n".join(filter(None, (f"{_HOW[task.status]}: {task.title}", _indented(_result(task, room)))))]
    else:
        ends = [task.status for task in group.tasks]
        dropped = f", {ends.count(Status.CANCELED)} of them canceled" if Status.CANCELED in ends else ""
        said = [f"Your {len(ends)} related tasks are complete{dropped}."]
        said += [_phase(number, phase, answer.fresh, room) for number, phase in enumerate(group.phases, 1)]
    if answer.going_on and group.mode is not Mode.UNIFIED:
        said.append(f"Still in progress: {_titles(answer.going_on)}.")
    return "\n\n".join(part for part in said if part)


_HOW = {Status.DONE: "Task complete", Status.CANCELED: "Canceled"}


def _phase(number: int, phase: Sequence[Task], fresh: frozenset[str], room: int) -> str:
    kinds = dict.fromkeys(task.deliverable for task in phase if task.deliverable)
    people = dict.fromkeys(task.finished_by for task in phase if task.finished_by)
    inside = " - ".join(part for part in (", ".join(kinds), " & ".join(people)) if part)
    lines = [f"PHASE {number} ({inside})" if inside else f"PHASE {number}"]
    for task in phase:
        before = "" if task.id in fresh else " (you have had this)"
        lines.append(f"• {_ended([task])}{before}")
        lines += [_indented(_result(task, room))] if task.id in fresh else []
    return "\n".join(line for line in lines if line)


def _result(task: Task, room: int) -> str:
    if task.status is Status.CANCELED:
        return task.reason or ""
    parts = [] if task.result is None else [result_text(task.result)]
    parts += [f"Files: {', '.join(task.artifacts)}"] if task.artifacts else []
    text = "\n".join(parts) or "(no result was left)"
    return text if len(text) <= room else f"{text[:room]}… ({len(text) - room} more characters)"


def result_text(result: Json) -> str:
    """As a person reads it: text as it is, an object line by line."""
    import json

    if isinstance(result, str):
        return result
    if isinstance(result, Mapping):
        return "\n".join(
            f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
            for name, value in result.items()
        )
    return json.dumps(result, ensure_ascii=False)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" if line else "" for line in text.splitlines())


def _ended(tasks: Iterable[Task]) -> str:
    return ", ".join(f"{task.title}{_CANCELED if task.status is Status.CANCELED else ''}" for task in tasks)


def _titles(tasks: Iterable[Task]) -> str:
    every = [task.title for task in tasks]
    more = f" and {len(every) - _NAMED} more" if len(every) > _NAMED else ""
    return ", ".join(every[:_NAMED]) + more
