"""Running the command that does the work, and ending it when the task is not its own any more."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from dibs.core.errors import LostLock
from dibs.fleet.supervisor.client import Supervisor, SupervisorLost
from dibs.fleet.supervisor.protocol import Ending, Order, Report

if TYPE_CHECKING:
    from dibs.protocols.vault.bell import Bell
    from dibs.protocols.vault.holding import Holding

_GRACE = 5.0  # seconds between asking a command to end and ending it
_SHORTEST = 0.05  # seconds between two looks at the clock

# What else is to be done while a command runs, told whether the lease was renewed just now: it answers in how many
# seconds it wants to be asked again, or ends the command by LostLock.
Meanwhile: TypeAlias = "Callable[[bool], float]"


class Ended(NamedTuple):
    """How a command ended. `lost` is why the task is not ours any more; `left` that the agent was told to leave."""

    status: int
    output: str = ""
    errors: str = ""
    late: bool = False
    lost: LostLock | None = None
    left: bool = False


class Command:
    """Runs the words on one task after the other. A supervisor sees to it that nothing is left of them."""

    def __init__(self, words: Sequence[str], timeout: timedelta | None = None) -> None:
        self._words = words
        self._limit = None if timeout is None else timeout.total_seconds()
        self._supervisor: Supervisor | None = None

    def run(self, holding: "Holding", bell: "Bell", task: str, env: Mapping[str, str], meanwhile: Meanwhile) -> Ended:
        """Let it work on the task, which it gets on stdin, and keep the task meanwhile."""
        supervisor = self._supervisor = self._supervisor or Supervisor()
        told = {name: value.replace("\0", "") for name, value in env.items()}
        grace = min(_GRACE, holding.lease.total_seconds() / 4)
        try:
            supervisor.run(Order(list(self._words), told, task, {}, holding.until, grace, _GRACE, self._limit))
            return self._attend(supervisor, holding, bell, meanwhile)
        except SupervisorLost:
            self.close()
            return Ended(-1, errors="the process that minds it was ended, and it with that")
        except BaseException:
            self.close()  # and with that what it runs
            raise

    def _attend(self, supervisor: Supervisor, holding: "Holding", bell: "Bell", meanwhile: Meanwhile) -> Ended:
        touched, until = True, holding.until
        while (report := supervisor.report(0)) is None:
            if bell.leaving:
                return _ended(supervisor.ended(), holding, left=True)
            try:
                again_in = meanwhile(holding.keep(touched=touched))
            except LostLock as lost:
                return _ended(supervisor.ended(), holding, lost=lost)
            if holding.until != until:
                until = holding.until
                supervisor.extend(until)
            touched = bell.wait(max(_SHORTEST, min(holding.renew_in, again_in)), supervisor)
        if report.ending is Ending.LEASE:
            why = LostLock(f"The lease on {holding.task.id} has ended; it could not be renewed in time.")
            return _ended(report, holding, lost=why)
        return _ended(report, holding)

    def close(self) -> None:
        if self._supervisor is not None:
            self._supervisor.close()
            self._supervisor = None


def _ended(report: Report, holding: "Holding", *, lost: LostLock | None = None, left: bool = False) -> Ended:
    output, errors = (said.replace(holding.token, "(token)") for said in (report.output, report.errors))
    late = report.ending is Ending.LIMIT
    return Ended(report.status, f"…{output}" if report.dropped else output, errors, late, lost, left)
