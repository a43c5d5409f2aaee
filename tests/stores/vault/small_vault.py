"""A vault on a full disk, in a separate process; `stores.sqlite.small_disk` explains how it is made so small."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs.core.errors import DibsError, Held
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker
from dibs.core.task import Actor, Draft
from dibs.stores.vault.store import VaultStore
from interleave.stepper import PATIENCE, child_environment
from stores.sqlite.small_disk import Disk, leave_out_without_a_disk

if TYPE_CHECKING:
    from collections.abc import Callable

TEXT = "A text that must not get lost. " * 200


def run(folder: str) -> dict[str, str]:
    finished = subprocess.run(
        [sys.executable, "-c", "from stores.vault.small_vault import main; main()", folder],
        env=child_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    leave_out_without_a_disk(finished)
    assert finished.returncode == 0, finished.stderr
    told: dict[str, str] = json.loads(finished.stdout)
    return told


def main() -> None:
    folder = sys.argv[1]
    tight = Disk(folder)
    vault = os.path.join(folder, "vault")
    with VaultStore(vault, create=True) as store:
        store.add("default", [Draft("A", "a", TEXT), Draft("B", "b", TEXT)], [], Actor())
    sys.stdout.write(json.dumps(scenario(vault, tight)))


def scenario(vault: str, tight: Disk) -> dict[str, str]:
    told: dict[str, str] = {}
    request = ClaimRequest("ann", ("secret",), "default", lease=timedelta(minutes=20))
    done = Move(Verb.DONE, "a", "default", Actor("ann"), token="secret", result=TEXT * 9)  # noqa: S106 - a test's own
    with VaultStore(vault) as store:
        tight.fill()
        told["claim"] = outcome(lambda: store.claim(request))
        told["lies"] = json.dumps(where(vault))
        with VaultStore(vault) as other:
            told["others by name"] = outcome(lambda: other.claim(request._replace(tokens=("x",), ids=("a",))))
            told["view"] = outcome(lambda: other.get("default", "a").lease)
        told["again, still full"] = outcome(lambda: store.claim(request))
        tight.make_room()
        told["again"] = outcome(lambda: [(one.task.id, one.task.attempt) for one in store.claim(request)])
        tight.fill()
        told["done, full"] = outcome(lambda: store.move(done, CanceledBlocker.ESCALATES))
        told["still there"] = json.dumps(where(vault))
        tight.make_room()
        told["done"] = outcome(lambda: store.move(done, CanceledBlocker.ESCALATES).task.status)
        told["there at last"] = json.dumps(where(vault))
        told["texts"] = str({store.get("default", task).description == TEXT for task in "ab"})
        told["findings"] = str(store.check(fix=False))
    return told


def outcome(act: Callable[[], object]) -> str:
    try:
        return str(act())
    except Held as error:
        return f"HELD by {error.holder}"
    except DibsError as error:
        return f"{error.code}: {error.message}"


def where(vault: str) -> list[str]:
    found = [os.path.join(path, name) for path, _, names in os.walk(vault) for name in names if name.endswith(".md")]
    return sorted(os.path.relpath(path, vault) for path in found if "/.dibs/" not in path)
