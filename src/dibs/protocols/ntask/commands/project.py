"""doctor, prime, version: whether all is in place, and how to work with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs import __version__
from dibs.console.commands import Command
from dibs.protocols.ntask.answers import answer
from dibs.protocols.ntask.failures import Failure

if TYPE_CHECKING:
    import argparse


def doctor(_args: argparse.Namespace) -> int:
    from dibs.protocols.ntask.doctoring import examined

    report = examined()
    if report.failure is None:
        return answer({"checks": report.as_json()})
    raise Failure(report.failure.code, report.failure.message, {"checks": report.as_json()})


def prime(_args: argparse.Namespace) -> int:
    """Markdown, not JSON: it is meant to be appended to an agent's instructions."""
    from dibs.protocols.ntask.guidance import GUIDANCE

    print(GUIDANCE, end="")
    return 0


def version(_args: argparse.Namespace) -> int:
    return answer({"version": __version__, "program": "ntask (dibs)"})


COMMANDS = {
    "doctor": Command(lambda _parser: None, doctor),
    "prime": Command(lambda _parser: None, prime),
    "version": Command(lambda _parser: None, version),
}
