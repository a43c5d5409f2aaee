"""Faults of the server and its administration, and the errors that `dibs` prints.

An error has the right code and exit status, the store's place and a next step, but never the password.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest

from dibs.core.errors import StoreBusy, StoreUnavailable
from dibs.core.task import Status
from dibs.lab.torture.proxies import PostgresProxy
from dibs.stores.postgres.migration import NEWEST
from dibs.stores.postgres.store import PostgresStore
from dibs.testing.conformance.builders import SCOPE, add, blocks, claim, get, link, state
from stores.postgres.far import PATIENT, Call, be_patient, in_time, until
from support.postgres_server import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg2.extensions import connection as Connection  # noqa: N812 - a class with a lower-case name
    from psycopg2.extensions import cursor as Cursor  # noqa: N812

SCRIPT = Path(sys.executable).with_name("dibs")
PASSWORD = "s3cr3t-w0rd"  # noqa: S105 - of a server that is thrown away
ADVICE = re.compile(r"\b(Check|Free|Try|Restore|Upgrade|Use|Give|Grant|Look)\b|'dibs \w+")

pytestmark = pytest.mark.xdist_group("postgres-server-faults")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server that asks `agent` for a password, and lets the administrator in without."""
    mine = Server(settings=("max_connections=8", "superuser_reserved_connections=3", "wal_writer_delay=10s"))
    with open(f"{mine.folder}/data/pg_hba.conf", "w", encoding="ascii") as rules:
        rules.write("local all postgres trust\nlocal all all scram-sha-256\n")
    with closing(psycopg2.connect(mine.url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("SELECT pg_reload_conf()")
        cursor.execute(f"CREATE ROLE agent LOGIN PASSWORD '{PASSWORD}'")
        cursor.execute("GRANT CREATE ON DATABASE postgres TO agent")
    yield mine
    mine.remove()


@pytest.fixture
def admin(server: Server) -> Iterator[Cursor]:
    with closing(psycopg2.connect(server.url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute("SET search_path = dibs")
        yield cursor


def url_of(server: Server, *, password: str = PASSWORD, database: str = "postgres", **options: object) -> str:
    words = "".join(f"&{name}={value}" for name, value in {"timeout": PATIENT, **options}.items())
    return f"postgresql://agent:{password}@/{database}?host={server.folder}{words}"


@pytest.fixture
def store(server: Server) -> Iterator[PostgresStore]:
    """A new store with two tasks."""
    with closing(psycopg2.connect(server.url)) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        nobody_is_left(cursor)  # the server has few places
        cursor.execute("SET client_min_messages = warning; DROP SCHEMA IF EXISTS dibs CASCADE")
    with PostgresStore(url_of(server), create=True) as opened:
        add(opened, "a", "b", links=[blocks("b", "a")])
        yield opened


def dibs(url: str, *words: str) -> tuple[int, str]:
    """Run the installed program; return its exit status and output."""
    done = subprocess.run(
        [str(SCRIPT), *words, "--scope", SCOPE],
        env={**os.environ, "DIBS_STORE": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def refused(url: str, code: str, *words: str) -> str:
    """Refused in text and in JSON, with this code and exit status 7; the message."""
    status, said = dibs(url, *words)
    assert status == 7, said
    assert said.startswith("dibs: ")
    assert said.count("\n") == 1, f"a message is one line: {said!r}"
    status, document = dibs(url, *words, "--json")
    told: dict[str, Any] = json.loads(document)["error"]
    assert (status, told["code"]) == (7, code), told
    for text in (said, document):
        assert PASSWORD not in text
        assert "wrong-" not in text
        assert "Traceback" not in text
        assert "psycopg2" not in text
    message = str(told["message"])
    assert ADVICE.search(message), message
    return message


CLAIM = ("claim", "--agent", "ann")


def waits_for_a_lock(server: Server) -> bool:
    with closing(psycopg2.connect(server.url)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT FROM pg_stat_activity WHERE application_name LIKE 'dibs %' AND wait_event_type = 'Lock'")
        return cursor.rowcount > 0


def nobody_is_left(admin: Cursor) -> None:
    """Wait until the server has ended all closed connections."""

    def gone() -> bool:
        admin.execute("SELECT FROM pg_stat_activity WHERE usename = 'agent'")
        return admin.rowcount == 0

    until(gone)


def test_command_line_claims_without_faults(server: Server, store: PostgresStore) -> None:
    status, said = dibs(url_of(server), *CLAIM)
    assert status == 0, said
    assert get(store, "a").status is Status.ACTIVE


def test_wrong_password_is_reported_but_not_printed(server: Server, store: PostgresStore) -> None:  # noqa: ARG001 - it is there
    assert "password authentication failed" in refused(
        url_of(server, password="wrong-" + PASSWORD), "STORE_UNAVAILABLE", *CLAIM
    )
    given = f"postgresql:///postgres?host={server.folder}&user=agent&password=wrong-{PASSWORD}"
    assert "password authentication failed" in refused(given, "STORE_UNAVAILABLE", *CLAIM)


def test_password_in_an_invalid_url_is_not_printed() -> None:
    for url in (f"postgresql://agent:{PASSWORD}@[/x", f"postgresql://agent:{PASSWORD}@host:port/x?nonsense=1"):
        status, said = dibs(url, *CLAIM)
        assert status in {2, 7}, said
        assert PASSWORD not in said


def test_unknown_database_is_reported(server: Server) -> None:
    assert '"nowhere" does not exist' in refused(url_of(server, database="nowhere"), "STORE_UNAVAILABLE", *CLAIM)


def test_missing_server_is_reported(server: Server) -> None:
    url = url_of(server).replace(server.folder, f"{server.folder}/elsewhere")
    assert "elsewhere" in refused(url, "STORE_UNAVAILABLE", *CLAIM)


@pytest.mark.parametrize("words", [CLAIM, ("list",), ("show", "a"), ("add", "New"), ("doctor",)], ids=" ".join)
def test_missing_schema_is_no_store_and_names_init(server: Server, words: tuple[str, ...]) -> None:
    assert "dibs init" in refused(url_of(server, schema="never_made"), "NO_STORE", *words)


@pytest.mark.parametrize("words", [CLAIM, ("list",), ("init",)], ids=" ".join)
def test_newer_schema_is_refused_and_unchanged(
    server: Server, store: PostgresStore, admin: Cursor, words: tuple[str, ...]
) -> None:
    before = state(store)
    admin.execute("UPDATE schema_version SET version = %s", (NEWEST + 1,))
    url = url_of(server)
    asked = ("init", "--store", url) if words == ("init",) else words
    assert f"schema {NEWEST + 1}" in refused(url, "SCHEMA_TOO_NEW", *asked)
    admin.execute("UPDATE schema_version SET version = %s", (NEWEST,))
    assert state(store) == before


def test_read_only_transactions_allow_reads_and_refuse_writes(
    server: Server, store: PostgresStore, admin: Cursor
) -> None:
    before = state(store)
    admin.execute("ALTER ROLE agent SET default_transaction_read_only = on")
    try:
        assert dibs(url_of(server), "list")[0] == 0
        for words in (CLAIM, ("add", "New"), ("claim", "a", "--agent", "ann"), ("cancel", "a")):
            assert "read-only" in refused(url_of(server), "STORE_READ_ONLY", *words)
    finally:
        admin.execute("ALTER ROLE agent RESET default_transaction_read_only")
    assert state(store) == before


def test_read_only_role_cannot_claim_or_add(server: Server, store: PostgresStore, admin: Cursor) -> None:
    admin.execute(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}'")
    admin.execute("GRANT USAGE ON SCHEMA dibs TO reader; GRANT SELECT ON ALL TABLES IN SCHEMA dibs TO reader")
    try:
        url = url_of(server).replace("agent:", "reader:")
        assert dibs(url, "list")[0] == 0
        refused(url, "STORE_READ_ONLY", *CLAIM)
        refused(url, "STORE_READ_ONLY", "add", "New")
    finally:
        admin.execute("DROP OWNED BY reader; DROP ROLE reader")
    assert get(store, "a").status is Status.READY


def test_role_connection_limit_is_busy(server: Server, store: PostgresStore, admin: Cursor) -> None:
    store.close()
    nobody_is_left(admin)
    admin.execute("ALTER ROLE agent CONNECTION LIMIT 1")
    try:
        with closing(psycopg2.connect(url_of(server).replace(f"&timeout={PATIENT}", ""))):
            assert "too many connections" in refused(url_of(server), "STORE_BUSY", *CLAIM)
    finally:
        admin.execute("ALTER ROLE agent CONNECTION LIMIT -1")


def test_server_without_a_free_connection_is_busy(server: Server, store: PostgresStore, admin: Cursor) -> None:
    store.close()
    held: list[Connection] = []
    try:
        with suppress(psycopg2.OperationalError):
            while len(held) < 20:
                held.append(psycopg2.connect(url_of(server).replace(f"&timeout={PATIENT}", "")))
        assert len(held) < 20
        assert re.search("remaining connection slots|too many clients", refused(url_of(server), "STORE_BUSY", *CLAIM))
    finally:
        for connection in held:
            connection.close()
        nobody_is_left(admin)


@pytest.mark.parametrize(
    "words", [CLAIM, ("claim", "a", "--agent", "ann"), ("list",), ("add", "New"), ("cancel", "a")], ids=" ".join
)
def test_waiting_too_long_for_a_table_lock_is_busy(
    server: Server, store: PostgresStore, words: tuple[str, ...]
) -> None:
    before = state(store)
    with closing(psycopg2.connect(server.url)) as busy, busy.cursor() as cursor:
        cursor.execute("LOCK TABLE dibs.task IN ACCESS EXCLUSIVE MODE")
        # The administrator keeps the lock, so only the timeout can end this.
        refused(url_of(server, timeout=1, connect_timeout=PATIENT), "STORE_BUSY", *words)
        busy.rollback()
    assert state(store) == before, "what was refused happened all the same, later"


def test_lock_released_before_the_timeout_fails_no_verb(server: Server, store: PostgresStore) -> None:
    with PostgresStore(url_of(server, timeout=PATIENT)) as patient, closing(psycopg2.connect(server.url)) as busy:
        with busy.cursor() as cursor:
            cursor.execute("LOCK TABLE dibs.task IN ACCESS EXCLUSIVE MODE")
        claiming = Call(lambda: claim(patient))
        until(lambda: waits_for_a_lock(server))
        busy.rollback()
        assert [claimed.task.id for claimed in claiming.result()] == ["a"]
    assert get(store, "a").status is Status.ACTIVE


def test_locked_scope_is_busy_and_other_scopes_are_not(server: Server, store: PostgresStore) -> None:
    with closing(psycopg2.connect(server.url)) as busy, busy.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended('dibs scope dibs/' || %s, 0))",
            (SCOPE,),
        )
        hasty_url = url_of(server, timeout=1, connect_timeout=PATIENT)
        with PostgresStore(hasty_url) as hasty, pytest.raises(StoreBusy):
            in_time(lambda: link(hasty, blocks("a", "b")))
        add(store, "x", "y", scope="elsewhere", links=[blocks("y", "x")])
        assert [claimed.task.id for claimed in claim(store)] == ["a"], "claims need no such lock"


def test_stopped_server_is_unavailable_until_it_is_back(server: Server, store: PostgresStore, admin: Cursor) -> None:
    store.close()
    admin.execute("CHECKPOINT")  # this server does not hurry to bring its commits to the disk
    with PostgresStore(url_of(server, timeout=1, connect_timeout=PATIENT)) as same:
        same.now()
        server.stop()
        try:
            with pytest.raises(StoreUnavailable):
                in_time(lambda: add(same, "x"))
            refused(url_of(server), "STORE_UNAVAILABLE", "list")
        finally:
            server.start()
        be_patient(same)
        add(same, "x")
        assert get(same, "x").status is Status.READY
        assert same.check(fix=False) == []


def tear_down(server: Server, _admin: Cursor) -> None:
    server.stop()
    server.start()


def kill_a_process(server: Server, admin: Cursor) -> None:
    """Kill a backend, as the kernel does without memory: the server ends all sessions and recovers, but runs on."""
    recoveries = server.log().count("reinitializing")
    os.kill(admin.connection.info.backend_pid, signal.SIGKILL)
    until(lambda: server.log().count("reinitializing") > recoveries)
    until(lambda: answers(server))


def answers(server: Server) -> bool:
    try:
        psycopg2.connect(server.url).close()
    except psycopg2.OperationalError:
        return False
    return True


@pytest.mark.parametrize("crash", [tear_down, kill_a_process])
@pytest.mark.parametrize("others", [0, 40], ids=["nobody came after", "others have taken its number"])
def test_commit_lost_in_a_crash_is_not_confused_with_another(
    server: Server, store: PostgresStore, admin: Cursor, others: int, crash: Callable[[Server, Cursor], None]
) -> None:
    """After a crash, the server reuses the numbers of transactions that never reached the disk. A store that asks only
    for its number would get the outcome of another transaction."""
    store.close()
    admin.execute("CHECKPOINT")
    with (
        PostgresProxy(url_of(server).replace(f"&timeout={PATIENT}", "")) as proxy,
        PostgresStore(proxy.url(timeout=PATIENT)) as far,
    ):
        far.now()
        trap = proxy.lose_request("COMMIT")
        proxy.refusing = True
        adding = Call(lambda: add(far, "x"))
        trap.wait()
        crash(server, admin)
        with closing(psycopg2.connect(server.url)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            for _ in range(others):
                cursor.execute("SELECT pg_current_xact_id()")
        proxy.heal()
        with suppress(StoreUnavailable):  # an unknown outcome is allowed, a wrong one is not
            adding.result()
            assert get(far, "x").status is Status.READY
