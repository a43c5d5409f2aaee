"""One experiment: make a store, plan tasks, run workers under faults, and judge their history."""

from __future__ import annotations

import os
import random
import tempfile
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from dibs.core.errors import DibsError, InvalidInput, StoreError
from dibs.core.task import Actor, Claimed, Status
from dibs.desk import Desk, mint_id
from dibs.lab.torture import history
from dibs.lab.torture.checker import Assumptions, Figures, Violation, figures, violations
from dibs.lab.torture.crew import Crew, Faults, Mark, Terms
from dibs.lab.torture.history import Log, Operation, new_log
from dibs.lab.torture.places import Place, place_beside
from dibs.lab.torture.worker import SCOPE, Recorder
from dibs.stores.opening import open_store
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.policy import CanceledBlocker
    from dibs.stores.port import Moved, Store
    from dibs.stores.reports import Finding

RULES = {
    "name-keyed": "dibs.lab.torture.experiments:name_keyed",
    "no-fence": "dibs.lab.torture.experiments:no_fence",
    "delete-on-dequeue": "dibs.lab.torture.experiments:delete_on_dequeue",
}


_FOR_EVER = timedelta(days=30)


class AlteredStore:
    """A store that replaces some verbs, and passes the rest to the real one."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()


class _NameKeyed(AlteredStore):
    """A claim belongs to a name: an agent that holds a task gets it again."""

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        mine = self.store.find(Query(request.scope, statuses=(Status.ACTIVE,), agent=request.agent))
        held = [Claimed(task) for task in mine if task.held(self.store.now())]
        return held[:1] if held and not request.ids else self.store.claim(request)


class _NoFence(AlteredStore):
    """A finish is accepted from any attempt, without checking the token."""

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        lease = self.store.get(move.scope, move.id).lease
        if lease is not None and move.token is not None and lease.live(self.store.now()):
            move = move._replace(token=lease.token)
        return self.store.move(move, on_cancel, then)


class _DeleteOnDequeue(AlteredStore):
    """A claim removes the task from the queue for good: there is no lease."""

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        return self.store.claim(request._replace(lease=_FOR_EVER))

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        following = None if then is None else then._replace(lease=_FOR_EVER)
        return self.store.move(move if move.lease is None else move._replace(lease=_FOR_EVER), on_cancel, following)


def name_keyed(store: Store) -> Any:
    return _NameKeyed(store)


def no_fence(store: Store) -> Any:
    return _NoFence(store)


def delete_on_dequeue(store: Store) -> Any:
    return _DeleteOnDequeue(store)


_WINDOW = 40  # a task waits for some of those shortly before it, so that there is always much to do at once
_MOST = 3


class Planned(NamedTuple):
    title: str
    priority: int
    after: tuple[int, ...]  # places of earlier ones


def waves(seed: int, size: int) -> Iterator[list[Planned]]:
    """Adds one plan of this size after the other, so that there is always work."""
    dice = random.Random(f"{seed} plan")  # noqa: S311 - an experiment that can be repeated, no secret
    number = 0
    while True:
        number += 1
        yield [_planned(dice, number, place) for place in range(size)]


def _planned(dice: random.Random, wave: int, place: int) -> Planned:
    first = max(0, place - _WINDOW)
    after = {dice.randrange(first, place) for _ in range(dice.randint(0, _MOST))} if place else set[int]()
    return Planned(f"wave {wave} task {place}", dice.choice((1, 2, 2, 3)), tuple(sorted(after)))


PLANNER = "planner"
_LOOK_EVERY = 0.3
_FINISHED = (Status.DONE, Status.CANCELED)


class Planner(threading.Thread):
    """A store without the proxy in between, so that network faults do not stop the planner."""

    def __init__(self, url: str, log: str, *, seed: int, size: int, enough: int) -> None:
        super().__init__(daemon=True)
        self._url, self._enough = url, enough
        self._log = Log(new_log(log), PLANNER, PLANNER)
        self._waves = waves(seed, size)
        self._laid = 0
        self._closing = threading.Event()
        self._over = threading.Event()
        self.counts: Mapping[str, int] = {}
        self.unfinished = 0
        self.laid = threading.Event()
        self.drained = threading.Event()

    def run(self) -> None:
        while not self._over.is_set():
            try:
                with open_store(self._url) as store:
                    self._plan(Desk(store, scope=SCOPE, by=Actor(PLANNER)))
            except DibsError:
                self._over.wait(_LOOK_EVERY)  # the store is away; it will be back

    def drain(self) -> None:
        """Stop planning, and make paused and blocked tasks ready again."""
        self._closing.set()

    def end(self) -> None:
        self._over.set()
        self.join()

    def look(self) -> tuple[bool, list[Finding]]:
        """The final state, and the findings of the store's own check."""
        with open_store(self._url) as store:
            desk = Desk(store, scope=SCOPE, by=Actor(PLANNER))
            return self._recorder(desk).look(), desk.check()

    def _recorder(self, desk: Desk) -> Recorder:
        return Recorder(desk, self._log, worker=PLANNER, agent=PLANNER, lease=0.0)

    def _plan(self, desk: Desk) -> None:
        recorder = self._recorder(desk)
        while not self._over.is_set():
            counts = desk.counts()
            self.counts = {status.value: number for status, number in counts.by_status.items() if number}
            self.unfinished = sum(counts.by_status[status] for status in Status if status not in _FINISHED)
            if self._closing.is_set():
                self._unblock_all(desk, recorder)
                if not self.unfinished:
                    self.drained.set()
            elif self.unfinished < self._enough or not counts.claimable:
                self._laid += 1
                recorder.lay(next(self._waves), f"p{self._laid}")
                self.laid.set()
            self._over.wait(_LOOK_EVERY)

    def _unblock_all(self, desk: Desk, recorder: Recorder) -> None:
        for task in desk.find(Query(SCOPE, statuses=(Status.BLOCKED,))):
            recorder.unblock(task.id)


