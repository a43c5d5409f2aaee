"""The agent's loop: look for tasks, claim one, work on it, release it. A problem with one file stops no other."""

import os
import time
import traceback
from collections import Counter, deque
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from dibs.core.errors import DibsError, LostLock, NoStore, StoreError
from dibs.core.lifecycle import Verb
from dibs.core.task import Status, Task, order_key
from dibs.protocols.vault import claiming, drafts
from dibs.protocols.vault.claiming import Outcome
from dibs.protocols.vault.health import neighbours, show_problems
from dibs.protocols.vault.publishing import is_taken
from dibs.protocols.vault.settings import APPROVE, Handling
from dibs.protocols.vault.workplace import name_of, path_of
from dibs.stores.port import Query
from dibs.stores.vault.places import NEEDS_ACTION
from dibs.sync.git.outbox import Published

if TYPE_CHECKING:
    from dibs.protocols.vault.execution import TaskRunner
    from dibs.protocols.vault.health import Registration
    from dibs.protocols.vault.settings import Permissions
    from dibs.protocols.vault.workplace import Workplace

_FRESH = 1.0  # seconds for which a list of waiting tasks is used
_SETTLED = 5.0  # seconds after the last edit of a task that was in progress
_BREATH = 0.05  # least seconds between two looks that found nothing
_INSPECT = 30.0  # seconds between two checks for files that cannot be worked on
_CLOSE = 16  # tasks of one rank that agents of several clones try in different order
_ALL = 1 << 31  # no limit
WORKER, CLAIMER = "agent-", "claims-"  # prefixes of the runs of working and of claiming agents


class AgentPace(NamedTuple):
    """The pace of an agent."""

    once: bool
    interval: timedelta
    lease: timedelta


def spread(tasks: list[Task], agent: str) -> list[Task]:
    """Tasks in order, with neighbours of the same rank shuffled differently for each agent."""
    ranks = Counter[object]()
    keys = {}
    for task in tasks:
        rank = order_key(task)[:3]
        chance = sha256(f"{agent}\n{task.scope}\n{task.id}".encode(errors="surrogateescape")).digest()
        keys[task.scope, task.id] = rank, ranks[rank] // _CLOSE, chance
        ranks[rank] += 1
    return sorted(tasks, key=lambda task: keys[task.scope, task.id])


