"""Webhooks: every event of a scope is posted to an address, signed, in order, and at least once.

A webhook is a task of an internal scope: of several servers, the holder of its lease delivers it. The task
keeps how far it has come. After a crash the next holder goes on from there, so an event may come twice, under the same
id. Signatures follow the Standard Webhooks specification. The secret of each webhook is derived from the server's, so
none is stored, and a server's previous secret signs as well while it is set.
"""

from __future__ import annotations

import hmac
import json
import logging
import threading
import time
from base64 import b64encode
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from dibs.core import checks
from dibs.core.errors import DibsError, InvalidInput, NotFound
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Draft, Edit, Status, is_internal
from dibs.core.times import time_text
from dibs.core.wire import event_json
from dibs.serve.access import host_time
from dibs.serve.live import Cursor, Follower, cursor_from
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dibs.core.events import Event
    from dibs.core.task import Json, Task
    from dibs.desk import Desk

WEBHOOKS = ".webhooks"
_NEVER_GIVEN_UP = 1_000_000_000  # expired leases; a crashed server is no failure of the webhook
_LEASE = timedelta(seconds=30)
_EVERY = 1.0  # seconds between two searches for webhooks without a server
_LOOK = 0.25  # seconds between two reads of events
_SAVE = 2.0  # seconds between two saves of the position
_ANSWER = 10.0  # seconds in which the receiver has to answer
_WAITS = (1.0, 5.0, 30.0, 120.0, 600.0, 3600.0)  # seconds before each retry; the last one repeats
_log = logging.getLogger("dibs.serve")


class Webhook(NamedTuple):
    """`verbs` and `scope` choose its events; empty means all."""

    id: str
    url: str
    verbs: tuple[str, ...]
    scope: str | None
    place: Cursor
    trouble: str | None
    delivering: str | None = None  # the server that holds it

    def wants(self, event: Event) -> bool:
        if is_internal(event.scope) or (self.scope is not None and event.scope != self.scope):
            return False
        return not self.verbs or event.verb in self.verbs

    def json(self) -> dict[str, Json]:
        return {
            "id": self.id, "url": self.url, "verbs": list(self.verbs), "scope": self.scope,
            "delivered": self.place.high, "trouble": self.trouble, "delivering": self.delivering,
        }  # fmt: skip


def add_webhook(desk: Desk, url: str, verbs: Sequence[str], scope: str | None) -> Webhook:
    """Add a webhook for events from now on."""
    newest = desk.events(last=1, anywhere=True)
    extra: dict[str, Json] = {
        "verbs": list(checks.names("verb", verbs)),
        "scope": scope,
        "place": str(newest[0].seq if newest else 0),
    }
    draft = Draft(checks.title(checked_url(url)), max_retries=_NEVER_GIVEN_UP, extra=extra)
    (task,) = _own(desk).add([draft])
    return _webhook(task)


def checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or not url.isprintable() or " " in url:
        raise InvalidInput("A webhook's address begins with https:// or http:// and names a host.")
    if parts.username or parts.password:
        raise InvalidInput(
            "A webhook's address must not contain a user or password; the receiver checks the signature."
        )
    return url


def listed_webhooks(desk: Desk) -> list[Webhook]:
    own = _own(desk)
    found = own.find(Query(own.scope, (Status.READY, Status.ACTIVE)))
    return [_webhook(task) for task in sorted(found, key=lambda task: (task.created_at, task.id))]


def remove_webhook(desk: Desk, ref: str) -> Webhook:
    found = next((each for each in listed_webhooks(desk) if each.id == ref), None)
    if found is None:
        raise NotFound(f"There is no webhook {ref[:40]!r} in this store. 'dibs webhook list' lists them.")
    _own(desk).move(Verb.CANCEL, found.id, force=True)
    return found


def _own(desk: Desk) -> Desk:
    return desk.at(WEBHOOKS, internal=True)


def _webhook(task: Task) -> Webhook:
    said = task.extra
    verbs, trouble = said.get("verbs"), said.get("trouble")
    scope = said.get("scope")
    return Webhook(
        task.id,
        task.title,
        tuple(map(str, verbs)) if isinstance(verbs, list | tuple) else (),
        None if scope is None else str(scope),
        cursor_from(str(said.get("place") or "0")),
        None if trouble is None else str(trouble),
        None if task.lease is None else task.lease.agent,
    )


def signing_key(secret: bytes, webhook: str) -> bytes:
    return hmac.digest(secret, b"webhook:" + webhook.encode(), "sha256")


def shown_key(secret: bytes, webhook: str) -> str:
    """The secret in the form that libraries of receivers take."""
    return f"whsec_{b64encode(signing_key(secret, webhook)).decode()}"


def signed_headers(webhook: str, message: str, at: int, body: bytes, secrets: Sequence[bytes]) -> dict[str, str]:
    content = f"{message}.{at}.".encode() + body
    signatures = (hmac.digest(signing_key(secret, webhook), content, "sha256") for secret in secrets)
    return {
        "Content-Type": "application/json",
        "User-Agent": "dibs",
        "webhook-id": message,
        "webhook-timestamp": str(at),
        "webhook-signature": " ".join(f"v1,{b64encode(each).decode()}" for each in signatures),
    }


def message_of(event: Event) -> bytes:
    document = {"type": f"task.{event.verb}", "timestamp": time_text(event.at), "data": event_json(event)}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")


