"""Short words for what the tests do all the time. Every helper speaks to a store through the port."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

from dibs.core.events import Event
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.plan import Plan, parse_jsonl
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft, Holder, Link, LinkKind, Status, Task
from dibs.stores.port import EventQuery, Query, need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dibs.core.plan import PlanChanges
    from dibs.core.task import Claimed, Edit
    from dibs.stores.port import Fleet, Moved, Output, Settings, Store, Vectors
    from dibs.stores.reports import Record

SCOPE = "home"
LEASE = timedelta(minutes=20)
MAKER = Actor("maker", "run-0")
UNFINISHED = tuple(status for status in Status if status not in {Status.DONE, Status.CANCELED})

_numbers = count(1)


def quiet(_done: int) -> None:
    """Ignore progress."""


def needs_transactions(store: Store) -> None:
    """Plans and imports are for stores that can change many tasks at once; the others' tests leave them out."""
    assert store.capabilities.transactions, "mark this test with @needs('transactions')"


def new_token() -> str:
    """Unmistakable wherever it should not turn up."""
    return f"secret-{next(_numbers):06}"


def draft(given: str | Draft, **fields: Any) -> Draft:
    return Draft(**{"title": f"Task {given}", "id": given} | fields) if isinstance(given, str) else given


def add(store: Store, *tasks: str | Draft, links: Sequence[Link] = (), scope: str = SCOPE, **fields: Any) -> list[Task]:
    """`add(store, "a", "b", priority=1, links=[blocks("b", "a")])`"""
    return store.add(scope, [draft(task, **fields) for task in tasks], links, MAKER)


def blocks(task: str, on: str) -> Link:
    return Link(task, on, LinkKind.BLOCKS)


def feeds(task: str, on: str) -> Link:
    return Link(task, on, LinkKind.FEEDS_INTO)


def parallel(task: str, on: str) -> Link:
    return Link(task, on, LinkKind.PARALLEL_OK)


def chain(ids: Sequence[str]) -> list[Link]:
    """Each waits for the one before it; the last link comes first, so that no walk is long."""
    return [blocks(task, on) for task, on in zip(ids[:0:-1], ids[-2::-1], strict=True)]


def link(store: Store, *links: Link, scope: str = SCOPE) -> list[Link]:
    return store.link(scope, links, MAKER)


def unlink(store: Store, *links: Link, scope: str = SCOPE) -> list[Link]:
    return store.unlink(scope, links, MAKER)


def request(agent: str = "ann", *ids: str, count: int = 1, scope: str | None = SCOPE, **more: Any) -> ClaimRequest:
    tokens = tuple(new_token() for _ in ids or range(count))
    return ClaimRequest(agent, tokens, scope, ids, **({"lease": LEASE} | more))


def claim(store: Store, agent: str = "ann", *ids: str, **more: Any) -> list[Claimed]:
    """The next tasks, or the named ones, for an agent."""
    return store.claim(request(agent, *ids, **more))


def claim_ids(store: Store, agent: str = "ann", *ids: str, **more: Any) -> list[str]:
    return [claimed.task.id for claimed in claim(store, agent, *ids, **more)]


def peek_ids(store: Store, agent: str = "ann", *, limit: int = 100, unable: bool = False, **more: Any) -> list[str]:
    return [task.id for task in store.peek(request(agent, **more), limit, unable=unable)]


def hold(store: Store, task: str, agent: str = "ann", **more: Any) -> str:
    """Claim one task by name and return the token that proves it."""
    asked = request(agent, task, **more)
    store.claim(asked)
    return asked.tokens[0]


def hold_as_human(store: Store, task: str, agent: str = "hannah", **more: Any) -> str:
    return hold(store, task, agent, holder=Holder.HUMAN, **more)


def move(
    store: Store,
    verb: Verb,
    task: str,
    token: str | None = None,
    *,
    by: Actor = Actor("ann"),  # noqa: B008 - frozen
    on_cancel: CanceledBlocker = CanceledBlocker.ESCALATES,
    then: ClaimRequest | None = None,
    scope: str = SCOPE,
    **more: Any,
) -> Moved:
    return store.move(Move(verb, task, scope, by, token=token, **more), on_cancel, then)


def finish(store: Store, *tasks: str, **more: Any) -> None:
    """Claim and complete, one after the other."""
    for task in tasks:
        move(store, Verb.DONE, task, hold(store, task), **more)


