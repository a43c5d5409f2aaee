"""What is done with one claimed task: run the command, then finish, fail, draft or give back."""

import os
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.backoff import backoff
from dibs.core.errors import DibsError, LostLock
from dibs.core.lifecycle import Verb
from dibs.core.task import Status, Task
from dibs.protocols.vault import claiming, drafts
from dibs.protocols.vault.files import path_of
from dibs.protocols.vault.holding import Holding
from dibs.protocols.vault.roles import APPROVAL, APPROVED, DRAFT_ID, Way, action_of
from dibs.sync.git.outcomes import Published

if TYPE_CHECKING:
    from dibs.protocols.vault.post import Post
    from dibs.protocols.vault.running import Command, Ended

_SAID = 300  # characters of what a command complained that become the reason


class Patience(NamedTuple):
    """For how long a claim holds, and how often and after what pause a failed task is tried again."""

    lease: timedelta
    max_retries: int
    retry_in: timedelta


class Work:
    """How this agent works. `do` answers which counter of its state to raise."""

    def __init__(self, post: "Post", command: "Command", patience: Patience, environment: dict[str, str]) -> None:
        self._post = post
        self._hands = post.hands
        self._journal = post.journal
        self._sharing = post.sharing
        self._command = command
        self._patience = patience
        self._environment = environment

    def do(self, task: Task, way: Way, *, lapsed: bool) -> str | None:
        """Work on a task that was claimed just now, up to its end, whatever that is.

        `lapsed` means that the attempt before ended with its lease: too many of these, and the task is to blame.
        """
        holding = Holding(self._hands.desk.at(task.scope), task, self._patience.lease, self._post.root)
        self._hands.let_go()  # of what an error may have left
        try:
            if way is Way.LEAVE:
                self._release(holding, f"'{action_of(task)}' is not for this agent to do")
                return None
            if lapsed and task.retries > self._limit(task):
                return self._reject(holding, f"given up after {task.retries} attempts that came to no end")
            claiming.verify(holding.desk, task.id, self._post.agent, holding.token)
            return self._end(holding, way, self._run(holding, way))
        except LostLock as lost:
            self._hands.let_go()
            itself = holding.ended_as()
            return self._lost(holding, lost) if itself is None else self._ended_itself(holding, itself)
        except DibsError:
            raise  # the vault cannot do it; the lease ends by itself
        except Exception:
            self._fail(holding, "the agent made a mistake; its log tells which")
            raise

    def _run(self, holding: Holding, way: Way) -> "Ended":
        task = holding.task
        approved = way is Way.ACT and task.extra.get(APPROVAL) == APPROVED
        draft = drafts.draft_of(self._hands, task) if approved else None
        text = _as_read(task) if draft is None else drafts.text_of(draft)
        lease = task.lease
        told = {
            **self._environment,
            "DIBS_SCOPE": task.scope,
            "DIBS_TASK_ID": task.id,
            "DIBS_TOKEN": holding.token,
            "DIBS_RUN": (lease.run if lease else None) or "",
            "DIBS_FILE": holding.path,
            "DIBS_TITLE": task.title,
            "DIBS_ACTION": action_of(task),
            "DIBS_WAY": way.value,
            "DIBS_ATTEMPT": str(task.attempt),
            "DIBS_DRAFT": "" if draft is None else os.path.join(self._post.root, path_of(draft)),
        }
        return self._command.run(
            holding, self._post.bell, text, told, lambda renewed: self._share(holding, renewed=renewed)
        )

    def _share(self, holding: Holding, *, renewed: bool) -> float:
        """While a command runs, hear of what other clones did to its task, and let them know that it goes on."""
        try:
            self._sharing.pull()
            if renewed:
                self._share_renewal(holding)
        except LostLock:
            raise
        except DibsError as error:
            self._journal.say(f"error {error.code} {holding.name}: {error.message}")
        return self._sharing.due_in

    def _share_renewal(self, holding: Holding) -> None:
        """Other clones must not take the lease for ended."""
        with self._sharing.turn():
            published = self._sharing.publish([path_of(holding.task)], f"{self._post.agent} renews {holding.task.id}")
        if published is Published.REFUSED:
            raise LostLock(f"{holding.task.id} was changed at the remote while you held it. Stop working on it.")

    # How it ends

    def _end(self, holding: Holding, way: Way, ended: "Ended") -> str | None:
        if ended.lost is not None:
            raise ended.lost
        if ended.left:
            self._release(holding, "the agent was told to leave")
            return None
        if ended.errors.strip():
            self._journal.note(f"{holding.name} said:\n{ended.errors.rstrip()}")
        if ended.late or ended.status:
            return self._fail(holding, _reason(ended))
        return self._draft(holding, ended.output) if way is Way.DRAFT else self._finish(holding, ended.output)

    def _finish(self, holding: Holding, output: str) -> str:
        with self._sharing.turn():
            self._move(holding, Verb.DONE, result=output.strip() or None)
            drafts.finish(self._hands, holding.task, Verb.APPROVE)
            self._publish(holding, "done")
        self._journal.say(f"done {holding.name}")
        return "done"

    def _draft(self, holding: Holding, output: str) -> str:
        with self._sharing.turn():
            draft = drafts.make(self._hands, holding.task, output, self._hands.desk.now())
            try:
                self._move(holding, Verb.REVIEW, result={DRAFT_ID: draft.id}, reason=f"{draft.id} waits for approval")
            except LostLock:
                self._hands.move(draft, Verb.CANCEL, reason=f"{holding.task.id} was taken away meanwhile")
                self._sharing.publish(self._hands.let_go(), f"{self._post.agent}: no use for {draft.id}")
                raise
            self._publish(holding, "drafted")
        self._journal.say(f"drafted {holding.name}: {path_of(draft)} waits for approval")
        return "done"

    def _fail(self, holding: Holding, why: str) -> str:
        task = holding.task
        if task.retries >= self._limit(task):
            return self._reject(holding, f"failed {task.retries + 1} times, last: {why}")
        pause = backoff(task.retries, self._patience.retry_in)
        with self._sharing.turn():
            self._move(holding, Verb.FAIL, reason=why, not_before=self._hands.desk.now() + pause)
            self._publish(holding, "failed")
        self._journal.say(f"failed {holding.name}: {why} (again in {pause.total_seconds():g} s)")
        return "failed"

    def _reject(self, holding: Holding, why: str) -> str:
        with self._sharing.turn():
            self._move(holding, Verb.CANCEL, reason=why)
            drafts.finish(self._hands, holding.task, Verb.CANCEL, why)
            self._publish(holding, "rejected")
        self._journal.say(f"rejected {holding.name}: {why}")
        return "failed"

    def _release(self, holding: Holding, why: str) -> None:
        with self._sharing.turn():
            self._move(holding, Verb.RELEASE, reason=why)
            self._publish(holding, "released")
        self._journal.say(f"released {holding.name}: {why}")

    def _ended_itself(self, holding: Holding, task: Task) -> str | None:
        """The command has finished the task with the token it was given."""
        with self._sharing.turn():
            self._hands.touched += [path_of(holding.task), path_of(task)]
            if task.finished:
                verb = Verb.APPROVE if task.status is Status.DONE else Verb.CANCEL
                drafts.finish(self._hands, holding.task, verb)
            self._publish(holding, "ended")
        self._journal.say(f"ended {holding.name}: its command left it {task.status}")
        return "done" if task.status in {Status.DONE, Status.REVIEW} else None

    def _lost(self, holding: Holding, lost: LostLock) -> str:
        self._journal.say(f"LOST_LOCK {holding.name}: {lost.message}")
        return "lost_leases"

    def _move(self, holding: Holding, verb: Verb, **brings: object) -> None:
        self._hands.move(holding.task, verb, token=holding.token, **brings)

    def _publish(self, holding: Holding, how: str) -> None:
        message = f"{self._post.agent}: {how} {holding.task.id}"
        published = self._sharing.publish(self._hands.let_go(), message)
        if published is Published.REFUSED:
            raise LostLock(
                f"{holding.task.id} was changed at the remote while you held it; what came of it was dropped."
            )
        if published is Published.OFFLINE:
            self._journal.say(f"{holding.name} is {how} here; the remote will hear of it when it is in reach")

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
