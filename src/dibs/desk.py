"""The Desk: the verbs for any store. It validates input and applies the policy."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from dibs.core import checks
from dibs.core.errors import AlreadyExists, AmbiguousId, InvalidInput, NotFound
from dibs.core.events import Event
from dibs.core.fields import EVERY
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import NATIVE, OwnerProof
from dibs.core.task import UNSET, Actor, Holder, is_internal
from dibs.stores.port import (
    NO_TERMS,
    Closing,
    EventQuery,
    Examinable,
    Query,
    Searchable,
    need,
    need_replaceable,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime, timedelta

    from dibs.core.errors import DibsError
    from dibs.core.fields import Filter
    from dibs.core.fleet import Agent, Assignment, Member, Profile
    from dibs.core.graph import Graph
    from dibs.core.output import OutputPage
    from dibs.core.plan import Plan, PlanChanges
    from dibs.core.policy import CanceledBlocker, Policy
    from dibs.core.search import Hit
    from dibs.core.task import Claimed, Draft, Edit, Json, Link, Task, Unset
    from dibs.stores.port import Batch, Capabilities, Fleet, Moved, Output, Settings, Store, Terms, Vectors
    from dibs.stores.reports import Counts, Finding, HealthCheck, Neighbours, Record

Found = TypeVar("Found")

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # no i, l, o, u: read aloud and typed without mistakes
_ID_LENGTH = 6
_CANDIDATES_SHOWN = 5
_NOTHING: frozenset[str] = frozenset()


def quiet(_done: int) -> None:
    """Ignore progress."""


def mint_id(length: int = _ID_LENGTH) -> str:
    return "".join(_ALPHABET[byte & 31] for byte in os.urandom(length))


def mint_token() -> str:
    """A uuid4, without the import of `uuid`, which costs a cold claim 3 ms."""
    raw = os.urandom(16)
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[raw[8] >> 6]}{text[17:20]}-{text[20:]}"


Place: TypeAlias = "str | Store"  # where the tasks are: a URL, or a store that is open


def open_desk(
    place: Place,
    *,
    create: bool = False,
    scope: str = "default",
    policy: Policy = NATIVE,
    by: Actor = Actor(),  # noqa: B008 - frozen
) -> Desk:
    """Open the store at a URL, or with `create` make it, and return a desk that closes it."""
    if isinstance(place, str):
        from dibs.stores.opening import open_store

        store = open_store(place, create=create)
    else:
        store = place
    try:
        return Desk(store, scope=scope, policy=policy, by=by)
    except BaseException:
        store.close()
        raise


class Desk(Closing):
    """A store, a scope within it, and the policy by which it is used.

    Tasks are named by id or by an unambiguous beginning of it.
    """

    def __init__(
        self,
        store: Store,
        *,
        scope: str = "default",
        policy: Policy = NATIVE,
        by: Actor = Actor(),  # noqa: B008 - frozen
        internal: bool = False,
    ) -> None:
        self._store = store
        self.scope = checks.name_of("scope", scope) if internal else checks.scope(scope)
        self.policy = policy
        self._by_name = policy.owner_proof is OwnerProof.NAME
        self.by = Actor(checks.optional_name("agent", by.agent), checks.optional_name("run", by.run))

    def at(self, scope: str, *, policy: Policy | None = None, by: Actor | None = None, internal: bool = False) -> Desk:
        """The desk of another scope of the same store."""
        return Desk(self._store, scope=scope, policy=policy or self.policy, by=by or self.by, internal=internal)

    @property
    def exact(self) -> Desk:
        """The same desk for full ids: it takes no beginning of an id for a task, and never looks for one."""
        full = self.policy._replace(short_ids=False)
        return Desk(self._store, scope=self.scope, policy=full, by=self.by, internal=True)

    # The store itself

    @property
    def capabilities(self) -> Capabilities:
        """What the store can do."""
        return self._store.capabilities

    def now(self) -> datetime:
        """The time by the store's clock, which alone decides about leases."""
        return self._store.now()

    def wait(self, seconds: float) -> bool:
        """Wait until something may have become claimable (True: a hint, no promise), at most so long."""
        return self._store.wait(seconds)

    def has_part(self, part: str) -> bool:
        """Whether the store has this optional part of the port, such as `fleet`."""
        return getattr(self._store, part) is not None

    @property
    def has_fleet(self) -> bool:
        return self._store.fleet is not None

    def need_fleet(self) -> None:
        """Raise Unsupported for a store that keeps no fleet."""
        need(self._store.fleet, "fleet")

    @property
    def has_vectors(self) -> bool:
        return self._store.vectors is not None

    @property
    def has_settings(self) -> bool:
        return self._store.settings is not None

    def scopes(self, *, claimable: bool = False, internal: bool = False) -> list[str]:
        """The users' scopes that have tasks, or that have tasks to claim now; with `internal` the others too."""
        return [scope for scope in self._store.scopes(claimable=claimable) if internal or not is_internal(scope)]

    # Taking in

    def add(self, drafts: Sequence[Draft], links: Sequence[Link] = (), terms: Terms = NO_TERMS) -> list[Task]:
        """Take in tasks with their links; those without an id get a short one, unless the store gives them itself."""
        checked = [checks.draft(draft) for draft in drafts]
        for draft in checked:
            if draft.id:
                checks.new_identifier(draft.id, self.policy.id_marks)
        wanted = [checks.link(link) for link in links]
        if terms.ending:
            terms = terms._replace(ending=tuple(map(checks.move, terms.ending)))
        if all(draft.id for draft in checked) or self._store.capabilities.ids == "assigned":
            return self._store.add(self.scope, checked, wanted, self.by, terms)
        return self._add_minting(checked, wanted, terms)

    def _add_minting(self, drafts: list[Draft], links: list[Link], terms: Terms, size: int = _ID_LENGTH) -> list[Task]:
        """Mint the ids that are missing. An open end of a link is the first task that had none."""
        named = [draft if draft.id else draft._replace(id=mint_id(size)) for draft in drafts]
        mine = next(new.id for new, draft in zip(named, drafts, strict=True) if not draft.id)
        bound = [link._replace(task=link.task or mine, on=link.on or mine) for link in links]
        try:
            return self._store.add(self.scope, named, bound, self.by, terms)
        except AlreadyExists:
            if size > 2 * _ID_LENGTH:
                raise
        return self._add_minting(drafts, links, terms, 2 * size)  # a short id may be taken; a long one is not

    def apply_plan(self, plan: Plan, *, dry_run: bool = False, progress: Callable[[int], None] = quiet) -> PlanChanges:
        if not self._store.capabilities.transactions:
            refuse("plans need transactions")
        checks.names("spec", plan.specs)
        rule = self.policy.canceled_blocker
        plan = plan._replace(id_marks=self.policy.id_marks)
        return self._store.apply_plan(self.scope, plan, rule, self.by, dry_run=dry_run, progress=progress)

    # Looking

    def get(self, ref: str) -> Task:
        return self._named(ref, lambda task: self._store.get(self.scope, task))

    def has(self, task: str) -> bool:
        """Whether there is a task with exactly this id."""
        return task in self._store.match(self.scope, task, 1)

    def find(self, query: Query) -> list[Task]:
        for name in ("scope", "agent", "assigned_to", "parent", "text"):
            checks.optional_text(name, getattr(query, name))
        return self._store.find(query if query.only is EVERY else query._replace(only=checks.only(query.only)))

    def ready(
        self,
        *,
        limit: int,
        agent: str = "",
        can: Iterable[str] = (),
        anywhere: bool = False,
        held: bool = False,
        unable: bool = False,
        only: Filter = EVERY,
    ) -> list[Task]:
        """Claimable tasks in order, for any agent or for one. `held` adds held tasks; `unable` ignores required
        capabilities.
        """
        wanted = frozenset(checks.names("capability", can))
        scope = None if anywhere else self.scope
        request = ClaimRequest(checks.text("agent", agent), (), scope, can=wanted, only=checks.only(only))
        return self._store.peek(request, limit, held=held, unable=unable)

    def links(self, *refs: str) -> list[Link]:
        """The links from and to these tasks."""
        return self._all_named(refs, lambda tasks: self._store.links(self.scope, *tasks))

    def graph(self, *, finished: bool = True) -> Graph:
        return self._store.graph(self.scope, finished=finished)

    def events(
        self,
        *,
        ref: str | None = None,
        after: int = 0,
        limit: int | None = None,
        last: int | None = None,
        anywhere: bool = False,
    ) -> list[Event]:
        """The events of a task, of the scope, or with `anywhere` of the whole store, internal scopes included."""
        task = None if ref is None else self.remembered(ref)
        return self._store.events(EventQuery(None if anywhere else self.scope, task, after, limit, last))

    def comment(self, ref: str, text: str, *, detail: Mapping[str, Json] | None = None) -> None:
        """Add a comment to a task."""
        if not text.strip():
            raise InvalidInput("The comment is empty. Give it a text.")
        self.record("comment", ref=ref, reason=text.strip(), detail=detail)

    def record(
        self, verb: str, *, ref: str | None = None, reason: str | None = None, detail: Mapping[str, Json] | None = None
    ) -> None:
        """Record a protocol's own event, about a task or about none."""
        told = checks.told(Event(self._store.now(), self.scope, "", verb, reason=reason, detail=detail or {}))
        told = told._replace(agent=self.by.agent, run=self.by.run)
        if ref is None:
            return self._store.record(told)
        return self._named(ref, lambda task: self._store.record(told._replace(task=task)))

    def remembered(self, ref: str) -> str:
        """The id of a task, or of a pruned one whose events are kept."""
        try:
            return self.resolve(ref)
        except NotFound:
            if self._store.events(EventQuery(self.scope, ref, last=1)):
                return ref
            raise

    def counts(self, *, anywhere: bool = False) -> Counts:
        return self._store.counts(None if anywhere else self.scope)

    def search(self, text: str, *, limit: int = 20, finished: bool = True) -> list[Hit]:
        """Tasks whose id, title, labels, description or comments match all words, the best first."""
        from dibs.core import search

        query = search.words(checks.text("text", text))
        if not query:
            raise InvalidInput("The search is empty. Give one or more words.")
        if isinstance(self._store, Searchable):
            found = self._store.search(self.scope, query)
        else:
            notes = search.comments(self.events() if self.capabilities.history else ())
            found = [(task, notes.get(task.id, [])) for task in self._store.find(Query(self.scope))]
        kept = ((task, notes) for task, notes in found if finished or not task.finished)
        return search.rank(query, kept, checks.limit(limit))

    # Holding

    def claim(
        self,
        agent: str,
        *,
        refs: Sequence[str] = (),
        count: int = 1,
        lease: timedelta | None = None,
        run: str | None = None,
        can: Iterable[str] = (),
        holder: Holder = Holder.AGENT,
        force: bool = False,
        anywhere: bool = False,
        assigned: bool = False,
        only: Filter = EVERY,
        tokens: Sequence[str] = (),
    ) -> list[Claimed]:
        """Lease the next tasks, or the named ones, to an agent. None ready gives an empty list.

        `tokens` are the caller's own, one for each task, so that it can repeat a claim whose outcome it does not know.
        """
        request = self._request(agent, len(refs) or count, lease, run, can, anywhere)
        if assigned or only is not EVERY:
            request = request._replace(assigned=assigned, only=checks.only(only))
        if tokens:
            request = request._replace(tokens=checks.tokens(tokens, len(request.tokens)))
        if not refs:
            if holder is Holder.HUMAN:
                raise InvalidInput("A person can claim only named tasks: give an id.")
            return self._store.claim(request)
        request = request._replace(scope=self.scope, holder=holder, force=force)
        return self._all_named(refs, lambda tasks: self._store.claim(request._replace(ids=checks.different(tasks))))

    def _request(
        self,
        agent: str,
        count: int,
        lease: timedelta | None,
        run: str | None,
        can: Iterable[str],
        anywhere: bool = False,
    ) -> ClaimRequest:
        if not 1 <= count <= checks.LIST_MAX:
            raise InvalidInput(f"Claim from 1 to {checks.LIST_MAX} tasks at a time, not {count}.")
        # By position, in the order of its fields: naming them costs a claim a few percent.
        return ClaimRequest(
            checks.name_of("agent", agent),
            (mint_token(),) if count == 1 else tuple(mint_token() for _ in range(count)),
            None if anywhere else self.scope, (), None if run is None else checks.name_of("run", run), Holder.AGENT,
            self.policy.lease if lease is None else checks.lease(lease),
            frozenset(checks.names("capability", can)) if can else _NOTHING,
        )  # fmt: skip

    def renew(self, ref: str, token: str | None, *, lease: timedelta | None = None) -> Task:
        """Keep a task for another lease from now."""
        span = self.policy.lease if lease is None else lease
        return self.move(Verb.RENEW, ref, token=token, lease=span).task

    # Moving on

    def move(
        self,
        verb: Verb,
        ref: str,
        *,
        token: str | None = None,
        force: bool = False,
        lease: timedelta | None = None,
        assigned_to: str | Unset | None = UNSET,
        reason: str | None = None,
        result: Json = None,
        artifacts: Sequence[str] = (),
        unblock_action: str | None = None,
        next_check_at: datetime | None = None,
        not_before: datetime | None = None,
        extra: Mapping[str, Json] | None = None,
        on_cancel: CanceledBlocker | None = None,
        then: ClaimRequest | None = None,
    ) -> Moved:
        """Take a task through its lifecycle: done, fail, block, review, cancel, release, pause, resume and so on."""
        policy = self.policy
        asked = checks.move(Move(  # by position, in the order of its fields: this is the path of every finish
            verb, ref, self.scope, self.by, token, self._by_name, policy.late_holder_ok, force,
            policy.requeue_on_change, lease, assigned_to, reason, result, tuple(artifacts), unblock_action,
            next_check_at, not_before, extra or {},
        ))  # fmt: skip
        rule = on_cancel or self.policy.canceled_blocker
        return self._named(
            ref, lambda task: self._store.move(asked if task is ref else asked._replace(id=task), rule, then)
        )

    def move_all(
        self,
        verb: Verb,
        tokens: Mapping[str, str | None],
        *,
        results: Mapping[str, Json] | None = None,
        reason: str | None = None,
        on_cancel: CanceledBlocker | None = None,
        then: ClaimRequest | None = None,
    ) -> Batch:
        """Move many tasks in one transaction, named by their full ids, each under its token if the verb needs one.

        Each is judged separately: a lost lease is an error in its place and stops no other.
        """
        policy, brought = self.policy, results or {}
        alike = Move(verb, "", self.scope, self.by, named=self._by_name, late_ok=policy.late_holder_ok, reason=reason)
        alike = alike._replace(requeue=policy.requeue_on_change)
        asked = [
            checks.move(alike._replace(id=checks.identifier(ref), token=token, result=brought.get(ref)))
            for ref, token in tokens.items()
        ]
        return self._store.move_all(asked, on_cancel or policy.canceled_blocker, then)

    def next_request(
        self,
        agent: str,
        *,
        count: int = 1,
        lease: timedelta | None = None,
        run: str | None = None,
        can: Iterable[str] = (),
        only: Filter = EVERY,
    ) -> ClaimRequest:
        """What to pass as `then` to a move, to go on with the next task in the same transaction."""
        request = self._request(agent, count, lease, run, can)
        return request if only is EVERY else request._replace(only=checks.only(only))

    def edit(self, ref: str, edit: Edit) -> Task:
        checked = checks.edit(edit)
        if isinstance(checked.parent, str):
            checked = checked._replace(parent=self.resolve(checked.parent))
        if self.policy.requeue_on_change and checked.queued_at is UNSET:
            checked = checked._replace(queued_at=self._store.now())
        return self._named(ref, lambda task: self._store.amend(self.scope, task, checked, self.by))

    # Linking

    def link(self, links: Sequence[Link]) -> list[Link]:
        return self._store.link(self.scope, self._resolved(links), self.by)

    def unlink(self, links: Sequence[Link]) -> list[Link]:
        return self._store.unlink(self.scope, self._resolved(links), self.by)

    def _resolved(self, links: Sequence[Link]) -> list[Link]:
        found = [link._replace(task=self.resolve(link.task), on=self.resolve(link.on)) for link in links]
        return [checks.link(link) for link in found]

    # The fleet

    def register(self, agent: str, *, host: str | None = None, pid: int | None = None) -> Agent:
        """Record that an agent is at work, for people to see. It proves nothing and gates nothing."""
        name = checks.name_of("agent", agent)
        return self._fleet.register(name, host=checks.optional_name("host", host), pid=checks.count("process id", pid))

    def deregister(self, agent: str) -> Agent:
        return self._fleet.deregister(checks.name_of("agent", agent))

    def agents(self) -> list[Agent]:
        return self._fleet.agents()

    def enrol(self, profile: Profile) -> Member:
        """Enrol an agent with its role and limit, or change the profile of an enrolled one."""
        return self._fleet.enrol(checks.profile(profile))

    def dismiss(self, agent: str) -> Member:
        """End an enrolment and return its last state. Assigned tasks stay assigned."""
        return self._fleet.dismiss(checks.name_of("agent", agent))

    def members(self) -> list[Member]:
        """The enrolled agents, each with its held and assigned tasks."""
        return self._fleet.members()

    def assign(self, asked: Assignment) -> list[Task | DibsError]:
        """Assign free tasks of any scope to an enrolled agent up to its limit; each is judged separately."""
        return self._fleet.assign(asked, self.by)

    @property
    def _fleet(self) -> Fleet:
        return need(self._store.fleet, "fleet")

    # Vectors of tasks

    def keep_vectors(self, vectors: Mapping[str, Sequence[float] | None]) -> None:
        """Keep a vector for each task, named by its full id, or remove it with None; all or none."""
        self._vectors.keep(self.scope, checks.vectors(vectors))

    def vectors(self, *, finished: bool = False) -> Mapping[str, Sequence[float]]:
        """The vectors of the unfinished tasks, or of all, by id."""
        return self._vectors.kept(self.scope, finished=finished)

    def similar(
        self, vector: Sequence[float], text: str = "", *, limit: int = 10, least: float = -1.0, finished: bool = False
    ) -> Neighbours:
        """The tasks closest to a vector; if the store cannot compare vectors now, those that share a text's words."""
        asked = (checks.vector(vector), checks.text("text", text), checks.limit(limit), checks.cosine(least))
        return self._vectors.similar(self.scope, *asked, finished=finished)

    @property
    def _vectors(self) -> Vectors:
        return need(self._store.vectors, "vectors")

    # Settings of the scope

    def settings(self) -> Mapping[str, Json]:
        return self._settings.read(self.scope)

    def configure(self, changes: Mapping[str, Json]) -> Mapping[str, Json]:
        """Set settings atomically (None removes one) and return the new settings."""
        return self._settings.change(self.scope, checks.settings(changes), self.by)

    @property
    def _settings(self) -> Settings:
        return need(self._store.settings, "settings")

    # Output of attempts

    @property
    def has_output(self) -> bool:
        return self._store.output is not None

    def output(self, ref: str, *, attempt: int | None = None, after: int = 0) -> OutputPage:
        """The stored output of an attempt (default: the latest) from byte `after` on."""
        wanted = checks.count("attempt", attempt)
        place = checks.count("place", after) or 0
        return self._named(ref, lambda task: self._output.read(self.scope, task, wanted, place))

    def append_output(self, ref: str, token: str, start: int, text: str) -> int:
        """Append output of the attempt with this token at byte `start`, and return its new length."""
        said, place = checks.text("output", text), checks.count("place", start) or 0
        return self._named(ref, lambda task: self._output.append(self.scope, task, token, place, said))

    @property
    def _output(self) -> Output:
        return need(self._store.output, "output", kept_by="SQLite and PostgreSQL")

    # Keeping house

    def prune(
        self, *, events_before: datetime | None, tasks_before: datetime | None, progress: Callable[[int], None] = quiet
    ) -> tuple[int, int]:
        return self._store.prune(events_before=events_before, tasks_before=tasks_before, progress=progress)

    def dump(self) -> Iterator[Record]:
        return self._store.dump()

    def restore(self, records: Iterable[Record], progress: Callable[[int], None] = quiet) -> int:
        if not self._store.capabilities.transactions:
            refuse("importing needs transactions")
        return self._store.restore(records, self.by, progress)

    def replace(self, records: Iterable[Record], progress: Callable[[int], None] = quiet) -> int:
        """Restore a backup in place of everything the store holds."""
        return need_replaceable(self._store).replace(records, self.by, progress)

    def check(self, *, fix: bool = False) -> list[Finding]:
        return self._store.check(fix=fix)

    def describe(self) -> Mapping[str, str]:
        return self._store.describe()

    def examine(self) -> list[HealthCheck] | None:
        """The store's report on its connection and layout, item by item; None if it has no such report."""
        return self._store.examine() if isinstance(self._store, Examinable) else None

    def carry_out(self, operation: str, values: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Carry out an operation of the port, such as `claim` or `fleet.enrol`, for the desk of another process.

        That desk applied the rules of a desk; `serve/remote.py` has checked the values and the caller's rights.
        """
        part, _, verb = operation.rpartition(".")
        place: Any = need(getattr(self._store, part), part) if part else self._store
        if not hasattr(place, verb):
            refuse(f"it has no '{verb}'")
        return getattr(place, verb)(*values, **named)

    def resolve(self, ref: str) -> str:
        """The id with this prefix, if the policy accepts prefixes."""
        checks.possible(ref)
        if not self.policy.short_ids:
            return ref
        found = self._store.match(self.scope, ref, _CANDIDATES_SHOWN)
        if ref in found or len(found) == 1:
            return ref if ref in found else found[0]
        if not found and ref[:1] == "#" and len(ref) > 1:  # as people write ids in texts
            return self.resolve(ref[1:])
        if not found:
            raise NotFound(f"There is no task '{ref}' in {self.scope}; 'dibs list' lists the tasks.")
        raise AmbiguousId(ref, found)

    def _named(self, ref: str, ask: Callable[[str], Found]) -> Found:
        return self._all_named((ref,), lambda tasks: ask(*tasks))

    def _all_named(self, refs: Sequence[str], ask: Callable[[Sequence[str]], Found]) -> Found:
        """Try the ids as given, and only then as beginnings of some: the usual call costs no extra look."""
        for ref in refs:
            checks.possible(ref)
        try:
            return ask(refs)
        except NotFound:
            found = [self.resolve(ref) for ref in refs]
            if found == list(refs):
                raise
        return ask(found)

    def close(self) -> None:
        self._store.close()
