"""Races on PostgreSQL: a prepared store, two sessions and every schedule of them.

Unlike on SQLite, sessions do not queue for one lock: a session waits only for locks that it needs. So a schedule may
end like either serial order of the two operations, but in no third way. The comparison covers the whole store: tasks
with their derived columns, links and each task's history.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

from dibs.core.task import Actor
from dibs.desk import Desk
from dibs.stores.port import Query
from dibs.stores.postgres.store import PostgresStore
from dibs.stores.postgres.transaction import QUERIES
from interleave.postgres.player import Conductor, Player, Waiting, answer_of
from interleave.postgres.stops import Functions, make_tools, stops_of
from support.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from dibs.core.task import Task
    from dibs.stores.reports import Finding
    from interleave.stepper import Act, Answer

EVERY_SCHEDULE = bool(os.environ.get("DIBS_TORTURE"))  # also schedules that pause both sessions

_KEPT = ("task", "link", "event", "vector", "setting", "member", "output")
_EMPTY = f"TRUNCATE {', '.join(_KEPT)};"
DEADLOCK = "40P01"

# All that is not in the tasks themselves: derived columns, each task's history from its newest event back, and all
# events. Numbers that depend on the order of the sessions are left out.
_REST = """
WITH RECURSIVE chain (scope, id, seq, place) AS (
    SELECT scope, id, last_event, 1 FROM task
    UNION ALL
    SELECT chain.scope, chain.id, event.previous, chain.place + 1 FROM chain JOIN event ON event.seq = chain.seq
    WHERE chain.place < 50 -- a broken store may have led it round in a circle
)
SELECT 'derived', scope, id, json_build_array(claimable, wake_at, plan_digest,
    has_prerequisites, has_dependents, has_children, (
    SELECT array_agg(event.verb ORDER BY chain.place DESC) FROM chain JOIN event ON event.seq = chain.seq
    WHERE chain.scope = task.scope AND chain.id = task.id))::text
FROM task
UNION ALL
SELECT 'events', scope, task, json_agg(to_jsonb(event) - 'seq' - 'previous' ORDER BY seq)::text
FROM event GROUP BY scope, task
UNION ALL
SELECT 'link', a.id, b.id, (to_jsonb(link) - 'task' - 'on_task')::text
FROM link JOIN task AS a ON a.key = link.task JOIN task AS b ON b.key = link.on_task
UNION ALL
SELECT 'vector', scope, id, octet_length(unit)::text FROM vector JOIN task ON task.key = vector.task
UNION ALL
SELECT 'setting', scope, name, value::text FROM setting
UNION ALL
SELECT 'member', agent, role, seen_at::text FROM member
ORDER BY 1, 2, 3
"""


class Mutant(NamedTuple):
    """A store with deliberate defects: rewritten functions, rewritten queries, and the sessions that send them."""

    functions: Mapping[str, Callable[[str], str]] = {}
    queries: Mapping[str, Callable[[str], str]] = {}
    lanes: tuple[int, ...] = (1, 2, 3, 4)

    def rewrites(self, lane: int) -> dict[str, str]:
        wanted = self.queries if lane in self.lanes else {}
        return {QUERIES[name]: rewrite(QUERIES[name]) for name, rewrite in wanted.items()}


class Outcome(NamedTuple):
    """Both answers, the store's content afterwards, and the findings of its check."""

    first: Answer
    second: Answer
    tasks: tuple[Task, ...]
    rest: tuple[tuple[str, ...], ...]
    findings: tuple[Finding, ...]

    def task(self, task_id: str) -> Task:
        return next(task for task in self.tasks if task.id == task_id)

    def events(self, verb: str) -> int:
        """The number of events with this verb, as either server tells them."""
        return len(re.findall(rf"""verb['"][:,] ['"]{verb}['"]""", str(self.rest)))

    def swapped(self) -> Outcome:
        return self._replace(first=self.second, second=self.first)


class Race(NamedTuple):
    """A schedule and its outcome."""

    at: str
    until: str
    waited: str | None  # the kind of lock that the second waited for
    gave_way: tuple[str, ...]
    outcome: Outcome

    def swapped(self) -> Race:
        return self._replace(outcome=self.outcome.swapped())


