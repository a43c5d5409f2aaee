"""The OpenAPI description is true: allowed requests are answered as described, others are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dibs.serve.app import ROUTES, openapi
from dibs.serve.problems import Refusal
from docs.pages import ROOT
from support.http import PATIENCE

if TYPE_CHECKING:
    from support.http import Server

_CHECKS = [
    schemathesis.checks.not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
_EXAMPLES = 4
_QUICK = settings(
    max_examples=_EXAMPLES,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
    database=None,
)


@pytest.mark.timeout(1800)  # hundreds of requests
def test_allowed_requests_are_answered_as_described(shared: Server) -> None:
    schema = schemathesis.openapi.from_dict(dict(openapi()))
    for operation in schema.get_all_operations():
        assert isinstance(operation, Ok)
        case_of = operation.ok().as_strategy()

        @_QUICK
        @given(case=case_of)
        def ask(case: Any) -> None:
            case.call_and_validate(base_url=f"{shared.url}/api/v1", checks=_CHECKS, timeout=PATIENCE)

        ask()


@settings(_QUICK, max_examples=60)
@given(
    route=st.sampled_from(ROUTES),
    body=st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    ),
    query=st.dictionaries(st.text(min_size=1), st.text(), max_size=2),
)
def test_no_request_causes_a_server_error(shared: Server, route: Any, body: object, query: dict[str, str]) -> None:
    from urllib.parse import urlencode

    path = route.path.strip("/").replace("{id}", "x")
    asked = f"{path}?{urlencode(query, errors='surrogatepass')}"
    answer = shared.ask(route.method, asked, None if route.method == "GET" else body)
    assert answer.status < 500, answer


def test_reference_lists_every_request_and_code() -> None:
    page = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")
    moves = {
        route.path
        for route in ROUTES
        if route.path.startswith("/tasks/{id}/") and not route.path.endswith(("/comments", "/output", "/diff"))
    }
    for route in ROUTES:
        told = "POST /tasks/{id}/{verb}" if route.path in moves else f"{route.method} {route.path}"
        assert f"`{told}`" in page, told
    codes = {kind.code: kind.status for kind in _below(Refusal)}
    for code, status in codes.items():
        assert f"| `{code}` | {status} |" in page, code


def _below(kind: type[Refusal]) -> list[type[Refusal]]:
    return [each for below in kind.__subclasses__() for each in (below, *_below(below))]


@pytest.mark.parametrize("name", ["/tasks", "/claims", "/events"])
def test_description_has_the_main_routes(name: str) -> None:
    assert name in dict(openapi())["paths"]  # type: ignore[operator]