class Agent:
    """One agent in one vault, at work until it is stopped or for one round. Without `work` it only claims."""

    def __init__(
        self,
        workplace: "Workplace",
        duties: "Permissions",
        rounds: AgentPace,
        work: "TaskRunner | None",
        registration: "Registration",
    ) -> None:
        self._workplace = workplace
        self._tracked = workplace.tracked
        self._journal = workplace.journal
        self._waiter = workplace.waiter
        self._publisher = workplace.publisher
        self._duties = duties
        self._rounds = rounds
        self._work = work
        self._registration = registration
        self._waiting: deque[Task] = deque()
        self._looked_at = float("-inf")
        self._inspected_at = float("-inf")
        self._settled_in = float("inf")

    def run(self) -> int:
        """Run, and return the exit status. After one round: 5 if a lease was lost, 7 after an error."""
        while True:
            worked = self._round()
            if self._waiter.leaving or self._rounds.once:
                self._stop_publishing()
                break
            if not worked:
                self._rest()
        state = self._registration.state
        if not self._rounds.once:
            return 0
        return LostLock.exit_status if state.lost_leases else StoreError.exit_status if state.error_count else 0

    def recover(self) -> None:
        """Release the tasks that the agent's last run held when it died. Expired ones can be claimed anyway."""
        before = self._registration.before
        if self._work is None:
            return
        try:
            self._publisher.begin()
        except DibsError as error:
            self._trouble(error)
        held = self._tracked.desk.find(Query(statuses=(Status.ACTIVE,), agent=self._workplace.agent))
        if before is not None and before.run.startswith(WORKER):
            self._publisher.end_idle_claims(self._workplace.agent, before.run, held)
        for task in held:
            if task.lease is None or not task.held(self._tracked.desk.now()):
                continue
            if not task.lease.token:
                self._give_back(task, Verb.RELEASE, "it was here without a claim")
            elif before is not None and before.run.startswith(WORKER) and task.lease.run == before.run:
                self._give_back(task, Verb.FAIL, "its agent died at work")

    def _give_back(self, task: Task, verb: Verb, why: str) -> None:
        try:
            with self._publisher.turn():
                self._tracked.move(task, verb, reason=why)
                self._publisher.post(self._tracked.take_touched(), f"{self._workplace.agent} gives {task.id} back")
            self._journal.say(f"recovered {name_of(task)}: {why}")
        except DibsError as error:
            self._trouble(error, name_of(task))

    def _stop_publishing(self) -> None:
        try:
            self._publisher.stop()
            self._hear()
        except DibsError as error:
            self._trouble(error)
        for about in self._publisher.unpublished_ends():
            self._registration.update(**{about.counter: getattr(self._registration.state, about.counter) + 1})
        self._registration.update(offline=self._publisher.offline)
        self._save()

    def _hear(self) -> None:
        """Log and count the attempts whose end the remote has accepted or refused."""
        for about, fate in self._publisher.news():
            line, counter = about.line, about.counter
            if fate is Published.REFUSED:
                line = f"LOST_LOCK {about.name}: it was {about.how} here, but the remote has a later change, which wins"
                counter = "lost_leases"
            elif fate is Published.OFFLINE:
                line = f"{about.name} is {about.how} here; it will be published when the remote is in reach"
                counter = ""
            self._journal.say(line)
            if counter:
                self._registration.update(**{counter: getattr(self._registration.state, counter) + 1})
        while (error := self._publisher.error()) is not None:
            self._trouble(error)

    # A round

    def _round(self) -> bool:
        """Look for tasks once. True if one was worked on."""
        try:
            self._publisher.start()
            self._hear()
            self._record_push()
            self._inspect()
            self._settle()
            worked = self._work_off()
            self._registration.update(failed_rounds=0)
        except Exception as error:  # noqa: BLE001 - one failed round must not stop the agent
            self._registration.update(failed_rounds=self._registration.state.failed_rounds + 1)
            self._trouble(error)
            return False
        else:
            return worked
        finally:
            self._registration.update(offline=self._publisher.offline)
            self._save()

    def _record_push(self) -> None:
        """Bring in the changes of other clones. A vault that has gone looks empty, so it is checked first."""
        if not os.path.isdir(os.path.join(self._workplace.root, NEEDS_ACTION)):
            raise NoStore(f"There is no vault at {self._workplace.root} any more.")
        for path in self._publisher.pull():
            self._journal.say(f"gave way to the remote: {path}")
        if self._publisher.clone is not None:
            run = self._registration.state.run
            self._publisher.end_idle_claims(self._workplace.agent, run, self._held())

    def _held(self) -> list[Task]:
        """The tasks in progress of this agent."""
        return self._tracked.desk.find(Query(statuses=(Status.ACTIVE,), agent=self._workplace.agent))

    def _inspect(self) -> None:
        """Log each file that cannot be worked on once, and list it until it is corrected."""
        if time.monotonic() < self._inspected_at + _INSPECT:
            return
        self._inspected_at = time.monotonic()
        found = self._tracked.desk.check(fix=False)
        problems = tuple(sorted(f"{finding.subject} {finding.problem}" for finding in found))
        before = self._registration.state.problems
        for problem in problems:
            if problem not in before:
                self._journal.say(f"cannot be worked on: {problem}")
        if problems != before:
            self._registration.update(problems=problems)
            show_problems(self._workplace.root, problems)

    def _settle(self) -> None:
        """Act on people's decisions about drafts, if this agent may."""
        if self._work is None or not self._duties.may(APPROVE) or not drafts.waiting(self._tracked):
            return
        with self._publisher.turn():
            for line in drafts.settle(self._tracked, self._workplace.root, self._tracked.desk.now()):
                self._publisher.post(self._tracked.take_touched(), f"{self._workplace.agent}: {line}")
                self._journal.say(line)

    def _work_off(self) -> bool:
        """Try each waiting task that this agent may do, once."""
        tried: set[tuple[str, str]] = set()
        worked = False
        while not self._waiter.leaving:
            task = self._next(tried)
            if task is None and self._flush_before_exit():
                continue
            if task is None:
                break
            tried.add((task.scope, task.id))
            worked |= self._take_safely(task)
            self._hear()
            if self._publisher.offline:
                break
        return worked

    def _flush_before_exit(self) -> bool:
        """Publish before a single round ends: that may make a task claimable."""
        if not (self._rounds.once and self._publisher.pending):
            return False
        self._publisher.flush()
        self._hear()
        self._looked_at = float("-inf")
        return not self._publisher.pending

    def _next(self, tried: set[tuple[str, str]]) -> Task | None:
        """The next waiting task, or None after a fresh look."""
        fresh = time.monotonic() > self._looked_at + _FRESH
        if fresh:
            self._look()
        while True:
            while self._waiting:
                task = self._waiting.popleft()
                path = os.path.join(self._workplace.root, path_of(task))
                if (task.scope, task.id) not in tried and os.path.lexists(path):
                    return task
            if fresh:
                return None
            self._look()
            fresh = True

    def _look(self) -> None:
        """List the claimable tasks in order, without those that this agent may not do."""
        self._looked_at, self._settled_in = time.monotonic(), float("inf")
        found = self._tracked.desk.ready(limit=_ALL, agent=self._workplace.agent, anywhere=True)
        ours = (task for task in found if self._duties.way(task) is not Handling.LEAVE)
        taken = self._publisher.taken(self._tracked.desk.now())
        free = (task for task in ours if not is_taken(task, taken))
        mine = [task for task in free if not self._may_be_edited(task)]
        self._waiting = deque(spread(mine, self._workplace.agent) if self._crowded() else mine)

    def _crowded(self) -> bool:
        """Whether other agents work here too: in one order, all but one would lose each claim."""
        agent = self._workplace.agent
        if self._publisher.clone is None:
            return False
        self._publisher.alone = not (self._publisher.others(agent) or neighbours(self._workplace.root, agent))
        return not self._publisher.alone

    def _may_be_edited(self, task: Task) -> bool:
        """Whether a person may still be editing a task that was in progress."""
        if not claiming.was_edited(task):
            return False
        self._settled_in = _SETTLED
        try:
            changed_at = os.lstat(os.path.join(self._workplace.root, path_of(task))).st_mtime
        except OSError:
            return True
        return self._tracked.desk.now().timestamp() - changed_at < _SETTLED

    # One task

    def _take_safely(self, task: Task) -> bool:
        try:
            return self._take(task)
        except Exception as error:  # noqa: BLE001 - a problem with one file must not stop the others
            self._trouble(error, name_of(task))
            return False

    def _take(self, task: Task) -> bool:
        claimed = self._claim(task)
        if claimed is None:
            return False
        self._count("total_claims")
        whose = f", after {task.lease.agent}, whose lease has ended" if task.lease is not None else ""
        self._journal.say(f"claimed {name_of(task)} (attempt {claimed.attempt}{whose})")
        self._save()
        if self._work is not None:
            lapsed = task.lease is not None and not claiming.was_edited(task)
            self._work.do(claimed, self._duties.way(claimed), lapsed=lapsed)
        return True

    def _claim(self, task: Task) -> Task | None:
        """Claim a task. None if that failed, after logging and counting why."""
        attempt = claiming.claim_published(
            self._tracked, self._publisher, task, lease=self._rounds.lease, sleep=self._waiter.nap
        )
        if attempt.claimed is not None and self._shown(attempt.claimed.task):
            return attempt.claimed.task
        if attempt.claimed is not None:
            attempt = claiming.Attempt(Outcome.LOST)
        self._missed(task, attempt)
        return None

    def _shown(self, claimed: Task) -> bool:
        """Publish the claim before the work if this is the only agent. Among several, it is published later."""
        if self._publisher.clone is None or self._crowded() or self._publisher.flush() is not Published.REFUSED:
            return True
        self._publisher.give_up(claimed.lease.token if claimed.lease else "")
        return False

    def _missed(self, task: Task, attempt: claiming.Attempt) -> None:
        if attempt.outcome is Outcome.LOST:
            self._count("lost")
            self._journal.note(f"lost {name_of(task)}: {attempt.error.message if attempt.error else ''}")
        elif attempt.error is not None:
            self._count("claim_errors")
            self._trouble(attempt.error, name_of(task))

    # Between rounds

    def _rest(self) -> None:
        """Wait until a file changes, a task becomes due, or the interval is over."""
        span = min(self._rounds.interval.total_seconds(), self._publisher.due_in, self._settled_in, self._due_in())
        self._waiter.wait(span)
        self._waiter.nap(self._looked_at + _BREATH - time.monotonic())
        self._looked_at = float("-inf")

    def _due_in(self) -> float:
        """Seconds until the next task becomes due."""
        desk = self._tracked.desk
        try:
            due = desk.counts(anywhere=True).next_due
        except DibsError:
            return float("inf")  # the next round reports it
        return float("inf") if due is None else max(0.0, (due - desk.now()).total_seconds())

    # Counters and log

    def _count(self, what: str) -> None:
        state = self._registration.state
        self._registration.update(**{what: getattr(state, what) + 1, "last_activity": self._tracked.desk.now()})

    def _trouble(self, error: Exception, about: str = "") -> None:
        """Log and count an error. An unexpected one is logged with its traceback."""
        if not isinstance(error, DibsError):
            self._journal.note("".join(traceback.format_exception(error)))
            error = DibsError(f"{type(error).__name__}: {error}")
        message = f"{about}: {error.message}" if about else error.message
        self._count("error_count")
        self._registration.update(last_error=f"{error.code}: {message}", last_error_at=self._tracked.desk.now())
        self._journal.say(f"error {error.code} {message}")

    def _save(self) -> None:
        try:
            self._registration.save()
        except StoreError as error:
            self._journal.note(f"error {error.code} {error.message}")
