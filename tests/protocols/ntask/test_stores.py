"""A day of ntask on the other stores."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dibs.stores.opening import open_store
from support.ntask import NotionPlace, Ntask, SqlitePlace

from .test_seed import MORE, OTHER, end

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def _vault(folder: Path) -> Iterator[str]:
    yield f"vault:///{folder}/vault"


def _postgres(_folder: Path) -> Iterator[str]:
    import psycopg2

    from support.postgres_server import shared_url

    schema, server = f"ntask_{os.urandom(6).hex()}", shared_url()
    yield f"{server}{'&' if '?' in server else '?'}schema={schema}"
    with closing(psycopg2.connect(server)) as other, other, other.cursor() as cursor:
        cursor.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')


@pytest.fixture(params=[_vault, _postgres], ids=["vault", "postgres"])
def ntask(
    request: pytest.FixtureRequest, local: Ntask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Ntask]:
    for url in request.param(folder):
        monkeypatch.setenv("NTASK_STORE", url)
        yield local


def test_a_day_of_work(ntask: Ntask) -> None:
    parent = ntask.create("parent", priority=9)
    child = ntask.create("child", parent=parent, class_of_service="EXPEDITE")
    assert ntask.next() == child
    held = ntask.claim(parent)
    assert ntask("claim", parent, "--run-id", "run-2", "--agent-name", "bob").code == "CONFLICT"
    ntask.ok("heartbeat", *held.words)
    for wrong in (held._replace(token=OTHER), held._replace(run="run-2")):
        for how in MORE:
            ran = ntask(how, *wrong.words, *MORE[how])
            assert ran.code == "LOST_LOCK"
            assert held.token not in ran.out + ran.err
    assert ntask("complete", *held.words, "--artifacts", "x").code == "INCOMPLETE_SUBTASKS"
    for how in ("release", "block", "review"):
        end(ntask, ntask.claim(child), how)
        if how != "release":
            ntask.ok("update", child, "--status", "READY")
    end(ntask, ntask.claim(child), "complete")
    end(ntask, held, "complete")
    assert ntask.next() is None
    assert {task["status"] for task in ntask("list").data["tasks"]} == {"DONE"}
    assert ntask("doctor").data["checks"]["exclusive"]["message"].startswith("strict")


@pytest.fixture
def strict(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Ntask, NotionPlace]]:
    """Notion with an arbiter."""
    SqlitePlace(folder, monkeypatch)  # its clock is the arbiter's
    open_store("sqlite:///arbiter.db", create=True).close()
    place = NotionPlace(folder, monkeypatch)
    environment = {**place.environment, "NTASK_STORE": f"notion://{place.database.id}?arbiter=sqlite:///arbiter.db"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    yield Ntask(place, capsys, monkeypatch), place
    place.close()


def test_with_an_arbiter_claims_are_strict_and_notion_shows_them(strict: tuple[Ntask, NotionPlace]) -> None:
    ntask, place = strict
    assert ntask("doctor").data["checks"]["exclusive"]["message"].startswith("strict")
    held = ntask.claim(ntask.create())
    found = place.properties(held.id)
    assert (found["Status"], found["Agent"], found["Lock Token"]) == ("IN_PROGRESS", "ann", held.token)
    assert ntask("claim", held.id, "--run-id", "run-2", "--agent-name", "bob").code == "CONFLICT"
    ntask.ok("heartbeat", *held.words)
    assert ntask("complete", *held._replace(run="run-2").words, "--artifacts", "x").code == "LOST_LOCK"
    end(ntask, held, "complete")
    assert place.properties(held.id)["Status"] == "DONE"


def test_with_an_arbiter_a_person_still_wins(strict: tuple[Ntask, NotionPlace]) -> None:
    ntask, place = strict
    for how in MORE:
        held = ntask.claim(ntask.create())
        place.person_takes(held.id)
        before = place.properties(held.id)
        assert ntask(how, *held.words, *MORE[how]).code == "LOST_LOCK"
        assert place.properties(held.id) == before
