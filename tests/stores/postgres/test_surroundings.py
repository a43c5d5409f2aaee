"""The surroundings of a store: URLs, schemas, roles, versions, and missing servers."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import (
    InvalidInput,
    Misconfigured,
    NoStore,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreReadOnly,
    StoreUnavailable,
)
from dibs.core.lifecycle import Verb
from dibs.core.task import Edit
from dibs.stores.opening import open_store
from dibs.stores.postgres import migration
from dibs.stores.postgres.connection import target_of
from dibs.stores.postgres.migration import NEWEST, OLDEST, refuse_old_server
from dibs.testing.conformance.builders import (
    MAKER,
    SCOPE,
    add,
    apply,
    blocks,
    claim,
    draft,
    fleet_of,
    hold,
    link,
    move,
    plan,
    quiet,
)
from support.postgres_server import shared_url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - a class, whatever the driver calls it

    from dibs.stores.port import Store

HOWTO = os.path.join(os.path.dirname(__file__), "../../../docs/howto/postgresql.md")


@pytest.fixture
def schema(admin: Cursor) -> Iterator[str]:
    """A name that is free, and gone afterwards."""
    name = f"dibs_test_{os.getpid()}_own"
    yield name
    admin.execute(f"SET client_min_messages = warning; DROP SCHEMA IF EXISTS {name} CASCADE")


def url(schema: str) -> str:
    return f"{shared_url()}&schema={schema}"


def test_store_is_created_at_its_url_and_reopened(schema: str) -> None:
    with open_store(url(schema), create=True) as made:
        add(made, "a")
        assert made.describe()["place"].endswith(f"schema={schema}")
    with open_store(url(schema)) as again:
        assert again.get(SCOPE, "a").title == "Task a"


def test_missing_schema_without_create_is_no_store(schema: str, admin: Cursor) -> None:
    with open_store(url(schema)) as store, pytest.raises(NoStore) as refused:
        store.scopes()
    assert "dibs init" in refused.value.message
    admin.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", (schema,))
    assert admin.fetchone() == (0,)


def test_a_schema_of_a_newer_dibs_is_refused(schema: str, admin: Cursor) -> None:
    open_store(url(schema), create=True).close()
    admin.execute(f"UPDATE {schema}.schema_version SET version = {NEWEST + 1}")
    with open_store(url(schema)) as store, pytest.raises(SchemaTooNew):
        store.scopes()
    with pytest.raises(SchemaTooNew):
        open_store(url(schema), create=True)


@pytest.mark.parametrize("create", [True, False])
def test_schema_from_before_the_release_is_refused(schema: str, admin: Cursor, create: bool) -> None:
    open_store(url(schema), create=True).close()
    admin.execute(f"UPDATE {schema}.schema_version SET version = {OLDEST - 1}")
    with pytest.raises(StoreError, match="import the file into a new store"):
        open_store(url(schema), create=create).scopes()
    admin.execute(f"SELECT version FROM {schema}.schema_version")
    assert admin.fetchall() == [(OLDEST - 1,)]


def test_two_hosts_that_start_at_once_make_one_store(schema: str) -> None:
    failed: list[BaseException] = []
    ready = threading.Barrier(4)

    def start(name: str) -> None:
        try:
            ready.wait()
            with open_store(url(schema), create=True) as store:
                add(store, name)
        except BaseException as error:  # noqa: BLE001 - the main thread checks it
            failed.append(error)

    threads = [threading.Thread(target=start, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    with open_store(url(schema)) as store:
        assert len(store.match(SCOPE, "t", 9)) == 4


def test_grants_of_the_howto_suffice_for_an_agents_role(schema: str, admin: Cursor) -> None:
    open_store(url(schema), create=True).close()
    with open(HOWTO, encoding="utf-8") as file:
        grants = re.findall(r"^GRANT .*?;$", file.read(), re.MULTILINE | re.DOTALL)
    assert grants
    role = f"dibs_agent_{os.getpid()}"
    admin.execute(f"CREATE ROLE {role} LOGIN")
    try:
        for grant in grants:
            admin.execute(grant.replace("dibs_agent", role).replace("SCHEMA dibs", f"SCHEMA {schema}"))
        with open_store(url(schema).replace("user=postgres", f"user={role}")) as store:
            _whole_life(store)
    finally:
        admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


def _whole_life(store: Store) -> None:
    add(store, "a", "b", draft("c", parent="a"), links=[blocks("b", "a")])
    link(store, blocks("b", "c"))
    store.amend(SCOPE, "a", Edit(title="A"), MAKER)
    apply(store, plan({"id": "p"}, {"id": "q", "deps": ["p"]}))
    token = hold(store, "c")
    move(store, Verb.RENEW, "c", token, lease=None)
    move(store, Verb.DONE, "c", token)
    move(store, Verb.FAIL, "a", hold(store, "a"), reason="x")
    move(store, Verb.DONE, "a", hold(store, "a"))
    assert [one.task.id for one in claim(store, count=9)] == ["b", "p"]
    fleet_of(store).register("ann", host=None, pid=None)
    fleet_of(store).deregister("ann")
    store.wait(0.1)
    store.prune(events_before=store.now(), tasks_before=store.now(), progress=quiet)
    assert store.check(fix=True) == []
    assert len(list(store.dump())) > 5


def test_read_only_role_cannot_add(schema: str, admin: Cursor) -> None:
    open_store(url(schema), create=True).close()
    role = f"dibs_reader_{os.getpid()}"
    admin.execute(f"CREATE ROLE {role} LOGIN; GRANT USAGE ON SCHEMA {schema} TO {role}")
    admin.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}")
    try:
        with open_store(url(schema).replace("user=postgres", f"user={role}")) as store:
            assert store.scopes() == []
            with pytest.raises(StoreReadOnly):
                add(store, "a")
    finally:
        admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture
def stranger(schema: str, admin: Cursor) -> Iterator[str]:
    """A role without any grant."""
    open_store(url(schema), create=True).close()
    role = f"dibs_stranger_{os.getpid()}"
    admin.execute(f"CREATE ROLE {role} LOGIN")
    yield role
    admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.parametrize("create", [False, True])
def test_role_without_usage_names_the_missing_grant(schema: str, stranger: str, create: bool) -> None:
    theirs = url(schema).replace("user=postgres", f"user={stranger}")
    with pytest.raises(Misconfigured) as refused, open_store(theirs, create=create) as store:
        store.scopes()
    for told in ("USAGE", f"'{schema}'", f"'{stranger}'"):
        assert told in refused.value.message
    assert "SELECT" not in refused.value.message


@pytest.mark.parametrize("create", [False, True])
def test_role_without_select_is_refused(schema: str, stranger: str, admin: Cursor, create: bool) -> None:
    admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {stranger}")
    theirs = url(schema).replace("user=postgres", f"user={stranger}")
    with (
        pytest.raises(StoreReadOnly, match="permission denied for table"),
        open_store(theirs, create=create) as store,
    ):
        store.scopes()


@pytest.mark.parametrize("table", ["task", "schema_version"])
def test_statement_canceled_by_the_server_is_busy(schema: str, admin: Cursor, table: str) -> None:
    """The statement waits for a lock until statement_timeout ends it. On schema_version, that is the first one."""
    open_store(url(schema), create=True).close()
    hasty = url(schema) + "&options=-c%20statement_timeout%3D50"
    with open_store(hasty) as store:
        admin.execute(f"BEGIN; LOCK TABLE {schema}.{table}")
        try:
            for act in (store.scopes, lambda: add(store, "a"), lambda: claim(store)):
                with pytest.raises(StoreBusy, match="statement timeout") as refused:
                    act()
                assert "Cannot reach" not in refused.value.message
                assert refused.value.retry_after_ms == 1000
        finally:
            admin.execute("ROLLBACK")
    with open_store(url(schema)) as patient:
        assert patient.scopes() == []
        add(patient, "a")
        assert [one.task.id for one in claim(patient)] == ["a"]


def test_init_past_the_statement_timeout_is_busy(schema: str, admin: Cursor) -> None:
    open_store(url(schema), create=True).close()
    admin.execute(f"BEGIN; LOCK TABLE {schema}.schema_version")
    try:
        with pytest.raises(StoreBusy, match="statement timeout"):
            open_store(url(schema) + "&options=-c%20statement_timeout%3D50", create=True)
    finally:
        admin.execute("ROLLBACK")


@pytest.mark.parametrize(("number", "shown"), [(140012, "14"), (90624, "9"), (149999, "14")])
def test_a_server_older_than_15_is_refused(number: int, shown: str) -> None:
    with pytest.raises(Misconfigured, match=f"is PostgreSQL {shown}; dibs needs PostgreSQL 15 or newer") as refused:
        refuse_old_server(number, "postgresql://db.example/work")
    assert "postgresql://db.example/work" in refused.value.message


def test_init_checks_the_server_version_first(schema: str, admin: Cursor, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_old_server(150000, "here")
    monkeypatch.setattr(migration, "OLDEST_SERVER", 99)  # so that every server is too old
    with pytest.raises(Misconfigured, match="99 or newer"):
        open_store(url(schema), create=True)
    admin.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", (schema,))
    assert admin.fetchone() == (0,)


@pytest.mark.parametrize(
    "given",
    ["postgresql://h/d?schema=Bad-Name", "postgresql://h/d?schema=", "postgresql://h/d?timeout=0",
     "postgresql://h/d?timeout=soon", "postgresql://h/d?nonsense=1"],
)  # fmt: skip
def test_invalid_url_is_refused(given: str) -> None:
    with pytest.raises(InvalidInput):
        open_store(given)


@pytest.mark.parametrize(
    "given",
    ["postgresql://ann:hush-hush@127.0.0.1:1/d", "postgresql://127.0.0.1:1/d?user=ann&password=hush-hush&schema=x"],
)
def test_a_password_is_never_shown(given: str) -> None:
    with pytest.raises(StoreUnavailable) as refused:
        open_store(given)
    shown = f"{refused.value} {refused.value!r} {refused.value.__cause__} {target_of(given)!r} {target_of(given).place}"
    assert "hush" not in shown
    assert "127.0.0.1" in shown


def test_missing_server_is_unavailable_at_once(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable):
        open_store(f"postgresql:///postgres?host={tmp_path}")
