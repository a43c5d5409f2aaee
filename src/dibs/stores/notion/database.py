"""One Notion database as a store of tasks: which page is which task, and how pages are read and listed.

Facts that never change are cached on disk, so that a new process need not ask for them. Every cached fact is checked
against the page that is read; the cache may be deleted at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dibs.core.errors import DibsError, NotFound, StoreUnavailable, Unsupported
from dibs.core.task import Status
from dibs.stores.notion.arbiter import decided
from dibs.stores.notion.gateway import Mistaken
from dibs.stores.notion.layout import Carried, guessed_shape, refuse_problems, shape_of
from dibs.stores.notion.pages import bare, is_page, page_in_address, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from datetime import datetime

    from dibs.stores.notion.arbiter import Ledger, Row
    from dibs.stores.notion.gateway import Gateway
    from dibs.stores.notion.guard import Bounds
    from dibs.stores.notion.layout import Layout
    from dibs.stores.notion.pages import Reading


class Cache:
    """Facts about one database at one address, each in a small file, so that processes need no lock."""

    def __init__(self, address: str, database: str, folder: str | None = None) -> None:
        cache = folder or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        self._folder = os.path.join(cache, "dibs", "notion", _digest(f"{address} {database}"))
        self._facts: dict[str, str] = {}
        self._noted: dict[str, str] = {}

    def get(self, kind: str, name: str = "") -> str | None:
        key = f"{kind} {name}"
        return self._kept(key) or self._noted.get(key)

    def put(self, kind: str, name: str, fact: str) -> None:
        """Remember a fact; an unwritable disk only costs the cache."""
        key = f"{kind} {name}"
        if self._kept(key) == fact:
            return
        self._facts[key] = fact
        path = self._path(key)
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            draft = f"{path}.{os.getpid()}-{id(self):x}"
            with open(draft, "w", encoding="utf-8") as file:
                file.write(fact)
            os.replace(draft, path)

    def note(self, kind: str, name: str, fact: str) -> None:
        """Remember a fact for the life of this process: there may be thousands."""
        self._noted[f"{kind} {name}"] = fact

    def _kept(self, key: str) -> str | None:
        if key not in self._facts:
            with suppress(OSError, ValueError), open(self._path(key), encoding="utf-8") as file:
                self._facts[key] = file.read()
        return self._facts.get(key) or None

    def forget(self, kind: str, name: str = "") -> None:
        key = f"{kind} {name}"
        self._facts.pop(key, None)
        with suppress(OSError):
            os.unlink(self._path(key))

    def _path(self, key: str) -> str:
        return os.path.join(self._folder, _digest(key))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


PAGE_SIZE = 100
_LEASABLE = frozenset({Status.READY, Status.ACTIVE})

Condition = dict[str, Any]


class Database:
    """A database, the layout of its pages, and the gateway to it."""

    def __init__(
        self,
        id: str,  # noqa: A002 - Notion's own word for it
        layout: Layout,
        gateway: Gateway,
        cache: Cache,
        *,
        scope: str,
        bounds: Bounds,
        sleep: Callable[[float], None],
        clock: Callable[[], datetime] | None = None,
        ledger: Ledger | None = None,
    ) -> None:
        self.id, self.layout, self.gateway, self.cache = id, layout, gateway, cache
        self.scope, self.bounds, self.sleep = scope, bounds, sleep
        self.ledger = ledger
        self._clock = ledger.now if ledger is not None else clock
        self._source: str | None = None
        self.newcomer = False  # it had to ask for the database's data source
        self._shape: Mapping[str, Carried] = guessed_shape(layout)
        self._checked = False  # whether Notion has confirmed the shape
        self._options: frozenset[str] | None = None  # the status options that the database has now
        self._recall()

    def now(self) -> datetime:
        return self._clock() if self._clock is not None else self.gateway.now()

    def heard(self) -> datetime:
        """Return the time of the latest answer, without a request."""
        return self._clock() if self._clock is not None else self.gateway.heard()

    def own(self, scope: str | None) -> None:
        """Raise Unsupported for any other scope: one database is one scope."""
        if scope is not None and scope != self.scope:
            raise Unsupported(
                f"This store cannot do that: a Notion database is one scope. This one is '{self.scope}', "
                f"not '{scope[:40]}'."
            )

    # The database

    @property
    def source(self) -> str:
        if self._source is None:
            known = self.cache.get("source")
            self.newcomer = known is None
            self._source = known or self.gateway.source_of(self.id)
            self.cache.put("source", "", self._source)
        return self._source

    @property
    def shape(self) -> Mapping[str, Carried]:
        """The database's properties, confirmed by Notion or guessed from the layout."""
        return self._shape

    def carries(self, field: str) -> bool:
        """Whether the database has a property for a field; asks Notion if that is unknown."""
        if not self._checked:
            self.learn()
        return field in self._shape

    def learn(self) -> None:
        """Read the database's properties; raise if some do not fit the layout."""
        properties = self.gateway.schema(self.source)
        refuse_problems(self.layout, properties)
        self._shape = shape_of(self.layout, properties)
        self._checked = True
        self.layout = self.layout._replace(words=self._words(properties))
        told = {"shape": self._shape, "words": self.layout.words}
        self.cache.put("shape", self.layout.name, json.dumps(told))

    def _words(self, properties: Mapping[str, Any]) -> Mapping[Status, str]:
        """Return the status words as this database spells them."""
        carried = self._shape["status"]
        options = (properties[carried.name].get(carried.type) or {}).get("options") or ()
        there = [str(option.get("name")) for option in options if isinstance(option, dict)]
        self._options = frozenset(there)
        spelled = {status: word for word in there if (status := self.layout.status(word)) is not None}
        exact = {status: word for status, word in self.layout.words.items() if word in there}
        return {status: (spelled | exact).get(status, word) for status, word in self.layout.words.items()}

    def _recall(self) -> None:
        said = self.cache.get("shape", self.layout.name)
        if said is None:
            return
        try:
            told = json.loads(said)
            self._shape = {field: Carried(*carried) for field, carried in told["shape"].items()}
            words = {status: str(told["words"][status]) for status in self.layout.words}
        except (ValueError, TypeError, KeyError, AttributeError):
            self.cache.forget("shape", self.layout.name)
            return
        self.layout = self.layout._replace(words=words)
        self._checked = True

    def understood(self, ask: Callable[[], Any]) -> Any:
        """Call `ask`; if Notion rejects a property, read the schema and call it once more."""
        try:
            return ask()
        except Mistaken as mistaken:
            self.learn()
            try:
                return ask()
            except Mistaken:
                raise mistaken from None

    # Pages by task id

    def find_page(self, ref: str) -> str:
        """Return the page of a task: `TASK-42` in any case, `42`, `#42`, its key, or its page's id or address."""
        ref = page_in_address(ref) or ref
        found = self.cache.get("page", ref)
        if found is not None:
            return found
        if "id" in self.layout.properties:
            reading = self._look_up(ref)
            if reading is not None:
                self.remember(reading)
                self.cache.put("page", ref, reading.page)
                return reading.page
        if is_page(ref):
            return ref
        raise self.not_found(ref)

    def _look_up(self, ref: str) -> Reading | None:
        if self.layout.assigns_ids:
            number = ref.removeprefix("#").rpartition("-")[2]
            if is_page(ref) or not (number.isascii() and number.isdigit() and len(number) < 16):  # noqa: PLR2004 - as JSON counts
                return None
            wanted: Any = int(number)
        else:
            wanted = ref
        found = self.listed(lambda shape: _equals(shape["id"], wanted))
        return next((reading for reading in found if self._is(reading, ref)), None)

    def _is(self, reading: Reading, ref: str) -> bool:
        own = reading.task.id
        if not self.layout.assigns_ids:
            return ref == own
        return ref.removeprefix("#").casefold() in {own.casefold(), own.rpartition("-")[2]}

    def key_taken(self, key: str) -> bool:
        """Whether a task with this key exists, as far as lists show it yet."""
        try:
            return not self.read_page(self.find_page(key)).trashed
        except NotFound:
            return False

    def not_found(self, ref: str) -> NotFound:
        return NotFound(
            f"There is no task '{ref[:80]}' in the Notion database, or it is not shared with the integration."
        )

    def read(self, ref: str) -> Reading:
        """Read the task's page now, by its id."""
        ref = page_in_address(ref) or ref
        page = self.find_page(ref)
        try:
            reading = self.read_page(page)
            fits = is_page(ref) or self._is(reading, ref)
        except NotFound:
            fits = False
        if fits:
            return reading
        if self.cache.get("page", ref) is None:
            raise self.not_found(ref)
        self.cache.forget("page", ref)  # the cached page is outdated
        return self.read_page(self.find_page(ref))

    def read_page(self, page: str, *, hasty: bool = False) -> Reading:
        reading = self.reading(self.gateway.page(page, hasty=hasty))
        self.remember(reading)
        return reading

    def reading(self, answer: Mapping[str, Any], rows: Mapping[str, Row] | None = None) -> Reading:
        """Convert an answer to a task, with the arbiter's lease. A page of another database raises NotFound."""
        parent = answer.get("parent")
        home = parent.get("database_id") if isinstance(parent, dict) else None
        if isinstance(home, str) and bare(home) != bare(self.id):
            raise NotFound("That page is not in this Notion database.")
        properties = answer.get("properties")
        if isinstance(properties, dict):
            refuse_problems(self.layout, properties)
        reading = read(self.layout, self.scope, answer, self.name_of)
        if self.ledger is None:
            return self._by_editor(reading)
        shown = reading.task
        row = self.ledger.row(shown.id) if rows is None else rows.get(shown.id)
        if row is None or shown.status not in _LEASABLE:
            return reading._replace(shown=shown)
        return reading._replace(task=decided(shown, row), shown=shown)

    def _by_editor(self, reading: Reading) -> Reading:
        """Note whether a person made the latest edit, if a page with an expired lease was edited after its claim."""
        lease, edited = reading.task.lease, reading.task.updated_at
        in_time = reading.written_at is not None and edited <= reading.written_at
        if in_time or not reading.token or lease is None or lease.live(self.heard()):
            return reading
        return reading._replace(by_person=reading.editor is not None and self._is_person(reading.editor))

    def _is_person(self, user: str) -> bool:
        """Whether a user is a person. An unknown user counts as an integration, which only prolongs the wait."""
        kind = self.cache.get("user", user)
        if kind is None:
            try:
                kind = str(self.gateway.user(user).get("type"))
            except DibsError:
                return False
            self.cache.put("user", user, kind)
        return kind == "person"

    def name_of(self, page: str) -> str:
        return self.cache.get("task", bare(page)) or page

    def remember(self, *readings: Reading) -> None:
        """Cache which page is which task, for later processes."""
        for reading in readings:
            self.cache.put("page", reading.task.id, reading.page)
            self.cache.put("task", bare(reading.page), reading.task.id)

    # Lists of pages

    def with_status(self, *statuses: Status) -> list[Reading]:
        """Return the pages with any of these statuses. An empty list counts only once the status words are known."""
        found = self._by_status(statuses)
        if not found and not self._checked:
            self.learn()
            found = self._by_status(statuses)
        return found

    def _by_status(self, statuses: Iterable[Status]) -> list[Reading]:
        asked = frozenset(statuses)
        return self.listed(lambda shape: self._any_of(asked, shape["status"]))

    def _any_of(self, statuses: frozenset[Status], carried: Carried) -> Condition:
        """Ask only for known status words: Notion rejects a filter for an unknown one."""
        words = [word for status, word in self.layout.words.items() if status in statuses]
        known = [word for word in words if self._options is None or word in self._options]
        if not known:
            return {"and": [_empty(carried, empty=True), _empty(carried, empty=False)]}
        return {"or": [_equals(carried, word) for word in known]}

    def listed(self, condition: Callable[[Mapping[str, Carried]], Condition] | None = None) -> list[Reading]:
        """Return all pages that match a condition, in no order."""
        pages: list[Mapping[str, Any]] = self.understood(
            lambda: list(self._pages(None if condition is None else condition(self.shape)))
        )
        for page in pages:
            self._note(page)
        rows = self.ledger.rows() if self.ledger is not None else None
        return [reading for page in pages if not (reading := self.reading(page, rows)).trashed]

    def _note(self, page: Mapping[str, Any]) -> None:
        """Remember the ids of listed pages while this store is open, so that parents have names."""
        carried = self.shape.get("id")
        properties = page.get("properties")
        if carried is None or not isinstance(properties, dict) or carried.name not in properties:
            return
        from dibs.stores.notion.values import decode

        name = decode(properties[carried.name])
        if isinstance(name, str) and name:
            self.cache.note("task", bare(str(page.get("id"))), name)

    def _pages(self, condition: Condition | None) -> Iterator[Mapping[str, Any]]:
        """Yield all pages. Notion lists at most 10,000, so the next query starts where the last one ended."""
        seen: set[str] = set()
        since: str | None = None
        while True:
            last = since
            whole = True
            for answer in self._answers(_both(condition, since)):
                for page in _results(answer):
                    last = page.get("created_time") or last
                    if page.get("id") not in seen:
                        seen.add(str(page.get("id")))
                        yield page
                whole = (answer.get("request_status") or {}).get("type") != "incomplete"
            if whole:
                return
            if last == since:
                raise StoreUnavailable("More tasks were made within one minute than Notion can list.")
            since = last

    def _answers(self, condition: Condition | None) -> Iterator[Mapping[str, Any]]:
        body: dict[str, Any] = {
            "page_size": PAGE_SIZE,
            "sorts": [{"timestamp": "created_time", "direction": "ascending"}],
        }
        if condition is not None:
            body["filter"] = condition
        while True:
            answer = self.gateway.query(self.source, body)
            yield answer
            cursor = answer.get("next_cursor")
            if not answer.get("has_more") or not cursor:
                return
            body["start_cursor"] = cursor


def _equals(carried: Carried, value: object) -> Condition:
    return {"property": carried.name, carried.type: {"equals": value}}


def _empty(carried: Carried, *, empty: bool) -> Condition:
    return {"property": carried.name, carried.type: {"is_empty" if empty else "is_not_empty": True}}


def _both(condition: Condition | None, since: str | None) -> Condition | None:
    if since is None:
        return condition
    later: Condition = {"timestamp": "created_time", "created_time": {"on_or_after": since}}
    return later if condition is None else {"and": [later, condition]}


def _results(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Raise if an answer has no results: that must not pass for "no tasks"."""
    results = answer.get("results")
    if not isinstance(results, list) or not all(isinstance(page, dict) for page in results):
        raise StoreUnavailable("Notion's answer is no list of pages; is NOTION_API_BASE_URL right?")
    return results
