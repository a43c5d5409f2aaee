"""A correct desk in a few lines, with simulated time, for workers that act at random.

It writes the history of its workers: each request begins a little before it takes effect, and ends a little after.
Some answers get lost, of requests that took effect and of some that did not.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from dibs.lab.torture.history import Operation

LEASE = 10.0
TASKS = ("a", "b", "c", "d", "e")
WORKERS = ("w0.1", "w1.1", "w2.1")
VERBS = ("done", "fail", "release", "block", "cancel", "renew")
_LEADS_TO = {"done": "done", "fail": "ready", "release": "ready", "block": "blocked", "cancel": "canceled"}
FINISHED = frozenset({"done", "canceled"})


class Held(NamedTuple):
    task: str
    attempt: int
    token: str
    until: float


class Standing:
    """The state of a task."""

    def __init__(self) -> None:
        self.status = "ready"
        self.attempt = 0
        self.held: Held | None = None
        self.spent: tuple[str, str] | None = None  # the last word of the latest attempt, and its token
        self.result: str | None = None


class TrueDesk:
    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.moment = 100.0
        self.operations: list[Operation] = []
        self.tasks = {task: Standing() for task in TASKS}
        self.links = {(task, on) for number, task in enumerate(TASKS) for on in TASKS[:number] if dice.random() < 0.4}
        self.tokens: list[Held] = []  # all that were ever given
        made = {task: (2.0, tuple(on for each, on in sorted(self.links) if each == task)) for task in TASKS}
        self._note("planner", "add", made=made)

    def step(self) -> None:
        self.moment += self.dice.choice((0.5, 1.0, 3.0, 11.0))
        worker = self.dice.choice(WORKERS)
        act = self.dice.choice((self.claim, self.claim, self.say, self.say, self.tie, self.unblock))
        act(worker)

    def finish(self) -> list[Operation]:
        """Record the final state."""
        self.moment += 1
        rows = [
            {"id": task, "status": one.status, "attempt": one.attempt, "blockers": self._waits_for(task),
             "result": {"by": one.result} if one.result else None}
            for task, one in self.tasks.items()
        ]  # fmt: skip
        statuses = [one.status for one in self.tasks.values()]
        counts = {status: statuses.count(status) for status in set(statuses)}
        self._note("planner", "look", seen={"tasks": rows, "links": sorted(self.links), "counts": counts})
        return sorted(self.operations, key=lambda each: each.begin)

    def claim(self, worker: str) -> None:
        ready = [task for task in TASKS if self._free(task)]
        if not ready:
            self._note(worker, "claim", lease=LEASE)
            return
        task = ready[0]
        lost = self._lost()
        if lost != "before":
            one = self.tasks[task]
            one.attempt += 1
            one.held = Held(task, one.attempt, f"{task}-{one.attempt}-{len(self.operations)}", self.moment + LEASE)
            one.status, one.spent = "active", None
            if not lost:
                self.tokens.append(one.held)
                given = {task: (one.attempt, one.held.token)}
                self._note(worker, "claim", lease=LEASE, given=given)
        if lost:
            self._note(worker, "claim", lost=True, lease=LEASE)

    def say(self, worker: str) -> None:
        if not self.tokens:
            return
        held = self.dice.choice(self.tokens[-4:])
        verb = self.dice.choice(VERBS)
        one = self.tasks[held.task]
        said: dict[str, Any] = {"task": held.task, "token": held.token, "lease": LEASE if verb == "renew" else 0.0}
        if one.held is None and one.spent == (verb, held.token):
            self._note(worker, verb, repeated=True, **said)
        elif one.held is None or one.held.token != held.token or one.held.until <= self.moment:
            self._note(worker, verb, code="LOST_LOCK", **said)
        else:
            self._carry_out(worker, verb, one, said)

    def _carry_out(self, worker: str, verb: str, one: Standing, said: dict[str, Any]) -> None:
        lost = self._lost()
        if lost != "before" and one.held is not None:
            if verb == "renew":
                one.held = one.held._replace(until=self.moment + LEASE)
            else:
                one.status, one.spent, one.held = _LEADS_TO[verb], (verb, one.held.token), None
                one.result = f"{worker}/{len(self.operations)}" if verb == "done" else one.result
        self._note(worker, verb, lost=bool(lost), **said)

    def tie(self, worker: str) -> None:
        one, two = self.dice.choice(TASKS), self.dice.choice(TASKS)
        task, on = max(one, two), min(one, two)  # in one direction only, so there is no cycle
        if task == on:
            return
        there = (task, on) in self.links
        lost = self._lost()
        if lost != "before":
            self.links ^= {(task, on)}
        self._note(worker, "unlink" if there else "link", lost=bool(lost), task=task, on=on)

    def unblock(self, worker: str) -> None:
        for task, one in self.tasks.items():
            if one.status == "blocked":
                one.status = "ready"
                self._note(worker, "unblock", task=task)
                return

    def _free(self, task: str) -> bool:
        one = self.tasks[task]
        over = one.status == "active" and one.held is not None and one.held.until <= self.moment
        return (one.status == "ready" or over) and not self._waits_for(task)

    def _waits_for(self, task: str) -> int:
        return sum(each == task and self.tasks[on].status not in FINISHED for each, on in self.links)

    def _lost(self) -> str:
        """Whether the question got lost, or its answer, or, mostly, neither."""
        return str(self.dice.choice(("", "", "", "", "", "before", "after")))

    def _note(self, worker: str, verb: str, *, lost: bool = False, code: str = "", **said: Any) -> None:
        outcome = "unknown" if lost else "refused" if code else "ok"
        begin, end = self.moment - 0.1, None if lost else self.moment + 0.1
        number = len(self.operations)
        self.operations.append(Operation(worker, worker, number, verb, begin, end, outcome, code, **said))  # type: ignore[arg-type]


def history(seed: int) -> list[Operation]:
    """The same for the same seed."""
    dice = random.Random(seed)
    desk = TrueDesk(dice)
    for _ in range(dice.randint(5, 80)):
        desk.step()
    return desk.finish()