_TICK = 0.02
_LEASE = 2.0
_LEASE_IN_NOTION = 240.0  # the shortest there is, where time keeps claims apart
_SLOW_TO_PLAN = 30
_TO_BEGIN = 60.0  # seconds, at most
_EXPIRY_IN_NOTION = 180.0  # what a lease there may last longer: whole minutes, and the margins around its end
_WITHOUT_A_LEASE = 1200.0  # a claim in a vault that found no room for its lease lasts for the usual one


class Experiment(NamedTuple):
    """The settings of an experiment. `rule` is `module:function`, which replaces each worker's store."""

    url: str
    seconds: float = 60.0
    seed: int = 1
    workers: int = 8
    tasks: int = 200
    faults: tuple[str, ...] = ()
    work: float = 0.05  # seconds that a task takes at most
    lease: float = 0.0  # as is usual for the store
    rule: str = ""
    restart: Callable[[], None] | None = None
    mischief: float = 1.0
    calm: float = 1.0  # times as long between two faults
    patience: float = 5.0  # seconds that a ready task may wait without a claim


class Progress(NamedTuple):
    """The progress of a run."""

    stage: str
    elapsed: float
    tasks: Mapping[str, int]
    faults: Mapping[str, int]


class Report(NamedTuple):
    experiment: Experiment
    kind: str
    faults: tuple[str, ...]
    assumptions: Assumptions
    violations: Sequence[Violation]
    figures: Figures
    marks: Sequence[Mark]
    operations: Sequence[Operation]
    drained: bool
    interrupted: bool
    left: str = ""  # what could not be removed, if anything

    @property
    def struck(self) -> Mapping[str, int]:
        """The number of faults of each kind."""
        return {name: sum(mark.fault == name for mark in self.marks) for name in self.faults}


def possible_faults(place: Place, experiment: Experiment) -> tuple[str, ...]:
    """The faults to cause on this kind of store: the requested ones, or all. Reports those that are not possible."""
    there = place.faults if experiment.restart is not None else place.faults - {"restart"}
    missing = sorted(set(experiment.faults) - there)
    if missing == ["restart"] and "restart" in place.faults:
        raise InvalidInput("Restarts need a command that starts the server: --restart-command 'systemctl …'.")
    if missing:
        raise InvalidInput(f"'{missing[0]}' cannot be done to {place.kind}; {', '.join(sorted(there))} can.")
    return tuple(sorted(experiment.faults or there))


