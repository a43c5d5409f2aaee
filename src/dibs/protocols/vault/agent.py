"""The agent: look, claim, work, hand on, again and again; one file that makes trouble stops nothing else."""

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
from dibs.protocols.vault.settings import APPROVE, Way
from dibs.protocols.vault.workplace import name_of, path_of
from dibs.stores.port import Query
from dibs.stores.vault.places import NEEDS_ACTION
from dibs.sync.git.outcomes import Published

if TYPE_CHECKING:
    from dibs.protocols.vault.health import Registration
    from dibs.protocols.vault.settings import Duties
    from dibs.protocols.vault.work import Work
    from dibs.protocols.vault.workplace import Workplace

_FRESH = 1.0  # seconds for which a look at what is waiting will do
_SETTLED = 5.0  # seconds after the last edit of a file that was in progress
_BREATH = 0.05  # seconds at least between two looks that found nothing
_INSPECT = 30.0  # seconds between two looks for files that cannot be worked on
_CLOSE = 16  # tasks of one rank among which agents of several clones choose, each its own
_ALL = 1 << 31  # more than there are
WORKER, CLAIMER = "agent-", "claims-"  # how the runs of agents that work, and of those that only claim, begin


class Rounds(NamedTuple):
    """How an agent goes about it."""

    once: bool
    interval: timedelta
    lease: timedelta


def spread(tasks: list[Task], agent: str) -> list[Task]:
    """The same order but for tasks of the same rank that stand close together: there each agent has its own."""
    ranks = Counter[object]()
    keys = {}
    for task in tasks:
        rank = order_key(task)[:3]
        chance = sha256(f"{agent}\n{task.scope}\n{task.id}".encode(errors="surrogateescape")).digest()
        keys[task.scope, task.id] = rank, ranks[rank] // _CLOSE, chance
        ranks[rank] += 1
    return sorted(tasks, key=lambda task: keys[task.scope, task.id])


