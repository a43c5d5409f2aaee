"""For each error code a realistic way to get it from dibs."""

from __future__ import annotations

import os
import resource
import socket
import sqlite3
from contextlib import closing, contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError
from dibs.core.fleet import Quota
from dibs.core.task import Actor, Draft, Edit
from dibs.lab.emulator import Emulator, ntask_schema
from dibs.stores.port import Terms
from dibs.stores.sqlite.store import SqliteStore
from support.notion import skip_waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.stores.port import Store
    from support.cli import Cli

SCENES: dict[str, Callable[[Cli], str]] = {}
BY = Actor("ann")


def provokes(code: str) -> Callable[[Callable[[Cli], str]], Callable[[Cli], str]]:
    def noted(scene: Callable[[Cli], str]) -> Callable[[Cli], str]:
        SCENES[code] = scene
        return scene

    return noted


def typed(cli: Cli, *words: str) -> str:
    """The error code of a command."""
    return cli(*words, "--json").error.code


def called(cli: Cli, act: Callable[[Store], object]) -> str:
    """The error code of a call of the library."""
    with SqliteStore(str(cli.store)) as store, pytest.raises(DibsError) as raised:
        act(store)
    return raised.value.code


# The request


@provokes("INVALID_INPUT")
def _an_empty_title(cli: Cli) -> str:
    return typed(cli, "add", "")


@provokes("PLAN_INVALID")
def _a_plan_that_is_none(cli: Cli) -> str:
    return typed(cli, "plan", cli.file("plan.yaml", "tasks: [{id: a}"))


@provokes("NOT_FOUND")
def _a_task_that_is_nowhere(cli: Cli) -> str:
    return typed(cli, "show", "nosuch")


@provokes("AMBIGUOUS_ID")
def _the_beginning_of_two_ids(cli: Cli) -> str:
    cli.add("parser")
    cli.add("parts")
    return typed(cli, "show", "par")


# Statuses and holders


@provokes("NOTHING_READY")
def _a_claim_where_nothing_is(cli: Cli) -> str:
    return typed(cli, "claim")


@provokes("HELD")
def _a_claim_of_what_another_holds(cli: Cli) -> str:
    cli.add("job")
    cli.claim("job", "--agent", "bob")
    return typed(cli, "claim", "job")


@provokes("WAITING")
def _a_claim_before_its_time(cli: Cli) -> str:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    return typed(cli, "claim", "second")


@provokes("NOT_FOR_YOU")
def _a_claim_of_what_is_anothers(cli: Cli) -> str:
    cli.add("job", "--assign", "bob")
    return typed(cli, "claim", "job")


@provokes("ILLEGAL_MOVE")
def _an_approval_that_nobody_asked_for(cli: Cli) -> str:
    cli.add("job")
    return typed(cli, "approve", "job")


@provokes("CHANGED")
def _an_edit_of_what_was(cli: Cli) -> str:
    cli.add("job", "--priority", "1")
    return called(cli, lambda store: store.amend("default", "job", Edit(priority=3, was={"priority": 2}), BY))


@provokes("OVER_QUOTA")
def _more_than_may_come_in(cli: Cli) -> str:
    terms, drafts = Terms(Quota(1, timedelta(hours=1))), [Draft("one"), Draft("two")]
    return called(cli, lambda store: store.add("default", drafts, [], BY, terms))


@provokes("OVER_LIMIT")
def _a_second_task_for_who_may_have_one(cli: Cli) -> str:
    cli.add("one")
    cli.add("two")
    cli.ok("agent", "add", "bob", "--role", "writer", "--limit", "1")
    cli.claim("one", "--agent", "bob")
    return typed(cli, "claim", "two", "--agent", "bob")


@provokes("LOST_LOCK")
def _a_finish_after_the_lease(cli: Cli) -> str:
    cli.add("job")
    token = cli.claim("job", "--lease", "1m")
    cli.clock.advance(minutes=2)
    return typed(cli, "done", "job", "--token", token)


# Rules of links


@provokes("CYCLE")
def _two_that_wait_for_each_other(cli: Cli) -> str:
    cli.add("first")
    cli.add("second", "--blocked-by", "first")
    return typed(cli, "link", "first", "--blocked-by", "second")