def post(url: str, headers: dict[str, str], body: bytes) -> str | None:
    """Why it was not accepted, in words; None if it was."""
    from http.client import HTTPException
    from urllib.error import HTTPError, URLError
    from urllib.request import HTTPRedirectHandler, Request, build_opener

    class _Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            """Refuse redirects: the signature is for this address alone."""

    try:
        request = Request(url, body, headers, method="POST")  # noqa: S310 - http or https, checked
        with build_opener(_Stay).open(request, timeout=_ANSWER):
            return None
    except HTTPError as error:
        with error:
            return f"HTTP status {error.code}{' (gone)' if error.code == HTTPStatus.GONE else ''}"
    except TimeoutError:
        return f"no answer within {_ANSWER:g} seconds"
    except (URLError, HTTPException, OSError) as error:
        slow = isinstance(getattr(error, "reason", None), TimeoutError)
        return f"no answer within {_ANSWER:g} seconds" if slow else "it cannot be reached"


class Deliverer:
    """Delivers the webhooks that no other server delivers, with one thread for each."""

    def __init__(
        self, open_desk: Callable[[], Desk], secrets: Sequence[bytes], name: str, waits: Sequence[float] = _WAITS
    ) -> None:
        self._open_desk = open_desk
        self._secrets = secrets
        self._by = Actor(name)
        self._waits = waits
        self._stop = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    def start(self) -> None:
        if self._secrets:  # without one nothing can be signed, and `dibs webhook add` refuses
            self._thread.start()

    def close(self) -> None:
        self._stop.set()
        for thread in (self._thread, *self._threads.values()):
            if thread.ident is not None:
                thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with self._open_desk() as desk:
                    if not (desk.capabilities.scopes and desk.capabilities.history):
                        return
                    self._watch(desk)
            except DibsError as error:
                _log.warning("webhooks: %s", error.message)
            except Exception:  # noqa: BLE001 - logged, then tried again
                _log.exception("webhooks: a mistake in the server")
            self._stop.wait(_EVERY)

    def _watch(self, desk: Desk) -> None:
        while not self._stop.is_set():
            for webhook in listed_webhooks(desk):
                thread = self._threads.get(webhook.id)
                if thread is None or not thread.is_alive():
                    self._begin(desk, webhook.id)
            self._stop.wait(_EVERY)

    def _begin(self, desk: Desk, webhook: str) -> None:
        """Claim the webhook, unless another server holds it."""
        own = desk.at(WEBHOOKS, internal=True, by=self._by)
        try:
            taken = own.claim(self._by.agent or "", refs=[webhook], lease=_LEASE)
        except DibsError:
            return
        for claimed in taken:
            thread = threading.Thread(
                target=self._deliver, args=(claimed.task,), name=f"webhook {webhook}", daemon=True
            )
            self._threads[webhook] = thread
            thread.start()

    def _deliver(self, task: Task) -> None:
        try:
            with self._open_desk() as desk:
                _HeldWebhook(desk, self._open_desk, task, self._secrets, self._by, self._waits, self._stop).run()
        except DibsError as error:
            _log.warning("webhook %s: %s", task.id, error.message)
        except Exception:  # noqa: BLE001 - logged; the next server to claim the webhook tries again
            _log.exception("webhook %s: a mistake in the server", task.id)


class _HeldWebhook:
    """One webhook, while this server holds it."""

    def __init__(
        self, desk: Desk, open_desk: Callable[[], Desk], task: Task, secrets: Sequence[bytes], by: Actor,
        waits: Sequence[float], stop: threading.Event,
    ) -> None:  # fmt: skip
        self._own = desk.at(WEBHOOKS, internal=True, by=by)
        self._webhook = _webhook(task)
        self._token = None if task.lease is None else task.lease.token
        self._follower = Follower(open_desk, time.monotonic, self._webhook.place)
        self._secrets = secrets
        self._waits = waits
        self._stop = stop
        self._renewed = self._saved = time.monotonic()
        self._place = self._webhook.place
        self._trouble = self._webhook.trouble

    def run(self) -> None:
        """Deliver until the server stops, the webhook is removed, or another server holds it."""
        try:
            while not self._stop.is_set():
                for entry in self._follower.look():
                    if self._webhook.wants(entry.event):
                        if not self._delivered(entry.event):
                            return
                        self._place = entry.place
                        self._keep(_SAVE)
                self._keep(_SAVE)
                self._stop.wait(_LOOK)
        finally:
            self._follower.leave()
            self._keep(0.0)
            self._own.move(Verb.RELEASE, self._webhook.id, token=self._token)

    def _delivered(self, event: Event) -> bool:
        """Try until it is accepted; False if the server stops before."""
        body, tries = message_of(event), 0
        while not self._stop.is_set():
            at = int(host_time().timestamp())
            headers = signed_headers(self._webhook.id, f"dibs-{event.seq}", at, body, self._secrets)
            why = post(self._webhook.url, headers, body)
            self._record_problem(why)
            if why is None:
                return True
            self._wait(self._waits[min(tries, len(self._waits) - 1)])
            tries += 1
        return False

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._stop.wait(min(left, 1.0)):
            self._keep(_SAVE)

    def _record_problem(self, trouble: str | None) -> None:
        """Record a problem for people, once."""
        if trouble != self._trouble:
            if trouble is not None:
                _log.warning("webhook %s: %s; trying again", self._webhook.id, trouble)
            self._trouble = trouble
            self._own.edit(self._webhook.id, Edit(keep={"trouble": trouble}))

    def _keep(self, every: float) -> None:
        """Renew the lease in time, and save the position now and then. Raise LostLock if another server holds it."""
        now = time.monotonic()
        if now - self._renewed > _LEASE.total_seconds() / 3:
            self._own.renew(self._webhook.id, self._token, lease=_LEASE)
            self._renewed = now
        if self._place != self._webhook.place and now - self._saved >= every:
            self._own.edit(self._webhook.id, Edit(keep={"place": str(self._place)}))
            self._webhook = self._webhook._replace(place=self._place)
            self._saved = now
