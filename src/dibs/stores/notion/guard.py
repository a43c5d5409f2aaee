"""Claims on a page that offers no compare-and-set, kept apart by time (docs/decisions/0010).

A claim reads the page, writes its token, lets `settle` seconds pass and reads again. It counts only if the token is
still there and no more than `window` seconds lay between sending the first read and hearing of the write. Since
everybody's window is shorter than anybody's wait, nobody who read the page before a claim was written can overwrite it
after it was confirmed, and be confirmed as well. Who does not meet its bounds writes nothing more.

Nothing in here talks to Notion or looks at a clock. Each verb is a generator that yields what is to be done (`Read`,
`Write`, `Wait`) and is sent what came of it (`Seen`, `Failed`; None after a wait). It returns the last `Seen`, or
raises why not.
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
SHORTEST_LEASE = timedelta(minutes=4)  # below that, the margins at its end leave nothing to work in
_MINUTE = timedelta(minutes=1)
_DATED = timedelta(seconds=2)  # what two times of the store's clock, in whole seconds, may be off
_SKEW = timedelta(seconds=10)  # what an agent's idea of the store's time may be behind, before its claims look late
_READ_AGAIN = (1.0, 2.0, 4.0)  # seconds between attempts to read a claim back

Changes: TypeAlias = Mapping[str, object]  # fields of a task by name; `expires_at`, `written_at` are of its lease


class View(NamedTuple):
    """What a page says about who has it. `edited_at` is floored to the minute, as Notion tells it.

    `written_at` is the minute by which the last claim or renewal must have arrived, as its sender wrote it there;
    `longest` is the longest lease that the page gives reason to believe in.
    """

    id: str
    status: Status
    edited_at: datetime
    holder: Holder | None = None
    agent: str | None = None
    run: str | None = None
    token: str | None = None
    expires_at: datetime | None = None
    task: Task | None = None  # the whole of it, for who asks; nothing in here looks at it
    written_at: datetime | None = None
    longest: timedelta = USUAL_LEASE
    by_person: bool = False  # the last edit was a person's

    def __repr__(self) -> str:
        """Without the token: it is the holder's secret."""
        return f"View({self.id} {self.status}, {self.holder} {self.agent}, expires_at={self.expires_at})"


Ask: TypeAlias = Callable[[View, datetime], Changes]  # what to write to a page that looks like this now, or it raises


class Read(NamedTuple):
    """Get the page by its id, never from a query or a cache."""


class Write(NamedTuple):
    """Change the page with one request, sent once, and not at all after `by` on the clock of `Seen.sent`."""

    changes: Changes
    by: float

    def __repr__(self) -> str:
        """Names only: among the values is the token."""
        return f"Write({', '.join(self.changes)} by {self.by:.3f})"


class Wait(NamedTuple):
    seconds: float


class Seen(NamedTuple):
    """The page as an answer showed it, when that was sent for and received, and what time it was for the store.

    `sent` and `received` are seconds of a clock that runs on while the machine sleeps.
    """

    view: View
    sent: float
    received: float
    now: datetime


class Failed(NamedTuple):
    """No answer, or an error. `sent` is false only where the request cannot have changed anything, now or later."""

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
    """The times on which claims rest; all agents of a database must have the same.

    `window` is the most there may be from sending the first read to hearing of the write, `settle` the least from there
    to the read that confirms, `staleness` how old an answer about a page may be. The holder is silent from `guard_band`
    before the end of its lease on, and others take the task no sooner than `steal_after` after it.
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
    """When a lease taken now ends: a whole minute, since Notion may drop the seconds.

    `floored` is for pages that state a lease's begin: it must not lie in the future.
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
    """Until when the holder may act; after that it has to be silent, for others may begin to."""
    return None if view.expires_at is None else view.expires_at - bounds.guard_band


def due_by(now: datetime, bounds: Bounds) -> datetime:
    """The minute in which a write that is sent now arrives at the latest, if it arrives in time."""
    return (now + timedelta(seconds=bounds.window) + _SKEW).replace(second=0, microsecond=0)


def too_early(view: View, now: datetime, bounds: Bounds) -> Held | None:
    """Why a lease that is over, or seems to be, may not be taken yet. The page decides, whoever asks.

    A write that was held up on its way may show a lease end of long ago over the claim of an agent that still works. So
    a page that was edited later than its last claim or renewal can have arrived in time is left alone for a lease's
    length. A person's edit is no such write: it locks nothing anew.
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
    """Why the bearer of this token may not act on the page, or None if it may. What a person did always counts."""
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
    """Take the page. `ask` refuses, or says what to write; the token is new, and good for this one attempt."""
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
    """Move the lease's end, never closer. The answer to the write shows whether the page was still ours.

    If it is heard only when the old end is no longer to be trusted, it counts for nothing: somebody may have found the
    page free before the write arrived, and be about to take it.
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
    """Say the last word about the page as its holder. If `ask` finds it said already, nothing is written."""
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
    """Read back what was written, no sooner than `settle` seconds after it was heard of."""
    for pause in (bounds.settle, *_READ_AGAIN):
        yield Wait(pause)
        answer = yield Read()
        if isinstance(answer, Seen) and answer.sent - written.received >= bounds.settle:
            return answer
    raise Unconfirmed(
        f"The claim of {written.view.id} was written but could not be read back. Its token tells whether it stands: "
        "renew or release with it.",
        token=token,
        task=written.view.task,
    )


def _give_back(token: str, written: Answer) -> Steps:
    """Others may have it at once, which is no loss. If in doubt it must not be said again: the first word may still be
    on its way, and would then take the task from whoever has got it by the second."""
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
    """The page after a write, read once more. A write without an answer is never repeated, only looked for."""
    if isinstance(written, Failed) and not written.sent:
        raise written.error
    answer = yield Read()
    return answer if isinstance(answer, Seen) else _expect(written)


def _took_too_long(seen: Seen, written: Seen, bounds: Bounds) -> bool:
    """By our own clock, or by the store's: that of a machine that was put to sleep may have missed the time."""
    by_store = written.now - seen.now
    return written.received - seen.sent > bounds.window or by_store > timedelta(seconds=bounds.window) + _DATED


def _suspect(view: View) -> StoreUnavailable:
    return StoreUnavailable(
        f"The claim of {view.id} was not confirmed in time and does not count. If it arrives after all, the task comes "
        "free by itself when that lease ends; pick another task."
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
