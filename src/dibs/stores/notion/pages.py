"""Convert a Notion page to a task, and a task's changes to property values."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core import wire
from dibs.core.errors import DibsError, StoreUnavailable
from dibs.core.fields import SETS
from dibs.core.task import CLASS_RANK, Holder, Json, Lease, OrderKey, ServiceClass, Status, Task
from dibs.core.times import time_text
from dibs.stores.notion.guard import USUAL_LEASE
from dibs.stores.notion.layout import AGENT, HUMAN, Carried, Layout, refuse_word, shape_of
from dibs.stores.notion.values import Plain, Unreadable, ceil_minute, decode, encode, moment_of, option_name

if TYPE_CHECKING:
    from dibs.stores.notion.layout import Shape

MINUTES = "claim_timeout_minutes"  # an extra field of tasks that state their own claim length
NOTION = "notion"  # an extra field: the oddities of the page, with its raw values
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)  # the lease end of a lock without one
_LONGEST_LEASE = 60 * 24 * 366  # minutes
_LEASABLE = frozenset({Status.READY, Status.ACTIVE})

Name = Callable[[str], str]  # returns the task id of a page


class Reading(NamedTuple):
    """A page as it was read. `doubts` are inconsistencies, worded for people."""

    page: str
    task: Task
    shape: Mapping[str, Carried]
    number: int = 0
    trashed: bool = False
    parent: str | None = None
    open_children: float | None = None
    children: tuple[str, ...] = ()
    more_children: bool = False
    token: str = ""
    lock_expires: datetime | None = None
    doubts: tuple[str, ...] = ()
    shown: Task | None = None  # the task as the page shows it, if an arbiter overrules it
    written_at: datetime | None = None  # the minute by which the last claim or renewal must have arrived
    longest: timedelta = USUAL_LEASE
    editor: str | None = None  # the id of the user who made the last edit
    by_person: bool = False

    def __repr__(self) -> str:
        """Without the values of the lock's properties."""
        return f"Reading({self.task!r} on {self.page})"


class Order(NamedTuple):
    """The order of work, with the id's number where ids are numbered."""

    rank: int
    not_first: bool
    priority: float
    queued_at: datetime
    number: int
    id: str


def order_of(reading: Reading) -> Order:
    task = reading.task
    rank = CLASS_RANK[task.service_class]
    return Order(rank, not task.override, task.priority, task.queued_at, reading.number, task.id)


def place_of(key: OrderKey, *, numbered: bool) -> Order:
    """Return the place of a task in the listing, for a cursor that holds only its id."""
    rank, not_first, priority, queued_at, task, _scope = key
    number = task.rpartition("-")[2] if numbered else ""
    return Order(rank, not_first, priority, queued_at, int(number) if number.isdecimal() else 0, task)


def bare(page: str) -> str:
    """A page's id as Notion's addresses spell it, without dashes."""
    return page.replace("-", "").lower()


def is_page(text: str) -> bool:
    plain = bare(text)
    return len(plain) == 32 and all(digit in "0123456789abcdef" for digit in plain)  # noqa: PLR2004 - a UUID's length


def page_in_address(text: str) -> str | None:
    """Return the page's id from a Notion address, also of a page opened beside its database."""
    if not text.startswith(("https://", "http://", "notion://")):
        return None
    from urllib.parse import parse_qs, urlsplit

    address = urlsplit(text)
    beside = parse_qs(address.query).get("p", [""])[0]
    name = beside or address.path.rstrip("/").rpartition("/")[2]
    return next((found for found in (name, name[-32:]) if is_page(found)), None)


