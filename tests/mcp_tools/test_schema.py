"""The tokens that the tools take, and their schemas, descriptions and page."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from dibs.chat.analyst.embedders import _table, pieces
from dibs.core import errors
from dibs.core.errors import DibsError, InvalidInput
from dibs.serve import problems
from dibs.serve.mcp import models
from dibs.serve.mcp.models import NEXT_STEPS, error_answer, meant_argument
from dibs.serve.mcp.server import _read, listed_tool
from dibs.serve.mcp.tools import TOOLS
from dibs.serve.mcp.transports import ON_STDIO, OVER_HTTP
from docs.pages import ROOT
from docs.test_reference import first_cells

if TYPE_CHECKING:
    from support.mcp import Place

PAGE = (ROOT / "docs" / "reference" / "mcp.md").read_text(encoding="utf-8")
LISTED = [listed_tool(tool).model_dump(by_alias=True, exclude_none=True, mode="json") for tool in TOOLS]


def tokens(text: str) -> int:
    """By the pieces of MiniLM, for which every quote and bracket counts: more than any model of today sees."""
    return len(pieces(text, _table().numbers))


def compact(data: object) -> str:
    return json.dumps(data, separators=(",", ":"))


def test_all_tools_fit_in_3500_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    whole = compact(LISTED)
    shown = compact([{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in LISTED])
    with capsys.disabled():
        for what, text in (("all of it", whole), ("what models are shown", shown), ("instructions", ON_STDIO)):
            print(f"\n  {what}: {tokens(text)} word pieces, {len(text) // 4} as characters / 4", end="")  # noqa: T201
    assert tokens(whole) < 5800
    assert len(whole) / 4 < 3500
    assert tokens(shown) < 3100
    assert max(tokens(ON_STDIO), tokens(OVER_HTTP)) < 400
    assert 7 <= len(TOOLS) <= 15


@pytest.mark.parametrize("tool", LISTED, ids=[tool.name for tool in TOOLS])
def test_tool_schemas_are_valid_and_short(tool: dict[str, object]) -> None:
    Draft202012Validator.check_schema(tool["inputSchema"])
    Draft202012Validator.check_schema(tool["outputSchema"])
    assert "null" not in compact(tool["inputSchema"])
    assert not [part for part in parts_of(tool["inputSchema"]) if isinstance(part.get("title"), str)]


def parts_of(schema: object) -> list[dict[str, object]]:
    if isinstance(schema, list):
        return [part for each in schema for part in parts_of(each)]
    if not isinstance(schema, dict):
        return []
    return [schema, *(part for each in schema.values() for part in parts_of(each))]


def test_only_reading_tools_have_the_read_only_hint() -> None:
    looking = {tool["name"] for tool in LISTED if tool["annotations"].get("readOnlyHint")}
    assert looking == {"what_next", "show", "find", "search"}


def test_descriptions_of_links_name_the_direction() -> None:
    told_of = models.NewTask.model_json_schema()["properties"]
    assert "BEFORE this task" in told_of["needs"]["description"]
    assert "wait until this task is done" in told_of["needed_by"]["description"]


@pytest.mark.parametrize(
    ("model", "where", "meant"),
    [
        (models.Add, ("tasks", 0, "depends_on"), "needs"),
        (models.Add, ("tasks", 0, "blocks"), "needed_by"),
        (models.Add, ("tasks", 0, "assignee"), "assigned_to"),
        (models.Add, ("tasks", 0, "desciption"), "description"),
        (models.Add, ("items",), "tasks"),
        (models.Show, ("id",), "task"),
        (models.Find, ("state",), "status"),
        (models.Find, ("tags",), "labels"),
        (models.Search, ("query",), "text"),
        (models.Comment, ("body",), "text"),
        (models.Finish, ("output",), "result"),
        (models.Block, ("why",), "reason"),
        (models.Claim, ("frobnicate",), None),
    ],
)
def test_unknown_argument_names_the_right_one(
    model: type[models.Arguments], where: tuple[str | int, ...], meant: str | None
) -> None:
    assert meant_argument(model, where) == meant
    if meant is not None and len(where) == 1:
        with pytest.raises(InvalidInput, match=f"Use '{meant}'"):
            _read(model, {str(where[0]): "x"})


def test_every_error_has_a_next_step() -> None:
    kinds = [kind for module in (errors, problems) for _, kind in inspect.getmembers(module, inspect.isclass)]
    codes = {kind.code for kind in kinds if issubclass(kind, DibsError)}
    assert set(NEXT_STEPS) <= codes
    for code in codes:
        error = DibsError("something")
        error.code = code
        assert error_answer(error).error.next


def test_page_lists_all_tools_and_arguments() -> None:
    parts = re.split(r"^### `(\w+)`$", PAGE, flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert list(sections) == [tool.name for tool in TOOLS]
    for tool in TOOLS:
        assert first_cells(sections[tool.name].partition("\n## ")[0]) == {*tool.takes.model_fields}, tool.name
        assert tool.about in " ".join(sections[tool.name].split()), tool.name


def test_page_lists_all_answer_fields() -> None:
    for tool in TOOLS:
        for name in tool.gives.model_fields:
            assert f"`{name}`" in PAGE, name


def test_missing_library_error_names_the_extra(place: Place) -> None:
    code = "import sys\nsys.modules['mcp'] = None\nfrom dibs.cli.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "mcp", "--json", "--store", place.url]
    ran = subprocess.run(command, input="", capture_output=True, text=True, check=False)
    assert ran.returncode == 7
    assert '"MISCONFIGURED"' in ran.stdout
    assert "pip install 'dibs[mcp]'" in ran.stdout


def test_no_other_command_loads_the_library() -> None:
    look = "print([name for name in ('mcp', 'pydantic', 'anyio') if name in sys.modules])"
    code = f"import sys\nfrom dibs.cli.main import main\nmain(['claim', '--help'])\n{look}"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("[]\n")


def test_start_loads_only_the_low_level_server() -> None:
    unused = "('mcp.client', 'mcp.server.mcpserver', 'httpx2', 'dibs.fleet.workers')"
    code = (
        "import gc, sys\nfrom dibs.serve.mcp import quick_imports\n"
        "with quick_imports():\n    import dibs.serve.mcp.transports\n"
        f"print(gc.isenabled(), [name for name in {unused} if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "True []\n"
