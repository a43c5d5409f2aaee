"""Tokens: requests without a valid one are refused, and the answer reveals nothing."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import jwt
import pytest

from dibs.core.errors import NotFound, StoreUnavailable
from dibs.core.sender import hash_sender
from dibs.desk import open_desk
from dibs.serve import access
from dibs.serve.access import (
    ROLES,
    Caller,
    Revocations,
    Right,
    create_token,
    listed_tokens,
    make_token,
    revoke_tokens,
)
from dibs.serve.app import BASE, ROUTES
from support.http import PATIENCE, Listener, Server, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = "a secret that is long enough to sign with"  # noqa: S105
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_CENTURY = NOW.replace(year=2100)
ANN, BOB = hash_sender("ann", "x" * 16), hash_sender("bob", "x" * 16)


def token(caller: Caller, **claims: Any) -> str:
    """A token that is valid for all tests; `claims` replace the defaults."""
    told = jwt.decode(make_token(caller, SECRET.encode(), NOW, timedelta(days=1)), options={"verify_signature": False})
    told |= {"exp": int(_CENTURY.timestamp()), **claims}
    return jwt.encode({name: value for name, value in told.items() if value is not None}, SECRET, "HS256")


def agent(name: str = "ann", *rights: Right, scopes: frozenset[str] | None = None) -> str:
    return token(Caller(name, None, frozenset(rights or (Right.READ, Right.CLAIM)), scopes))


def sender(who: str) -> str:
    return token(Caller(None, who, frozenset({Right.READ, Right.PLAN}), frozenset({who})))


def bearing(shown: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {shown}"}


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """On all addresses of this machine, though asked by loopback only."""
    store = new_store(tmp_path_factory.mktemp("locked"))
    server = Server(store, "--host", "0.0.0.0", "--rate", "0", variables={"DIBS_SERVE_SECRET": SECRET})  # noqa: S104
    yield server
    told = server.end()
    assert "eyJ" not in told, "no token is ever written to the log"
    assert SECRET not in told


def _unsigned() -> str:
    head, body = ({"alg": "none", "typ": "JWT"}, {"agent": "ann", "can": ["admin"], "exp": 4102444800})
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in (head, body))
    return ".".join([*parts, ""])


_CALLER = Caller("ann", None, frozenset(Right))
BAD = {
    "none at all": "",
    "no token": "nonsense",
    "unsigned": _unsigned(),
    "signed with another secret": make_token(_CALLER, b"another secret that is long enough!", NOW, timedelta(days=400)),
    "signed in another way": jwt.encode({"agent": "ann", "can": ["admin"]}, SECRET + SECRET, "HS512"),
    "over": token(_CALLER, exp=int(NOW.timestamp())),
    "not good yet": token(_CALLER, nbf=int(_CENTURY.timestamp())),
    "for another service": token(_CALLER, aud="elsewhere"),
    "by another service": token(_CALLER, iss="elsewhere"),
    "without an end": token(_CALLER, exp=None),
    "without an id": token(_CALLER, jti=None),
    "without a name": token(_CALLER, agent=None),
    "with a right that there is not": token(_CALLER, can=["everything"]),
    "an agent's and a sender's at once": token(_CALLER, sender=ANN),
    "a sender's without a hash": token(_CALLER, agent=None, sender="ann"),
}


@pytest.mark.parametrize("shown", BAD.values(), ids=BAD.keys())
def test_every_bad_token_gets_the_same_answer(locked: Server, shown: str) -> None:
    answer = locked.ask("GET", "tasks", headers=bearing(shown))
    plain = locked.ask("GET", "tasks")
    assert (answer.status, answer.body) == (401, plain.body)
    assert answer.data["code"] == "UNAUTHENTICATED"
    assert answer.headers["www-authenticate"] == plain.headers["www-authenticate"]


def test_no_route_answers_without_a_token(locked: Server) -> None:
    paths = [(route.method, f"{BASE}{route.path}".replace("{id}", "x")) for route in ROUTES]
    others = ("/metrics", "/openapi.json", "/health/ready", "/mcp", "/mcp/", f"{BASE}/nothing", "/api", "/api/v2/tasks")
    for method, path in (*paths, *(("GET", path) for path in others), *(("POST", path) for path in others)):
        assert locked.ask(method, path, {} if method != "GET" else None).status == 401, (method, path)


def test_only_board_files_and_health_are_open(locked: Server) -> None:
    assert locked.ok("GET", "/health") == {"status": "ok"}
    assert locked.ask("GET", "/").status == 200
    assert locked.ask("GET", "/../../secrets").status == 404


def test_a_right_that_a_token_does_not_have_is_refused(locked: Server) -> None:
    reads, claims, plans = (bearing(agent("ann", right)) for right in (Right.READ, Right.CLAIM, Right.PLAN))
    draft = {"tasks": [{"title": "One", "id": "rights"}]}
    refusal = locked.ask("POST", "tasks", draft, reads)
    assert refusal.status == 403
    assert "needs the right 'claim'" in refusal.data["detail"]
    assert "'dibs token create --for worker' makes one" in refusal.data["detail"]
    assert locked.ask("POST", "tasks", draft, plans).status == 201
    assert locked.ask("POST", "claims", {"ids": ["rights"]}, reads).status == 403
    assert locked.ask("GET", "tasks", headers=claims).status == 403
    assert locked.ask("GET", "/metrics", headers=claims).status == 403
    assert locked.ask("POST", "tasks/rights/pause", {}, claims).status == 403, "without a lease, that is steering"
    assert locked.ask("POST", "tasks/rights/pause", {"force": True}, plans).status == 403, "that is overruling"
    assert locked.ask("PATCH", "settings", {"settings": {}}, plans).status == 403


def test_an_agents_token_acts_for_that_agent_and_for_no_other(locked: Server) -> None:
    admin = bearing(agent("boss", Right.ADMIN))
    locked.ok("POST", "tasks", {"tasks": [{"title": "One", "id": "own"}]}, admin)
    ann = bearing(agent("ann"))
    assert locked.ask("POST", "claims", {"agent": "bob", "ids": ["own"]}, ann).status == 403
    (claimed,) = locked.ok("POST", "claims", {"ids": ["own"]}, ann | {"X-Dibs-Actor": "bob"})["claimed"]
    assert claimed["task"]["lease"]["agent"] == "ann"
    body = {"token": claimed["token"], "next": {"agent": "bob"}}
    assert locked.ask("POST", "tasks/own/done", body, ann).status == 403


def test_token_is_refused_in_other_scopes(locked: Server) -> None:
    admin = bearing(agent("boss", Right.ADMIN))
    locked.ok("POST", "tasks?scope=theirs", {"tasks": [{"title": "Secret", "id": "s"}]}, admin)
    mine = bearing(agent("ann", Right.READ, scopes=frozenset({"mine"})))
    for path in ("tasks?scope=theirs", "tasks/s?scope=theirs", "events?scope=theirs", "graph?scope=theirs", "tasks"):
        assert locked.ask("GET", path, headers=mine).status == 403, path
    assert locked.ask("GET", "tasks?scope=mine", headers=mine).data == {"tasks": [], "next": None}
    assert locked.ok("GET", "scopes?scope=mine", headers=mine)["scopes"] == ["mine"]


def test_senders_token_overrides_the_named_sender(locked: Server) -> None:
    ann, bob = bearing(sender(ANN)), bearing(sender(BOB))
    locked.ok("POST", "say", {"text": "Research the competitors", "sender_hash": BOB}, ann)
    (read,) = locked.ok("POST", "flush", {"sender_hash": BOB}, ann)["read"]
    assert read["sender_hash"] == ANN
    assert locked.ok("POST", "flush", {}, bob)["read"] == []
    assert locked.ask("GET", f"tasks?scope={ANN}", headers=bob).status == 403
    assert locked.ask("GET", f"tasks?scope=.inbox.{ANN}", headers=ann).status == 403
    for path in ("/metrics", "/health/ready", "settings"):
        assert locked.ask("GET", path, headers=ann).status == 403, "that is about others, too"
    assert len(locked.ok("GET", "tasks", headers=ann)["tasks"]) == 1, "a sender's own scope is theirs unless said"


def test_an_agents_token_cannot_speak_for_a_sender(locked: Server) -> None:
    admin = bearing(agent("boss", Right.ADMIN))
    assert locked.ask("POST", "say", {"text": "Hello", "sender_hash": ANN}, admin).status == 403


def test_refusals_are_counted_and_audited(locked: Server) -> None:
    locked.ask("GET", "tasks")
    text = locked.ask("GET", "/metrics", headers=bearing(agent("ann", Right.READ))).body.decode()
    counted = next(line for line in text.splitlines() if line.startswith('dibs_http_refusals_total{code="UNAUTH'))
    assert int(counted.split()[-1]) > 0


def test_caller_over_the_rate_gets_429_with_retry_after(tmp_path_factory: pytest.TempPathFactory) -> None:
    store = new_store(tmp_path_factory.mktemp("limited"))
    server = Server(store, "--rate", "1", variables={"DIBS_SERVE_SECRET": SECRET})
    ann, bob = bearing(agent("ann", Right.READ)), bearing(agent("bob", Right.READ))
    deadline = time.monotonic() + PATIENCE
    while (refused := server.ask("GET", "counts", headers=ann)).status != 429:  # a busy machine asks slowly
        assert refused.status == 200
        assert time.monotonic() < deadline
    assert refused.data["code"] == "TOO_MANY_REQUESTS"
    assert int(refused.headers["retry-after"]) >= 1
    assert server.ask("GET", "counts", headers=bob).status == 200, "each has a measure of their own"
    server.end()


# Roles


class Team(NamedTuple):
    """A server, its store's URL, and the headers of a token for each role."""

    server: Server
    store: str
    viewer: dict[str, str]
    worker: dict[str, str]
    planner: dict[str, str]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    store = new_store(tmp_path_factory.mktemp("team"))
    server = Server(store, "--rate", "0", variables={"DIBS_SERVE_SECRET": SECRET})
    yield Team(server, store, *(created(store, role, role)[0] for role in ("viewer", "worker", "planner")))
    server.end()


