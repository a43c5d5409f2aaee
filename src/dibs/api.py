"""The public Python API: `dibs.open` gives a Desk, and a Desk gives Claims.

Import these names from `dibs`. Every other module of the package is private and may change.
"""

from __future__ import annotations

import os
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeVar

from dibs import desk as private
from dibs.claims import Claim, Loop, Session, Span, Terms, is_forgiving, listed, span_of
from dibs.core.errors import InvalidInput, OverLimit
from dibs.core.fields import EVERY, Filter
from dibs.core.lifecycle import Verb
from dibs.core.task import UNSET, Actor, Draft, Edit, Link, LinkKind, ServiceClass, Status, Unset
from dibs.identity import agent_name
from dibs.stores.opening import store_url
from dibs.stores.port import Closing, Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from dibs.core.events import Event
    from dibs.core.graph import Graph
    from dibs.core.plan import PlanChanges
    from dibs.core.task import Json, Task
    from dibs.stores.port import Moved
    from dibs.stores.reports import Counts, Neighbours

Kind = TypeVar("Kind", bound=StrEnum)

_LOOK = 0.25  # seconds of waiting for work during which other threads of the desk wait too


def open(url: private.Place | None = None, *, scope: str | None = None, agent: str | None = None) -> Desk:  # noqa: A001 - as in `dibs.open`
    """Open the store at a URL, creating it if necessary, or the store of this project.

    Without a URL, `DIBS_STORE` applies, then the nearest project at or above this folder. ":memory:" is a new store
    that ends with the desk. An open store is accepted too. `scope` defaults to `DIBS_SCOPE` or "default", `agent` to
    `DIBS_AGENT` or your login name.
    """
    by = Actor(agent or agent_name(), os.environ.get("DIBS_RUN") or None)
    where = store_url(None) if url is None else url
    scope = scope or os.environ.get("DIBS_SCOPE") or "default"
    return Desk(private.open_desk(where, create=url is not None, scope=scope, by=by))