def _not_stopped(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def run(
    experiment: Experiment,
    watch: Callable[[Progress], None] = lambda _progress: None,
    begin: Callable[[Place], None] = lambda _place: None,
    stopped_within: Callable[[float], bool] = _not_stopped,
) -> Report:
    """Run an experiment and judge it. If it is stopped early, the verdict is on the operations so far.

    `stopped_within` waits so many seconds and says whether to stop.
    """
    name = f"dibs-torture-{mint_id()}"
    place = place_beside(experiment.url, name)
    try:
        with tempfile.TemporaryDirectory(prefix="dibs-torture-") as folder:
            whole = _Run(experiment, place, folder, watch, stopped_within)
            begin(place)
            report = whole.report()
    except BaseException:
        place.close()
        raise
    try:
        place.close()
    except StoreError as error:
        return report._replace(left=error.message)
    return report


class _Run:
    def __init__(
        self,
        experiment: Experiment,
        place: Place,
        folder: str,
        watch: Callable[[Progress], None],
        stopped_within: Callable[[float], bool],
    ) -> None:
        self._experiment, self._place, self._folder, self._watch = experiment, place, folder, watch
        self._stopped_within = stopped_within
        self._faults = possible_faults(place, experiment)
        usual = _LEASE_IN_NOTION if place.timed else _LEASE
        self._lease = experiment.lease or usual
        self._skew = self._lease / 5 if "clock" in self._faults else 0.0
        self._interrupted = False
        self._began = time.monotonic()

    def report(self) -> Report:
        experiment = self._experiment
        log = os.path.join(self._folder, "planner.jsonl")
        size = min(experiment.tasks, _SLOW_TO_PLAN) if self._place.kind == "notion" else experiment.tasks
        planner = Planner(self._place.url, log, seed=experiment.seed, size=size, enough=max(1, size // 2))
        planner.start()
        planner.laid.wait(_TO_BEGIN)  # before the workers start
        crew = Crew(experiment.workers, self._terms())
        faults = self._made_for(crew)
        try:
            self._strain(crew, faults, planner)
            self._drain(crew, faults, planner)
        finally:
            faults.end()
            self._signal("stop")
            crew.end()
            planner.end()
        return self._judged(crew, faults, planner, log)

    def _made_for(self, crew: Crew) -> Faults:
        experiment = self._experiment
        return Faults(
            self._faults,
            crew,
            random.Random(f"{experiment.seed} faults"),  # noqa: S311 - an experiment that can be repeated
            lease=self._lease,
            calm=experiment.calm,
            proxy=self._place.proxy,
            restart=experiment.restart,
        )

    def _terms(self) -> Terms:
        experiment, place = self._experiment, self._place
        return Terms(
            place.through,
            self._folder,
            place.environment,
            experiment.seed,
            self._lease,
            experiment.work,
            self._skew,
            experiment.rule,
            experiment.mischief,
        )

    def _signal(self, word: str) -> None:
        open(os.path.join(self._folder, word), "wb").close()

    def _strain(self, crew: Crew, faults: Faults, planner: Planner) -> None:
        """The time with faults."""
        self._wait_for(crew)
        while not self._interrupted and (elapsed := time.monotonic() - self._began) < self._experiment.seconds:
            faults.tick()
            crew.tend()
            self._watch(Progress("working", elapsed, planner.counts, faults.counts))
            self._interrupted = self._stopped_within(_TICK)

    def _wait_for(self, crew: Crew) -> None:
        """Wait until every worker has made a request."""
        limit = time.monotonic() + _TO_BEGIN
        while not crew.at_work and time.monotonic() < limit and not self._interrupted:
            self._interrupted = self._stopped_within(_TICK)
        self._began = time.monotonic()

    def _drain(self, crew: Crew, faults: Faults, planner: Planner) -> None:
        """Let the workers finish the remaining tasks without faults."""
        faults.end()
        if self._interrupted:
            return
        self._signal("drain")
        planner.drain()
        patience = min(20.0, self._experiment.seconds) if self._place.timed else self._longest_pause()
        limit, least = time.monotonic() + patience, float("inf")
        while not (self._interrupted or planner.drained.wait(_TICK)) and time.monotonic() < limit:
            crew.tend()
            if planner.unfinished < least and not self._place.timed:  # while it gets less, it will be over some time
                limit, least = time.monotonic() + patience, planner.unfinished
            elapsed = time.monotonic() - self._began
            self._watch(Progress("finishing", elapsed, planner.counts, faults.counts))
            self._interrupted = self._stopped_within(0)

    def _longest_pause(self) -> float:
        """Seconds within which some task is finished, if any can be."""
        return 2 * self._assumptions().patience + 3 * self._lease

    def _judged(self, crew: Crew, faults: Faults, planner: Planner, log: str) -> Report:
        self._watch(Progress("checking", time.monotonic() - self._began, planner.counts, faults.counts))
        looked, findings = planner.look()
        operations = history.read([log, *crew.logs])
        assumptions = self._assumptions()
        found = violations(operations, assumptions)
        found += [Violation("no surprises", "", f"{who} broke down: {said}", ()) for who, said in crew.breakdowns]
        found += [Violation("no surprises", "", trouble, ()) for trouble in faults.trouble]
        found += [Violation("doctor", each.subject, f"{each.subject}: {each.problem}", ()) for each in findings]
        if not self._interrupted and not any(operation.given for operation in operations):
            found.append(Violation("no surprises", "", "no worker got a task, so this run shows nothing", ()))
        if not looked:
            found.append(Violation("no surprises", "", "in the end the store could not be looked at", ()))
        return Report(
            self._experiment,
            self._place.kind,
            self._faults,
            assumptions,
            found,
            figures(operations),
            [*faults.marks, *[Mark("clock", "wrong clock", 0.0, 0.0)] * crew.skewed],
            operations,
            planner.drained.is_set(),
            self._interrupted,
        )

    def _assumptions(self) -> Assumptions:
        """The tolerance for clocks: one that is ahead ends the leases of one that is behind."""
        if self._place.timed:
            return Assumptions(late=_EXPIRY_IN_NOTION, fenced=False, patience=4 * self._experiment.patience)
        off = 2 * self._skew
        forgotten = _WITHOUT_A_LEASE if self._place.kind == "vault" and "disk" in self._faults else 0.0
        patience = self._experiment.patience + 2 * self._lease
        arbitrated = self._place.kind == "notion"
        return Assumptions(0.05 + off, 0.25 + off, patience=patience, unanswered=forgotten, prolong=arbitrated)
