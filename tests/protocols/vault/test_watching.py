"""A new file is picked up at once, and an idle agent costs nothing; without the system's help it goes on looking."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dibs.console.stopping import Stop
from dibs.protocols.vault import execution as bells
from dibs.protocols.vault.execution import Waiter
from dibs.stores.vault import watching
from dibs.stores.vault.store import VaultStore
from dibs.stores.vault.watching import Watcher
from support.vault import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.vault import Vault


def computed(pid: int) -> float:
    """Seconds of computing so far."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def slowness() -> float:
    """How many times longer than its own computing a piece of work takes on this machine at this moment."""
    began, computed_before = time.monotonic(), time.process_time()
    while time.process_time() - computed_before < 0.02:
        pass
    return (time.monotonic() - began) / 0.02


def test_new_file_is_picked_up_within_50_ms(vault: Vault) -> None:
    vault.at_work("--claim-only", "--interval", "1h")
    took, slow = [], []
    for number in range(15):
        time.sleep(0.1)
        slow.append(slowness())
        vault.write(f"Needs_Action/x{number}.md")
        began = time.monotonic()
        while not (vault.root / f"In_Progress/local/x{number}.md").exists():
            assert time.monotonic() < began + PATIENCE
            time.sleep(0.001)
        took.append(time.monotonic() - began)
    assert min(took) < 0.05 * max(slow), (took, slow)


def test_an_idle_agent_computes_next_to_nothing(vault: Vault) -> None:
    for number in range(50):
        vault.task(f"t{number}", action="launch")
    agent = vault.at_work("--claim-only")

    def computed_in_three_seconds() -> float:
        before = computed(agent.process.pid)
        time.sleep(3)
        return computed(agent.process.pid) - before

    until(lambda: computed_in_three_seconds() < 0.03, lambda: "it never stops computing")


@pytest.fixture
def watcher(vault: Vault) -> Watcher:
    found = Watcher(str(vault.root), ["Needs_Action", "Done"])
    assert not found.heard()
    return found


@pytest.mark.parametrize(
    "act",
    [
        lambda root: (root / "Needs_Action/x.md").write_text("x"),
        lambda root: (root / "Plans/y.md").rename(root / "Needs_Action/y.md"),
        lambda root: (root / "Needs_Action/old.md").unlink(),
        lambda root: (root / "Needs_Action/old.md").rename(root / "Plans/old.md"),
        lambda root: os.link(root / "Needs_Action/old.md", root / "Done/old.md"),
        lambda root: (root / "Needs_Action/mail").mkdir(),
        lambda root: (root / "Needs_Action/deep/er/x.md").write_text("x"),
    ],
)
def test_changes_of_task_files_are_noticed(vault: Vault, act: Callable[[Path], object]) -> None:
    vault.write("Needs_Action/old.md")
    vault.write("Plans/y.md")
    (vault.root / "Needs_Action/deep/er").mkdir(parents=True)
    watcher = Watcher(str(vault.root), ["Needs_Action", "Done"])
    act(vault.root)
    assert watcher.heard()
    assert not watcher.heard()
    watcher.close()


def test_changes_of_other_files_are_ignored(vault: Vault, watcher: Watcher) -> None:
    for name in (".x.md", "x.txt", ".hidden"):
        (vault.root / "Needs_Action" / name).write_text("x")
    (vault.root / "Plans/x.md").write_text("x")
    assert not watcher.heard()
    watcher.close()


def test_a_folder_made_later_is_listened_to(vault: Vault, watcher: Watcher) -> None:
    (vault.root / "Needs_Action/mail").mkdir()
    assert watcher.heard()
    (vault.root / "Needs_Action/mail/x.md").write_text("x")
    assert watcher.heard()
    watcher.close()


def test_recreated_folder_is_watched_again(vault: Vault, watcher: Watcher) -> None:
    (vault.root / "Done/.gitkeep").unlink()
    (vault.root / "Done").rmdir()
    (vault.root / "Done").mkdir()
    assert watcher.heard()
    (vault.root / "Done/x.md").write_text("x")
    assert watcher.heard()
    watcher.close()


def test_links_are_not_followed(vault: Vault, watcher: Watcher) -> None:
    outside = vault.beside / "outside"
    outside.mkdir()
    (vault.root / "Needs_Action/link").symlink_to(outside)
    watcher.heard()
    (outside / "x.md").write_text("x")
    assert not watcher.heard()
    watcher.close()


def test_store_without_inotify_polls(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_call", _missing)
    with VaultStore(str(vault.root)) as store:
        while store.wait(0.2):
            pass
        vault.write("Needs_Action/x.md")
        assert store.wait(PATIENCE)


def test_agent_without_inotify_looks_every_second(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_call", _missing)
    monkeypatch.setattr(bells, "_LOOK_EVERY", 0.05)
    with Stop() as stop, Waiter(str(vault.root), stop) as waiter:
        assert not waiter.watching
        began = time.monotonic()
        assert waiter.wait(PATIENCE)
        assert time.monotonic() - began < PATIENCE / 2


def test_more_folders_than_can_be_watched_end_in_looking(vault: Vault, monkeypatch: pytest.MonkeyPatch) -> None:
    with VaultStore(str(vault.root)) as store:
        while store.wait(0.2):
            pass
        monkeypatch.setattr(watching, "_checked", _exhausted)
        (vault.root / "Needs_Action/mail").mkdir()
        assert store.wait(PATIENCE)
        vault.write("Needs_Action/mail/x.md")
        assert store.wait(PATIENCE), "the store polls now"


def _missing(_name: str) -> object:
    raise NotImplementedError


def _exhausted(_answer: int) -> int:
    raise OSError(28, "No space left on device")