def read(layout: Layout, scope: str, page: Mapping[str, Any], name_of: Name = str) -> Reading:
    """Convert a page to a reading. Unreadable values are skipped and reported as doubts."""
    properties = page.get("properties")
    if not isinstance(properties, dict) or not isinstance(page.get("id"), str):
        raise StoreUnavailable("Notion's answer is no page; is NOTION_API_BASE_URL right?")
    shape = shape_of(layout, properties)
    cells, doubts = _cells(shape, properties)
    notes: list[str] = []
    task = _task(layout, scope, page, cells, doubts, notes)
    parents = cells.get("parent")
    parent = parents[0] if isinstance(parents, tuple) and parents else None
    if parent is not None:
        task = task._replace(parent=name_of(parent))
    children = cells.get("children")
    open_children = cells.get("open_children")
    expires = cells.get("expires_at")
    return Reading(
        page["id"],
        task,
        shape,
        _number(properties, shape),
        bool(page.get("in_trash") or page.get("archived")),
        parent,
        _still_open(layout, open_children),
        children if isinstance(children, tuple) else (),
        bool("children" in shape and properties[shape["children"].name].get("has_more")),
        str(cells.get("token") or ""),
        expires if isinstance(expires, datetime) else None,
        tuple(doubts),
        written_at=(written := _written_at(layout, cells)),
        longest=_longest_lease(layout, task, cells, written),
        editor=_editor(page),
    )


def _written_at(layout: Layout, cells: Mapping[str, Plain]) -> datetime | None:
    """Return when the claim was made, or renewed if the page has a property for that."""
    if layout.begins:
        return _moment(cells, "claimed_at")
    return _moment(cells, "written_at") or _moment(cells, "started_at")


def _longest_lease(layout: Layout, task: Task, cells: Mapping[str, Plain], written: datetime | None) -> timedelta:
    usual, expires = lease_span(layout, task), _moment(cells, "expires_at")
    if written is None or expires is None or _moment(cells, "written_at") is None:
        return usual
    return max(usual, expires - written)


def _editor(page: Mapping[str, Any]) -> str | None:
    editor = page.get("last_edited_by")
    found = editor.get("id") if isinstance(editor, dict) else None
    return found if isinstance(found, str) else None


def _cells(shape: Mapping[str, Carried], properties: Mapping[str, Any]) -> tuple[dict[str, Plain], list[str]]:
    cells: dict[str, Plain] = {}
    doubts = []
    for field, carried in shape.items():
        try:
            cells[field] = decode(properties[carried.name])
        except Unreadable as error:
            doubts.append(f"{carried.name} '{error}' is not a time; it counts as long past")
            cells[field] = LONG_AGO if field in {"expires_at", "claimed_at"} else None
    return cells, doubts


def _task(
    layout: Layout,
    scope: str,
    page: Mapping[str, Any],
    cells: Mapping[str, Plain],
    doubts: list[str],
    notes: list[str],
) -> Task:
    """Convert cells to a task; `doubts` need a person's correction, `notes` do not."""
    created, edited = _times(page)
    status = _status(layout, cells, doubts, notes)
    blank = _rest(layout, cells, created, edited, doubts)
    queued = edited if layout.queue == "edited" else blank.queued_at

    def text(field: str) -> str:
        return str(cells.get(field) or "")

    minutes = cells.get("minutes")
    sets: dict[str, Any] = {name: _names(cells, name, getattr(blank, name)) for name in SETS}
    task = blank._replace(
        **sets,
        scope=scope,
        id=text("id") or page["id"],
        title=text("title").strip(),
        created_at=created,
        updated_at=edited,
        queued_at=queued,
        status=status,
        priority=_priority(layout, cells),
        service_class=_class(layout, text("service_class"), notes),
        artifacts=tuple(text("artifacts").splitlines()),
        reason=text("reason") or None,
        unblock_action=text("unblock_action") or None,
        next_check_at=_exact(cells, "next_check_at", blank.next_check_at),
        started_at=_exact(cells, "started_at", blank.started_at),
        finished_at=_ended(status, cells, blank, edited),
        parent=None,
        origin=blank.origin if layout.rest else page["id"],
        extra={**blank.extra, MINUTES: minutes} if isinstance(minutes, int | float) else blank.extra,
    )
    if layout.keeps_claim and status is Status.DONE:
        task = task._replace(finished_by=text("agent") or None, started_at=_moment(cells, "claimed_at"))
    task = task._replace(lease=_lease(layout, task, cells, doubts, notes))
    shown = _shown(layout, task, cells, odd=bool(doubts or notes))
    return (
        task._replace(extra={**task.extra, NOTION: {"warnings": [*doubts, *notes], "shows": shown}}) if shown else task
    )


