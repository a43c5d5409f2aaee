"""`dibs kurultai` as its users type it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.cli.main import main
from protocols.ran import Ran

if TYPE_CHECKING:
    import pytest

    from dibs.protocols.kurultai.memory import OperationalMemory
    from dibs.protocols.kurultai.records import Change, TaskRecord


class Kurultai:
    """One command after the other, in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def run(self, *words: str) -> Ran:
        self._capsys.readouterr()
        status = main(["kurultai", *words])
        return Ran(status, *self._capsys.readouterr())

    def data(self, *words: str) -> Any:
        ran = self.run(*words, "--json")
        assert ran.status == 0, ran
        return ran.data

    def code(self, *words: str) -> str:
        """The code of the error that a command ends with."""
        ran = self.run(*words, "--json")
        assert ran.status != 0, ran
        assert ran.err == ""
        return str(ran.error["code"])


ANN = "a" * 64
BOB = "b" * 64


def create(memory: OperationalMemory, *ids: str, sender: str = ANN, **said: Any) -> None:
    """Create tasks for any agent, in this order."""
    for each in ids:
        memory.create_task(f"Do {each}", sender_hash=sender, task_id=each, **{"assigned_to": "any"} | said)


def hold(memory: OperationalMemory, task: str, agent: str = "developer", sender: str = ANN) -> str:
    """Claim a task by id and return the proof."""
    return memory.claim_task(agent, sender_hash=sender, task_id=task).claim_attempt_id


def complete(memory: OperationalMemory, task: str, result: str | None = None, sender: str = ANN) -> Change:
    return memory.complete_task(task, hold(memory, task, sender=sender), result, sender_hash=sender)


def ready(memory: OperationalMemory, sender: str = ANN, **more: Any) -> list[str]:
    return [task["id"] for task in memory.get_ready_tasks(sender, **more)]


def show(memory: OperationalMemory, task: str, sender: str = ANN) -> TaskRecord:
    return memory.get_task(task, sender_hash=sender)


def depend(memory: OperationalMemory, task: str, on: str, kind: str = "blocks", sender: str = ANN) -> bool:
    return memory.add_dependency(task, on, kind, sender_hash=sender)
