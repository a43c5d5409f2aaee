"""One slot of a worker: a task at a time, its command, and its end."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, LostLock, StoreError
from dibs.core.wire import inputs_json, task_json
from dibs.fleet.attempt import Attempt
from dibs.fleet.history import failures
from dibs.fleet.outcomes import reason_of, result_of
from dibs.fleet.prompt import prompt
from dibs.fleet.supervisor.client import SupervisorLost
from dibs.fleet.supervisor.protocol import Ending, Order, Report, clock
from dibs.fleet.workers import Taken, What

if TYPE_CHECKING:
    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Claimed, Task
    from dibs.desk import Desk
    from dibs.fleet.supervisor.client import Supervisor
    from dibs.fleet.workers import Crew
    from dibs.stores.port import Moved

_LONGEST = 3600.0  # seconds without a word from a supervisor
_NOTICE = 4  # the part of a lease, at most, that a command has to end before the lease does


class Slot:
    """It has a store and a supervisor of its own."""

    def __init__(self, crew: Crew, desk: Desk) -> None:
        self._crew = crew
        self._duty = crew.duty
        self._desk = desk
        self._supervisor: Supervisor | None = None

    def run(self) -> None:
        try:
            taken = self._crew.take(self._desk)
            while taken is not None:
                taken = self._do(taken)
                if taken is None:
                    self._crew.idle()
                    taken = None if self._duty.once else self._crew.take(self._desk)
        finally:
            if self._supervisor is not None:
                self._crew.dismiss(self._supervisor)

    def _do(self, taken: Taken) -> Taken | None:
        """Work on a task to its end; what was claimed in the same step as that end is what comes next."""
        task = taken.claimed.task
        attempt = Attempt(self._at(task.scope), task, self._duty.lease, taken.asked_at)
        self._crew.tell(What.TOOK, task)
        try:
            report = self._run(taken.claimed, attempt)
        except SupervisorLost:
            report = self._supervisor_lost(clock() - taken.asked_at)
        except LostLock as lost:
            self._lost(attempt, lost, clock() - taken.asked_at)
            return None
        if report.left:
            self._crew.tell(What.TROUBLE, task, f"{report.left} process(es) of its command cannot be ended.")
        return self._end(attempt, report)

    def _at(self, scope: str) -> Desk:
        return self._desk if scope == self._desk.scope else self._desk.at(scope)

    # While its command runs

    def _run(self, claimed: Claimed, attempt: Attempt) -> Report:
        """LostLock: it was taken from us meanwhile, and the command has been ended."""
        supervisor = self._supervisor = self._supervisor or self._crew.supervisor()
        supervisor.run(self._order(claimed, attempt))
        if self._crew.stopping:
            supervisor.stop()
        lost: LostLock | None = None
        while (report := supervisor.report(min(attempt.renew_in, _LONGEST))) is None:
            try:
                if attempt.keep():
                    supervisor.extend(attempt.until)
            except LostLock as error:
                lost = error
                supervisor.stop()
        if lost is not None:
            raise lost
        if report.ending is Ending.LEASE and attempt.ended_as is None:
            raise LostLock("its lease could not be renewed in time")
        return report

    def _supervisor_lost(self, seconds: float) -> Report:
        assert self._supervisor is not None
        self._crew.dismiss(self._supervisor)
        self._supervisor = None
        return Report(
            -signal.SIGKILL, Ending.ITSELF, seconds, errors="the process that minds it was ended, and it with that"
        )

    def _order(self, claimed: Claimed, attempt: Attempt) -> Order:
        task, duty = claimed.task, self._duty
        said = json.dumps(task_json(task), ensure_ascii=False)
        grace = duty.grace.total_seconds()
        return Order(
            list(duty.words),
            {
                **duty.environment,
                "DIBS_SCOPE": task.scope,
                "DIBS_TASK_ID": task.id,
                "DIBS_TOKEN": attempt.token,
                "DIBS_ATTEMPT": str(task.attempt),
            },
            said,
            {
                "DIBS_TASK_FILE": ("task.json", said),
                "DIBS_INPUTS_FILE": ("inputs.json", json.dumps(inputs_json(claimed), ensure_ascii=False)),
                "DIBS_PROMPT_FILE": ("prompt.md", prompt(claimed, failures(self._at(task.scope), task))),
            },
            attempt.until,
            min(grace, duty.lease.total_seconds() / _NOTICE),
            grace,
            None if duty.limit is None else duty.limit.total_seconds(),
        )

    # How it ends

    def _end(self, attempt: Attempt, report: Report) -> Taken | None:
        then, asked_at = self._then(), clock()
        try:
            moved = self._say(attempt, report, then)
        except LostLock as lost:
            self._lost(attempt, lost, report.seconds)
            return None
        except StoreError as error:
            self._crew.tell(What.LOST, attempt.task, f"its end could not be told: {error.message}", report.seconds)
            return None
        return Taken(moved.next[0], asked_at) if moved.next else None

    def _then(self) -> ClaimRequest | None:
        """What to go on with in the same step."""
        duty = self._duty
        if self._crew.leaving or duty.once or duty.anywhere:
            return None
        request = self._desk.next_request(duty.agent, lease=duty.lease, run=duty.run, can=duty.can, only=duty.only)
        return request._replace(assigned=True) if duty.assigned else request

    def _say(self, attempt: Attempt, report: Report, then: ClaimRequest | None) -> Moved:
        if report.ending is Ending.TOLD:
            why = "the worker was told to leave"
            moved = attempt.release(why)
            self._crew.tell(What.RELEASED, moved.task, why, report.seconds)
            return moved
        if report.status or report.ending is not Ending.ITSELF:
            return self._fail(attempt, reason_of(report, attempt.token), report.seconds, then)
        try:
            moved = attempt.done(result_of(report, attempt.token), then)
        except (LostLock, StoreError):
            raise
        except DibsError as refused:
            return self._fail(attempt, f"it could not be finished: {refused.message}", report.seconds, then)
        if moved.repeated:
            self._ended_itself(moved.task, report.seconds)
        else:
            self._crew.tell(What.DONE, moved.task, seconds=report.seconds)
        return moved

    def _fail(self, attempt: Attempt, reason: str, seconds: float, then: ClaimRequest | None) -> Moved:
        moved = attempt.fail(reason, self._duty.retry_in, then)
        self._crew.tell(What.FAILED, moved.task, reason, seconds)
        return moved

    def _lost(self, attempt: Attempt, lost: LostLock, seconds: float) -> None:
        if attempt.ended_as is not None:
            self._ended_itself(attempt.ended_as, seconds)
        else:
            self._crew.tell(What.LOST, attempt.task, lost.message, seconds)

    def _ended_itself(self, task: Task, seconds: float) -> None:
        self._crew.tell(What.ENDED, task, f"its command left it {task.status}", seconds)
