"""A page like Notion's: one register that every client can overwrite, with times in whole minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from dibs.core.errors import Held, IllegalMove
from dibs.core.task import Holder, Lease, Status
from dibs.stores.notion import guard
from dibs.stores.notion.guard import View

if TYPE_CHECKING:
    from dibs.stores.notion.guard import Ask, Bounds, Changes

BEGIN = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
LEASE = timedelta(minutes=20)


def moment(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


class Page:
    """The last write wins; `history` serves readers that get an outdated view."""

    def __init__(self, status: Status = Status.READY, *, heartbeats: bool = True) -> None:
        """With `heartbeats`, the page also has a property with the time of the last renewal."""
        self.heartbeats = heartbeats
        self.view = View("TASK-1", status, BEGIN)
        self.history: list[tuple[float, View]] = [(0.0, self.view)]

    def write(self, changes: Changes, at: float) -> View:
        """Write all properties or none, like one PATCH."""
        edited = moment(at).replace(second=0, microsecond=0)
        self.view = _changed(self.view, changes)._replace(edited_at=edited, by_person=False)
        written = cast("datetime | None", changes.get("written_at"))
        if written is not None and (self.heartbeats or "lease" in changes):
            ends = self.view.expires_at
            longest = max(LEASE, ends - written) if self.heartbeats and ends else LEASE
            self.view = self.view._replace(written_at=written, longest=longest)
        self.history.append((at, self.view))
        return self.view

    def retouch(self, at: float) -> None:
        """Edit the title as a person."""
        edited = moment(at).replace(second=0, microsecond=0)
        self.view = self.view._replace(edited_at=edited, by_person=True)
        self.history.append((at, self.view))

    def as_of(self, at: float) -> View:
        return next(view for written, view in reversed(self.history) if written <= at or written == 0)


def _changed(view: View, changes: Changes) -> View:
    if "status" in changes:
        view = view._replace(status=cast("Status", changes["status"]))
    if "lease" in changes:
        lease = cast("Lease | None", changes["lease"])
        free = View(view.id, view.status, view.edited_at)
        view = (
            free
            if lease is None
            else View(*free[:3], lease.holder, lease.agent, lease.run, lease.token, lease.expires_at)
        )
    if "expires_at" in changes:
        view = view._replace(expires_at=cast("datetime", changes["expires_at"]))
    return view


def taking(agent: str, token: str, bounds: Bounds, length: timedelta = LEASE) -> Ask:
    """The request of a claim, as the store makes it: refused while another agent holds the task or may hold it."""

    def ask(view: View, now: datetime) -> Changes:
        if view.status not in {Status.READY, Status.ACTIVE} or view.holder is Holder.HUMAN:
            raise IllegalMove(f"{view.id} is {view.status}.")
        if view.status is Status.ACTIVE and view.expires_at is not None:
            if now < view.expires_at:
                raise Held("held", retry_after_ms=(view.expires_at - now) // timedelta(milliseconds=1))
            early = guard.too_early(view, now, bounds)
            if early is not None:
                raise early
        lease = Lease(token, 1, agent, None, Holder.AGENT, now, guard.lease_end(now, length))
        return {"status": Status.ACTIVE, "lease": lease, "started_at": now}

    return ask


def leaving(status: Status) -> Ask:
    return lambda _view, _now: {"status": status, "lease": None}
