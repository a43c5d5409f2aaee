"""The generated page names an existing test for each statement of the document."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING

import pytest

from dibs.chat.opening import chosen_reader, chosen_session
from dibs.core.errors import Misconfigured, StoreUnavailable
from dibs.protocols.kurultai.errors import NotionSyncError, TaskDependencyError
from docs.pages import ROOT
from kurultai_document import SECTIONS, page
from support.kurultai import ANN

if TYPE_CHECKING:
    from dibs.protocols.kurultai.memory import OperationalMemory

STATEMENTS = [one for those in SECTIONS.values() for one in those]


def test_page_matches_the_table() -> None:
    assert (ROOT / "docs/reference/kurultai-document.md").read_text(encoding="utf-8") == page()


@cache
def names_in(path: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("test", sorted({one.test for one in STATEMENTS}))
def test_every_statement_names_an_existing_test(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in names_in(path)


def test_changed_or_resolved_statement_has_a_reason() -> None:
    assert [one.says for one in STATEMENTS if (one.mark == "true") is bool(one.why)] == []


def test_chat_task_has_a_short_id(local: OperationalMemory) -> None:
    desk = local._desk
    chosen_session(desk, ANN).say("Write the annual report")
    chosen_reader(desk).read(ANN, now=True)
    (task,) = desk.at(ANN).graph().tasks
    assert len(task.id) == 6


def test_failed_sync_raises_notion_sync_error(local: OperationalMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the code and the exit status of its cause."""
    local.configure(ANN, {"notion_integration_enabled": True, "notion_database_id": "1" * 32})
    monkeypatch.setenv("NOTION_API_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("NOTION_TOKEN", "ntn_none")
    with pytest.raises(NotionSyncError) as caught:
        local.sync_from_notion(ANN)
    assert isinstance(caught.value, TaskDependencyError)
    cause = caught.value.__cause__
    assert isinstance(cause, StoreUnavailable | Misconfigured)
    assert (caught.value.code, caught.value.exit_status) == (cause.code, cause.exit_status)
