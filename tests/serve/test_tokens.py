"""Tokens: whoever has none, a bad one, or one for something else is refused, and learns nothing from it."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import jwt
import pytest

from dibs.core.sender import hash_sender
from dibs.serve.access import Caller, Right, make_token
from dibs.serve.api.routes import BASE, ROUTES
from support.http import PATIENCE, Server, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "a secret that is long enough to sign with"  # noqa: S105
NOW = datetime(2026, 1, 1, tzinfo=UTC)
_CENTURY = NOW.replace(year=2100)
ANN, BOB = hash_sender("ann", "x" * 16), hash_sender("bob", "x" * 16)


def token(caller: Caller, **claims: Any) -> str:
    """Good for as long as these tests are around; `claims` go in instead of what would be there."""
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
    "without a name": token(_CALLER, agent=None),
    "with a right that there is not": token(_CALLER, can=["everything"]),
    "an agent's and a sender's at once": token(_CALLER, sender=ANN),
    "a sender's without a hash": token(_CALLER, agent=None, sender="ann"),
}


@pytest.mark.parametrize("shown", BAD.values(), ids=BAD.keys())
def test_whatever_is_wrong_with_a_token_the_answer_is_the_same(locked: Server, shown: str) -> None:
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


def test_only_the_boards_own_files_and_whether_it_lives_are_open(locked: Server) -> None:
    assert locked.ok("GET", "/health") == {"status": "ok"}
    assert locked.ask("GET", "/").status == 200
    assert locked.ask("GET", "/../../secrets").status == 404


def test_a_right_that_a_token_does_not_have_is_refused(locked: Server) -> None:
    reads, claims, plans = (bearing(agent("ann", right)) for right in (Right.READ, Right.CLAIM, Right.PLAN))
    draft = {"tasks": [{"title": "One", "id": "rights"}]}
    for wrong in (reads, claims):
        assert locked.ask("POST", "tasks", draft, wrong).status == 403
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


def test_a_token_for_one_scope_is_good_in_no_other(locked: Server) -> None:
    admin = bearing(agent("boss", Right.ADMIN))
    locked.ok("POST", "tasks?scope=theirs", {"tasks": [{"title": "Secret", "id": "s"}]}, admin)
    mine = bearing(agent("ann", Right.READ, scopes=frozenset({"mine"})))
    for path in ("tasks?scope=theirs", "tasks/s?scope=theirs", "events?scope=theirs", "graph?scope=theirs", "tasks"):
        assert locked.ask("GET", path, headers=mine).status == 403, path
    assert locked.ask("GET", "tasks?scope=mine", headers=mine).data == {"tasks": [], "next": None}
    assert locked.ok("GET", "scopes?scope=mine", headers=mine)["scopes"] == ["mine"]


def test_a_sender_speaks_and_hears_for_themselves_whatever_they_say_they_are(locked: Server) -> None:
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
