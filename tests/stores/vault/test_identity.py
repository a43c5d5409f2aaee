"""A process that opened one vault never writes to another that has taken its place."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import StoreReplaced
from dibs.core.lifecycle import Verb
from dibs.stores.port import EventQuery, Query

from .folder import SCOPE, Folder, add, claim, hold, move

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.vault.store import VaultStore
    from support.clock import Clock


def content(folder: Folder) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.path.rglob("*.md")}


def refuses(store: VaultStore, token: str) -> None:
    asks: list[Callable[[], object]] = [
        lambda: claim(store),
        lambda: move(store, Verb.DONE, "a", token),
        lambda: add(store, "late"),
        lambda: store.find(Query(SCOPE)),
        lambda: store.counts(SCOPE),
        lambda: store.events(EventQuery()),
        store.describe,
    ]
    for ask in asks:
        with pytest.raises(StoreReplaced):
            ask()


@pytest.mark.parametrize("worked", [True, False], ids=["after work", "before any"])
@pytest.mark.parametrize("how", ["deleted", "moved", "made again", "replaced by a copy"])
def test_folder_that_is_gone_or_another_is_refused(how: str, worked: bool, folder: Folder, clock: Clock) -> None:
    with folder.open() as maker:
        add(maker, "a", "b")
    copy = folder.path.with_name("copy")
    shutil.copytree(folder.path, copy)
    store = folder.open()
    token = hold(store) if worked else "none"
    if how == "moved":
        os.rename(folder.path, folder.path.with_name("away"))
    else:
        shutil.rmtree(folder.path)
    if how == "made again":
        with Folder(folder.path, clock).open() as new:
            add(new, "a", "b")
    elif how == "replaced by a copy":
        os.rename(copy, folder.path)
    before = content(folder)
    refuses(store, token)
    store.close()
    assert content(folder) == before
    assert folder.path.exists() == (how in {"made again", "replaced by a copy"})


def test_another_vault_put_into_the_same_folder_is_refused(folder: Folder, clock: Clock) -> None:
    other = Folder(folder.path.with_name("other"), clock)
    for each in (folder, other):
        with each.open() as maker:
            add(maker, "a", "b")
    with folder.open() as store:
        token = hold(store)
        for name in os.listdir(folder.path):
            shutil.rmtree(folder.path / name)
        shutil.copytree(other.path, folder.path, dirs_exist_ok=True)
        before = content(folder)
        refuses(store, token)
        assert content(folder) == before


def test_open_processes_share_locks_after_dibs_was_deleted(folder: Folder) -> None:
    with folder.open() as one, folder.open(timeout=0.2) as two:
        add(one, "a", "b")
        claim(two)
        known = one.describe()["id"]
        shutil.rmtree(folder.path / ".dibs")
        claim(one, agent="bob")
        assert len(two.find(Query(SCOPE, agent="bob"))) == 1
        assert one.describe()["id"] == two.describe()["id"] == known
        found = os.stat(folder.path / ".dibs/lock")
        for store in (one, two):
            assert os.path.samestat(os.fstat(store._vault.turns._room._fd), found)


def test_copy_of_a_vault_without_dibs_gets_another_id(folder: Folder, clock: Clock) -> None:
    with folder.open() as store:
        known = store.describe()["id"]
    copy = folder.path.with_name("copy")
    shutil.copytree(folder.path, copy, ignore=shutil.ignore_patterns(".dibs"))
    with Folder(copy, clock).open() as other:
        assert other.describe()["id"] != known
    assert (copy / ".dibs/id").stat().st_mode & 0o777 == 0o600