class Stage:
    """One schema that is restored before every race."""

    def __init__(self, conductor: Conductor, players: tuple[Player, ...], functions: Functions) -> None:
        self.conductor = conductor
        self.players = players
        self._functions = functions
        self._desk: Desk | None = None
        self._time = Clock().time
        self._resets = 0
        self._checked: list[tuple[object, tuple[Finding, ...]]] = []

    @property
    def desk(self) -> Desk:
        """A desk outside all players, which never pauses."""
        if self._desk is None:
            store = PostgresStore(self.conductor.patient_url, schema=self.conductor.schema)
            self._desk = Desk(store, scope="s", by=Actor("tester"))
        return self._desk

    def prepared(self, setup: Callable[[Desk], object]) -> Self:
        self.set_up(setup)
        return self

    def set_up(self, setup: Callable[[Desk], object]) -> None:
        self._functions.put({})
        self._checked = []
        self._time = Clock().time
        self.set_clock(self._time)
        run = self.conductor.cursor.execute
        run(_EMPTY)
        setup(self.desk)
        for table in _KEPT:
            run(f"DROP TABLE IF EXISTS kept_{table}; CREATE TABLE kept_{table} AS TABLE {table}")

    def later(self, **span: float) -> None:
        """Let time pass before every race."""
        self._time += timedelta(**span)

    def set_clock(self, moment: datetime) -> None:
        clock = f"{stops_of(self.conductor.schema)}.clock"
        self.conductor.cursor.execute(f"DELETE FROM {clock}; INSERT INTO {clock} VALUES (%s)", (moment,))

    def advance(self, **span: float) -> None:
        """Let time pass during a race."""
        self.set_clock(self.desk._store.now() + timedelta(**span))

    def reset(self) -> None:
        """Restore the prepared store, sequences included."""
        self.set_clock(self._time)
        self._resets += 1
        # Deleting is far quicker than truncating, but leaves dead rows, as autovacuum is off.
        empty = "".join(f"DELETE FROM {table};" for table in reversed(_KEPT))
        again = "".join(f"INSERT INTO {table} SELECT * FROM kept_{table};" for table in _KEPT)
        self.conductor.cursor.execute(
            (empty if self._resets % 200 else _EMPTY)
            + again
            + "SELECT setval('task_key_seq', 1 + coalesce((SELECT max(key) FROM task), 0)),"
            " setval('event_seq_seq', 1 + coalesce((SELECT max(seq) FROM event), 0))"
        )

    def broken(self, mutant: Mutant | None) -> None:
        """Apply a mutant's functions, or restore them all."""
        self._functions.put(dict(mutant.functions) if mutant else {})

    def outcome(self, first: Answer, second: Answer) -> Outcome:
        self.conductor.cursor.execute(_REST)
        state = tuple(self.desk.find(Query())), tuple(self.conductor.cursor.fetchall())
        findings = next((findings for checked, findings in self._checked if checked == state), None)
        if findings is None:  # most schedules end alike, and a check takes longer than a race
            findings = tuple(self.desk.check())
            self._checked.append((state, findings))
        return Outcome(first, second, *state, findings)

    def one_by_one(self, first: Act, second: Act, mutant: Mutant) -> Outcome:
        """Run both operations one after the other on a mutant."""
        self.broken(mutant)
        self.reset()
        answers = []
        for player, act in zip(self.players, (first, second), strict=False):
            player.start(act, rewrites=mutant.rewrites(player.lane))
            answers.append(player.finish())
        self.broken(None)
        return self.outcome(answers[0], answers[1])

    def in_turn(self, first: Act, second: Act) -> Outcome:
        """Run both operations one after the other: the expected outcome."""
        self.reset()
        answers = [answer_of(partial(act, self.desk)) for act in (first, second)]
        return self.outcome(answers[0], answers[1])

    def places(self, act: Act, mutant: Mutant | None = None) -> list[str]:
        """The statements at which an undisturbed operation can pause."""
        self.reset()
        player = self.players[0]
        player.start(act, rewrites=mutant.rewrites(player.lane) if mutant else None)
        player.finish()
        return player.places

    def races(
        self,
        first: Act,
        second: Act,
        mutant: Mutant | None = None,
        *,
        meanwhile: Callable[[], object] | None = None,
        every: bool = EVERY_SCHEDULE,
    ) -> Iterator[Race]:
        """Pause the first at each of its statements, one per race, while the second runs until it ends or waits.

        With `every`, the second pauses too, at each statement up to the one where it waits. The callback runs while the
        first is paused and the second has not begun.
        """
        self.broken(mutant)
        try:
            of_first = self.places(first, mutant)
            of_second = self.places(second, mutant)
            for at, place in enumerate(of_first, 1):
                for until in range(1, len(of_second) + 1) if every else ():
                    race = self.race(first, second, at, until, mutant, meanwhile)
                    yield race._replace(at=f"{at} {place}", until=f"{until} {of_second[until - 1]}")
                    if race.waited:
                        break
                else:
                    yield self.race(first, second, at, None, mutant, meanwhile)._replace(at=f"{at} {place}")
        finally:
            self.broken(None)

    def race(
        self,
        first: Act,
        second: Act,
        at: int,
        until: int | None,
        mutant: Mutant | None = None,
        meanwhile: Callable[[], object] | None = None,
    ) -> Race:
        self.reset()
        one, other = self.players[:2]
        one.start(first, stop=at, rewrites=mutant.rewrites(one.lane) if mutant else None)
        if meanwhile is not None:
            meanwhile()
        sign = other.start(second, stop=until, rewrites=mutant.rewrites(other.lane) if mutant else None)
        one.let_go()
        other.let_go()
        outcome = self.outcome(one.finish(), other.finish())
        waited = sign.kind if isinstance(sign, Waiting) else None
        return Race(str(at), str(until or "the end"), waited, (*one.gave_way, *other.gave_way), outcome)

    @contextmanager
    def left(self) -> Iterator[Desk]:
        """A desk on the store as the latest race left it."""
        yield self.desk

    @property
    def began(self) -> datetime:
        """The time at which every race begins."""
        return self._time

    def crowd(self, at: int, *asked: Act, mutant: Mutant | None = None) -> list[Answer]:
        """Pause the first at its n-th statement, start the others in order, then let all run on in that order."""
        self.reset()
        there = self.players[: len(asked)]
        for player, act in zip(there, asked, strict=True):
            rewrites = mutant.rewrites(player.lane) if mutant else None
            player.start(act, stop=at if player is there[0] else None, rewrites=rewrites)
        for player in there:
            player.let_go()
        return [player.finish() for player in there]

    def always_serial(
        self, first: Act, second: Act, *, gives_way: bool = False, answers: bool = True
    ) -> tuple[Outcome, Outcome]:
        """Race both ways round, and return the outcomes with the first earlier and with the second earlier.

        Answers are in the order of the arguments; without `answers`, only the store's content is compared. Unless
        `gives_way`, no session may be ended by a deadlock.
        """
        forth, back = self.in_turn(first, second), self.in_turn(second, first).swapped()
        assert (forth.findings, back.findings) == ((), ())
        races = [*self.races(first, second), *(race.swapped() for race in self.races(second, first))]
        for race in races:
            same = race.outcome if answers else race.outcome._replace(first=forth.first, second=forth.second)
            turned = race.outcome if answers else race.outcome._replace(first=back.first, second=back.second)
            assert forth == same or back == turned, explained(race, forth, back)
            assert gives_way or DEADLOCK not in race.gave_way, explained(race, forth, back)
        return forth, back


