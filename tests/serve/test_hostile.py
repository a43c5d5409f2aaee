"""Hostile requests are refused, cost little, and delay no other client."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

import pytest

from support.http import PATIENCE

if TYPE_CHECKING:
    from support.http import Server

DEEP = b'{"tasks":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
TYPE = "content-type: application/json\r\n"


def raw(server: Server, sent: bytes) -> bytes:
    """The answer to these bytes, until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as line:
        line.sendall(sent)
        got = b""
        while part := line.recv(65536):
            got += part
        return got


def statuses(got: bytes) -> list[int]:
    return [int(part[:3]) for part in got.split(b"HTTP/1.1 ")[1:]]


BODIES = {
    "no JSON": b"{",
    "nothing but text": b"hello",
    "a list": b"[]",
    "not UTF-8": b'{"tasks": [{"title": "\xff\xfe"}]}',
    "another encoding": '{"tasks": []}'.encode("utf-16"),
    "half a character": b'{"tasks": [{"title": "\\ud800"}]}',
    "a NUL byte": b'{"tasks": [{"title": "a\\u0000b"}]}',
    "endless nesting": DEEP,
    "a value nested too deeply": b'{"tasks": [{"title": "t", "extra": ' + b'{"a":' * 60 + b"1" + b"}" * 60 + b"}]}",
    "no number": b'{"tasks": [{"title": "t", "priority": NaN}]}',
    "a number too large": b'{"tasks": [{"title": "t", "priority": 1e999}]}',
    "a number too long": b'{"tasks": [{"title": "t", "priority": ' + b"9" * 5000 + b"}]}",
    "a field that there is not": b'{"tasks": [{"title": "t", "status": "ready", "lease": {}}]}',
    "the wrong kind of value": b'{"tasks": [{"title": ["t"]}]}',
    "a title of many lines": b'{"tasks": [{"title": "a\\nb"}]}',
    "too long a title": json.dumps({"tasks": [{"title": "x" * 501}]}).encode(),
    "a status that nobody is born with": b'{"tasks": [{"title": "t", "status": "done"}]}',
    "too many": json.dumps({"tasks": [{"title": "t"}] * 1001}).encode(),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_invalid_body_is_refused_and_nothing_stored(shared: Server, scope: str, body: bytes) -> None:
    answer = shared.ask("POST", "tasks?scope=hostile", body)
    assert answer.status == 400, answer
    assert answer.data["code"] == "INVALID_INPUT"
    assert len(answer.body) < 2000, "it is not sent back"
    assert shared.ok("GET", "tasks?scope=hostile")["tasks"] == [], scope


TEXTS = {
    "SQL": "'; DROP TABLE task; --",
    "more SQL": "x' OR '1'='1",
    "Cypher": "'}) DETACH DELETE (n) //",
    "HTML": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "Markdown": "[click](javascript:alert(1)) ![](http://x/y.png)",
    "a template": "{{7*7}}${7*7}%s%n",
    "a path": "../../../etc/passwd",
    "a header": "a\\r\\nSet-Cookie: x=y",
    "a terminal": "red",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_hostile_text_stays_text_everywhere(shared: Server, text: str) -> None:
    draft = {"title": text, "description": text, "category": text, "extra": {text: text}}
    (task,) = shared.ok("POST", "tasks?scope=texts", {"tasks": [draft]})["tasks"]
    from urllib.parse import quote

    assert task["title"] == text
    found = shared.ok("GET", f"tasks?scope=texts&text={quote(text)}&category={quote(text)}")["tasks"]
    assert [one["id"] for one in found] == [task["id"]]
    elsewhere = shared.ask("GET", f"tasks?scope={quote(text)}")
    assert (elsewhere.status, elsewhere.data.get("tasks", [])) == (400 if text.startswith(".") else 200, [])
    answer = shared.ask("GET", f"tasks/{quote(text, safe='')}?scope=texts")
    assert answer.status in {400, 404}
    assert answer.headers["content-type"] == "application/problem+json", "a browser runs nothing of it"


@pytest.mark.parametrize(
    "path",
    [
        "/../../../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/static/%00",
        "//etc/passwd",
        "/api/v1/tasks/%ff",
        "/api/v1/tasks/../../metrics",
        "/api/v1/tasks/a%00b",
        "/api/v1//tasks",
        "/api/v1/tasks/",
        "/api/v1",
        "/index.html/../../x",
        "/" + "a" * 9000,
    ],
)
def test_hostile_paths_are_refused(shared: Server, path: str) -> None:
    got = raw(shared, f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    (status,) = statuses(got)
    assert 400 <= status < 500, got
    assert b"root:" not in got


CLAIM = f"POST /api/v1/claims HTTP/1.1\r\nhost: localhost\r\n{TYPE}"
SMUGGLED = {
    "two lengths": f"{CLAIM}content-length: 2\r\ncontent-length: 60\r\n\r\n{{}}",
    "a length and chunks": f"{CLAIM}content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n",
    "an encoding that there is not": f"{CLAIM}transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "a length below nothing": f"{CLAIM}content-length: -1\r\n\r\n",
    "a length that is no number": f"{CLAIM}content-length: 1e3\r\n\r\n",
    "a chunk that is no chunk": f"{CLAIM}transfer-encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n",
    "no host": f"POST /api/v1/claims HTTP/1.1\r\n{TYPE}content-length: 2\r\n\r\n{{}}",
    "two hosts": f"{CLAIM}host: evil.example\r\ncontent-length: 2\r\n\r\n{{}}",
    "a space before the colon": "GET /health HTTP/1.1\r\nhost : localhost\r\n\r\n",
    "a folded header": "GET /health HTTP/1.1\r\nhost: localhost\r\nx: a\r\n b\r\n\x00: c\r\n\r\n",
    "a bare line break": "GET /health HTTP/1.1\r\nhost: local\nhost\r\n\r\n",
    "another protocol": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "no protocol": "hello\r\n\r\n",
    "endless headers": "GET /health HTTP/1.1\r\nhost: localhost\r\n" + "x-y: z\r\n" * 20_000 + "\r\n",
    "one endless header": "GET /health HTTP/1.1\r\nhost: localhost\r\nx: " + "y" * 200_000 + "\r\n\r\n",
}


@pytest.mark.parametrize("sent", SMUGGLED.values(), ids=SMUGGLED.keys())
def test_ambiguous_request_is_refused(shared: Server, sent: str) -> None:
    try:
        found = statuses(raw(shared, sent.encode("latin-1")))
    except ConnectionError:
        found = [400]  # cut off while it was still sending
    assert len(found) == 1, "one request, one answer, and then nobody listens"
    assert 400 <= found[0] < 500


def test_a_body_that_is_too_large_is_refused_before_it_is_read(shared: Server) -> None:
    head = f"{CLAIM}content-length: {1 << 30}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", shared.port), timeout=PATIENCE) as line:
        line.sendall(head)
        assert statuses(line.recv(65536)) == [413]
    body = b"{" + b" " * (9 << 20) + b"}"
    shared.fails(413, "TOO_LARGE", "POST", "claims", body)


def test_another_type_than_json_is_refused(shared: Server) -> None:
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        shared.fails(415, "WRONG_TYPE", "POST", "claims", {}, **{"Content-Type": kind})


def test_foreign_origin_and_host_are_refused(shared: Server) -> None:
    shared.fails(421, "WRONG_HOST", "GET", "tasks", Host="evil.example")
    shared.fails(421, "WRONG_HOST", "GET", "tasks", Host="127.0.0.1.evil.example:80")
    shared.fails(403, "FORBIDDEN", "POST", "claims", {}, Origin="http://evil.example")
    shared.fails(403, "FORBIDDEN", "POST", "claims", {}, Origin="null")
    shared.fails(403, "FORBIDDEN", "GET", "tasks", **{"Sec-Fetch-Site": "cross-site"})
    own = {"Origin": f"http://127.0.0.1:{shared.port}", "Sec-Fetch-Site": "same-origin"}
    assert shared.ask("POST", "claims?scope=nobody", {"agent": "x"}, own).status == 200


def test_every_answer_has_security_headers(shared: Server) -> None:
    for path in ("/", "tasks", "nothing", "/metrics"):
        headers = shared.ask("GET", path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
