"""Opening a desk: how it finds its store, and how it describes it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import InvalidInput, NoStore, Unsupported
from dibs.core.policy import NATIVE
from dibs.core.task import Actor
from dibs.desk import Desk, open_desk
from dibs.stores.vault.store import VaultStore

from .hands import add

if TYPE_CHECKING:
    from pathlib import Path


def test_missing_store_is_made_only_with_create(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/tasks.db"
    with pytest.raises(NoStore):
        open_desk(url)
    with open_desk(url, create=True, scope="home") as made:
        add(made, "a")
    with open_desk(url, scope="home") as opened:
        assert opened.get("a").scope == "home"


def test_store_is_closed_if_the_desk_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        open_desk(f"sqlite:///{tmp_path}/tasks.db", create=True, scope=" ")
    assert refused.tb is not None  # it keeps the store alive, which would otherwise close itself
    open_files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if _is_open(fd)]
    assert [path for path in open_files if path.startswith(str(tmp_path))] == []


def _is_open(fd: str) -> bool:
    return os.path.lexists(f"/proc/self/fd/{fd}")  # the one that listed them is closed by now


def test_desk_with_other_settings_keeps_the_rest(desk: Desk) -> None:
    exact, bob = NATIVE._replace(short_ids=False), Actor("bob")
    there = desk.at("away")
    assert (there.scope, there.policy, there.by) == ("away", desk.policy, desk.by)
    there = desk.at("away", policy=exact, by=bob)
    assert (there.scope, there.policy, there.by) == ("away", exact, bob)
    add(there, "a")
    assert desk.scopes() == ["away"]


def test_internal_scope_needs_to_be_asked_for(desk: Desk) -> None:
    with pytest.raises(InvalidInput):
        desk.at(".inbox.ann")
    assert desk.at(".inbox.ann", internal=True).scope == ".inbox.ann"


def test_store_without_a_fleet_is_refused(desk: Desk, tmp_path: Path) -> None:
    desk.need_fleet()
    with VaultStore(str(tmp_path / "vault"), create=True) as vault, pytest.raises(Unsupported, match="fleet"):
        Desk(vault).need_fleet()


def test_store_without_a_report_has_none(desk: Desk) -> None:
    assert desk.examine() is None
