"""Webhooks: only signed ones count, and they only name a page to read."""

from __future__ import annotations

import http.client
import json
from typing import TYPE_CHECKING

import pytest

from dibs.sync.notion.schedule import HEADER, Listener, signature

if TYPE_CHECKING:
    from collections.abc import Iterator

TOKEN = "secret_of_the_webhook"  # noqa: S105 - a test's
PAGE = "0fa34266-ccfd-4a9b-ba26-d85135e8579a"
EVENT = json.dumps({"type": "page.properties_updated", "entity": {"id": PAGE, "type": "page"}}).encode()


class Heard:
    def __init__(self, token: str) -> None:
        self.pages: list[str] = []
        self.offered: list[str] = []
        self.listener = Listener(0, token, self.pages.append, self.offered.append)

    def post(self, body: bytes, signed: str | None = None, **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.listener.port, timeout=120)
        with_signature = {HEADER: signed} if signed is not None else {}
        connection.request("POST", "/", body, {**with_signature, **headers})
        status = connection.getresponse().status
        connection.close()
        return status


@pytest.fixture
def heard() -> Iterator[Heard]:
    made = Heard(TOKEN)
    with made.listener:
        yield made


def test_signed_webhook_names_its_page(heard: Heard) -> None:
    assert heard.post(EVENT, signature(EVENT, TOKEN)) == 200
    assert heard.pages == [PAGE.replace("-", "")]


@pytest.mark.parametrize(
    "signed", [None, "", "sha256=", signature(EVENT, "another"), signature(EVENT + b" ", TOKEN), "ü"]
)
def test_unsigned_webhook_is_rejected(heard: Heard, signed: str | None) -> None:
    assert heard.post(EVENT, signed) == 401
    assert heard.pages == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b'{"entity": 1}', b'{"entity": {"type": "page", "id": "../x"}}', b"[" * 100_000]
)
def test_nonsense_from_notion_rings_for_nothing(heard: Heard, body: bytes) -> None:
    assert heard.post(body, signature(body, TOKEN)) == 200
    assert heard.pages == []


def test_offered_token_is_ignored_once_one_is_set(heard: Heard) -> None:
    assert heard.post(b'{"verification_token": "evil"}') == 401
    assert heard.offered == []
    assert heard.post(EVENT, signature(EVENT, TOKEN), **{"Content-Length": "99999999"}) == 413


def test_first_token_is_shown_without_a_poll() -> None:
    heard = Heard("")
    with heard.listener:
        assert heard.post(b'{"verification_token": "secret_x"}') == 200
        assert heard.post(EVENT, signature(EVENT, "")) == 401
    assert (heard.offered, heard.pages) == (["secret_x"], [])
