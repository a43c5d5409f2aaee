"""Read a task from a file and write it back.

The keys `task_id`, `priority`, `created_at`, `source` and `action` come from the claim-by-move contract. An unknown key
is an extra field of the task. The folder decides the status: after a move by hand, keys of the earlier state are
ignored, and the next write removes them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core import checks, fields
from dibs.core.errors import InvalidInput
from dibs.core.fields import LISTS, Kind
from dibs.core.task import Holder, Lease, Link, LinkKind, ServiceClass, Status, Task
from dibs.core.times import time_from, time_text
from dibs.stores.vault import places
from dibs.stores.vault.page import MARKER, PAGE_PROOF, Page
from dibs.stores.vault.places import FINISHED, FOLDER_OF, IN_PROGRESS, NEEDS_ACTION, PLAIN, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from os import stat_result

    from dibs.core.task import Json

    Field = tuple[str, str, Callable[[Any], object], Callable[[Any], Json]]


_PRIORITIES: Mapping[str, int] = {"urgent": 0, "high": 1, "medium": 2, "low": 3}
_PRIORITY_WORDS = {number: word for word, number in _PRIORITIES.items()}


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return str(value)  # such as an unquoted 42


def _texts(value: Json) -> tuple[str, ...]:
    return tuple(_text(item) for item in value) if isinstance(value, list) else (_text(value),)


def _whole(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _flag(value: Json) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _time(value: Json) -> datetime:
    try:
        return time_from(_text(value))
    except InvalidInput:
        raise ValueError from None


def _priority(value: Json) -> float:
    if isinstance(value, str):
        return _PRIORITIES[value.strip().lower()]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _as_it_is(value: Json) -> Json:
    return value


def _word(value: Any) -> Json:
    return str(value)


def _list(value: Any) -> Json:
    return list(value)


_OF_KIND: Mapping[str, tuple[Callable[[Any], object], Callable[[Any], Json]]] = {
    **dict.fromkeys((Kind.TITLE, Kind.TEXT, Kind.NAME, Kind.ID), (_text, _as_it_is)),
    **dict.fromkeys(LISTS, (_texts, _list)),
    Kind.NUMBER: (_priority, lambda value: _PRIORITY_WORDS.get(value, value)),
    Kind.COUNT: (_whole, _as_it_is),
    Kind.FLAG: (_flag, _as_it_is),
    Kind.TIME: (_time, time_text),
    Kind.STATUS: (Status, _word),
    Kind.CLASS: (ServiceClass, _word),
    Kind.JSON: (_as_it_is, _as_it_is),
}
# Fields whose key is not their own name.
_KEYS = {
    "service_class": "class",
    "origin": "source",
    "spec_ref": "spec",
    "ended": "ended_by",
    "spent_token": "spent_proof",
}
# Fields that come from the place, from the text below the front matter, or from the links.
_ELSEWHERE = frozenset({"scope", "id", "description", "extra", "lease", "blockers"})

# A task's field, its key, its reader and its writer.
FIELDS: tuple[Field, ...] = tuple(
    (field.name, _KEYS.get(field.name, field.name), *_OF_KIND[field.kind])
    for field in fields.FIELDS
    if field.name not in _ELSEWHERE
)

LEASE_FIELDS: tuple[Field, ...] = (
    ("agent", "claimed_by", _text, _as_it_is),
    ("run", "claimed_run", _text, _as_it_is),
    ("holder", "claimed_as", Holder, _word),
    ("claimed_at", "claimed_at", _time, time_text),
    ("expires_at", "lease_until", _time, time_text),
    ("token", "claim_proof", _text, _as_it_is),
)

LINK_KEYS: Mapping[LinkKind, str] = {
    LinkKind.BLOCKS: "depends_on",
    LinkKind.FEEDS_INTO: "feeds_from",
    LinkKind.PARALLEL_OK: "parallel_ok",
}
LINKS = "links"  # those of which more is to be said than where they lead
EXTRA = "extra"  # extra fields whose names cannot be keys
TASK_ID = "task_id"

OURS = frozenset(
    {TASK_ID, LINKS, EXTRA, PAGE_PROOF, places.FILE, *LINK_KEYS.values()}
    | {key for _, key, _, _ in FIELDS}
    | {key for _, key, _, _ in LEASE_FIELDS}
)

_ORDINARY = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


def can_be_key(name: str) -> bool:
    return name not in OURS and _ORDINARY.fullmatch(name) is not None


UNPROVED_LEASE = timedelta(minutes=20)  # how long a claim counts that left no word about itself

_STAMPED = re.compile(r"task-(\d{8})-(\d{6})-", re.ASCII)
_BLANK = Task._field_defaults
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Keys that are written even for a default value, and keys omitted for the value that follows from another field.
_ALWAYS = frozenset({"title", "priority", "created_at"})
_IMPLIED: Mapping[str, Callable[[Task], object]] = {
    "status": lambda task: PLAIN[FOLDER_OF[task.status]],
    "queued_at": lambda task: task.created_at,
    "updated_at": lambda task: task.created_at,
}
_STRAY = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class Reading(NamedTuple):
    """The content of a file. `doubts` are invalid values, which are ignored."""

    task: Task
    links: tuple[Link, ...] = ()
    proof: str | None = None  # of the claim on the page, valid or not
    by_hand: bool = False  # a person has put it where it is
    edited: bool = False  # changed since it was claimed
    doubts: tuple[str, ...] = ()


def sealed(token: str) -> str:
    """A digest of a token, to recognise it by. It is useless to readers of the folder."""
    return f"sha256:{sha256(token.encode()).hexdigest()}"


def read(page: Page, place: Place, stat: stat_result) -> Reading:
    doubts: list[str] = []
    said = _said(page, FIELDS, doubts)
    lease = _said(page, LEASE_FIELDS, doubts)
    by_hand = _by_hand(place, said, lease)
    moved_at = _moment(stat.st_ctime_ns)
    if by_hand:
        _settle(place, said, moved_at)
    said["status"] = _status(place, said)
    if "title" not in said:
        said["title"] = _title(page, place.file)
    said.setdefault("created_at", _created(place, stat))
    for later in ("queued_at", "updated_at"):
        said.setdefault(later, said["created_at"])
    edited = False
    if place.folder == IN_PROGRESS:
        edited = "token" in lease and lease.get("holder") is not Holder.HUMAN and not _as_claimed(page)
        said["lease"] = _lease(place, said, lease, moved_at, by_hand=by_hand, edited=edited)
        said["attempt"] = said["lease"].attempt
    said["description"] = page.description
    said["extra"] = _extra(page) | named(place)
    task = Task(place.scope, place.id, **said)
    return Reading(task, _links(page, place.id, doubts), lease.get("token"), by_hand, edited, tuple(doubts))


def named(place: Place) -> dict[str, Json]:
    """The extra field with the file's name, if that does not follow from the task's id."""
    return {} if places.follows(place.file, place.id) else {places.FILE: place.file}


def known_as(known: Reading, place: Place) -> Reading:
    """The reading of a file under the id that the index gave it."""
    extra = {name: value for name, value in known.task.extra.items() if name != places.FILE} | named(place)
    links = tuple(link._replace(task=place.id) for link in known.links)
    return known._replace(task=known.task._replace(id=place.id, extra=extra), links=links)


def said_id(page: Page) -> str | None:
    """The id in a page's `task_id`, or None."""
    return places.id_said(page.front.get(TASK_ID))


