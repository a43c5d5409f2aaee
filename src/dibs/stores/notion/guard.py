"""Timed claims, for pages that offer no compare-and-set (docs/decisions/0010).

A claim reads the page, writes its token, waits `settle` seconds and reads again. It counts only if the token is still
there, and if at most `window` seconds passed from sending the first read to receiving the write's answer. Every window
is shorter than every wait. So an agent that read the page before a claim was written cannot overwrite it after it was
confirmed, and be confirmed too. An agent that misses a bound writes nothing more.

This module neither talks to Notion nor reads a clock. Each verb is a generator that yields steps (`Read`, `Write`,
`Wait`) and is sent their outcome (`Seen`, `Failed`; None after a wait). It returns the last `Seen`, or raises.
"""

from collections.abc import Callable, Generator, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple, Self, TypeAlias

from dibs.core.errors import (
    DibsError,
    Held,
    InvalidInput,
    LostLock,
    Misconfigured,
    StoreUnavailable,
    Unconfirmed,
)
from dibs.core.task import Holder, Status, Task
from dibs.core.times import in_words

USUAL_LEASE = timedelta(minutes=20)
SHORTEST_LEASE = timedelta(minutes=4)  # a shorter lease would be all margin
_MINUTE = timedelta(minutes=1)
_DATED = timedelta(seconds=2)  # tolerance between two times of the store's clock, in whole seconds
_SKEW = timedelta(seconds=10)  # tolerated lag of an agent's clock before its claims look late
_READ_AGAIN = (1.0, 2.0, 4.0)  # seconds between attempts to read a claim back

Changes: TypeAlias = Mapping[str, object]  # fields of a task by name; `expires_at` and `written_at` belong to its lease


class View(NamedTuple):
    """What a page says about its holder. `edited_at` is floored to the minute, as Notion reports it.

    `written_at` is the minute by which the last claim or renewal must have arrived, as its sender wrote it. `longest`
    is the longest lease that the page gives reason to assume.
    """

    id: str
    status: Status
    edited_at: datetime
    holder: Holder | None = None
    agent: str | None = None
    run: str | None = None
    token: str | None = None
    expires_at: datetime | None = None
    task: Task | None = None  # the whole task, for `ask`; unused in this module
    written_at: datetime | None = None
    longest: timedelta = USUAL_LEASE
    by_person: bool = False  # a person made the last edit

    def __repr__(self) -> str:
        """Without the token: it is the holder's secret."""
        return f"View({self.id} {self.status}, {self.holder} {self.agent}, expires_at={self.expires_at})"


Ask: TypeAlias = Callable[[View, datetime], Changes]  # returns the changes to write to this page now, or raises


class Read(NamedTuple):
    """Get the page by its id, never from a query or a cache."""


class Write(NamedTuple):
    """Change the page with one request, sent once and never after `by` on the clock of `Seen.sent`."""

    changes: Changes
    by: float

    def __repr__(self) -> str:
        """Names only, because the values include the token."""
        return f"Write({', '.join(self.changes)} by {self.by:.3f})"


class Wait(NamedTuple):
    seconds: float


class Seen(NamedTuple):
    """A page as an answer showed it, when it was requested and received, and the store's time then.

    `sent` and `received` are seconds of a clock that also runs while the machine sleeps.
    """

    view: View
    sent: float
    received: float
    now: datetime


class Failed(NamedTuple):
    """No answer, or an error. `sent` is false only if the request cannot have changed anything, now or later."""

    error: DibsError
    sent: bool = True


Step: TypeAlias = Read | Write | Wait
Answer: TypeAlias = Seen | Failed | None
Steps: TypeAlias = Generator[Step, Answer, Seen]


class _Bounds(NamedTuple):
    window: float
    settle: float
    staleness: float
    guard_band: timedelta
    steal_after: timedelta


class Bounds(_Bounds):
    """The times on which claims rest; all agents of a database must use the same.

    `window`: longest time from sending the first read to receiving the write's answer. `settle`: shortest time from
    there to the confirming read. `staleness`: largest age of an answer about a page. The holder stops `guard_band`
    before its lease ends; other agents take the task `steal_after` after the end at the earliest.
    """

    __slots__ = ()

    def __new__(
        cls,
        window: float = 4,
        settle: float = 5,
        staleness: float = 0,
        guard_band: timedelta = timedelta(seconds=90),
        steal_after: timedelta = timedelta(seconds=90),
    ) -> Self:
        if window <= 0 or staleness < 0 or settle <= window + 2 * staleness:
            raise Misconfigured(
                f"Claims are not safe with a window of {window:g} s and a wait of {settle:g} s: the wait must be "
                f"longer than the window and twice the staleness ({staleness:g} s)."
            )
        if min(guard_band, steal_after) < _MINUTE:
            raise Misconfigured("Notion keeps whole minutes: the margins around a lease's end must be 60 s or more.")
        return super().__new__(cls, window, settle, staleness, guard_band, steal_after)


