"""Mail between agents, on every store that has mail: recipients, delivery and attached tasks."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from dibs.core.errors import Held, InvalidInput, LostLock, NotFound, Unsupported
from dibs.core.fleet import Profile
from dibs.core.task import Actor, Draft, Status
from dibs.desk import Desk
from dibs.fleet.dispatch import Dispatcher, Rules
from dibs.mail import LEASE, Context, Letter, Mail, Subject, box_of, delegate, roles_of, send, unknown
from dibs.stores.vault.store import VaultStore
from dibs.testing.conformance.builders import fleet_of
from support.chat import KINDS, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dibs.stores.port import Store
    from support.chat import Scene

ANN, BOB, CAROL = Actor("ann"), Actor("bob"), Actor("carol")


@pytest.fixture(params=KINDS)
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    with opened(request.param, str(tmp_path)) as made:
        yield made


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[Scene]:
    with opened("sqlite", str(tmp_path)) as made:
        yield made


def read(store: Store, who: Actor, *roles: str) -> list[Letter]:
    with Mail(Desk(store, by=who), roles).fetch() as letters:
        return letters


def test_letter_is_read_once_by_each_recipient(scene: Scene) -> None:
    desk = Desk(scene.store, scope="s", by=ANN)
    (task,) = desk.add([Draft("Write the parser", "parser")])
    until = datetime(2030, 1, 31, 12, tzinfo=UTC)
    first = send(
        Desk(scene.store, by=ANN), ["bob", "role:tester", "bob"], " Look!\n", Context(task, None, until, "kublai")
    )
    (letter,) = read(scene.store, BOB)
    subject = Subject("s", "parser", "Write the parser")
    assert letter == Letter(first, "ann", "bob", "Look!", letter.at, subject, None, until, "kublai")
    assert read(scene.store, BOB) == []
    scene.clock.advance(seconds=1)
    send(Desk(scene.store, by=BOB), [letter.sender], "I will.", Context(reply_to=letter.id))
    assert [(one.text, one.reply_to) for one in read(scene.store, ANN)] == [("I will.", first)]
    assert read(scene.store, CAROL) == []
    assert [one.to for one in read(scene.store, CAROL, "tester")] == ["role:tester"]
    assert read(scene.store, BOB, "tester") == [], "one of the role has read it"
    assert [one.text for one in Mail(Desk(scene.store, by=BOB)).history()] == ["Look!"]
    assert Mail(Desk(scene.store, by=BOB)).find(first[:5]).id == first
    with pytest.raises(NotFound, match="no letter"):
        Mail(Desk(scene.store, by=CAROL)).find(first)


def test_mail_of_a_dead_reader_is_read_by_the_next(quick: Scene) -> None:
    send(Desk(quick.store, by=ANN), ["bob"], "first")
    quick.clock.advance(seconds=1)
    send(Desk(quick.store, by=ANN), ["bob"], "second")
    with pytest.raises(BrokenPipeError), Mail(Desk(quick.store, by=BOB)).fetch():
        raise BrokenPipeError
    assert read(quick.store, BOB) == []
    quick.clock.advance(seconds=LEASE.total_seconds())
    assert [one.text for one in read(quick.store, BOB)] == ["first", "second"]


def test_task_is_handed_over_to_a_role_by_its_holder_only(quick: Scene) -> None:
    desk = Desk(quick.store, scope="s", by=ANN)
    desk.add([Draft("Write the parser", "parser", assigned_to="ann", extra={"note": 1})])
    (claimed,) = desk.claim("ann")
    token = claimed.task.lease.token if claimed.task.lease else ""
    with pytest.raises(Held, match="held by ann"):
        delegate(desk, claimed.task, "writer", None)
    with pytest.raises(LostLock):
        delegate(desk, claimed.task, "writer", "another token")
    given = delegate(desk, claimed.task, "writer", token)
    assert (given.status, given.assigned_to, given.lease) == (Status.READY, None, None)
    assert given.extra == {"note": 1, "role": "writer"}
    again = delegate(desk, given, "tester", None)
    assert again.extra == {"note": 1, "role": "tester"}
    assert desk.events(ref="parser")[-1].reason == "delegated to the role tester"


def test_task_goes_only_to_a_role_with_agents(quick: Scene) -> None:
    desk = Desk(quick.store, scope="s", by=ANN)
    (task,) = desk.add([Draft("Write the parser", "parser")])
    assert unknown(Desk(quick.store), ["bob"]) == []
    fleet_of(quick.store).enrol(Profile("bob", "writer"))
    with pytest.raises(NotFound, match="No agent has the role 'wrtier'"):
        delegate(desk, task, "wrtier", None)
    assert delegate(desk, task, "writer", None).extra == {"role": "writer"}
    assert roles_of(Desk(quick.store), "bob") == ["writer"]
    assert unknown(Desk(quick.store), ["bob", "role:writer", "carol", "role:bob"]) == ["carol", "role:bob"]


def test_delegated_task_is_assigned_within_its_role(quick: Scene) -> None:
    desk = Desk(quick.store, scope="s", by=ANN)
    desk.add([Draft("Write the parser", "parser", deliverable="code")])
    fleet_of(quick.store).enrol(Profile("dora", "developer"))
    fleet_of(quick.store).enrol(Profile("bob", "writer"))
    dispatcher = Dispatcher(Desk(quick.store, by=ANN), Rules(scope="s"))
    dispatcher.round()
    assert desk.get("parser").assigned_to == "dora"
    (claimed,) = desk.claim("dora", assigned=True)
    delegate(desk, claimed.task, "writer", claimed.task.lease.token if claimed.task.lease else "")
    assert (desk.get("parser").assigned_to, desk.get("parser").extra) == (None, {"role": "writer"})
    dispatcher.round()
    assert desk.get("parser").assigned_to == "bob"


def test_reading_mail_does_not_count_as_a_task(scene: Scene) -> None:
    desk = Desk(scene.store, scope="s", by=BOB)
    desk.add([Draft("Write the parser", "parser"), Draft("Test it", "tests")])
    fleet_of(scene.store).enrol(Profile("bob", "writer", limit=1))
    desk.claim("bob")
    for number in range(3):
        send(Desk(scene.store, by=ANN), ["bob"], f"letter {number}")
    with Mail(Desk(scene.store, by=BOB)).fetch() as letters:
        assert len(letters) == 3
        assert [member.held for member in fleet_of(scene.store).members()] == [1]
    scene.hear("Paint the fence", "Call the plumber")
    outcome = scene.read(now=True, name="bob")
    assert outcome is not None
    assert len(outcome.tasks) == 2


def test_agent_and_role_of_one_name_have_separate_mail(quick: Scene) -> None:
    send(Desk(quick.store, by=ANN), ["writer"], "to the agent")
    send(Desk(quick.store, by=ANN), ["role:writer"], "to the role")
    assert [one.text for one in read(quick.store, Actor("writer"))] == ["to the agent"]
    assert [one.text for one in read(quick.store, BOB, "writer")] == ["to the role"]


@pytest.mark.parametrize(
    ("to", "text"), [((), "hi"), (("bob",), " \n"), (("bob",), "x" * 100_001), (("x" * 128,), "hi"), (("role:",), "hi")]
)
def test_invalid_letters_are_refused_before_delivery(quick: Scene, to: tuple[str, ...], text: str) -> None:
    with pytest.raises(InvalidInput):
        send(Desk(quick.store, by=ANN), ["carol", *to] if to else [], text)
    assert read(quick.store, CAROL) == []


def test_store_without_transactions_has_no_mail(tmp_path: Path) -> None:
    with VaultStore(str(tmp_path / "vault"), create=True) as store, pytest.raises(Unsupported, match="SQLite"):
        box_of(Desk(store, by=ANN), "bob")
