"""Which open task a command means: one, none, or several to choose from. Never a guess."""

from typing import TYPE_CHECKING, NamedTuple

from dibs.chat.analyst.analysis import Known
from dibs.chat.analyst.open_tasks import NEIGHBOURS, OpenTasks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.chat.analyst.embedders import Embedder


class Found(NamedTuple):
    """No task: nothing fits. One: that is it. More: ask which."""

    tasks: tuple[Known, ...]

    @property
    def one(self) -> Known | None:
        return self.tasks[0] if len(self.tasks) == 1 else None


_ALL_WORDS = 1.0
_SOME_WORDS = 0.5
_MEANING = 0.45  # the cosine from which a task can be meant though none of its words were said
_CLEAR = 0.12  # how much closer the closest has to be than the next, to be meant alone


def find(phrase: str, tasks: "Sequence[Known]", embedder: "Embedder") -> Found:
    return find_in(phrase, OpenTasks(tasks, embedder))


def find_in(phrase: str, tasks: OpenTasks) -> Found:
    """An id is that task. Words decide before meaning, and the more of them the better."""
    for task in tasks.tasks:
        if phrase in (task.id, task.title) or phrase.lower() == task.title.lower():
            return Found((task,))
    by_words = tasks.covering(phrase, _SOME_WORDS)
    if by_words:
        fullest = [task for task, share in by_words if share == by_words[0][1]]
        return _clearest(phrase, fullest, tasks, sure=by_words[0][1] == _ALL_WORDS)
    return _by_meaning(phrase, tasks)


def _clearest(phrase: str, fitting: list[Known], tasks: OpenTasks, *, sure: bool) -> Found:
    if len(fitting) == 1:
        return Found(tuple(fitting)) if sure or _agrees(phrase, fitting[0], tasks) else Found(())
    return Found(tuple(fitting[:NEIGHBOURS]))


def _agrees(phrase: str, task: Known, tasks: OpenTasks) -> bool:
    """Where only some of the words fit, the meaning has to agree."""
    vector = tasks.embedder.embed([phrase])[0]
    return any(near.id == task.id for near, _ in tasks.near(vector, _MEANING))


def _by_meaning(phrase: str, tasks: OpenTasks) -> Found:
    near = tasks.near(tasks.embedder.embed([phrase])[0], _MEANING)
    rivals = [task for task, angle in near if angle > near[0][1] - _CLEAR]
    return Found(tuple(rivals))