def created(store: str, agent: str, role: str, secret: str = SECRET) -> tuple[dict[str, str], str]:
    """The headers with a new token, and its id."""
    with open_desk(store) as desk:
        caller = Caller(agent, None, ROLES[role], frozenset({"default"}))
        text, record = create_token(desk, caller, secret.encode(), timedelta(days=1))
    return bearing(text), record.id


def add(team: Team, *ids: str) -> None:
    team.server.ok("POST", "tasks", {"tasks": [{"title": each, "id": each} for each in ids]}, team.planner)


def test_viewer_reads_and_changes_nothing(team: Team) -> None:
    add(team, "seen")
    assert team.server.ok("GET", "tasks/seen", headers=team.viewer)["task"]["id"] == "seen"
    attempts: tuple[tuple[str, str, dict[str, Any]], ...] = (
        ("POST", "claims", {}),
        ("POST", "tasks", {"tasks": [{"title": "x"}]}),
        ("POST", "tasks/seen/comments", {"text": "x"}),
        ("POST", "tasks/seen/pause", {}),
        ("PATCH", "tasks/seen", {"title": "x"}),
    )
    for method, path, body in attempts:
        assert team.server.ask(method, path, body, team.viewer).status == 403, path


def test_worker_ends_its_task_comments_and_adds_follow_ups(team: Team) -> None:
    add(team, "own", "later")
    (claimed,) = team.server.ok("POST", "claims", {"ids": ["own"]}, team.worker)["claimed"]
    assert claimed["task"]["lease"]["agent"] == "worker"
    team.server.ok("POST", "tasks/own/comments", {"text": "half way"}, team.worker)
    follow_up = {"tasks": [{"title": "Clean up"}], "links": [{"task": "", "on": "own"}]}
    team.server.ok("POST", "tasks", follow_up, team.worker)
    done = team.server.ok("POST", "tasks/own/done", {"token": claimed["token"]}, team.worker)
    assert done["task"]["status"] == "done"


