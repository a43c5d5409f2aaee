"""Requests to the server: bodies, parameters, positions in a stream, and arguments of tools."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from dibs.core.errors import DibsError
from dibs.serve import requests
from dibs.serve.access import Caller, Right, make_token, verified
from dibs.serve.app import ROUTES
from dibs.serve.mcp.tools import TOOLS
from dibs.serve.requests import read_fields, read_query
from fuzz.outside import JSON, answered, bounded, disturbed, survived, texts

if TYPE_CHECKING:
    from dibs.serve.mcp.tools import Tool

TAKING = [route for route in ROUTES if route.body]
ASKING = [route for route in ROUTES if route.query]
BODIES = texts('{"title": "A", "deps": ["b"], "priority": 1}', "[1, 2]", "null", '{"a": {"b": [true, 1e3]}}')
VALUES: st.SearchStrategy[Any] = st.sampled_from(
    ["1", "20m", "2026-01-31T12:00:00Z", "ready", "ann", True, 3, 1.5, ["a"], {"a": 1}, None, [{}]]
)


@bounded
@given(BODIES.map(lambda said: said.encode(errors="surrogatepass")) | st.binary(max_size=80))
def test_a_body_is_read_or_refused(body: bytes) -> None:
    said = answered(requests.parse_json, body)
    assert said is None or json.loads(json.dumps(said, allow_nan=False)) == said


@bounded
@given(st.data())
def test_request_body_is_accepted_or_refused(data: st.DataObject) -> None:
    route = data.draw(st.sampled_from(TAKING), label="route")
    said = data.draw(disturbed({field.name: data.draw(VALUES | JSON) for field in route.body}) | JSON)
    answered(lambda given: read_fields(route.body, given), said)


@bounded
@given(st.data())
def test_request_path_is_accepted_or_refused(data: st.DataObject) -> None:
    route = data.draw(st.sampled_from(ASKING), label="route")
    names = st.sampled_from([field.name for field in route.query]) | st.text(max_size=8)
    pairs = data.draw(st.lists(st.tuples(names, texts("20m", "7", "true", "ready", "2026-01-31")), max_size=4))
    answered(lambda given: read_query(route.query, given), pairs)


@bounded
@given(st.data())
def test_the_arguments_of_a_tool_are_taken_or_refused(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(TOOLS), label="tool")
    said = data.draw(disturbed({name: data.draw(VALUES | JSON) for name in tool.takes.model_fields}) | JSON)
    answered(lambda given: _validated(tool, given), said)


def _validated(tool: Tool, given: Any) -> object:
    try:
        return tool.takes.model_validate(given)
    except ValidationError as error:
        raise DibsError(str(error)[:200]) from None


SECRET = b"k" * 32
TOKEN = make_token(
    Caller("ann", rights=frozenset({Right.READ})), SECRET, datetime(2026, 1, 1, tzinfo=UTC), timedelta(days=1)
)


@bounded
@given(texts(TOKEN, TOKEN.rpartition(".")[0] + ".", "a.b.c"))
def test_expired_or_unsigned_token_is_refused(token: str) -> None:
    assert answered(lambda said: verified(said, SECRET), token) is None


@bounded
@given(
    disturbed(
        {"iss": "dibs", "aud": "dibs", "iat": 1, "nbf": 1, "exp": 2**33, "jti": "t", "can": ["read"], "agent": "ann"}
    )
)
def test_signed_token_claims_are_accepted_or_refused(claims: Any) -> None:
    payload = json.dumps(claims).encode()
    signed = jwt.PyJWS().encode(payload, SECRET, "HS256")
    caller = answered(lambda said: verified(said, SECRET)[0], signed)
    assert caller is None or caller.rights <= frozenset(Right)


@pytest.mark.parametrize(
    "bomb", [b"[" * 1_000_000, b'{"a":' * 200_000, b"9" * 2_000_000, b'"' + b"\\u0041" * 300_000 + b'"']
)
def test_a_body_that_is_made_to_cost_much_is_refused_cheaply(bomb: bytes) -> None:
    survived(requests.parse_json, bomb)
