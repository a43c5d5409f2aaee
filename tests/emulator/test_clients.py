"""One scripted day with each of the real clients, on every version of the API; the page in the docs lists it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.notion_clients import CLIENTS, VERSIONS, Client, day_of, misfits

if TYPE_CHECKING:
    from support.notion_clients import Called

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "notion-emulator-clients.md"
DAYS = [
    pytest.param(client, version, id=f"{client.name}, {version}") for client in CLIENTS for version in client.versions
]

ERRORS = {
    "pages.create, unknown parent": "404 object_not_found",
    "databases.create, unknown parent": "404 object_not_found",
    "pages.create, null parent": "400 validation_error",
    "databases.create, null parent": "400 validation_error",
    "pages.create, with a block that is not emulated": "400 ",
    "pages.retrieve, unknown": "404 object_not_found",
}

_days: dict[tuple[str, str], list[Called]] = {}


def day(client: Client, version: str) -> list[Called]:
    if (client.name, version) not in _days:
        _days[client.name, version] = day_of(client, version)
    return _days[client.name, version]


@pytest.mark.parametrize(("client", "version"), DAYS)
def test_scripted_day_goes_as_at_notion(client: Client, version: str) -> None:
    calls = {called.name: called for called in day(client, version)}
    for called in calls.values():
        assert called.result.startswith(ERRORS.get(called.name, "ok")), called
    page = calls["pages.retrieve"].answer
    assert page["properties"]["Points"]["number"] == 3
    found = calls["query, by filter and order"].answer
    assert [one["properties"]["Points"]["number"] for one in found if isinstance(found, list)] in ([5], [])
    if isinstance(found, dict):
        assert [one["id"] for one in found["results"]] == [page["id"]]
    if "blocks.children.list" in calls:
        before, after = (calls[f"blocks.children.list{when}"].answer["results"] for when in ("", ", after a deletion"))
        assert len(before) == len(after) + 1
        assert page["icon"] == {"type": "emoji", "emoji": "🧹"}
        assert calls["pages.create, below a page"].answer["parent"]["type"] == "page_id"
    gone = calls["query, without the trash"].answer
    rest = gone["results"] if isinstance(gone, dict) else gone or []
    assert page["id"] not in [one["id"] for one in rest]


def typed(client: Client, version: str) -> list[Called]:
    """The calls of a day with the official SDK's names for the types of their answers."""
    names = {called.name: called.type for called in day(CLIENTS[0 if version == VERSIONS[0] else 1], version)}
    return [called._replace(type=names[called.name] if not called.error else "") for called in day(client, version)]


@pytest.mark.parametrize(("client", "version"), DAYS[:-1])  # notion-cli prints answers in another form
def test_every_answer_has_the_official_type(client: Client, version: str, tmp_path: Path) -> None:
    calls = typed(client, version)
    assert sum(bool(called.type) for called in calls) == sum(not called.error for called in calls)
    assert misfits(2 if version == VERSIONS[0] else 5, calls, tmp_path) == ""


@pytest.mark.parametrize("version", VERSIONS[:2])
def test_field_of_a_wrong_type_is_noticed(version: str, tmp_path: Path) -> None:
    number = 2 if version == VERSIONS[0] else 5
    wrong = [
        called._replace(answer={**called.answer, "object": "paper"})
        for called in typed(CLIENTS[1], version)
        if called.type
    ]
    complaints = re.findall(r"^day\.ts\((\d+),", misfits(number, wrong, tmp_path), re.MULTILINE)
    assert len(set(complaints)) == len(wrong)


def test_page_lists_every_call_with_its_result() -> None:
    """`python -m support.notion_day` writes it."""
    from support.notion_day.__main__ import table

    page = PAGE.read_text(encoding="utf-8")
    for row in table({(client.name, version): day(client, version) for client, version in _all_but_cli()}):
        assert row in page, row


def _all_but_cli() -> list[tuple[Client, str]]:
    return [(client, version) for client in CLIENTS[:-1] for version in client.versions]
