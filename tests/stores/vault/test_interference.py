"""A person acts at each step of a verb: no text is lost, no deleted file returns, no agent works on stale text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.task import Actor, Edit, Link, Status
from dibs.stores.port import Query
from dibs.stores.vault.disk import Disk

from .folder import SCOPE, add, claim, hold, move
from .steps import CHANGES, LOOKS, SteppedDisk

if TYPE_CHECKING:
    from collections.abc import Callable

    from dibs.stores.vault.store import VaultStore

    from .folder import Folder

HAND = "Changed by hand."

# What an agent asks for at the moment, given the token if it holds the task, and whether that is a claim.
ASKED: dict[str, Callable[[VaultStore, str], object]] = {
    "claim": lambda store, _: claim(store, "bob"),
    "claim by name": lambda store, _: claim(store, "bob", "a"),
    "take over": lambda store, _: claim(store, "bob", "a"),
    "done": lambda store, token: move(store, Verb.DONE, "a", token, result={"n": 1}),
    "renew": lambda store, token: move(store, Verb.RENEW, "a", token),
    "release": lambda store, token: move(store, Verb.RELEASE, "a", token),
    "block": lambda store, _: move(store, Verb.BLOCK, "a", reason="later"),
    "cancel": lambda store, _: move(store, Verb.CANCEL, "a", reason="no"),
    "edit": lambda store, _: store.amend(SCOPE, "a", Edit(priority=1), Actor("zoe")),
    "link": lambda store, _: store.link(SCOPE, [Link("a", "b")], Actor("zoe")),
}
HELD = {"take over", "done", "renew", "release"}


def delete(folder: Folder) -> None:
    for place in folder.find("a"):
        (folder.path / place).unlink()


def carry_off(folder: Folder) -> None:
    for place in folder.find("a"):
        folder.move(place, "Rejected/a.md")


def add_a_line(folder: Folder) -> None:
    for place in folder.find("a"):
        _edit(folder, place, folder.put)


def save_anew(folder: Folder) -> None:
    for place in folder.find("a"):
        _edit(folder, place, folder.replace)


def _edit(folder: Folder, place: str, save: Callable[[str, str], object]) -> None:
    save(place, folder.read(place).replace("The text.", f"The text. {HAND}"))


ACTS = [delete, carry_off, add_a_line, save_anew]


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("asked", ASKED)
def test_person_acting_at_any_step_wins(folder: Folder, asked: str, act: Callable[[Folder], None]) -> None:
    at = 0
    steps = 0
    while True:
        at += 1
        here = type(folder)(folder.path.parent / f"{asked}-{at}", folder.clock)
        acted: list[bool] = []

        def person(here: Folder = here, acted: list[bool] = acted) -> None:
            acted.append(True)
            act(here)

        disk = SteppedDisk(person, at)
        with here.open(disk=disk) as store:
            add(store, "a", description="The text.")
            add(store, "b", status=Status.BACKLOG)
            token = hold(store, "ann", "a") if asked in HELD else ""
            if asked == "take over":
                here.clock.advance(hours=1)
            disk.arm()
            outcome: object
            try:
                outcome = ASKED[asked](store, token)
            except DibsError as error:
                outcome = error
            disk.taken = -1
            if not acted:
                break
            steps += 1
            check(here, store, act, outcome)
    assert steps > 3, "there was nothing to interfere with"


def check(folder: Folder, store: VaultStore, act: Callable[[Folder], None], outcome: object) -> None:
    places = folder.find("a")
    if act is delete:
        assert places == [], "a deleted file has returned"
    elif act is carry_off:
        assert places == ["Rejected/a.md"], outcome
        assert "The text." in folder.read("Rejected/a.md")
        assert store.get(SCOPE, "a").status is Status.CANCELED
    else:
        assert len(places) == 1, places
        assert HAND in folder.read(places[0]), f"the edit is lost: {outcome}"
        assert HAND in store.get(SCOPE, "a").description
    assert folder.left_over() == []
    with folder.open() as newcomer:
        assert newcomer.find(Query()) == store.find(Query())
        assert [finding for finding in newcomer.check(fix=False) if "waits for" not in finding.problem] == []


def test_a_stepped_disk_takes_every_step_of_a_disk() -> None:
    public = {name for name in vars(Disk) if not name.startswith("_")}
    assert public - {"durable", "make_folder"} == {*LOOKS, *CHANGES}
