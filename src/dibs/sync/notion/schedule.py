"""When syncs run: one per sender, five in all, ten an hour; polling, and webhooks that trigger it."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol, Self

from dibs.core.errors import AlreadyExists, DibsError, Held, NotFound, OverQuota
from dibs.core.lifecycle import Verb
from dibs.core.policy import NATIVE
from dibs.core.task import SYNC, Actor, Draft, Edit
from dibs.core.times import in_words, time_from, time_text
from dibs.stores.notion.pages import bare, is_page

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import TracebackType

    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.sync.notion.report import Report


_PLACES = f"{SYNC}places"  # the scope of the five slots
_ID = "notion"
_CAN = "syncs-notion"  # a capability that no agent has, so that agents never claim these tasks
_RUNS, _POLLS = "runs", "polls"  # when people's syncs ran, and when polls that changed something did
AT_ONCE = 5
HOURLY = 10
_HOUR = timedelta(hours=1)
LEASE = timedelta(minutes=2)
_RENEW = 30.0  # seconds between renewals


class Turn:
    """The right to sync one sender. Call `go_on` often; it raises once the right is lost."""

    def __init__(self, desk: Desk, task: Task, places: Desk, place: Task, ticks: Callable[[], float]) -> None:
        self._desk, self._task, self._places, self._place = desk, task, places, place
        self._ticks, self._renewed = ticks, ticks()
        self.state: Mapping[str, Json] = task.extra
        self.learned: Mapping[str, Json] = {}  # state for the next sync

    def go_on(self) -> None:
        """Renew the turn; LostLock if it expired and another sync has it."""
        if self._ticks() - self._renewed > _RENEW:
            self._desk.renew(self._task.id, _token(self._task), lease=LEASE)
            self._places.renew(self._place.id, _token(self._place), lease=LEASE)
            self._renewed = self._ticks()

    def count(self, *, polled: bool) -> None:
        """Count this sync; raise if the sender had too many within an hour. Polls count separately."""
        kind = _POLLS if polled else _RUNS
        now = self._desk.now()
        told = self.state.get(kind)
        runs = [time_from(str(each)) for each in told] if isinstance(told, list) else []
        recent = [each for each in runs if each > now - _HOUR]
        if len(recent) >= HOURLY:
            left = recent[0] + _HOUR - now
            what = "polls" if polled else "syncs"
            raise OverQuota(
                f"The limit is {HOURLY} {what} an hour per sender. The next one can run in {in_words(left)}.",
                retry_after_ms=left // timedelta(milliseconds=1) + 1,
            )
        self._desk.edit(self._task.id, Edit(keep={kind: [time_text(each) for each in (*recent, now)]}))

    def close(self) -> None:
        self._places.move(Verb.RELEASE, self._place.id, token=_token(self._place))
        self._desk.move(Verb.RELEASE, self._task.id, token=_token(self._task), extra=self.learned)


@contextmanager
def turn(desk: Desk, sender: str, name: str, ticks: Callable[[], float]) -> Iterator[Turn]:
    """Take the sender's turn and give it back at the end; Held if another sync runs."""
    by, policy = Actor(name), NATIVE._replace(short_ids=False)
    mine = desk.at(SYNC + sender, policy=policy, by=by, internal=True)
    places = desk.at(_PLACES, policy=policy, by=by, internal=True)
    place = _take_place(places, name)
    try:
        task = _take(mine, name)
    except DibsError:
        places.move(Verb.RELEASE, place.id, token=_token(place))
        raise
    taken = Turn(mine, task, places, place, ticks)
    try:
        yield taken
    except BaseException:
        with suppress(DibsError):  # the first error is reported; an unreturned turn ends with its lease
            taken.close()
        raise
    taken.close()


def _take(desk: Desk, name: str) -> Task:
    try:
        return _claimed(desk, name)
    except NotFound:
        _make(desk, _ID)
        return _claimed(desk, name)


