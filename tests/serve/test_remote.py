"""A server as the store of another process: rights, identity, tokens, and a network that fails."""

from __future__ import annotations

import json
import os
import stat
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from dibs.core.errors import DibsError, InvalidInput, LostLock, Misconfigured, StoreReplaced, StoreUnavailable
from dibs.core.events import Event
from dibs.core.lifecycle import ClaimRequest, Move, Verb
from dibs.core.policy import CanceledBlocker, OwnerProof
from dibs.core.task import Actor, Draft, Edit, Holder, Link
from dibs.core.wire import event_from_json, event_json
from dibs.desk import Desk, mint_token
from dibs.identity import agent_name
from dibs.serve.access import ROLES, Caller, Right, host_time, make_token
from dibs.serve.remote import RULES
from dibs.stores.http import connection, wire
from dibs.stores.http.store import HttpStore
from dibs.stores.port import EventQuery, Query
from dibs.stores.sqlite.store import SqliteStore
from support.remote import BadNetwork, RemoteServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECRET = b"a secret of at least thirty-two bytes"
SCOPE = "web"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = str(tmp_path_factory.mktemp("remote") / "dibs.db")
    SqliteStore(made, create=True, durable=False).close()
    return made


@pytest.fixture(scope="module")
def locked(path: str) -> Iterator[RemoteServer]:
    server = RemoteServer(lambda: SqliteStore(path, durable=False), [SECRET])
    yield server
    server.end()


@pytest.fixture
def near(path: str) -> Iterator[SqliteStore]:
    """The same store without a server."""
    with SqliteStore(path, durable=False) as store:
        yield store