def amend(store: Store, task: str, edit: Edit, scope: str = SCOPE) -> Task:
    return store.amend(scope, task, edit, MAKER)


def get(store: Store, task: str, scope: str = SCOPE) -> Task:
    return store.get(scope, task)


def statuses(store: Store, scope: str = SCOPE) -> dict[str, Status]:
    return {task.id: task.status for task in store.find(Query(scope))}


def blockers(store: Store, scope: str = SCOPE) -> dict[str, int]:
    return {task.id: task.blockers for task in store.find(Query(scope))}


def links_of(store: Store, task: str) -> set[tuple[str, str, LinkKind]]:
    return {(link.task, link.on, link.kind) for link in store.links(SCOPE, task)}


def plan(*entries: dict[str, Any]) -> Plan:
    """`plan({"id": "a"}, {"id": "b", "deps": ["a"]})`; a title is made up where there is none."""
    return parse_jsonl("\n".join(json.dumps({"t": f"Task {entry['id']}"} | entry) for entry in entries))


def apply(
    store: Store,
    wanted: Plan,
    *,
    dry_run: bool = False,
    on_cancel: CanceledBlocker = CanceledBlocker.ESCALATES,
    scope: str = SCOPE,
) -> PlanChanges:
    needs_transactions(store)
    return store.apply_plan(scope, wanted, on_cancel, MAKER, dry_run=dry_run, progress=quiet)


def restore(
    store: Store,
    records: Iterable[Record],
    by: Actor = Actor("mover", "run-1"),  # noqa: B008 - frozen
    progress: Callable[[int], None] = quiet,
) -> int:
    needs_transactions(store)
    return store.restore(records, by, progress)


def events(store: Store, task: str | None = None, scope: str | None = SCOPE, after: int = 0) -> list[Event]:
    return store.events(EventQuery(scope, task, after))


def keeps_history(store: Store) -> bool:
    """What happened can be read again; where it cannot, the rest of a test is still worth asking."""
    return store.capabilities.history


def last_seq(store: Store) -> int:
    if not keeps_history(store):
        return 0
    return max((event.seq for event in store.events(EventQuery(last=1))), default=0)


def verbs(store: Store, task: str | None = None) -> list[str]:
    return [event.verb for event in events(store, task)]


def state(store: Store) -> list[Record]:
    """Every task and every link, whatever the events say."""
    return [record for record in store.dump() if not isinstance(record.item, Event)]


def dump(store: Store) -> list[Record]:
    """Everything, events without the numbers that each store gives on its own."""
    return [_unnumbered(record) for record in store.dump()]


def _unnumbered(record: Record) -> Record:
    return record._replace(item=record.item._replace(seq=0)) if isinstance(record.item, Event) else record


@contextmanager
def nothing_changes(store: Store) -> Iterator[None]:
    """No task and no link is touched inside; events may be added."""
    before = state(store)
    yield
    assert state(store) == before


@contextmanager
def no_trace(store: Store) -> Iterator[None]:
    """Nothing at all is written inside, events included."""
    before = list(store.dump())
    yield
    assert list(store.dump()) == before


def only(items: Iterable[Any]) -> Any:
    (item,) = items
    return item


def bring(store: Store, task: str, status: Status, **stated: Any) -> str | None:
    """Add a task and lead it to a status the usual way; an active one's token is returned."""
    add(store, draft(task, status=Status.BACKLOG if status is Status.BACKLOG else Status.READY, **stated))
    match status:
        case Status.ACTIVE:
            return hold(store, task)
        case Status.REVIEW | Status.DONE:
            verb = Verb.DONE if status is Status.DONE else Verb.REVIEW
            move(store, verb, task, hold(store, task), result={"by": "bring"}, artifacts=("made.txt",))
        case Status.BLOCKED:
            move(store, Verb.BLOCK, task, reason="no key", unblock_action="ask", next_check_at=store.now() + LEASE)
        case Status.PAUSED:
            move(store, Verb.PAUSE, task, reason="lunch")
        case Status.ESCALATED:
            move(store, Verb.ESCALATE, task, reason="too hard")
        case Status.CANCELED:
            move(store, Verb.CANCEL, task, reason="not needed")
    return None


def fleet_of(store: Store) -> Fleet:
    return need(store.fleet, "fleet")


def vectors_of(store: Store) -> Vectors:
    return need(store.vectors, "vectors")


def settings_of(store: Store) -> Settings:
    return need(store.settings, "settings")


def output_of(store: Store) -> Output:
    return need(store.output, "output")