def _claimed(desk: Desk, name: str) -> Task:
    try:
        return desk.claim(name, refs=[_ID], lease=LEASE, can=[_CAN])[0].task
    except Held as held:
        raise Held(
            "Another sync of this sender is running. Wait for it, and try again.", retry_after_ms=held.retry_after_ms
        ) from None


def _take_place(places: Desk, name: str) -> Task:
    found = places.claim(name, lease=LEASE, can=[_CAN])
    if not found:  # all slots are taken, or none exist yet
        _make(places, *(f"place-{number}" for number in range(1, AT_ONCE + 1)))
        found = places.claim(name, lease=LEASE, can=[_CAN])
    if not found:
        raise Held(f"{AT_ONCE} syncs are running, which is the limit. Try again in a moment.")
    return found[0].task


def _make(desk: Desk, *ids: str) -> None:
    try:
        desk.add([Draft(f"Sync with Notion ({id_})", id=id_, requires=(_CAN,), origin="notion") for id_ in ids])
    except AlreadyExists:
        return


def _token(task: Task) -> str | None:
    return task.lease.token if task.lease else None


LOOK_ROUND = 5.0  # seconds between looks for due senders
_LONGEST = timedelta(minutes=15).total_seconds()  # longest delay after failures
_SENDER_DIGITS = 64


class Subscribers(Protocol):
    """The senders to poll, and how to; used from many threads."""

    def intervals(self) -> dict[str, float]:
        """Return the polling interval of each sender, in seconds."""
        ...

    def poll(self, sender: str, pages: Iterable[str]) -> Report:
        """Sync one sender, on a separate connection."""
        ...

    def sender_of(self, page: str) -> str | None:
        """Return the sender of a page, as Notion shows it now: '' for none, None if the page is gone."""
        ...


def known_senders(desk: Desk) -> list[str]:
    """Return the senders that have tasks or have synced before."""
    found = {scope.removeprefix(SYNC) for scope in desk.scopes(internal=True)}
    return sorted(scope for scope in found if len(scope) == _SENDER_DIGITS)


class Poller:
    """Polls senders in the background. Reports and errors go to callbacks; `ticks` is the clock."""

    def __init__(
        self,
        subscribers: Subscribers,
        tell: Callable[[Report], None],
        trouble: Callable[[str], None],
        ticks: Callable[[], float] = monotonic,
    ) -> None:
        self._subscribers, self._tell, self._trouble, self._ticks = subscribers, tell, trouble, ticks
        self._lock = threading.Lock()
        self._due: dict[str, float] = {}
        self._in_vain: dict[str, int] = {}
        self._busy: set[str] = set()
        self._rung: set[str] = set()  # pages named by webhooks
        self._bell = threading.Event()
        self._stopped = False

    def ring(self, page: str) -> None:
        """Look at a changed page at once."""
        with self._lock:
            self._rung.add(page)
        self._bell.set()

    def stop(self) -> None:
        """End `watch`, from another thread, after running syncs."""
        self._stopped = True
        self._bell.set()

    def watch(self) -> None:
        """Poll until stopped."""
        with ThreadPoolExecutor(AT_ONCE, "notion-sync") as pool:
            while not self._stopped:
                self.look_round(lambda sender, pages: pool.submit(self._one, sender, pages))
                self._bell.wait(LOOK_ROUND)
                self._bell.clear()

    def look_round(self, start: Callable[[str, tuple[str, ...]], object]) -> None:
        """Start the syncs that are due."""
        try:
            intervals = self._subscribers.intervals()
            rung = self._whose(intervals)
        except DibsError as error:
            self._trouble(error.message)
            return
        for sender, interval in intervals.items():
            with self._lock:
                idle = sender not in self._busy
                if idle and (sender in rung or self._ticks() >= self._due.get(sender, 0.0)):
                    self._busy.add(sender)
                    self._due[sender] = self._ticks() + interval
                    start(sender, tuple(rung.pop(sender, ())))
        with self._lock:
            self._rung.update(page for pages in rung.values() for page in pages)  # for their next turn

    def _whose(self, intervals: dict[str, float]) -> dict[str, list[str]]:
        with self._lock:
            pages, self._rung = self._rung, set()
        found: dict[str, list[str]] = {}
        for page in pages:
            sender = self._subscribers.sender_of(page)
            for each in intervals if sender is None else [sender]:  # the page is gone, and could be any sender's
                found.setdefault(each, []).append(page)
        return {sender: those for sender, those in found.items() if sender in intervals}

    def _one(self, sender: str, pages: tuple[str, ...]) -> None:
        """Poll one sender. Errors delay only this sender, longer each time."""
        try:
            report = self._subscribers.poll(sender, pages)
        except Held:
            self._put_off(sender, LOOK_ROUND)  # another sync runs, or all slots are taken
        except DibsError as error:
            self._trouble(f"The rows of {sender[:12]}… could not be synced: {error.message}")
            wait = error.retry_after_ms / 1000 if error.retry_after_ms else self._patience(sender)
            self._put_off(sender, wait)
        except Exception as error:  # noqa: BLE001 - reported, and retried later
            self._trouble(f"The rows of {sender[:12]}… could not be synced ({type(error).__name__}).")
            self._put_off(sender, self._patience(sender))
        else:
            self._in_vain.pop(sender, None)
            if report.eventful:
                self._tell(report)
        finally:
            with self._lock:
                self._busy.discard(sender)

    def _patience(self, sender: str) -> float:
        self._in_vain[sender] = self._in_vain.get(sender, 0) + 1
        return float(min(_LONGEST, LOOK_ROUND * 2 ** self._in_vain[sender]))

    def _put_off(self, sender: str, seconds: float) -> None:
        with self._lock:
            self._due[sender] = self._ticks() + seconds