class Tokens:
    """Stores for callers with tokens of their own."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = url
        self._patch = monkeypatch
        self.opened: list[HttpStore] = []

    def store(self, agent: str, role: str = "worker", scopes: frozenset[str] | None = frozenset({SCOPE})) -> HttpStore:
        rights = ROLES.get(role, frozenset({Right.ADMIN}))
        token = make_token(Caller(agent, None, rights, scopes), SECRET, host_time(), timedelta(hours=1))
        self._patch.setenv("DIBS_SERVER_TOKEN", token)
        self.opened.append(HttpStore(self.url))
        return self.opened[-1]

    def desk(self, agent: str, role: str = "worker", **more: Any) -> Desk:
        return Desk(self.store(agent, role, **more), scope=SCOPE, by=Actor(agent))


@pytest.fixture
def tokens(locked: RemoteServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tokens]:
    made = Tokens(locked.url, monkeypatch)
    yield made
    for store in made.opened:
        store.close()


def fails(code: str, ask: Callable[[], object]) -> DibsError:
    with pytest.raises(DibsError) as raised:
        ask()
    assert raised.value.code == code, raised.value.message
    return raised.value


def test_every_port_operation_has_a_rule() -> None:
    assert set(wire.names()) == set(RULES)
    assert set(RULES) >= wire.READS | wire.LONG


def test_a_worker_does_its_own_work(tokens: Tokens, near: SqliteStore) -> None:
    boss, ann = tokens.desk("boss", "planner"), tokens.desk("ann")
    boss.add([Draft("One", "own-1"), Draft("Two", "own-2")])
    [claimed] = ann.claim("ann", refs=["own-1"])
    assert claimed.task.lease is not None
    token = claimed.task.lease.token
    ann.renew("own-1", token)
    ann.comment("own-1", "half done")
    ann.edit("own-1", Edit(keep={"branch": "own"}))
    ann.add([Draft("Follow up", "own-3")], [Link("own-3", "own-1")])
    moved = ann.move(Verb.DONE, "own-1", token=token, then=ann.next_request("ann"))
    assert [each.task.id for each in moved.next] != []
    assert {event.agent for event in near.events(EventQuery(SCOPE, "own-1"))} == {"boss", "ann"}


def test_location_of_the_store_is_shown_to_admins_only(tokens: Tokens, path: str) -> None:
    assert "place" not in tokens.store("ann", "viewer").describe()
    assert tokens.store("boss", "admin", scopes=None).describe()["place"] == path


def test_worker_is_refused_foreign_tasks_and_scopes(tokens: Tokens, near: SqliteStore) -> None:
    boss, ann = tokens.desk("boss", "planner"), tokens.desk("ann")
    boss.add([Draft("One", "not-1"), Draft("Two", "not-2"), Draft("Three", "not-3")])
    boss.claim("boss", refs=["not-2"])
    before = near.get(SCOPE, "not-1"), near.get(SCOPE, "not-2")
    for ask in (
        lambda: ann.claim("bob"),
        lambda: ann.claim("ann", refs=["not-1"], holder=Holder.HUMAN),
        lambda: ann.at(SCOPE, by=Actor("bob")).comment("not-1", "as another"),
        lambda: ann.move(Verb.CANCEL, "not-1"),
        lambda: ann.move(Verb.DONE, "not-2", force=True),
        lambda: ann.edit("not-1", Edit(title="Another")),
        lambda: ann.edit("not-1", Edit(keep={"branch": "x"})),
        lambda: ann.link([Link("not-1", "not-3")]),
        lambda: ann.add([Draft("First", "not-4", override=True)]),
        lambda: ann.at("other").find(Query("other")),
        lambda: ann.at("other").claim("ann"),
        lambda: ann.at("other").settings(),
        lambda: ann.configure({"a": 1}),
        lambda: list(ann.dump()),
        lambda: ann.prune(events_before=None, tasks_before=None),
        ann.check,
    ):
        fails("FORBIDDEN", ask)
    assert (near.get(SCOPE, "not-1"), near.get(SCOPE, "not-2")) == before


def test_lease_tokens_of_other_agents_are_hidden(tokens: Tokens) -> None:
    boss, ann = tokens.desk("boss", "planner"), tokens.desk("ann")
    boss.add([Draft("One", "see-1"), Draft("Two", "see-2")])
    ann.claim("ann", refs=["see-1"])
    boss.claim("boss", refs=["see-2"])
    shown = {task.id: task.lease.token for task in ann.find(Query(SCOPE)) if task.lease is not None}
    assert shown["see-1"] != ""
    assert shown["see-2"] == ""
    viewer = tokens.desk("eve", "viewer")
    assert {task.lease.token for task in viewer.graph().tasks if task.lease is not None} == {""}


def test_agent_name_proves_only_the_tokens_agent(tokens: Tokens) -> None:
    boss, ann, bob = tokens.desk("boss", "planner"), tokens.desk("ann"), tokens.desk("bob")
    boss.add([Draft("One", "name-1")])
    ann.claim("ann", refs=["name-1"])
    by_name = ann.policy._replace(owner_proof=OwnerProof.NAME)
    fails("FORBIDDEN", lambda: bob.at(SCOPE, policy=by_name).move(Verb.DONE, "name-1"))
    fails("FORBIDDEN", lambda: bob.at(SCOPE, policy=by_name, by=Actor("ann")).move(Verb.DONE, "name-1"))
    assert ann.at(SCOPE, policy=by_name).move(Verb.DONE, "name-1").task.finished


def test_events_have_the_token_and_leases_the_run(tokens: Tokens, near: SqliteStore) -> None:
    boss, ann = tokens.desk("boss", "planner"), tokens.desk("ann")
    boss.add([Draft("One", "token-1")])
    [claimed] = ann.claim("ann", refs=["token-1"], run="night")
    assert claimed.task.lease is not None
    assert claimed.task.lease.run == "night"
    ann.at(SCOPE, by=Actor("ann", "night")).move(Verb.DONE, "token-1", token=claimed.task.lease.token)
    told = [event_json(event) for event in near.events(EventQuery(SCOPE, "token-1"))]
    ids = [event["token_id"] for event in told]
    assert ids[0] != ids[1] == ids[2]
    assert told[1]["run"] == told[2]["run"] == f"night-token-{ids[1]}"
    assert [event_from_json(event) for event in told] == near.events(EventQuery(SCOPE, "token-1"))


def test_worker_cannot_raise_limits(tokens: Tokens) -> None:
    from dibs.core.fleet import Profile

    boss = tokens.desk("boss", "planner", scopes=None)
    boss.enrol(Profile("ann", "writer", (), 1))
    ann = tokens.desk("ann", scopes=None)
    fails("FORBIDDEN", lambda: ann.enrol(Profile("ann", "writer", (), 9)))
    fails("FORBIDDEN", lambda: ann.dismiss("ann"))
    assert ann.register("ann").id == "ann"
    fails("FORBIDDEN", lambda: ann.register("bob"))
    boss.dismiss("ann")


def test_a_missing_or_wrong_token_is_refused_with_what_to_do(
    locked: RemoteServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DIBS_SERVER_TOKEN", raising=False)
    with HttpStore(locked.url) as store, pytest.raises(Misconfigured, match="none was given"):
        store.now()
    monkeypatch.setenv("DIBS_SERVER_TOKEN", "not.a.token")
    with HttpStore(locked.url) as store, pytest.raises(Misconfigured, match="rejected the given one") as refused:
        store.now()
    assert "not.a.token" not in refused.value.message


def test_login_keeps_a_token_for_its_owner_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("DIBS_SERVER_TOKEN", raising=False)
    address = connection.address_of("https://Desk.example.org/?timeout=3")
    assert not connection.keep_token(address, "kept")
    assert stat.S_IMODE(os.stat(connection.tokens_file()).st_mode) == 0o600
    assert connection.token_for(connection.address_of("https://desk.example.org")) == "kept"
    assert connection.token_for(connection.address_of("http://desk.example.org")) is None
    assert connection.keep_token(address, None)
    assert connection.token_for(address) is None


def test_token_is_read_from_a_file(tokens: Tokens, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tokens.store("ann").close()
    file = tmp_path / "token"
    file.write_text(f"{os.environ['DIBS_SERVER_TOKEN']}\n")
    monkeypatch.delenv("DIBS_SERVER_TOKEN")
    monkeypatch.setenv("DIBS_SERVER_TOKEN_FILE", str(file))
    monkeypatch.setenv("DIBS_STORE", tokens.url)
    monkeypatch.delenv("DIBS_AGENT", raising=False)
    assert agent_name() == "ann"
    with HttpStore(tokens.url) as store:
        assert store.find(Query("web", text="no such task")) == []


@pytest.mark.parametrize(
    "url",
    [
        "http://",
        "https://user:pw@host",
        "https://host?x=1",
        "https://host?timeout=0",
        "http://host:99999",
        "http+unix://x/y",
    ],
)
def test_a_wrong_url_is_refused_without_its_secrets(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        HttpStore(url)
    assert "pw" not in refused.value.message


@pytest.fixture
def far(path: str) -> Iterator[tuple[BadNetwork, HttpStore]]:
    """A store behind a server without tokens, and the network between the two."""
    server = RemoteServer(lambda: SqliteStore(path, durable=False))
    network = BadNetwork(server.port)
    store = HttpStore(f"http://127.0.0.1:{network.port}?timeout=60")
    yield network, store
    store.close()
    network.end()
    server.end()


def test_lost_answer_is_requested_again_and_written_once(far: tuple[BadNetwork, HttpStore], near: SqliteStore) -> None:
    network, store = far
    store.now()
    for scope, ask in (
        ("lost-add", lambda: store.add("lost-add", [Draft("One", "a")], [], Actor("ann"))),
        ("lost-add", lambda: store.claim(ClaimRequest("ann", (mint_token(),), "lost-add"))),
        ("lost-add", lambda: store.amend("lost-add", "a", Edit(priority=7), Actor("ann"))),
    ):
        before = len(near.events(EventQuery(scope)))
        network.lose_answers = 1
        ask()
        assert network.lose_answers == 0
        assert len(near.events(EventQuery(scope))) == before + 1


def test_a_request_that_arrives_twice_is_done_once(far: tuple[BadNetwork, HttpStore], near: SqliteStore) -> None:
    network, store = far
    store.add("twice", [Draft("One", "a"), Draft("Two", "b")], [], Actor("ann"))
    network.duplicate = True
    [claimed] = store.claim(ClaimRequest("ann", (mint_token(),), "twice"))
    assert claimed.task.lease is not None
    store.move(Move(Verb.DONE, "a", "twice", Actor("ann"), token=claimed.task.lease.token), CanceledBlocker.RESOLVES)
    network.settle()
    assert [event.verb for event in near.events(EventQuery("twice"))] == ["add", "add", "claim", "done"]


def test_answer_lost_with_its_server_is_found_in_the_store(path: str, near: SqliteStore) -> None:
    """The next server remembers nothing."""
    network = BadNetwork(0)
    with HttpStore(f"http://127.0.0.1:{network.port}?timeout=60") as store:

        def once(ask: Callable[[], Any]) -> Any:
            servers = [RemoteServer(lambda: SqliteStore(path, durable=False)) for _ in range(2)]
            network.target, network.next_target, network.lose_answers = servers[0].port, servers[1].port, 1
            given = ask()
            assert network.lose_answers == 0
            assert network.target == servers[1].port
            for server in servers:
                server.end()
            return given

        once(lambda: store.add("dead", [Draft("One", "a"), Draft("Two", "b")], [], Actor("ann")))
        [claimed] = once(lambda: store.claim(ClaimRequest("ann", (mint_token(),), "dead")))
        token = claimed.task.lease.token
        then = ClaimRequest("ann", (mint_token(),), "dead")
        done = Move(Verb.DONE, "a", "dead", Actor("ann"), token=token)
        moved = once(lambda: store.move(done, CanceledBlocker.RESOLVES, then))
        assert [each.task.id for each in moved.next] == ["b"]
        remark = Event(near.now(), "dead", "b", "comment", agent="ann", reason="half done")
        once(lambda: store.record(remark))
    network.end()
    told = [(event.verb, event.task) for event in near.events(EventQuery("dead"))]
    assert told == [("add", "a"), ("add", "b"), ("claim", "a"), ("done", "a"), ("claim", "b"), ("comment", "b")]


def test_refusal_after_a_lost_answer_is_reported_as_uncertain(path: str) -> None:
    """The first try released the task, another agent took it, and the second try finds it in other hands."""
    servers = [RemoteServer(lambda: SqliteStore(path, durable=False)) for _ in range(2)]
    network = BadNetwork(servers[0].port)
    with HttpStore(f"http://127.0.0.1:{network.port}?timeout=60") as store, SqliteStore(path, durable=False) as near:
        store.add("taken", [Draft("One", "a")], [], Actor("ann"))
        [claimed] = store.claim(ClaimRequest("ann", (mint_token(),), "taken"))
        assert claimed.task.lease is not None
        network.next_target, network.lose_answers = servers[1].port, 1
        network.meanwhile = lambda: near.claim(ClaimRequest("bob", (mint_token(),), "taken"))
        release = Move(Verb.RELEASE, "a", "taken", Actor("ann"), token=claimed.task.lease.token)
        with pytest.raises(StoreUnavailable, match="may have been carried out"):
            store.move(release, CanceledBlocker.RESOLVES)
        with pytest.raises(LostLock):
            store.move(release, CanceledBlocker.RESOLVES)
    network.end()
    for server in servers:
        server.end()


def test_a_late_finish_is_refused_over_http_too(far: tuple[BadNetwork, HttpStore]) -> None:
    _, store = far
    store.add("late", [Draft("One", "a")], [], Actor("ann"))
    with pytest.raises(LostLock):
        store.move(Move(Verb.DONE, "a", "late", Actor("ann"), token=mint_token()), CanceledBlocker.RESOLVES)


def test_short_outage_is_ridden_out(path: str) -> None:
    server = RemoteServer(lambda: SqliteStore(path, durable=False))
    network = BadNetwork(server.port)
    with HttpStore(f"http://127.0.0.1:{network.port}?timeout=60") as store:
        store.now()
        network.cut = True
        timer = threading.Timer(0.5, lambda: setattr(network, "cut", False))
        timer.start()
        store.add("outage", [Draft("One", "a")], [], Actor("ann"))
        assert store.get("outage", "a").title == "One"
        timer.join()
    network.end()
    server.end()


def test_long_outage_is_store_unavailable() -> None:
    network = BadNetwork(0)
    network.end()
    with HttpStore(f"http://127.0.0.1:{network.port}?timeout=0.2") as store, pytest.raises(StoreUnavailable):
        store.now()


def test_another_store_behind_the_same_url_is_never_written(tmp_path: Path) -> None:
    servers = []
    for name in ("one", "two"):
        file = str(tmp_path / name)
        SqliteStore(file, create=True, durable=False).close()
        servers.append(RemoteServer(lambda file=file: SqliteStore(file, durable=False)))  # type: ignore[misc]
    network = BadNetwork(servers[0].port)
    with HttpStore(f"http://127.0.0.1:{network.port}?timeout=60") as store:
        store.add("a", [Draft("One", "a")], [], Actor("ann"))
        network.target = servers[1].port
        network.break_connections()
        with pytest.raises(StoreReplaced):
            store.add("a", [Draft("Two", "b")], [], Actor("ann"))
    with SqliteStore(str(tmp_path / "two")) as second:
        assert second.find(Query()) == []
    network.end()
    for server in servers:
        server.end()


def test_a_hostile_value_is_refused_before_it_reaches_the_store(locked: RemoteServer, tokens: Tokens) -> None:
    tokens.store("ann")
    line = connection.Connection(connection.address_of(locked.url), os.environ["DIBS_SERVER_TOKEN"])
    for name, body in (
        ("get", {"scope": 5, "task": "a"}),
        ("get", {"scope": SCOPE}),
        ("get", {"scope": SCOPE, "task": "a", "more": 1}),
        ("get", {"scope": "a\x00b", "task": "a"}),
        ("find", {"query": {"scope": SCOPE, "limit": 1 << 70}}),
        ("find", {"query": {"scope": SCOPE, "statuses": ["nope"]}}),
        ("find", {"query": [1]}),
        ("claim", {"request": {"agent": "ann", "tokens": "abc", "scope": SCOPE}}),
        ("claim", {"request": {"agent": "ann", "tokens": ["t"], "scope": SCOPE, "lease": 1e99}}),
        ("claim", []),
    ):
        fails("INVALID_INPUT", lambda name=name, body=body: line.post(f"{wire.PATH}{name}", body, None))  # type: ignore[misc]
    fails("NOT_FOUND", lambda: line.post(f"{wire.PATH}__class__", {}, None))
    fails("NOT_FOUND", lambda: line.post(f"{wire.PATH}close", {}, None))
    line.close()


def test_an_error_arrives_as_it_was_raised() -> None:
    from dibs.core import errors

    for error in (
        errors.AmbiguousId("a", ["ab", "ac"]),
        errors.CycleDetected(["a", "b", "a"]),
        errors.OverQuota("full", room=3, retry_after_ms=5),
        errors.Held("held", holder="ann", retry_after_ms=7),
        errors.PlanInvalid("wrong", line=4),
        errors.Unconfirmed("unsure", token=mint_token()),
    ):
        came = wire.error_from(json.loads(json.dumps(wire.secret_error_json(error))))
        assert type(came) is type(error)
        assert {**vars(came)} == {**vars(error)}
        assert str(came) == str(error)