def explained(race: Race, *allowed: Outcome) -> str:
    """The difference between a race's outcome and the closest allowed one."""
    likely = max(allowed, key=lambda outcome: (outcome[:2] == race.outcome[:2], outcome.tasks == race.outcome.tasks))
    lines = [f"the first at {race.at}, the second until {race.until}, waiting for {race.waited}; {race.gave_way}"]
    lines += [f"told: {race.outcome.first!r:.200}", f"told: {race.outcome.second!r:.200}", f"{race.outcome.findings}"]
    lines += [f"instead of: {likely.first!r:.200}", f"instead of: {likely.second!r:.200}"]
    lines += [f"got:  {row!r:.400}" for row in race.outcome.rest if row not in likely.rest]
    lines += [f"not:  {row!r:.400}" for row in likely.rest if row not in race.outcome.rest]
    return "\n".join(lines)


def build(url: str, schema: str) -> tuple[Conductor, Functions]:
    """Create a store in its own schema, with a fixed clock and with stops in its functions."""
    PostgresStore(url, schema=schema, create=True).close()
    conductor = Conductor(url, schema)
    make_tools(conductor.cursor, schema)
    conductor.cursor.execute(
        "CREATE OR REPLACE FUNCTION desk_now() RETURNS timestamptz LANGUAGE sql STABLE AS "
        f"'SELECT moment FROM {stops_of(schema)}.clock'"
    )
    for table in _KEPT:  # only players may take locks
        conductor.cursor.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
    return conductor, Functions(conductor.cursor, schema)