def lease_end(now: datetime, length: timedelta, *, floored: bool = False) -> datetime:
    """Return when a lease taken now ends: a full minute, because Notion may drop seconds.

    `floored` is for pages that state a lease's start, which must not be in the future.
    """
    if length < SHORTEST_LEASE:
        raise InvalidInput(
            f"A lease in Notion lasts {in_words(SHORTEST_LEASE)} or more, for its last minutes are a margin; "
            f"{in_words(length)} is too short."
        )
    if floored:
        return now.replace(second=0, microsecond=0) + length
    end = now + length
    floor = end.replace(second=0, microsecond=0)
    return floor if floor == end else floor + _MINUTE


def trusted_until(view: View, bounds: Bounds) -> datetime | None:
    """Return until when the holder may act; after that, other agents may start."""
    return None if view.expires_at is None else view.expires_at - bounds.guard_band


def due_by(now: datetime, bounds: Bounds) -> datetime:
    """Return the minute by which a write that is sent now arrives, if it arrives in time."""
    return (now + timedelta(seconds=bounds.window) + _SKEW).replace(second=0, microsecond=0)


def too_early(view: View, now: datetime, bounds: Bounds) -> Held | None:
    """Why a lease that looks expired may not be taken yet; the page decides, not the asking agent.

    A delayed write may show an old lease end over the claim of an agent that still works. So if the page was edited
    after its last claim or renewal can have arrived in time, agents wait for the length of a lease. A person's edit is
    not such a write and prolongs nothing.
    """
    if view.status is not Status.ACTIVE or view.expires_at is None:
        return None
    ended = view.expires_at
    if view.token is not None and not view.by_person and not _arrived_in_time(view):
        ended = max(ended, view.edited_at + view.longest)
    left = ended + bounds.steal_after - now
    if left <= timedelta(0):
        return None
    return Held(
        f"The lease of {view.agent or 'its holder'} on {view.id} is over, but it can be taken only in "
        f"{in_words(left)}. Pick another task, or try again then.",
        holder=view.agent,
        retry_after_ms=-(-left // timedelta(milliseconds=1)),
    )


def _arrived_in_time(view: View) -> bool:
    return view.written_at is not None and view.edited_at <= view.written_at


def lost(view: View, token: str, run: str | None, now: datetime, bounds: Bounds) -> LostLock | None:
    """Why the token's bearer may not act on the page, or None if it may. A person's change always wins."""
    if view.holder is Holder.HUMAN:
        return LostLock(f"A person has taken {view.id}. Nothing was changed; stop working on it.", holder=view.agent)
    if view.status is not Status.ACTIVE:
        return LostLock(f"{view.id} is {view.status} now. Nothing was changed; stop working on it.")
    if view.token != token:
        return LostLock(
            f"{view.id} is held by {view.agent or 'someone else'} under another claim. Nothing was changed; stop here.",
            holder=view.agent,
        )
    if run is not None and view.run != run:
        return LostLock(
            f"{view.id} is held by another run of {view.agent or 'its agent'}. Nothing was changed; stop here."
        )
    until = trusted_until(view, bounds)
    if until is None or now >= until:
        return LostLock(
            f"Your lease on {view.id} is over, or so close to its end that others may take the task. "
            "Nothing was changed; stop working on it."
        )
    return None


def claim(token: str, ask: Ask, bounds: Bounds) -> Steps:
    """Claim the page. `ask` raises or returns what to write; the token is new, for this attempt only."""
    seen = _expect((yield Read()))
    claimed = {**ask(seen.view, seen.now), "written_at": due_by(seen.now, bounds)}
    written = yield Write(claimed, seen.sent + bounds.window)
    if isinstance(written, Failed) and not written.sent:
        raise written.error
    if not isinstance(written, Seen) or _took_too_long(seen, written, bounds):
        raise _suspect(seen.view)
    confirmed = yield from _confirm(token, written, bounds)
    if lost(confirmed.view, token, None, confirmed.now, bounds):
        raise _outrun(confirmed.view, token)
    return confirmed


def renew(token: str, run: str | None, length: timedelta, bounds: Bounds, *, floored: bool = False) -> Steps:
    """Move the lease's end forward, never back. The write's answer shows whether the page was still ours.

    An answer that arrives after the old end was trusted does not count: another agent may have found the page free
    before the write arrived, and be about to take it.
    """
    seen = _expect((yield Read()))
    _refuse(lost(seen.view, token, run, seen.now, bounds))
    end = lease_end(seen.now, length, floored=floored)
    if seen.view.expires_at is not None and seen.view.expires_at >= end:
        return seen
    renewed = {"expires_at": end, "written_at": due_by(seen.now, bounds)}
    written = yield Write(renewed, seen.sent + bounds.window)
    after = written if isinstance(written, Seen) else (yield from _aftermath(written))
    _refuse(lost(after.view, token, run, after.now, bounds))
    if isinstance(written, Failed) and (after.view.expires_at is None or after.view.expires_at < end):
        raise StoreUnavailable(f"The lease on {seen.view.id} was not renewed, but you still hold it. Try again.")
    if lost(seen.view, token, run, after.now, bounds):
        raise LostLock(
            f"The renewal of {seen.view.id} took so long that others may have found it free. It does not count; "
            "stop working on it."
        )
    return after


def finish(token: str, run: str | None, ask: Ask, bounds: Bounds) -> Steps:
    """End the attempt as its holder. If `ask` returns no changes, nothing is written."""
    seen = _expect((yield Read()))
    changes = ask(seen.view, seen.now)
    if not changes:
        return seen
    _refuse(lost(seen.view, token, run, seen.now, bounds))
    written = yield Write(changes, seen.sent + bounds.window)
    if changes["status"] is Status.READY:
        return (yield from _give_back(token, written))
    after = yield from _aftermath(written)
    if after.view.token not in {None, token}:
        raise LostLock(
            f"{after.view.id} was taken by {after.view.agent or 'someone else'} in the same moment, and is "
            f"{after.view.status}. Stop here.",
            holder=after.view.agent,
        )
    if isinstance(written, Failed) and after.view.status is not changes["status"]:
        raise StoreUnavailable(f"It is not certain that {seen.view.id} will be {changes['status']}. Try again.")
    return after


def _confirm(token: str, written: Seen, bounds: Bounds) -> Steps:
    """Read the claim back, at least `settle` seconds after the write's answer."""
    for pause in (bounds.settle, *_READ_AGAIN):
        yield Wait(pause)
        answer = yield Read()
        if isinstance(answer, Seen) and answer.sent - written.received >= bounds.settle:
            return answer
    raise Unconfirmed(
        f"The claim of {written.view.id} was written but could not be read back. Renew or release it "
        "with its token to find out whether it exists.",
        token=token,
        task=written.view.task,
    )


def _give_back(token: str, written: Answer) -> Steps:
    """Handle a release, which is never repeated.

    If its answer is lost, the first release may still arrive. A second one could then free the task under its next
    holder.
    """
    if isinstance(written, Seen) or (isinstance(written, Failed) and not written.sent):
        return _expect(written)
    after = yield Read()
    if isinstance(after, Seen) and after.view.token != token:
        return after
    raise LostLock(
        "You gave the task back, but Notion has not confirmed it. At the latest it comes free when the lease ends; "
        "stop here, and do not give it back again."
    )


def _aftermath(written: Answer) -> Steps:
    """Read the page once more after a write. A write without an answer is never repeated."""
    if isinstance(written, Failed) and not written.sent:
        raise written.error
    answer = yield Read()
    return answer if isinstance(answer, Seen) else _expect(written)


def _took_too_long(seen: Seen, written: Seen, bounds: Bounds) -> bool:
    """Whether the window was exceeded, by our clock or the store's: a sleeping machine's own clock may have stopped."""
    by_store = written.now - seen.now
    return written.received - seen.sent > bounds.window or by_store > timedelta(seconds=bounds.window) + _DATED


def _suspect(view: View) -> StoreUnavailable:
    return StoreUnavailable(
        f"The claim of {view.id} was not confirmed in time and does not count. If it arrives after all, the task "
        "becomes claimable when that lease expires; pick another task."
    )


def _outrun(view: View, token: str) -> DibsError:
    if view.token == token and view.status is Status.ACTIVE and view.holder is not Holder.HUMAN:
        return _suspect(view)
    who = "a person" if view.holder is Holder.HUMAN or view.token is None else view.agent or "someone else"
    return Held(f"{view.id} went to {who} in the same moment; pick another task.", holder=view.agent)


def _expect(answer: Answer) -> Seen:
    if isinstance(answer, Failed):
        raise answer.error
    assert answer is not None  # only a wait is answered by nothing
    return answer


def _refuse(error: DibsError | None) -> None:
    if error is not None:
        raise error