WORKERS_MAY_NOT = {
    "act as another agent": ("POST", "claims", {"agent": "boss"}),
    "go on as another agent": ("POST", "tasks/kept/done", {"token": "t", "next": {"agent": "boss"}}),
    "read another scope": ("GET", "tasks?scope=other", None),
    "claim in another scope": ("POST", "claims?scope=other", {}),
    "edit": ("PATCH", "tasks/kept", {"priority": 0}),
    "raise a retry limit": ("PATCH", "tasks/kept", {"max_retries": 99}),
    "link": ("POST", "links", {"links": [{"task": "kept", "on": "kept2"}]}),
    "unlink": ("DELETE", "links", {"links": [{"task": "kept", "on": "kept2"}]}),
    "plan": ("POST", "plan", {"text": "{}"}),
    "cancel": ("POST", "tasks/kept/cancel", {}),
    "overrule": ("POST", "tasks/kept/release", {"force": True}),
    "hold as a person": ("POST", "claims", {"holder": "human", "ids": ["kept"]}),
    "change settings": ("PATCH", "settings", {"settings": {"limit": 9}}),
    "read settings": ("GET", "settings", None),
    "make others wait": ("POST", "tasks", {"tasks": [{"title": "x"}], "links": [{"task": "kept", "on": ""}]}),
    "add a part to another task": ("POST", "tasks", {"tasks": [{"title": "x", "parent": "kept"}]}),
    "overtake": ("POST", "tasks", {"tasks": [{"title": "x", "override": True}]}),
    "assign": ("POST", "tasks", {"tasks": [{"title": "x", "assigned_to": "boss"}]}),
}


