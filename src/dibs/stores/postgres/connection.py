"""Where a `postgresql://` URL leads, and an end to waiting for an answer that will never come.

A network can swallow packets and leave libpq waiting for good. So a thread checks the clock. It asks the server over
another connection whether it still works on a statement that is overdue, and if not shuts the socket. To libpq that is
a broken connection, which the store repairs.
"""

from __future__ import annotations

import _thread
import os
import re
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from dibs.core.errors import InvalidInput
from dibs.core.messages import without_password

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OURS = re.compile(r"(?:(?<=[?&])|^)(schema|timeout|listen)=([^&]*)(?:&|$)")
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,49}")
_ODD_PASSWORD = re.compile(r"://[^@/?]*@[^/?]*@|://[^@/?]*:(?!\d+[/?])[^@/?]*[/?][^?]*@")
_EXAMPLE = (
    "That is not a PostgreSQL URL; write it like postgresql://user@host:5432/database?sslmode=require. "
    "Special characters of a password are written as %XX."
)
_SECRET = re.compile(r"(password|passfile|sslpassword)=[^&\s]*")


class Target(NamedTuple):
    """`parameters` go to libpq; `place` is the URL without its secrets."""

    parameters: dict[str, str]
    place: str
    schema: str = "dibs"
    timeout: float = 30.0
    listen: str = ""  # the URL of the server itself, where a waiting process listens past a pooler

    def __repr__(self) -> str:
        return f"Target({self.place})"

    @property
    def several_hosts(self) -> bool:
        return _hosts(self.parameters) > 1

    @property
    def direct(self) -> Target:
        """The same schema past the pooler."""
        return target_of(self.listen, schema=self.schema)._replace(timeout=self.timeout)


def target_of(url: str, *, schema: str | None = None) -> Target:
    """Read a URL. `schema`, `timeout` and `listen` are ours, everything else in it is libpq's."""
    import psycopg2
    from psycopg2.extensions import parse_dsn

    if _ODD_PASSWORD.search(url):  # libpq would take a part of the password for the host, and repeat it
        raise InvalidInput(_EXAMPLE)
    ours = dict(_OURS.findall(url))
    rest = _OURS.sub("", url).rstrip("?&")
    try:
        given = {name: str(value) for name, value in parse_dsn(rest).items()}
    except (psycopg2.Error, ValueError):  # whose own words repeat what they stumbled over, be it the password
        raise InvalidInput(_EXAMPLE) from None
    name = schema or ours.get("schema", "dibs")
    if not _SCHEMA.fullmatch(name):
        raise InvalidInput("A schema's name is lower case letters, digits and '_', at most 50 of them.")
    timeout = ours.get("timeout", "30")
    if not (timeout.isascii() and timeout.isdigit() and len(timeout) < len("100000") and 0 < int(timeout) <= 86_400):  # noqa: PLR2004 - a day
        raise InvalidInput("A PostgreSQL URL's timeout must be a whole number of seconds, such as timeout=30.")
    listen = unquote(ours.get("listen", ""))
    if listen and (not listen.startswith(("postgresql://", "postgres://")) or target_of(listen).listen):
        raise InvalidInput(
            "listen= in a PostgreSQL URL is the URL of the server behind the pooler, with %XX for its special "
            "characters: listen=postgresql%3A%2F%2Fuser@host%2Fdatabase."
        )
    return Target(_completed(given, int(timeout)), _place(rest, name), name, float(timeout), listen)


def _completed(given: dict[str, str], timeout: int) -> dict[str, str]:
    """Our defaults under what the URL says. Settings of the session follow after connecting: poolers refuse options."""
    defaults = {
        "connect_timeout": str(min(timeout, 10)),
        "application_name": "dibs",
        "client_encoding": "UTF8",
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
        "tcp_user_timeout": str(timeout * 1000),
    }
    if _hosts(given) > 1:  # of several servers one is the primary, and which one changes
        defaults["target_session_attrs"] = "read-write"
    return defaults | given


def _hosts(given: dict[str, str]) -> int:
    return (given.get("host") or given.get("hostaddr") or "").count(",") + 1


def _place(url: str, schema: str) -> str:
    shown = _without_secrets(url)
    separator = "&" if "?" in shown else "?"
    return shown if schema == "dibs" else f"{shown}{separator}schema={schema}"


def _without_secrets(text: str) -> str:
    hidden = without_password(text)
    return re.sub(r"[?&]$", "", re.sub(r"&&+", "&", _SECRET.sub("", hidden))).replace("?&", "?")


_LOOK = 0.25


class Watchdog:
    """Starting and stopping the watch is two assignments: they are on every statement's path."""

    def __init__(self, seconds: float, at_work: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._at_work = at_work
        self._until: float | None = None
        self._descriptor = -1
        self._thread: int | None = None
        self._over = False

    def watch(self, descriptor: int) -> None:
        """This is the connection from now on."""
        self._until = None
        self._descriptor = descriptor

    def start(self) -> None:
        self._until = time.monotonic() + self._seconds
        if self._thread is None:
            self._thread = _thread.start_new_thread(self._look, ())

    def stop(self) -> None:
        self._until = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The same where it is not every statement's path."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    def forget(self) -> None:
        self._until = None
        self._over = True

    def _look(self) -> None:
        while not self._over:
            time.sleep(_LOOK)
            until = self._until
            if until is None or time.monotonic() < until:
                continue
            at_work = self._at_work()
            if self._until is until:  # it is still the same statement that we wait for
                self._until = time.monotonic() + self._seconds if at_work else None
                if not at_work:
                    self._shut()

    def _shut(self) -> None:
        import socket  # not before it is needed: a cold claim has no time for it

        try:
            with socket.socket(fileno=os.dup(self._descriptor)) as copy:
                copy.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the connection is already broken