HOST = "127.0.0.1"
HEADER = "X-Notion-Signature"
_LARGEST = 1_000_000  # bytes; Notion's requests are small
_PATIENCE = 10.0  # seconds for one request


def signature(body: bytes, token: str) -> str:
    return "sha256=" + hmac.new(token.encode(), body, hashlib.sha256).hexdigest()


def page_in(body: bytes, signed: str | None, token: str) -> str | None:
    """Return the page of a signed webhook; None if it names none. Raises PermissionError without a valid signature."""
    if not token or signed is None or not hmac.compare_digest(signature(body, token).encode(), signed.encode()):
        raise PermissionError
    said = _json(body)
    entity = said.get("entity")
    if not isinstance(entity, dict) or entity.get("type") != "page" or not is_page(str(entity.get("id"))):
        return None
    return bare(str(entity["id"]))


def offered_token(body: bytes) -> str | None:
    """Return the verification token that Notion sends first, unsigned, for a person to enter."""
    said = _json(body).get("verification_token")
    return said if isinstance(said, str) and said else None


def _json(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


class Listener:
    """A webhook receiver on loopback, behind a public proxy. Without a token, it waits for Notion's."""

    def __init__(self, port: int, token: str, ring: Callable[[str], None], offered: Callable[[str], None]) -> None:
        self._server = ThreadingHTTPServer((HOST, port), _handler(token, ring, offered))
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), name="notion-webhook", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(_PATIENCE)


def _handler(token: str, ring: Callable[[str], None], offered: Callable[[str], None]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _PATIENCE

        def do_POST(self) -> None:
            length = self.headers.get("Content-Length", "")
            if not (length.isascii() and length.isdigit() and int(length) <= _LARGEST):
                self._answer(413)
                return
            body = self.rfile.read(int(length))
            if not token and (said := offered_token(body)):
                offered(said)
                self._answer(200)
                return
            try:
                page = page_in(body, self.headers.get(HEADER), token)
            except PermissionError:
                self._answer(401)
                return
            if page is not None:
                ring(page)
            self._answer(200)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Log nothing: requests are other people's data."""

    return Handler