@pytest.mark.parametrize("attempt", WORKERS_MAY_NOT.values(), ids=WORKERS_MAY_NOT.keys())
def test_worker_may_not(team: Team, attempt: tuple[str, str, object]) -> None:
    if team.server.ask("GET", "tasks/kept", headers=team.planner).status == 404:
        add(team, "kept", "kept2")
    method, path, body = attempt
    before = team.server.ok("GET", "tasks?all=1", headers=team.planner)
    assert team.server.ask(method, path, body, team.worker).status == 403
    assert team.server.ok("GET", "tasks?all=1", headers=team.planner) == before


def test_planner_edits_links_and_cancels(team: Team) -> None:
    add(team, "first", "second")
    team.server.ok("PATCH", "tasks/first", {"title": "First"}, team.planner)
    team.server.ok("POST", "links", {"links": [{"task": "second", "on": "first"}]}, team.planner)
    team.server.ok("POST", "tasks/first/cancel", {}, team.planner)
    assert team.server.ask("PATCH", "settings", {"settings": {}}, team.planner).status == 403


def test_events_name_the_token_that_acted(team: Team) -> None:
    headers, token_id = created(team.store, "carol", "planner")
    team.server.ok("POST", "tasks", {"tasks": [{"title": "x", "id": "named"}]}, headers)
    (claimed,) = team.server.ok("POST", "claims", {"ids": ["named"]}, headers)["claimed"]
    team.server.ok("POST", "tasks/named/done", {"token": claimed["token"]}, headers)
    events = team.server.ok("GET", "events?ref=named", headers=headers)["events"]
    assert {(event["verb"], event["run"]) for event in events} == {
        (verb, f"token-{token_id}") for verb in ("add", "claim", "done")
    }