def write(page: Page, task: Task, links: tuple[Link, ...], file: str, before: Reading | None = None) -> None:
    """Write a task to a page. Values that are there already keep their wording.

    `file` is the name the file will have. `before` is the reading of the page: with it, only differences are written.
    """
    front = page.front
    old = before.task if before is not None and not before.by_hand else None
    page.give_front()
    if said_id(page) is None:
        front.put(TASK_ID, task.id)  # from now on, a rename does not make it another task
    if task.description != page.description:
        refuse_marker(task.description)
        page.description = task.description
    for field, key, _, write_value in FIELDS:
        value = getattr(task, field)
        if old is not None and value == getattr(old, field) and (key in front or field not in _ALWAYS):
            continue
        if field == "title" and key not in front and value == _title(page, file):
            continue
        if _goes_without_saying(task, field, value):
            front.drop(key)
        else:
            front.put(key, write_value(value))
    _write_lease(page, task)
    if old is None or old.extra != task.extra:
        _write_extra(page, task.extra)
    if before is None or before.links != links:
        _write_links(page, links)
    if task.lease is None:
        front.drop(PAGE_PROOF)
    else:
        front.put(PAGE_PROOF, page.digest())


def _goes_without_saying(task: Task, field: str, value: object) -> bool:
    if field in _IMPLIED:
        return value == _IMPLIED[field](task)
    return value == _BLANK.get(field) and field not in _ALWAYS