def _shown(layout: Layout, task: Task, cells: Mapping[str, Plain], *, odd: bool) -> dict[str, Json]:
    """Return the page's raw values where the task's are derived, empty ones included; of an odd page, all of them."""
    shown: dict[str, Json] = {}
    if not layout.rest and not layout.keeps_claim and task.status is Status.DONE and not cells.get("finished_at"):
        shown["finished_at"] = ""
    if not odd:
        return shown
    for field in ("status", "holder", "agent"):
        if field in layout.properties:
            shown[field] = str(cells.get(field) or "")
    if cells.get("service_class"):
        shown["service_class"] = str(cells["service_class"])
    until = _moment(cells, "expires_at")
    if until is None or until == LONG_AGO:
        shown["expires_at"] = ""
    elif task.lease is None:
        shown["expires_at"] = time_text(until)
    return shown


def _class(layout: Layout, word: str, notes: list[str]) -> ServiceClass:
    found = layout.service_class(word)
    if found is None:
        notes.append(f"the class '{word[:40]}' is unknown in the layout '{layout.name}'; taken for STANDARD")
    return found or ServiceClass.STANDARD


def _times(page: Mapping[str, Any]) -> tuple[datetime, datetime]:
    try:
        return moment_of(page.get("created_time")), moment_of(page.get("last_edited_time"))
    except Unreadable:
        raise StoreUnavailable("A page in Notion's answer lacks the times of its creation and last edit.") from None


def _status(layout: Layout, cells: Mapping[str, Plain], doubts: list[str], notes: list[str]) -> Status:
    """A page without a status, or with an unknown one, counts as backlog."""
    word = cells.get("status")
    status = layout.status(word if isinstance(word, str) else None)
    if status is None and word:
        doubts.append(f"the status '{str(word)[:40]}' is unknown in the layout '{layout.name}'")
    elif status is None:
        notes.append("it has no status")
    return status or Status.BACKLOG


def _priority(layout: Layout, cells: Mapping[str, Plain]) -> float:
    """Negate the priority: in Notion, higher numbers are more urgent."""
    stated = cells.get("priority")
    number = stated if isinstance(stated, int | float) else layout.priority
    priority = 0 - number
    return int(priority) if float(priority).is_integer() else priority


def _moment(cells: Mapping[str, Plain], field: str) -> datetime | None:
    value = cells.get(field)
    return value if isinstance(value, datetime) else None


def _exact(cells: Mapping[str, Plain], field: str, noted: datetime | None) -> datetime | None:
    """Restore the seconds that Notion drops from a date, if they were noted and the date is unchanged."""
    if field not in cells:
        return noted
    shown = _moment(cells, field)
    same = shown and noted and shown == noted.replace(second=0, microsecond=0)
    return noted if same else shown