class Agent:
    """One agent at work in one vault, until it is told to leave, or for one round. Without `work`, it only claims."""

    def __init__(
        self,
        workplace: "Workplace",
        duties: "Duties",
        rounds: Rounds,
        work: "Work | None",
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
        """The exit status: 5 if a lease was lost in the one round there was, 7 if the vault made trouble, else 0."""
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
        """Give back what the last run of this agent held when it died; what has expired is up for claiming anyway."""
        before = self._registration.before
        if self._work is None:
            return
        try:
            self._publisher.begin()
        except DibsError as error:
            self._trouble(error)
        held = self._tracked.desk.find(Query(statuses=(Status.ACTIVE,), agent=self._workplace.agent))
        if before is not None and before.run.startswith(WORKER):
            self._publisher.give_up_idle(self._workplace.agent, before.run, held)
        for task in held:
            if task.lease is None or not task.held(self._tracked.desk.now()):
                continue
            if not task.lease.token:
                self._give_back(task, Verb.RELEASE, "it lay here without a claim")
            elif before is not None and before.run.startswith(WORKER) and task.lease.run == before.run:
                self._give_back(task, Verb.FAIL, "its agent ended in the middle of it")

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
        self._registration.update(offline=self._publisher.offline)
        self._save()

    def _hear(self) -> None:
        """How attempts ended, as the remote sees it, for the log and the counters."""
        for about, fate in self._publisher.news():
            line, counter = about.line, about.counter
            if fate is Published.REFUSED:
                line = f"LOST_LOCK {about.name}: it was {about.how} here, but changed at the remote; that stands"
                counter = "lost_leases"
            elif fate is Published.OFFLINE:
                line = f"{about.name} is {about.how} here; the remote will hear of it when it is in reach"
                counter = ""
            self._journal.say(line)
            if counter:
                self._registration.update(**{counter: getattr(self._registration.state, counter) + 1})
        while (error := self._publisher.error()) is not None:
            self._trouble(error)

    # A round

    def _round(self) -> bool:
        """Whether anything was worked on."""
        try:
            self._publisher.start()
            self._hear()
            self._take_in()
            self._inspect()
            self._settle()
            worked = self._work_off()
            self._registration.update(failed_rounds=0)
        except Exception as error:  # noqa: BLE001 - as one file must not, one round must not end it all
            self._registration.update(failed_rounds=self._registration.state.failed_rounds + 1)
            self._trouble(error)
            return False
        else:
            return worked
        finally:
            self._registration.update(offline=self._publisher.offline)
            self._save()

    def _take_in(self) -> None:
        """What other clones have done. A vault that is not there looks empty, and must not be taken for idle."""
        if not os.path.isdir(os.path.join(self._workplace.root, NEEDS_ACTION)):
            raise NoStore(f"There is no vault at {self._workplace.root} any more.")
        for path in self._publisher.pull():
            self._journal.say(f"gave way to the remote: {path}")
        if self._publisher.clone is not None:
            run = self._registration.state.run
            self._publisher.give_up_idle(self._workplace.agent, run, self._held())

    def _held(self) -> list[Task]:
        """Of an agent that only claims, files stay in its folder."""
        return self._tracked.desk.find(Query(statuses=(Status.ACTIVE,), agent=self._workplace.agent))

    def _inspect(self) -> None:
        """Files that cannot be worked on are told once each, and listed until they are put right."""
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
        """What people have decided about drafts, for an agent that may act on it."""
        if self._work is None or not self._duties.may(APPROVE) or not drafts.waiting(self._tracked):
            return
        with self._publisher.turn():
            for line in drafts.settle(self._tracked, self._workplace.root, self._tracked.desk.now()):
                self._publisher.post(self._tracked.take_touched(), f"{self._workplace.agent}: {line}")
                self._journal.say(line)

    def _work_off(self) -> bool:
        """Everything that is waiting and ours to do, each at most once."""
        tried: set[tuple[str, str]] = set()
        worked = False
        while not self._waiter.leaving:
            task = self._next(tried)
            if task is None and self._published_more():
                continue
            if task is None:
                break
            tried.add((task.scope, task.id))
            worked |= self._take_safely(task)
            self._hear()
            if self._publisher.offline:
                break
        return worked

    def _published_more(self) -> bool:
        """Before an agent leaves, what it has posted is published: a task may be up for claiming by that."""
        if not (self._rounds.once and self._publisher.pending):
            return False
        self._publisher.flush()
        self._hear()
        self._looked_at = float("-inf")
        return not self._publisher.pending

    def _next(self, tried: set[tuple[str, str]]) -> Task | None:
        """The first that is still there. That there is none is said only after a fresh look."""
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
        """What could be claimed now, in order, without what this agent may not do: that is never claimed."""
        self._looked_at, self._settled_in = time.monotonic(), float("inf")
        found = self._tracked.desk.ready(limit=_ALL, agent=self._workplace.agent, anywhere=True)
        ours = (task for task in found if self._duties.way(task) is not Way.LEAVE)
        taken = self._publisher.taken(self._tracked.desk.now())
        free = (task for task in ours if not is_taken(task, taken))
        mine = [task for task in free if not self._being_edited(task)]
        self._waiting = deque(spread(mine, self._workplace.agent) if self._crowded() else mine)

    def _crowded(self) -> bool:
        """Agents of several clones would all ask the remote for the first task, and all but one in vain."""
        agent = self._workplace.agent
        if self._publisher.clone is None:
            return False
        self._publisher.alone = not (self._publisher.others(agent) or neighbours(self._workplace.root, agent))
        return not self._publisher.alone

    def _being_edited(self, task: Task) -> bool:
        """Whoever edits a task that was in progress may not be done: wait until the file has been left alone."""
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
        except Exception as error:  # noqa: BLE001 - one file, or a mistake of ours with it, must not stop the others
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
        """The task under our lease, which counts everywhere; or None, with the reason told and counted."""
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
        """An agent by itself lets people see its claim on the branch before it begins; among many, that follows."""
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
        """Until a file is touched, time readies something, or it is time to look anyway."""
        span = min(self._rounds.interval.total_seconds(), self._publisher.due_in, self._settled_in, self._due_in())
        self._waiter.wait(span)
        self._waiter.nap(self._looked_at + _BREATH - time.monotonic())
        self._looked_at = float("-inf")

    def _due_in(self) -> float:
        """Seconds until time alone makes something claimable."""
        desk = self._tracked.desk
        try:
            due = desk.counts(anywhere=True).next_due
        except DibsError:
            return float("inf")  # the next round tells what is wrong
        return float("inf") if due is None else max(0.0, (due - desk.now()).total_seconds())

    # Telling

    def _count(self, what: str) -> None:
        state = self._registration.state
        self._registration.update(**{what: getattr(state, what) + 1, "last_activity": self._tracked.desk.now()})

    def _trouble(self, error: Exception, about: str = "") -> None:
        """Say what went wrong, and remember it for whoever asks how we are. Of a mistake of ours the log tells all."""
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
