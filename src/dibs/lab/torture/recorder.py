"""A desk whose user writes down what it asks and what it hears, before and after every call."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Draft, Link, LinkKind
from dibs.lab.torture.checking.keeping import signature
from dibs.lab.torture.history import now
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.task import Claimed
    from dibs.desk import Desk
    from dibs.lab.torture.history import Log
    from dibs.lab.torture.plan import Planned
    from dibs.stores.port import Moved

Answer = TypeVar("Answer")


class Hold(NamedTuple):
    """A task that was given to somebody: `over` is when its lease has ended for sure, as far as is known."""

    task: str
    token: str
    over: float

    def __repr__(self) -> str:
        return f"Hold({self.task})"


class Recorder:
    """The verbs that a worker uses. What is refused, and what trouble there is, is written down and no error here."""

    def __init__(self, desk: Desk, log: Log, *, worker: str, agent: str, lease: float) -> None:
        self._desk, self._log, self._worker, self._agent = desk, log, worker, agent
        self._lease = lease
        self._span = timedelta(seconds=lease)

    def claim(self, count: int = 1, refs: Sequence[str] = ()) -> list[Hold]:
        number = self._log.asked("claim", lease=self._lease, named=bool(refs))
        claimed = self._try(
            number, lambda: self._desk.claim(self._agent, refs=refs, count=count, lease=self._span), self._given
        )
        return self._holds(claimed or ())

    def finish(self, verb: Verb, hold: Hold, *, go_on: bool = False) -> tuple[bool, list[Hold]]:
        """Say a last word; if asked to, go on with the next task in the same breath. Whether that counted."""
        number = self._log.asked(verb.value, task=hold.task, token=hold.token)
        then = self._log.asked("claim", lease=self._lease) if go_on else 0
        request = self._desk.next_request(self._agent, lease=self._span) if go_on else None
        result = {"by": signature(self._worker, number)} if verb is Verb.DONE else None
        try:
            moved = self._desk.move(
                verb, hold.task, token=hold.token, result=result, on_cancel=CanceledBlocker.RESOLVES, then=request
            )
        except DibsError as error:
            for asked in filter(None, (number, then)):
                self._log.failed(asked, error)
            return False, []
        self._log.answered(number, "ok", repeated=moved.repeated)
        if then:
            self._log.answered(then, "ok", **self._given(moved.next))
        return True, self._holds(moved.next)

    def renew(self, hold: Hold) -> Hold:
        number = self._log.asked("renew", task=hold.task, token=hold.token, lease=self._lease)
        renewed = self._try(number, lambda: self._desk.renew(hold.task, hold.token, lease=self._span))
        return hold if renewed is None else hold._replace(over=now() + self._lease)

    def cancel(self, task: str) -> None:
        self._say(Verb.CANCEL, task)

    def unblock(self, task: str) -> None:
        self._say(Verb.UNBLOCK, task)

    def _say(self, verb: Verb, task: str) -> Moved | None:
        number = self._log.asked(verb.value, task=task)
        return self._try(number, lambda: self._desk.move(verb, task, on_cancel=CanceledBlocker.RESOLVES))

    def link(self, task: str, on: str) -> None:
        number = self._log.asked("link", task=task, on=on)
        self._try(number, lambda: self._desk.link([Link(task, on)]))

    def unlink(self, task: str, on: str) -> None:
        number = self._log.asked("unlink", task=task, on=on)
        self._try(number, lambda: self._desk.unlink([Link(task, on)]))

    def lay(self, wave: Sequence[Planned], prefix: str) -> None:
        """Take in a plan, all at once. Where links cannot be, its tasks wait for nothing."""
        links = self._desk.capabilities.links
        ids = [f"{prefix}-{place}" for place in range(len(wave))]
        after = {ids[place]: [ids[one] for one in planned.after] if links else [] for place, planned in enumerate(wave)}
        drafts = [Draft(each.title, id_, priority=each.priority) for id_, each in zip(ids, wave, strict=True)]
        self._add(drafts, after)

    def add(self, task: str, priority: float, after: Sequence[str]) -> None:
        self._add([Draft(f"follow-up {task}", task, priority=priority)], {task: list(after)})

    def _add(self, drafts: Sequence[Draft], after: dict[str, list[str]]) -> None:
        made = {draft.id: (draft.priority, after[draft.id]) for draft in drafts}
        number = self._log.asked("add", made=made)
        links = [Link(task, on) for task, before in after.items() for on in before]
        self._try(number, lambda: self._desk.add(drafts, links))

    def ready(self, limit: int) -> list[str]:
        """Only a look: no rule says anything about it."""
        try:
            return [task.id for task in self._desk.ready(limit=limit, agent=self._agent)]
        except DibsError:
            return []

    def look(self) -> bool:
        """All that is there, for whoever comes when everybody has gone. Whether it could be seen."""
        number = self._log.asked("look")
        seen = self._try(number, self._everything, lambda seen: {"seen": seen})
        return seen is not None

    def _everything(self) -> dict[str, object]:
        desk = self._desk
        graph = desk.graph(finished=True) if desk.capabilities.links else None
        tasks = desk.find(Query(desk.scope)) if graph is None else graph.tasks
        links = () if graph is None else graph.links
        return {
            "tasks": [
                {"id": each.id, "status": each.status, "attempt": each.attempt, "blockers": each.blockers,
                 "result": each.result}
                for each in tasks
            ],
            "links": [(link.task, link.on) for link in links if link.kind is LinkKind.BLOCKS],
            "counts": dict(self._desk.counts().by_status),
        }  # fmt: skip

    def _holds(self, claimed: Sequence[Claimed]) -> list[Hold]:
        over = now() + self._lease
        return [Hold(each.task.id, each.task.lease.token, over) for each in claimed if each.task.lease is not None]

    def _given(self, claimed: Sequence[Claimed]) -> dict[str, object]:
        leases = {each.task.id: each.task.lease for each in claimed}
        return {"given": {task: (lease.attempt, lease.token) for task, lease in leases.items() if lease is not None}}

    def _try(
        self,
        number: int,
        ask: Callable[[], Answer],
        told: Callable[[Answer], dict[str, object]] = lambda _answer: {},
    ) -> Answer | None:
        try:
            answer = ask()
        except DibsError as error:
            self._log.failed(number, error)
            return None
        self._log.answered(number, "ok", **told(answer))
        return answer