class Desk(Closing):
    """The tasks of one scope, and every verb on them. It may be shared by threads.

    A task is named by its id or an unambiguous beginning of it.
    """

    def __init__(self, desk: private.Desk) -> None:
        self._desk = desk
        self._session = Session(desk)
        self._lock = self._session.lock

    @property
    def scope(self) -> str:
        return self._desk.scope

    @property
    def agent(self) -> str:
        """The agent that claims and finishes unless a call names another."""
        return self._desk.by.agent or ""

    def now(self) -> datetime:
        """The time by the store's clock, which alone decides about leases."""
        with self._lock:
            return self._desk.now()

    # Tasks

    def add(
        self,
        title: str,
        *,
        id: str = "",
        description: str = "",
        blocked_by: Iterable[str] = (),
        blocks: Iterable[str] = (),
        backlog: bool = False,
        priority: float = 2,
        service_class: ServiceClass | str = ServiceClass.STANDARD,
        category: str | None = None,
        labels: Iterable[str] = (),
        deliverable: str | None = None,
        steps: Iterable[str] = (),
        spec_ref: str | None = None,
        ref: str | None = None,
        parent: str | None = None,
        requires: Iterable[str] = (),
        assigned_to: str | None = None,
        not_before: datetime | None = None,
        max_retries: int | None = None,
        extra: Mapping[str, Json] | None = None,
    ) -> Task:
        """Add a task. It becomes claimable when every task in `blocked_by` is done."""
        draft = Draft(
            title,
            id=id,
            description=description,
            status=Status.BACKLOG if backlog else Status.READY,
            service_class=_choice(ServiceClass, service_class),
            priority=priority,
            category=category,
            labels=listed("labels", labels),
            deliverable=deliverable,
            steps=listed("steps", steps),
            spec_ref=spec_ref,
            ref=ref,
            requires=listed("requires", requires),
            assigned_to=assigned_to,
            not_before=not_before,
            max_retries=max_retries,
            extra=extra or {},
        )
        with self._lock:
            if parent is not None:
                draft = draft._replace(parent=self._desk.resolve(parent))
            links = [Link(id, self._desk.resolve(other)) for other in listed("blocked_by", blocked_by)]
            links += [Link(self._desk.resolve(other), id) for other in listed("blocks", blocks)]
            return self._desk.add([draft], links)[0]

    def get(self, id: str) -> Task:
        with self._lock:
            return self._desk.get(id)

    def list(
        self,
        *,
        status: Status | str | Iterable[Status | str] | None = None,
        agent: str | None = None,
        assigned_to: str | None = None,
        parent: str | None = None,
        text: str | None = None,
        only: Filter = EVERY,
        limit: int | None = None,
    ) -> Sequence[Task]:
        """Tasks in the order in which they would be claimed; finished ones too, unless `status` says otherwise."""
        given = [status] if isinstance(status, str) else status
        statuses = tuple(Status) if given is None else tuple(_choice(Status, each) for each in given)
        query = Query(self.scope, statuses, agent, assigned_to, parent, text, only, limit)
        with self._lock:
            return self._desk.find(query)

    def ready(
        self, *, limit: int = 50, agent: str = "", can: Iterable[str] = (), only: Filter = EVERY
    ) -> Sequence[Task]:
        """Tasks that can be claimed now, in order."""
        with self._lock:
            return self._desk.ready(limit=limit, agent=agent, can=listed("can", can), only=only)

    def edit(
        self,
        id: str,
        *,
        title: str | Unset = UNSET,
        description: str | Unset = UNSET,
        priority: float | Unset = UNSET,
        service_class: ServiceClass | str | Unset = UNSET,
        category: str | Unset | None = UNSET,
        labels: Iterable[str] | Unset = UNSET,
        deliverable: str | Unset | None = UNSET,
        steps: Iterable[str] | Unset = UNSET,
        spec_ref: str | Unset | None = UNSET,
        ref: str | Unset | None = UNSET,
        parent: str | Unset | None = UNSET,
        requires: Iterable[str] | Unset = UNSET,
        assigned_to: str | Unset | None = UNSET,
        not_before: datetime | Unset | None = UNSET,
        max_retries: int | Unset | None = UNSET,
        extra: Mapping[str, Json] | Unset = UNSET,
    ) -> Task:
        """Change fields of an unfinished task. None clears a field; fields that are left out stay."""
        edit = Edit(
            title=title,
            description=description,
            priority=priority,
            service_class=service_class if isinstance(service_class, Unset) else _choice(ServiceClass, service_class),
            category=category,
            labels=labels if isinstance(labels, Unset) else listed("labels", labels),
            deliverable=deliverable,
            steps=steps if isinstance(steps, Unset) else listed("steps", steps),
            spec_ref=spec_ref,
            ref=ref,
            parent=parent,
            requires=requires if isinstance(requires, Unset) else listed("requires", requires),
            assigned_to=assigned_to,
            not_before=not_before,
            max_retries=max_retries,
            extra=extra,
        )
        with self._lock:
            return self._desk.edit(id, edit)

    def comment(self, id: str, text: str) -> None:
        """Add a comment to a task's events."""
        with self._lock:
            self._desk.comment(id, text)

    def plan(self, text: str, *, dry_run: bool = False) -> PlanChanges:
        """Bring the tasks in line with a plan, in YAML or as JSON lines, and return the changes."""
        from dibs.core.plan import parse_jsonl, parse_yaml

        read = parse_jsonl if text.lstrip().startswith("{") else parse_yaml
        with self._lock:
            return self._desk.apply_plan(read(text), dry_run=dry_run)

    def graph(self, *, finished: bool = True) -> Graph:
        """All tasks and links of the scope, read at one moment."""
        with self._lock:
            return self._desk.graph(finished=finished)

    def links(self, *ids: str) -> Sequence[Link]:
        """The links from and to these tasks."""
        with self._lock:
            return self._desk.links(*ids)

    def link(self, task: str, on: str, kind: LinkKind | str = LinkKind.BLOCKS) -> None:
        """Make a task depend on another. Raises CycleDetected if it would wait for itself."""
        with self._lock:
            self._desk.link([Link(task, on, _choice(LinkKind, kind))])

    def unlink(self, task: str, on: str, kind: LinkKind | str = LinkKind.BLOCKS) -> None:
        with self._lock:
            self._desk.unlink([Link(task, on, _choice(LinkKind, kind))])

    def events(self, id: str | None = None, *, after: int = 0, limit: int | None = None) -> Sequence[Event]:
        """The events of the scope or of one task, oldest first; `after` is the number of the last one you have."""
        with self._lock:
            return self._desk.events(ref=id, after=after, limit=limit)

    def counts(self) -> Counts:
        """The number of tasks by status, and how many can be claimed."""
        with self._lock:
            return self._desk.counts()

    def scopes(self) -> Sequence[str]:
        """The scopes of the store that have tasks."""
        with self._lock:
            return self._desk.scopes()

    # Optional parts of a store; a store without them raises Unsupported

    def settings(self) -> Mapping[str, Json]:
        """The settings of the scope, by name."""
        with self._lock:
            return self._desk.settings()

    def configure(self, changes: Mapping[str, Json]) -> Mapping[str, Json]:
        """Set settings atomically (None removes one) and return the new settings."""
        with self._lock:
            return self._desk.configure(changes)

    def keep_vectors(self, vectors: Mapping[str, Sequence[float] | None]) -> None:
        """Keep a vector for each task, named by its full id, or remove it with None; all or none."""
        with self._lock:
            self._desk.keep_vectors(vectors)

    def vectors(self, *, finished: bool = False) -> Mapping[str, Sequence[float]]:
        """The vectors of the unfinished tasks, or of all, by id."""
        with self._lock:
            return self._desk.vectors(finished=finished)

    def similar(
        self, vector: Sequence[float], text: str = "", *, limit: int = 10, least: float = -1.0, finished: bool = False
    ) -> Neighbours:
        """The tasks closest to a vector; if the store cannot compare vectors now, those that share a text's words."""
        with self._lock:
            return self._desk.similar(vector, text, limit=limit, least=least, finished=finished)

    # Claims

    def claim(
        self,
        id: str | None = None,
        *,
        agent: str | None = None,
        lease: Span | None = None,
        can: Iterable[str] = (),
        only: Filter = EVERY,
        wait: Span | None = None,
    ) -> Claim | None:
        """Claim a task by its id, or the next one; None if none is ready within `wait`.

        A named task that cannot be claimed raises the reason: Held, Waiting, NotForYou, ….
        """
        name, terms = agent or self.agent, self._terms(lease, can, only)
        if id is not None:
            return self._claimed(name, terms, (id,))
        until = time.monotonic() + (0.0 if wait is None else span_of(wait).total_seconds())
        while (claim := self._claimed(name, terms)) is None and time.monotonic() < until:
            self._wait(min(_LOOK, until - time.monotonic()))
        return claim

    def work(
        self,
        agent: str | None = None,
        *,
        wait: bool = False,
        limit: int | None = None,
        can: Iterable[str] = (),
        only: Filter = EVERY,
        lease: Span | None = None,
        on_error: Literal["raise", "continue"] = "raise",
    ) -> Iterator[Claim]:
        """Claim tasks one after the other, and renew each in the background until it is finished.

        Without `wait` it ends when nothing can be claimed; with it, when you press Ctrl-C. `limit` is the number of
        tasks. With `on_error="continue"`, a task whose `with` block raises is failed and the next one is claimed.
        """
        return self._work(agent or self.agent, self._terms(lease, can, only), wait, limit, is_forgiving(on_error))

    def _work(self, agent: str, terms: Terms, wait: bool, limit: int | None, forgiving: bool) -> Iterator[Claim]:
        loop = Loop(forgiving)
        while limit is None or loop.claims < limit:
            try:
                claim = self._next(agent, terms)
                if claim is None and wait:
                    self._wait(_LOOK)
            except KeyboardInterrupt:
                return
            if claim is None and not wait:
                return
            if claim is not None:
                loop.claims += 1
                try:
                    yield claim._in(loop)
                finally:
                    claim._leave()
                if loop.interrupted:
                    return

    def _terms(self, lease: Span | None, can: Iterable[str], only: Filter) -> Terms:
        return Terms(self._desk.policy.lease if lease is None else span_of(lease), listed("can", can), only)

    def _next(self, agent: str, terms: Terms) -> Claim | None:
        """The next task; None also for an agent at its limit, until it has finished one elsewhere."""
        try:
            return self._claimed(agent, terms)
        except OverLimit:
            return None

    def _claimed(self, agent: str, terms: Terms, ids: tuple[str, ...] = ()) -> Claim | None:
        asked_at = time.monotonic()
        lease, can, only = terms
        with self._lock:
            found = self._desk.claim(agent, refs=ids, lease=lease, can=can, run=self._desk.by.run, only=only)
        return Claim(self._session, found[0], terms, asked_at) if found else None

    def _wait(self, seconds: float) -> None:
        with self._lock:
            self._desk.wait(seconds)

    # Verbs, by id. A task that is held needs its token; `force` is for a person who overrules the holder.

    def renew(self, id: str, token: str, *, lease: Span | None = None) -> Task:
        """Extend a lease, from now."""
        with self._lock:
            return self._desk.renew(id, token, lease=None if lease is None else span_of(lease))

    def done(
        self,
        id: str,
        token: str | None = None,
        *,
        result: Json = None,
        artifacts: Iterable[str] = (),
        force: bool = False,
    ) -> Moved:
        return self._move(Verb.DONE, id, token, force, result=result, artifacts=listed("artifacts", artifacts))

    def fail(self, id: str, token: str | None = None, *, reason: str, retry_in: Span | None = None) -> Moved:
        """Report a failed attempt. The task can be claimed again, after `retry_in`, until its retries are used up."""
        return self._move(Verb.FAIL, id, token, reason=reason, not_before=self._session.later(retry_in))

    def block(
        self,
        id: str,
        token: str | None = None,
        *,
        reason: str,
        unblock_action: str | None = None,
        next_check_at: datetime | None = None,
    ) -> Moved:
        """Set a task aside until something outside changes."""
        return self._move(
            Verb.BLOCK, id, token, reason=reason, unblock_action=unblock_action, next_check_at=next_check_at
        )

    def unblock(self, id: str) -> Moved:
        return self._move(Verb.UNBLOCK, id)

    def review(self, id: str, token: str | None = None, *, result: Json = None, reason: str | None = None) -> Moved:
        """Hand a task over for review."""
        return self._move(Verb.REVIEW, id, token, result=result, reason=reason)

    def approve(self, id: str, *, reason: str | None = None) -> Moved:
        return self._move(Verb.APPROVE, id, reason=reason)

    def rework(self, id: str, *, reason: str | None = None) -> Moved:
        return self._move(Verb.REWORK, id, reason=reason)

    def cancel(self, id: str, token: str | None = None, *, reason: str | None = None, force: bool = False) -> Moved:
        return self._move(Verb.CANCEL, id, token, force, reason=reason)

    def release(self, id: str, token: str | None = None, *, reason: str | None = None, force: bool = False) -> Moved:
        """Give a task back unfinished, without counting a retry."""
        return self._move(Verb.RELEASE, id, token, force, reason=reason)

    def pause(self, id: str, *, reason: str | None = None, force: bool = False) -> Moved:
        return self._move(Verb.PAUSE, id, force=force, reason=reason)

    def resume(self, id: str) -> Moved:
        return self._move(Verb.RESUME, id)

    def reopen(self, id: str, *, reason: str | None = None) -> Moved:
        return self._move(Verb.REOPEN, id, reason=reason)

    def _move(self, verb: Verb, id: str, token: str | None = None, force: bool = False, **said: object) -> Moved:
        with self._lock:
            return self._desk.move(verb, id, token=token, force=force, **said)  # type: ignore[arg-type]

    def close(self) -> None:
        """Stop renewing and close the store. Claims that are not finished end with their leases."""
        self._session.close()


def _choice(kind: type[Kind], value: Kind | str) -> Kind:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(each.value for each in kind)
        raise InvalidInput(f"'{str(value)[:40]}' is none of {known}.") from None
