"""`dibs kurultai` as its users type it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.cli.main import main
from protocols.ran import Ran

if TYPE_CHECKING:
    import pytest


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
