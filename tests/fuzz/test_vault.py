"""Files that people keep by hand: the vault's pages, AGENTS.md, and other programs' settings."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from dibs.onboarding import json_text
from dibs.onboarding.block import MARKDOWN, TOML, Unfit, with_block, without_block
from dibs.stores.vault import page
from dibs.stores.vault.page import FrontMatter, Page
from dibs.stores.vault.places import IN_PROGRESS, place_from
from dibs.stores.vault.reading import read
from fuzz.outside import JSON, answered, bounded, survived, texts

if TYPE_CHECKING:
    from dibs.core.task import Json
    from dibs.onboarding.block import Style

PAGES = texts(
    "---\ntitle: Sweep\npriority: 1\ndeps: [a]\nrequires:\n- gpu\nnot_before: 2026-01-01T00:00:00Z\n---\n\n# Sweep\n",
    "---\nstatus: active\nagent: ann\ntoken: abc\nattempt: 2\nexpires_at: 2026-01-01T00:20:00Z\nextra: {a: 1}\n---\n",
    "# Only a heading\r\n\r\nand text\r\n",
)
_STAT = os.stat(__file__)


def _read(text: str) -> Page | None:
    """An unreadable page is a ValueError, which the index keeps and reports."""
    try:
        page = Page(text)
        for place in (place_from("Needs_Action/a.md"), place_from(f"{IN_PROGRESS}/ann/a.md")):
            read(page, place, _STAT)
    except ValueError:
        return None
    return page


@bounded
@given(PAGES)
def test_any_vault_page_survives_a_round_trip(text: str) -> None:
    page = answered(_read, text)
    assert page is None or page.text() == text


def _with_key(value: Json) -> FrontMatter:
    front = FrontMatter("title: x\n")
    front.put("key", value)
    return front


@bounded
@given(JSON)
def test_a_value_of_front_matter_comes_back_as_it_was(value: Json) -> None:
    front = answered(_with_key, value)
    if front is not None:
        assert json.dumps(FrontMatter(front.text()).get("key")) == json.dumps(value)


@bounded
@given(texts("a: 1", "a: [1, 'b']", "a:\n  - x\n", "a: |\n  text\n"))
def test_a_chunk_of_front_matter_is_read_or_refused(text: str) -> None:
    answered(page.decoded, text)


BLOCKS = texts("# Mine\n\ntext\n", with_block("# Mine\n", "ours\n", MARKDOWN), with_block(None, "ours\n", TOML))


@bounded
@given(BLOCKS)
@pytest.mark.parametrize("style", [MARKDOWN, TOML], ids=["Markdown", "TOML"])
def test_block_round_trips_in_any_text(style: Style, text: str) -> None:
    try:
        without = without_block(text, style, force=True)
        given = with_block(text, "ours\n", style, force=True)
    except Unfit:
        return
    assert with_block(given, "ours\n", style) == given
    assert without_block(given, style, force=True) == (text if without == text else without)


SETTINGS = texts('{"mcpServers": {"x": {"command": "y"}}, // mine\n "a": [1, 2,]}', "{}", "[]")


@bounded
@given(SETTINGS)
def test_settings_file_is_refused_or_kept(text: str) -> None:
    root = answered(lambda said: json_text.parse(said, "settings.json"), text)
    if root is not None:
        after = answered(lambda said: json_text.put(said, "settings.json", ("ours", "x"), {"n": 1}), text)
        if after is not None:
            assert json_text.value_at(json_text.parse(after, "settings.json"), ("ours", "x")) == {"n": 1}


@pytest.mark.parametrize(
    "bomb", ["---\n" * 50_000, "---\na: " + "[" * 50_000 + "\n---\n", "```\n" * 50_000, "[" * 100_000]
)
def test_expensive_settings_are_read_quickly(bomb: str) -> None:
    survived(_read, bomb)
    survived(lambda said: json_text.parse(said, "settings.json"), bomb)
    survived(_blocked, bomb)


def _blocked(text: str) -> object:
    try:
        return with_block(text, "ours\n", MARKDOWN)
    except Unfit:
        return None
