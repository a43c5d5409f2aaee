"""What is done with one claimed task: run the command, then finish, fail, draft or give back."""

import os
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError, LostLock
from dibs.core.lifecycle import Verb
from dibs.core.task import Status, Task
from dibs.core.times import backoff
from dibs.protocols.vault import claiming, drafts
from dibs.protocols.vault.execution import HeldTask
from dibs.protocols.vault.publishing import Ending
from dibs.protocols.vault.settings import APPROVAL, APPROVED, DRAFT_ID, Way, action_of
from dibs.protocols.vault.workplace import path_of

if TYPE_CHECKING:
    from dibs.protocols.vault.execution import Command, Ended
    from dibs.protocols.vault.workplace import Workplace

_SAID = 300  # characters of what a command complained that become the reason


class Patience(NamedTuple):
    """For how long a claim holds, and how often and after what pause a failed task is tried again."""

    lease: timedelta
    max_retries: int
    retry_in: timedelta


class Work:
    """How this agent works. How an attempt ended is told by the publisher, once the remote knows."""

    def __init__(
        self, workplace: "Workplace", command: "Command", patience: Patience, environment: dict[str, str]
    ) -> None:
        self._workplace = workplace
        self._tracked = workplace.tracked
        self._journal = workplace.journal
        self._publisher = workplace.publisher
        self._command = command
        self._patience = patience
        self._environment = environment

    def do(self, task: Task, way: Way, *, lapsed: bool) -> None:
        """Work on a task that was claimed just now, up to its end, whatever that is.

        `lapsed` means that the attempt before ended with its lease: too many of these, and the task is to blame.
        """
        desk = self._tracked.desk.at(task.scope)
        held = HeldTask(desk, task, self._patience.lease, self._workplace.root, self._publisher)
        self._tracked.take_touched()  # of what an error may have left
        try:
            if way is Way.LEAVE:
                self._release(held, f"'{action_of(task)}' is not for this agent to do")
                return
            if lapsed and task.retries > self._limit(task):
                self._reject(held, f"given up after {task.retries} attempts that came to no end")
                return
            claiming.verify(held.desk, task.id, self._workplace.agent, held.token)
            self._end(held, way, self._run(held, way))
        except LostLock as lost:
            self._tracked.take_touched()
            itself = held.ended_as()
            if itself is None:
                self._lost(held, lost)
            else:
                self._ended_itself(held, itself)
        except DibsError:
            raise  # the vault cannot do it; the lease ends by itself
        except Exception:
            self._fail(held, "the agent made a mistake; its log tells which")
            raise

    def _run(self, held: HeldTask, way: Way) -> "Ended":
        task = held.task
        approved = way is Way.ACT and task.extra.get(APPROVAL) == APPROVED
        draft = drafts.draft_of(self._tracked, task) if approved else None
        text = _as_read(task) if draft is None else drafts.text_of(draft)
        lease = task.lease
        told = {
            **self._environment,
            "DIBS_SCOPE": task.scope,
            "DIBS_TASK_ID": task.id,
            "DIBS_TOKEN": held.token,
            "DIBS_RUN": (lease.run if lease else None) or "",
            "DIBS_FILE": held.path,
            "DIBS_TITLE": task.title,
            "DIBS_ACTION": action_of(task),
            "DIBS_WAY": way.value,
            "DIBS_ATTEMPT": str(task.attempt),
            "DIBS_DRAFT": "" if draft is None else os.path.join(self._workplace.root, path_of(draft)),
        }
        return self._command.run(
            held, self._workplace.waiter, text, told, lambda renewed: self._share(held, renewed=renewed)
        )

    def _share(self, held: HeldTask, *, renewed: bool) -> float:
        """While a command runs, hear of what other clones did to its task, and let them know that it goes on."""
        try:
            self._publisher.pull()
            if renewed:
                self._share_renewal(held)
        except LostLock:
            raise
        except DibsError as error:
            self._journal.say(f"error {error.code} {held.name}: {error.message}")
        return self._publisher.due_in

    def _share_renewal(self, held: HeldTask) -> None:
        """The remote has renewed the claim; people who look at the branch are to see it too."""
        with self._publisher.turn():
            self._publisher.post([path_of(held.task)], f"{self._workplace.agent} renews {held.task.id}")

    # How it ends

    def _end(self, held: HeldTask, way: Way, ended: "Ended") -> None:
        if ended.lost is not None:
            raise ended.lost
        if ended.left:
            self._release(held, "the agent was told to leave")
            return
        if ended.errors.strip():
            self._journal.note(f"{held.name} said:\n{ended.errors.rstrip()}")
        if ended.late or ended.status:
            self._fail(held, _reason(ended))
        elif way is Way.DRAFT:
            self._draft(held, ended.output)
        else:
            self._finish(held, ended.output)

    def _finish(self, held: HeldTask, output: str) -> None:
        with self._publisher.turn():
            self._move(held, Verb.DONE, result=output.strip() or None)
            drafts.finish(self._tracked, held.task, Verb.APPROVE)
            self._publish(held, "done", f"done {held.name}", "done")

    def _draft(self, held: HeldTask, output: str) -> None:
        with self._publisher.turn():
            draft = drafts.make(self._tracked, held.task, output, self._tracked.desk.now())
            try:
                self._move(held, Verb.REVIEW, result={DRAFT_ID: draft.id}, reason=f"{draft.id} waits for approval")
            except LostLock:
                self._tracked.move(draft, Verb.CANCEL, reason=f"{held.task.id} was taken away meanwhile")
                self._publisher.post(self._tracked.take_touched(), f"{self._workplace.agent}: no use for {draft.id}")
                raise
            self._publish(held, "drafted", f"drafted {held.name}: {path_of(draft)} waits for approval", "done")

    def _fail(self, held: HeldTask, why: str) -> None:
        task = held.task
        if task.retries >= self._limit(task):
            self._reject(held, f"failed {task.retries + 1} times, last: {why}")
            return
        pause = backoff(task.retries, self._patience.retry_in)
        with self._publisher.turn():
            self._move(held, Verb.FAIL, reason=why, not_before=self._tracked.desk.now() + pause)
            line = f"failed {held.name}: {why} (again in {pause.total_seconds():g} s)"
            self._publish(held, "failed", line, "failed")

    def _reject(self, held: HeldTask, why: str) -> None:
        with self._publisher.turn():
            self._move(held, Verb.CANCEL, reason=why)
            drafts.finish(self._tracked, held.task, Verb.CANCEL, why)
            self._publish(held, "rejected", f"rejected {held.name}: {why}", "failed")

    def _release(self, held: HeldTask, why: str) -> None:
        with self._publisher.turn():
            self._move(held, Verb.RELEASE, reason=why)
            self._publish(held, "released", f"released {held.name}: {why}", "released")

    def _ended_itself(self, held: HeldTask, task: Task) -> None:
        """The command has finished the task with the token it was given."""
        with self._publisher.turn():
            self._tracked.touched += [path_of(held.task), path_of(task)]
            if task.finished:
                verb = Verb.APPROVE if task.status is Status.DONE else Verb.CANCEL
                drafts.finish(self._tracked, held.task, verb)
            counter = "done" if task.status in {Status.DONE, Status.REVIEW} else "released"
            self._publish(held, "ended", f"ended {held.name}: its command left it {task.status}", counter)

    def _lost(self, held: HeldTask, lost: LostLock) -> None:
        ending = Ending(held.name, "lost", f"LOST_LOCK {held.name}: {lost.message}", "lost_leases")
        self._publisher.post((), "", ending)
        self._publisher.give_up(held.token)

    def _move(self, held: HeldTask, verb: Verb, **brings: object) -> None:
        self._tracked.move(held.task, verb, token=held.token, **brings)

    def _publish(self, held: HeldTask, how: str, line: str, counter: str) -> None:
        message = f"{self._workplace.agent}: {how} {held.task.id}"
        self._publisher.post(self._tracked.take_touched(), message, Ending(held.name, how, line, counter))

    def _limit(self, task: Task) -> int:
        return self._patience.max_retries if task.max_retries is None else task.max_retries


def _as_read(task: Task) -> str:
    """The task as a command reads it: its text, under its title where the text does not begin with one."""
    text = task.description.strip("\n")
    return f"{text}\n" if text.startswith("# ") else f"# {task.title}\n\n{text}\n"


def _reason(ended: "Ended") -> str:
    if ended.late:
        return "it took too long"
    said = [line.strip() for line in ended.errors.splitlines() if line.strip()]
    how = f"exit status {ended.status}" if ended.status >= 0 else f"ended by signal {-ended.status}"
    return f"{how}: {said[-1][:_SAID]}" if said else how
