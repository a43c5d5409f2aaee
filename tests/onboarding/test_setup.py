"""A set-up over files of any content: all of it is there, or nothing is; taken back, every byte is as it was."""

from __future__ import annotations

import json
import os
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dibs.core.errors import DibsError
from dibs.onboarding.products import PRODUCTS, File
from dibs.onboarding.setup import Project, carry_out, planned, states, undoing

_MARKDOWN = st.lists(
    st.sampled_from(["# Rules\n", "Tabs.\r\n", "```\n", "~~~\n", "no end", "<!-- dibs:end -->\n", "é\n", "\n"]),
    max_size=6,
).map(lambda pieces: "".join(pieces).encode())
_VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=4), lambda one: st.lists(one, max_size=2), max_leaves=4
)
_OBJECTS = st.dictionaries(st.sampled_from(["x", "y", "SessionStart"]), _VALUES, max_size=2)
_JSON = st.dictionaries(
    st.sampled_from(["mcpServers", "servers", "hooks", "z"]), _OBJECTS | _VALUES, max_size=3
).flatmap(lambda told: st.sampled_from([None, 2, "\t"]).map(lambda indent: json.dumps(told, indent=indent).encode()))
_TOML = st.lists(
    st.sampled_from(
        ['model = "x"  # mine\n', "# a remark\n", "[mcp_servers.y]\n", 'mcp_servers = "z"\n', "[a]\r\n", "b 2\n"]
    ),
    max_size=3,
).map(lambda lines: "".join(lines).encode())
_KINDS = {"markdown": _MARKDOWN, "json": _JSON, "toml": _TOML}


def _contents(file: File) -> st.SearchStrategy[bytes | None]:
    return st.none() | st.binary(max_size=6) | _KINDS[file.kind]


def _tree(folder: str) -> dict[str, bytes]:
    found = (path for path in Path(folder).rglob("*") if path.is_file() and ".dibs" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def _put(folder: str, contents: dict[str, bytes | None]) -> None:
    for name, raw in contents.items():
        if raw is not None:
            path = Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(raw)


@pytest.mark.parametrize("product", PRODUCTS)
@settings(max_examples=25)
@given(data=st.data())
def test_setup_is_atomic_and_reversible(product: str, data: st.DataObject) -> None:
    files = PRODUCTS[product].files
    with TemporaryDirectory() as folder:
        _put(folder, {file.name: data.draw(_contents(file), label=file.name) for file in files})
        project, before = Project(os.path.realpath(folder), own_store=True), _tree(folder)
        try:
            carry_out(planned(product, project), project)
        except DibsError:
            assert _tree(folder) == before
            return
        after = _tree(folder)
        assert set(after) == {*before, *(file.name for file in files)}
        assert not any(wrong for _, wrong in states(product, project))
        assert planned(product, project).writes == (), "a second time changes nothing"
        for name in (file.name for file in files if file.kind == "toml"):
            assert tomllib.loads(after[name].decode())["mcp_servers"]["dibs"]["command"] == "dibs"
        carry_out(undoing(product, project), project)
        assert _tree(folder) == before


# What the schemas that the makers publish allow where we write, and what they ask for; seen in November 2026.
_GEMINI_SERVER = frozenset({"command", "args", "env", "cwd", "timeout", "trust", "description", "type"})
_CODEX_SERVER = frozenset({"command", "args", "env", "env_vars", "cwd", "enabled", "required", "startup_timeout_sec"})
_CLAUDE_MATCHER, _CLAUDE_HOOK = frozenset({"matcher", "hooks"}), frozenset({"type", "command", "timeout", "async"})


def _written(product: str, name: str) -> str:
    with TemporaryDirectory() as folder:
        project = Project(os.path.realpath(folder), own_store=True)
        carry_out(planned(product, project), project)
        return Path(folder, name).read_text()


def test_gemini_settings_match_their_schema() -> None:
    server = json.loads(_written("gemini", ".gemini/settings.json"))["mcpServers"]["dibs"]
    assert server.keys() <= _GEMINI_SERVER
    assert (server["command"], server["args"]) == ("dibs", ["mcp"])


def test_codex_settings_match_their_schema_and_pass_variables() -> None:
    server = tomllib.loads(_written("codex", ".codex/config.toml"))["mcp_servers"]["dibs"]
    assert server.keys() <= _CODEX_SERVER
    assert {"DIBS_STORE", "PGPASSWORD", "NEO4J_PASSWORD", "NOTION_TOKEN"} <= {*server["env_vars"]}


def test_claude_settings_match_their_schema() -> None:
    (matcher,) = json.loads(_written("claude", ".claude/settings.json"))["hooks"]["SessionStart"]
    (hook,) = matcher["hooks"]
    assert matcher.keys() <= _CLAUDE_MATCHER
    assert hook.keys() <= _CLAUDE_HOOK
    assert (hook["type"], hook["command"]) == ("command", "dibs prime")
