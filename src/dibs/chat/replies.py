"""What is answered to a command."""

from collections.abc import Sequence
from typing import NamedTuple

from dibs.chat.analyst.analysis import Known
from dibs.chat.conversation.plan import listed
from dibs.chat.steering.changes import Change
from dibs.core.task import Task


class Reply(NamedTuple):
    """`understood` is false where nothing could be done and it has to be said differently; `choices` are what to."""

    text: str
    changes: tuple[Change, ...] = ()
    choices: tuple[Known, ...] = ()
    understood: bool = True


def which(phrase: str, fitting: Sequence[Known], there: Sequence[Task]) -> Reply:
    """Ask what was meant."""
    if fitting:
        ask = f"Which one do you mean by '{phrase}'? Say its name in full, or its id:"
        return Reply(listed(ask, (_named(task) for task in fitting)), choices=tuple(fitting), understood=False)
    if not there:
        return Reply(f"No open task fits '{phrase}': there is nothing to do at the moment.", understood=False)
    ask = f"No open task fits '{phrase}'. There are:"
    return Reply(listed(ask, (f"{task.title} ({task.id})" for task in there)), understood=False)


def _named(task: Known) -> str:
    return f"{task.title} ({task.id})"