@provokes("INCOMPLETE_SUBTASKS")
def _a_whole_before_its_parts(cli: Cli) -> str:
    cli.add("whole")
    cli.add("part", "--parent", "whole")
    return typed(cli, "done", "whole", "--token", cli.claim("whole"))


@provokes("ALREADY_EXISTS")
def _the_same_id_again(cli: Cli) -> str:
    cli.add("job")
    return typed(cli, "add", "Another", "--id", "job")


# The store


@contextmanager
def no_file_beyond(size: int) -> Iterator[None]:
    """Limit the size of files, like `ulimit -f`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@provokes("STORE_ERROR")
def _a_log_that_may_not_grow(cli: Cli) -> str:
    with no_file_beyond(65_536):
        return typed(cli, "add", "Grow", "--description", "y" * 90_000)


@provokes("STORE_FULL")
def _no_room_for_what_processes_share(cli: Cli) -> str:
    """tests/stores covers full disks, where one can be mounted."""
    with no_file_beyond(16_384):
        return typed(cli, "add", "Grow")


@provokes("NO_STORE")
def _no_project(cli: Cli) -> str:
    return typed(cli, "list", "--store", "nowhere.db")


@provokes("STORE_BUSY")
def _another_program_that_writes(cli: Cli) -> str:
    with closing(sqlite3.connect(cli.store, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        return typed(cli, "add", "job", "--store", f"sqlite:///{cli.store}?timeout=0")


@provokes("STORE_READ_ONLY")
def _a_project_where_nobody_may_make_one(cli: Cli) -> str:
    """Not even root can create folders in /proc."""
    os.chdir("/proc")
    return typed(cli, "init")


@provokes("STORE_CORRUPT")
def _a_file_that_is_something_else(cli: Cli) -> str:
    return typed(cli, "list", "--store", cli.file("letter.db", "Dear Ann, " * 500))


@provokes("SCHEMA_TOO_NEW")
def _a_store_of_a_newer_dibs(cli: Cli) -> str:
    cli.damaged = True
    cli.sql("PRAGMA user_version = 9999")
    return typed(cli, "list")


@provokes("STORE_REPLACED")
def _a_store_that_was_overwritten_while_open(cli: Cli) -> str:
    cli.damaged = True
    cli.ok("add", "Sweep")
    cli.file(f".dibs/{cli.store.name}-replaced", "")
    return typed(cli, "list")


@provokes("STORE_UNAVAILABLE")
def _a_folder_where_a_file_should_be(cli: Cli) -> str:
    return typed(cli, "list", "--store", str(cli.folder))


@provokes("UNCONFIRMED")
def _a_notion_that_falls_silent_after_a_claim(cli: Cli) -> str:
    with pytest.MonkeyPatch.context() as patch:
        skip_waiting(patch)
        with closing(Emulator(cli.clock)) as notion:
            notion.start()
            store = f"notion://{notion.database(ntask_schema()).id}?layout=ntask"
            for name, value in {"NOTION_TOKEN": notion.token, "NOTION_API_BASE_URL": notion.url}.items():
                patch.setenv(name, value)
            patch.setenv("XDG_CACHE_HOME", str(cli.folder))
            task = cli.ok("add", "Sweep", "--store", store).strip()
            notion.faults.next("unavailable", method="GET", path="pages", times=9, skip=1)
            return typed(cli, "claim", task, "--store", store)


@provokes("MISCONFIGURED")
def _notion_without_a_key(cli: Cli) -> str:
    return typed(cli, "list", "--store", f"notion://{'0' * 32}")


@provokes("CLI_MISSING")
def _a_program_that_is_not_installed(cli: Cli) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(cli.folder))
        return typed(cli, "list", "--store", f"notion://{'0' * 32}?transport=cli")


@provokes("UNSUPPORTED")
def _a_chat_in_a_folder_of_notes(cli: Cli) -> str:
    cli.ok("init", "--store", f"vault://{cli.folder}/vault")
    return typed(cli, "say", "Sweep the jetty", "--sender-hash", "0" * 64, "--store", f"vault://{cli.folder}/vault")


# Services


@provokes("SERVICE_UNAVAILABLE")
def _an_embedder_that_is_not_there(cli: Cli) -> str:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # it does not listen
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DIBS_EMBEDDER", f"openai:small@http://127.0.0.1:{nobody.getsockname()[1]}")
            return typed(cli, "analyze", cli.file("said.txt", "Sweep the jetty, then paint it"))