def _write_lease(page: Page, task: Task) -> None:
    for field, key, _, write_value in LEASE_FIELDS:
        value = None if task.lease is None else getattr(task.lease, field)
        if value is None or value is Holder.AGENT:
            page.front.drop(key)
        else:
            page.front.put(key, write_value(value))


def refuse_marker(description: str) -> None:
    if MARKER in description:
        raise InvalidInput("The description contains the line that separates a task from its notes. Remove that line.")


def _said(page: Page, fields: Any, doubts: list[str]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for field, key, read_value, _ in fields:
        value = page.front.get(key)
        if value is None:
            continue
        try:
            said[field] = read_value(value)
        except (ValueError, TypeError, KeyError):
            doubts.append(f"'{key}' cannot be {str(value)[:40]!r}")
    return said


def _status(place: Place, said: dict[str, Any]) -> Status:
    status = said.get("status")
    if status is not None and FOLDER_OF[status] == place.folder:
        return Status(status)
    return PLAIN[place.folder]


def _by_hand(place: Place, said: dict[str, Any], lease: dict[str, Any]) -> bool:
    """Whether a person has moved the file. dibs writes claims only in In_Progress, ends only in Done and Rejected."""
    if place.folder == IN_PROGRESS:
        return "token" not in lease or places.agent_folder(lease.get("agent", "")) != place.agent
    if "token" in lease or ("finished_at" in said) != (place.folder in FINISHED):
        return True
    status = said.get("status")
    return status is not None and FOLDER_OF[status] != place.folder


def _settle(place: Place, said: dict[str, Any], moved_at: datetime) -> None:
    """Drop the values of the folder from which a person has moved the file."""
    was_over = "finished_at" in said or said.get("status") is Status.ESCALATED
    if place.finished:
        said.setdefault("finished_at", moved_at)
    else:
        said.pop("finished_at", None)
    if place.folder == NEEDS_ACTION:
        for field in ("reason", "ended", "spent_token", "unblock_action", "next_check_at", "finished_by"):
            said.pop(field, None)
        if was_over:
            for field in ("retries", "paused_from", "merged_into"):
                said.pop(field, None)


def _as_claimed(page: Page) -> bool:
    return page.front.get(PAGE_PROOF) == page.digest()


def _lease(
    place: Place, said: dict[str, Any], lease: dict[str, Any], moved_at: datetime, *, by_hand: bool, edited: bool
) -> Lease:
    """The lease on the page, or the one that follows from a move by hand into an agent's folder."""
    attempt = said.get("attempt", 0)
    if by_hand:
        agent = places.agent_from(place.agent)
        return Lease("", attempt + 1, agent, None, Holder.AGENT, moved_at, moved_at + UNPROVED_LEASE)
    claimed_at = lease.get("claimed_at", moved_at)
    holder = lease.get("holder", Holder.AGENT)
    ends = None if holder is Holder.HUMAN else lease.get("expires_at", claimed_at)
    return Lease(
        lease["token"], attempt, lease["agent"], lease.get("run"), holder, claimed_at, claimed_at if edited else ends
    )


def _title(page: Page, file: str) -> str:
    """The first heading, or else the file's name."""
    name = file.removesuffix(places.SUFFIX)
    return _STRAY.sub(" ", page.heading() or name).strip()[: checks.TITLE_MAX] or name


def _created(place: Place, stat: stat_result) -> datetime:
    """The time in the file's name, else the file's own."""
    stamped = _STAMPED.match(place.file)
    if stamped:
        try:
            return datetime.strptime("".join(stamped.groups()), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        except ValueError:
            pass  # the digits are not a date
    return _moment(stat.st_mtime_ns)


def _moment(nanoseconds: int) -> datetime:
    return _EPOCH + timedelta(0, 0, nanoseconds // 1000)


def _extra(page: Page) -> dict[str, Json]:
    extra = {key: page.front.get(key) for key in page.front.names() if key not in OURS}
    odd = page.front.get(EXTRA)
    return {**extra, **odd} if isinstance(odd, dict) else extra


def _write_extra(page: Page, extra: Any) -> None:
    odd: dict[str, Json] = {}
    known = [key for key in page.front.names() if key not in OURS]
    for key in known:
        if key not in extra:
            page.front.drop(key)
    for key, value in extra.items():
        if key == places.FILE:
            continue
        if key in known or can_be_key(key):
            page.front.put(key, value)
        else:
            odd[key] = value
    if odd:
        page.front.put(EXTRA, odd)
    else:
        page.front.drop(EXTRA)


def _links(page: Page, task: str, doubts: list[str]) -> tuple[Link, ...]:
    found: dict[str, Link] = {}
    for kind, key in LINK_KEYS.items():
        value = page.front.get(key)
        for on in value if isinstance(value, list) else [] if value is None else [value]:
            if isinstance(on, str | int) and not isinstance(on, bool):
                name = _unbracketed(str(on))
                found.setdefault(name, Link(task, name, kind))
            else:
                doubts.append(f"'{key}' cannot hold {str(on)[:40]!r}")
    more = page.front.get(LINKS)
    for item in more if isinstance(more, list) else []:
        try:
            link = Link(task, **{**item, "kind": LinkKind(item["kind"])})
            checks.link(link)
        except (ValueError, TypeError, KeyError, InvalidInput):
            doubts.append(f"'{LINKS}' cannot hold {str(item)[:60]!r}")
        else:
            found[link.on] = link
    return tuple(found.values())


def _unbracketed(name: str) -> str:
    """The task in a link. Editors write [[name]], and names may have spaces."""
    if name.startswith("[[") and name.endswith("]]"):
        name = name[2:-2]
    return name.strip().replace(" ", "%20")


def _write_links(page: Page, links: tuple[Link, ...]) -> None:
    plain = [link for link in links if _is_plain(link)]
    for kind, key in LINK_KEYS.items():
        ons: list[Json] = [link.on for link in plain if link.kind is kind]
        if ons:
            page.front.put(key, ons)
        else:
            page.front.drop(key)
    more: list[Json] = [_link_data(link) for link in links if not _is_plain(link)]
    if more:
        page.front.put(LINKS, more)
    else:
        page.front.drop(LINKS)


def _is_plain(link: Link) -> bool:
    """Whether its target and kind are all there is to write."""
    return link == Link(link.task, _unbracketed(link.on), link.kind)


def _link_data(link: Link) -> dict[str, Json]:
    data: dict[str, Json] = {**link._asdict(), "kind": str(link.kind)}
    del data["task"]
    return data
