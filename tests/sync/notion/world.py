"""Random events between and during syncs, and the invariants that must hold afterwards."""

from __future__ import annotations

import contextlib
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Edit
from dibs.desk import Desk
from dibs.stores.port import Query
from dibs.sync.notion.database import WEIGHTS, Field, agrees, row_of, weight_of
from dibs.sync.notion.reconcile import GONE, Kind, page_of
from dibs.sync.notion.syncing import Sync
from sync.notion.scene import ANN, FLEET

if TYPE_CHECKING:
    from random import Random

    from dibs.core.task import Task
    from dibs.sync.notion.report import Report
    from sync.notion.scene import Scene

STATUSES = ("Not Started", "Blocked", "Ready", "In Progress", "Completed", "Cancelled", "Whatever")
AGENTS = ("Jochi", "Temüjin", "Nobody Known", None)
FAULTS = (
    "conflict", "unavailable", "unavailable_after_commit", "drop_after_commit", "rate_limited", "garbage",
    "internal_error", "overload",
)  # fmt: skip
LEASE = timedelta(days=20)
NAMES = {Field.TITLE: "title", Field.PRIORITY: "priority", Field.AGENT: "assigned_to"}


class Killed(BaseException):
    """The process died; nothing more is done."""


class Mortal:
    """An object whose caller dies before or after one of its calls."""

    def __init__(self, inner: Any, life: Life) -> None:
        self._inner, self._life = inner, life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: Any, **more: Any) -> Any:
            self._life.spend()
            done = found(*args, **more)
            self._life.spend()
            return done

        return call


class Life:
    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self) -> None:
        self.left -= 1
        if self.left <= 0:
            raise Killed