# Revocation and rotation


def until_refused(server: Server, headers: dict[str, str]) -> None:
    deadline = time.monotonic() + PATIENCE
    while server.ask("GET", "counts", headers=headers).status != 401:
        assert time.monotonic() < deadline, "the server still accepts a revoked token"
        time.sleep(0.05)


def test_revoked_token_is_refused_by_every_server_and_its_stream_ends(team: Team) -> None:
    other = Server(team.store, "--rate", "0", variables={"DIBS_SERVE_SECRET": SECRET})
    revoked, token_id = created(team.store, "dave", "worker")
    kept, _ = created(team.store, "dave", "worker")
    for server in (team.server, other):
        assert server.ask("GET", "counts", headers=revoked).status == 200
    stream = Listener(team.server.port, "events", revoked)
    assert stream.next() is not None
    with open_desk(team.store) as desk:
        revoke_tokens(desk, [token_id])
    while stream.next() is not None:
        pass
    stream.close()
    for server in (team.server, other):
        until_refused(server, revoked)
        assert server.ask("GET", "counts", headers=kept).status == 200
    told = other.end()
    assert "Traceback" not in told


def test_server_that_starts_after_a_revocation_knows_of_it(team: Team) -> None:
    headers, token_id = created(team.store, "erin", "worker")
    with open_desk(team.store) as desk:
        revoke_tokens(desk, [token_id])
    server = Server(team.store, "--rate", "0", variables={"DIBS_SERVE_SECRET": SECRET})
    assert server.ask("GET", "counts", headers=headers).status == 401
    server.end()


def test_list_has_each_token_and_revoking_is_all_or_none(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    (_, one), (_, other) = created(store, "ann", "worker"), created(store, "ann", "viewer")
    with open_desk(store) as desk:
        with pytest.raises(NotFound, match="nonsense"):
            revoke_tokens(desk, [one, "nonsense"])
        assert {(record.id, record.revoked) for record in listed_tokens(desk)} == {(one, False), (other, False)}
        (first,) = revoke_tokens(desk, [one])
        assert revoke_tokens(desk, [one, other])[0] == first, "a second time changes nothing"
        assert all(record.revoked for record in listed_tokens(desk))
        assert listed_tokens(desk)[0].caller.scopes == frozenset({"default"})


def test_no_request_is_judged_by_an_old_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_PATIENCE", 0.05)
    now = [100.0]

    async def judge() -> None:
        revocations = Revocations(lambda: now[0])
        with pytest.raises(StoreUnavailable):
            await revocations.current()
        revocations.update(frozenset({"bad"}), 100.0)
        await revocations.current()
        assert "bad" in revocations
        now[0] += access._OLDEST + 1
        with pytest.raises(StoreUnavailable):
            await revocations.current()

    asyncio.run(judge())


def test_tokens_of_the_previous_secret_work_until_removal(tmp_path: Path) -> None:
    store, new = new_store(tmp_path), "another secret, which signs from now on"
    old_token, _ = created(store, "ann", "worker")
    new_token, _ = created(store, "ann", "worker", new)
    overlapping = Server(store, variables={"DIBS_SERVE_SECRET": new, "DIBS_SERVE_SECRET_PREVIOUS": SECRET})
    for headers in (old_token, new_token):
        assert overlapping.ask("GET", "counts", headers=headers).status == 200
    overlapping.end()
    secret = tmp_path / "secret"
    secret.write_text(f"{new}\n")
    rotated = Server(store, variables={"DIBS_SERVE_SECRET_FILE": str(secret)})
    assert rotated.ask("GET", "counts", headers=old_token).status == 401
    assert rotated.ask("GET", "counts", headers=new_token).status == 200
    rotated.end()