def _names(cells: Mapping[str, Plain], field: str, noted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the options of a multi-select. Notion allows no comma, so names with one are stored in the rest."""
    shown = cells.get(field)
    if not isinstance(shown, tuple) or sorted(shown) == sorted(option_name(name) for name in noted):
        return noted
    return tuple(sorted(set(shown)))


def _ended(status: Status, cells: Mapping[str, Plain], blank: Task, edited: datetime) -> datetime | None:
    if status is Status.CANCELED:
        return blank.finished_at or edited
    if status is not Status.DONE:
        return None
    return _exact(cells, "finished_at", blank.finished_at) or edited


def _rest(layout: Layout, cells: Mapping[str, Plain], created: datetime, edited: datetime, doubts: list[str]) -> Task:
    """Return the fields without a property; an unreadable rest is empty."""
    blank = Task("scope", "id", "title", created, edited, created)
    said = cells.get("rest")
    if not layout.rest or not isinstance(said, str) or not said:
        return blank
    base: dict[str, Json] = {"status": "ready", **wire.task_json(blank)}
    try:
        stated = json.loads(said)
        ended = {name: stated.pop(name) for name in ("finished_at",) if name in stated}
        task = wire.task_from_json({**base, **stated}, str)
        return task._replace(finished_at=moment_of(ended["finished_at"]) if ended else None)
    except (ValueError, TypeError, AttributeError, DibsError, RecursionError):
        doubts.append(f"{layout.properties['rest'].name} holds no fields that dibs can read; they were left blank")
        return blank


def _lease(layout: Layout, task: Task, cells: Mapping[str, Plain], doubts: list[str], notes: list[str]) -> Lease | None:
    """Return the page's lease. A page in progress without agent values is held by a person."""
    if task.status not in _LEASABLE:
        return None
    agent, token = str(cells.get("agent") or ""), str(cells.get("token") or "")
    run = str(cells.get("run") or "") or None
    began = _moment(cells, "claimed_at") or task.started_at or task.updated_at
    said = str(cells.get("holder") or "").strip() if "holder" in layout.properties else agent and AGENT
    holder = said.upper()
    if holder not in {"", AGENT, HUMAN}:
        doubts.append(f"it is claimed by '{said[:40]}', which is neither {AGENT} nor {HUMAN}; taken for an agent")
    if holder == HUMAN or (not holder and task.status is Status.ACTIVE):
        left_behind = cells.get("expires_at") is not None  # the name is that of the agent it was taken from
        if not holder:
            notes.append("it is in progress without a claim, so it counts as a person's work")
        elif left_behind and agent:
            notes.append(f"a person has claimed it, and the lock of {agent} is still on the page")
        who = "" if left_behind else agent
        return Lease(token, task.attempt, who, run, Holder.HUMAN, began, None)
    if not holder:
        if _moment(cells, "expires_at") not in {None, LONG_AGO}:
            notes.append("it has no claim, but a lock with an end; it counts as free")
        return None
    expires = _lease_end(layout, cells, task)
    if expires is None:
        doubts.append(f"it is claimed by {agent or 'an agent'}, but its lock has no end")
    elif not agent:
        notes.append("it is claimed by an agent whose name is missing")
    attempt = task.attempt if layout.rest else 1
    return Lease(token, attempt, agent, run, Holder.AGENT, began, expires or LONG_AGO)


def _lease_end(layout: Layout, cells: Mapping[str, Plain], task: Task) -> datetime | None:
    if layout.lease == "end":
        return _moment(cells, "expires_at")
    began = _moment(cells, "claimed_at")
    return None if began is None else began + lease_span(layout, task)


def lease_span(layout: Layout, task: Task) -> timedelta:
    """Return how long a claim lasts, for tasks that state it."""
    minutes = task.extra.get(MINUTES)
    if isinstance(minutes, int | float) and 0 < minutes <= _LONGEST_LEASE:
        return timedelta(minutes=minutes)
    return timedelta(minutes=layout.minutes)


def _still_open(layout: Layout, said: Plain) -> float | None:
    """Return how many sub-tasks a rollup or a formula calls unfinished: a number, or their statuses."""
    if isinstance(said, bool):
        return float(said)
    if isinstance(said, int | float):
        return said
    if isinstance(said, tuple):
        ended = (Status.DONE, Status.CANCELED)
        return sum(layout.status(word) not in ended for word in said)
    return None


def _number(properties: Mapping[str, Any], shape: Mapping[str, Carried]) -> int:
    carried = shape.get("id")
    if carried is None or carried.type != "unique_id":
        return 0
    said = properties[carried.name].get("unique_id")
    number = said.get("number") if isinstance(said, dict) else None
    return number if isinstance(number, int) else 0


# A claim writes all of these together, and the end of an attempt clears them together.
LOCK = frozenset({"status", "holder", "agent", "run", "token", "expires_at", "claimed_at", "written_at"})

# Stated by the page itself, or derived: never part of the rest.
_NOT_REST = frozenset({"scope", "id", "title", "status", "lease", "created_at", "updated_at", "blockers"})
_FIXED = frozenset({"id", "parent"})  # never changed later; a parent is changed through its page
_ROUNDED = frozenset({"next_check_at", "started_at", "finished_at", *SETS})


def sealed(token: str) -> str:
    """A digest of a token: it identifies the token, but cannot be used as one."""
    return hashlib.sha256(token.encode()).hexdigest()


def cells_of(layout: Layout, task: Task, parent: str | None = None) -> dict[str, Plain]:
    """Return every field that a layout may have a property for; `parent` is the parent's page."""
    lease = task.lease
    agent = lease is not None and lease.holder is Holder.AGENT
    minutes = task.extra.get(MINUTES)
    return {
        "id": task.id,
        "title": task.title,
        "status": refuse_word(layout, task.status),
        "priority": 0 - task.priority,
        "service_class": layout.classes.get(task.service_class),
        "holder": (AGENT if agent else HUMAN) if lease else None,
        "agent": lease.agent if lease else None,
        "run": lease.run if lease else None,
        "token": lease.token if lease else None,
        "expires_at": ceil_minute(lease.expires_at) if lease and lease.expires_at else None,
        "claimed_at": lease.claimed_at if lease else None,
        "written_at": None,  # the caller of a claim or renewal sets it
        "minutes": minutes if isinstance(minutes, int | float) else None,
        "artifacts": task.artifacts,
        "reason": task.reason,
        "unblock_action": task.unblock_action,
        "next_check_at": task.next_check_at,
        "started_at": task.started_at,
        "finished_at": task.finished_at if task.status is Status.DONE else None,
        **{name: getattr(task, name) for name in SETS},
        "parent": (parent,) if parent else (),
        "rest": _rest_text(layout, task) if layout.rest else None,
    }


def changes(
    layout: Layout,
    shape: Shape,
    before: Task,
    after: Task,
    *,
    always: frozenset[str] = frozenset(),
    only: frozenset[str] | None = None,
) -> dict[str, Any]:
    """Return the properties to write: those that differ, and those that must always be written."""
    old, new = cells_of(layout, before), cells_of(layout, after)
    if layout.keeps_claim and after.status is Status.DONE:
        new.update(agent=old["agent"], claimed_at=old["claimed_at"])
        always -= {"agent", "claimed_at"}
    return {
        carried.name: encode(carried.type, new[field])
        for field, carried in shape.items()
        if field in new
        and field not in _FIXED
        and (only is None or field in only)
        and (field in always or old[field] != new[field])
    }


def creation(layout: Layout, shape: Shape, task: Task, parent: str | None) -> dict[str, Any]:
    """Return the properties of a new page, without empty ones."""
    cells = cells_of(layout, task, parent)
    return {
        carried.name: encode(carried.type, cells[field])
        for field, carried in shape.items()
        if field in cells and carried.type != "unique_id" and cells[field] not in (None, "", ())
    }


def _rest_text(layout: Layout, task: Task) -> str:
    """Return as JSON the fields without a property, and times that Notion would round."""
    carried = layout.properties.keys() - _ROUNDED
    told = {
        name: value for name, value in wire.task_json(task).items() if name not in _NOT_REST and name not in carried
    }
    told["extra"] = {name: value for name, value in task.extra.items() if name != NOTION}
    if task.spent_token is not None:
        told["spent_token"] = task.spent_token
    return json.dumps(told, ensure_ascii=False, separators=(",", ":"), default=_plain)


def _plain(value: object) -> Json:
    return str(value)