class World:
    def __init__(self, scene: Scene, rng: Random) -> None:
        self.scene, self.rng = scene, rng
        self.pages: list[str] = []
        self.trash: set[str] = set()
        self.trashed: set[str] = set()  # at any time
        self.held: dict[str, str] = {}  # task → token
        self.there: dict[tuple[str, Field], str | None] = {}  # a person's latest values in rows
        self.here: dict[tuple[str, Field], object] = {}  # a person's latest values here
        self.number = 0
        scene.options = scene.options._replace(aggressive=rng.random() < 0.5)

    # Actions of people and agents

    def act(self) -> None:
        acts = (
            self._row,
            self._edit,
            self._edit,
            self._edit,
            self._trash,
            self._restore,
            self._task,
            self._claim,
            self._finish,
            self._steer,
            self._say,
            self._say,
        )
        self.rng.choice(acts)()
        self.scene.clock.advance(seconds=self.rng.choice((0, 1, 20, 70)))

    def _row(self) -> None:
        self.number += 1
        fields = {name: value for name, value in self._said().items() if self.rng.random() < 0.7}
        page = self.scene.row(f"Row {self.number}", **fields)
        self.pages.append(page.replace("-", ""))

    def _said(self) -> dict[str, Any]:
        return {
            "status": self.rng.choice(STATUSES),
            "priority": self.rng.choice([*WEIGHTS, "Odd", None]),
            "agent": self.rng.choice(AGENTS),
        }

    def _edit(self) -> None:
        if page := self._page():
            self.number += 1
            said = self._said() | {"name": self.rng.choice((f"Name {self.number}", f"Name {self.number}", ""))}
            name = self.rng.choice(sorted(said))
            self.scene.edit(page, **{name: said[name]})
            field = {"name": Field.TITLE, "status": Field.STATUS, "priority": Field.PRIORITY, "agent": Field.AGENT}[
                name
            ]
            self.there[page, field] = said[name] or None
            self.here.pop((self._task_of(page) or "", field), None)

    def _trash(self) -> None:
        if self.rng.random() < 0.4 and (page := self._page()):
            self.scene.notion.human.trash(page)
            self.trash.add(page)
            self.trashed.add(page)

    def _restore(self) -> None:
        if self.trash:
            page = self.rng.choice(sorted(self.trash))
            self.scene.notion.human.restore(page)
            self.trash.discard(page)

    def _page(self) -> str | None:
        alive = [page for page in self.pages if page not in self.trash]
        return self.rng.choice(alive) if alive else None

    def _task(self) -> None:
        self.number += 1
        self.scene.add(Draft(f"Task {self.number}", id=f"t{self.number}", priority=-0.5))

    def _tasks(self) -> list[Task]:
        return sorted(self.scene.store.find(Query(ANN)), key=lambda task: task.id)

    def _task_of(self, page: str) -> str | None:
        return next((task.id for task in self._tasks() if page_of(task) == page), None)

    def _claim(self) -> None:
        open_ = [task for task in self._tasks() if task.id not in self.held]
        if open_:
            task = self.rng.choice(open_)
            self._tried(lambda: self._hold(task))

    def _hold(self, task: Task) -> None:
        agent = task.assigned_to or "ann"
        (claimed,) = self.scene.desk.claim(agent, refs=[task.id], lease=LEASE)
        assert claimed.task.lease is not None
        self.held[task.id] = claimed.task.lease.token

    def _finish(self) -> None:
        if self.held:
            task = self.rng.choice(sorted(self.held))
            verb = self.rng.choice((Verb.DONE, Verb.RELEASE, Verb.BLOCK, Verb.REVIEW))
            self.scene.desk.move(verb, task, token=self.held.pop(task), reason="so", artifacts=["https://x.test/r"])

    def _steer(self) -> None:
        idle = [task for task in self._tasks() if task.id not in self.held]
        if idle:
            task = self.rng.choice(idle)
            verb = self.rng.choice((Verb.BLOCK, Verb.UNBLOCK, Verb.PAUSE, Verb.RESUME, Verb.CANCEL, Verb.REOPEN))
            self._tried(lambda: self.scene.desk.move(verb, task.id, reason="said here"))

    def _say(self) -> None:
        tasks = [task for task in self._tasks() if not task.finished]
        if not tasks:
            return
        task = self.rng.choice(tasks)
        self.number += 1
        field, edit = self.rng.choice(
            (
                (Field.TITLE, Edit(title=f"Said {self.number}")),
                (Field.PRIORITY, Edit(priority=-self.rng.choice((0.2, 0.55, 0.77, 0.9)), override=True)),
                (Field.PRIORITY, Edit(priority=-self.rng.choice((0.21, 0.56, 0.78, 0.91)))),
                (Field.AGENT, Edit(assigned_to=self.rng.choice(("writer", "analyst")))),
            )
        )
        self.scene.desk.edit(task.id, edit)
        self.here[task.id, field] = self._value(self.scene.desk.get(task.id), field)

    def _value(self, task: Task, field: Field) -> object:
        return {Field.TITLE: task.title, Field.PRIORITY: weight_of(task), Field.AGENT: task.assigned_to}.get(field)

    def _tried(self, act: Any) -> None:
        try:
            act()
        except DibsError:
            return  # not possible now

    # Syncs and faults

    def sync(self) -> None:
        faults = self.scene.notion.faults
        faults.query_lag = self.rng.choice((0, 0, 30, 90))
        for _ in range(self.rng.choice((0, 0, 1, 3))):
            faults.next(self.rng.choice(FAULTS), skip=self.rng.randrange(6), times=self.rng.choice((1, 1, 6)))
        life = Life(self.rng.randrange(2, 400) if self.rng.random() < 0.5 else 10**9)
        scene = self.scene
        desk, gateway = Desk(Mortal(scene.store, life)), Mortal(scene.gateway, life)
        sync = Sync(desk, gateway, ANN, scene.options, sleep=scene.sleep, ticks=lambda: scene.time)
        with contextlib.suppress(Killed, DibsError):
            sync.run(polled=self.rng.random() < 0.5)
        faults.clear()
        scene.clock.advance(minutes=8)

    # Invariants

    def quiet(self) -> None:
        """Check that both sides agree, no work was interrupted, nothing is duplicated or silently lost."""
        for _ in range(2):
            self.scene.clock.advance(minutes=10)
            self.scene.sync()
        self.scene.clock.advance(minutes=10)
        last = self.scene.sync()
        assert not self._visible(last), last
        self._agree()
        self._undisturbed()
        self._nothing_lost()

    def one_sided(self) -> None:
        """Check that a change of one side reaches the other, despite faults in between."""
        meant: dict[tuple[str, Field], object] = {}
        for task in self._tasks():
            page = page_of(task)
            if page is None or task.extra.get(GONE) or task.finished or task.id in self.held or page in self.trash:
                continue
            self.number += 1
            field, there, here, value = self.rng.choice(
                (
                    (
                        Field.TITLE,
                        {"name": f"Only {self.number}"},
                        Edit(title=f"Only {self.number}"),
                        f"Only {self.number}",
                    ),
                    (Field.PRIORITY, {"priority": "High"}, Edit(priority=-0.8), 0.8),
                    (Field.AGENT, {"agent": "Chagatai"}, Edit(assigned_to="writer"), "writer"),
                )
            )
            if self.rng.random() < 0.5:
                self.scene.desk.edit(task.id, here)
            elif row_of(self.scene.gateway.page(page)).fields[field] in there.values():
                continue  # not a change: a weight of 0.78 is High already
            else:
                self.scene.edit(page, **there)
            meant[task.id, field] = value
        self.there.clear()
        self.here.clear()
        self.sync()
        self.quiet()
        found = {(id_, field): self._value(self.scene.store.get(ANN, id_), field) for id_, field in meant}
        assert found == meant

    def _visible(self, report: Report) -> list[object]:
        skipped = [each for each in report.skipped if each.kind is not Kind.MISSING]
        return [*report.applied, *skipped, *report.failed] + [1] * (report.written + report.unwritten + report.left)

    def _agree(self) -> None:
        tasks = [task for task in self._tasks() if page_of(task) and not task.extra.get(GONE)]
        assert max(Counter(page_of(task) for task in tasks).values(), default=1) == 1
        by_page = {page_of(task): task for task in tasks}
        for page in set(self.pages) - self.trash:
            row = row_of(self.scene.gateway.page(page))
            task = by_page.get(page)
            if task is None:
                assert row.fields[Field.STATUS] in {"Completed", "Cancelled"}, row
                continue
            assert row.id == task.id
            for field in Field:
                assert agrees(field, row.fields[field], task, FLEET), (field, row, task, task.extra)

    def _undisturbed(self) -> None:
        for task, token in self.held.items():
            found = self.scene.store.get(ANN, task)
            assert found.lease is not None
            assert found.lease.token == token
            self.scene.desk.renew(task, token, lease=LEASE)

    def _nothing_lost(self) -> None:
        lines = [(event.task, event.detail) for event in self.scene.changes()]
        for (page, field), said in self.there.items():
            task = self._task_of(page)
            if task is None or page in self.trash:
                continue
            row = row_of(self.scene.gateway.page(page))
            put = "" if said is None else str(said)
            told = any(
                one == task and line["change_type"] == str(field) and _mentions(line, put) for one, line in lines
            )
            assert row.fields[field] == said or told, (page, field, said, row, lines)
        edits = [event for event in self.scene.desk.events() if event.verb == "edit" and event.agent == "notion"]
        for (task, field), meant in self.here.items():
            now = self._value(self.scene.store.get(ANN, task), field)
            told = any(
                one == task and line["change_type"] == str(field) and str(meant) == line["old_value"]
                for one, line in lines
            )
            # If the sync died at once, the edit's own event in the same transaction has the old value.
            edited = any(event.task == task and _written_over(event.detail, field, meant) for event in edits)
            assert now == meant or told or edited, (task, field, meant, now, lines)
        for task, line in lines:
            of = page_of(self.scene.store.get(ANN, task))
            assert line["change_type"] != "deleted" or of in self.trashed, "what is there counts as deleted"


def _mentions(line: Any, put: str) -> bool:
    """Return the recorded values that were overwritten, skipped or superseded."""
    weight = str(WEIGHTS.get(put, put))
    agent = FLEET.agent_called(put) if put else ""
    return bool({put, weight, agent} & {line["old_value"], line["new_value"]})


def _written_over(detail: Any, field: Field, meant: Any) -> bool:
    old, _new = detail.get(NAMES[field]) or (None, None)
    return bool(old == (-meant if field is Field.PRIORITY else meant))
