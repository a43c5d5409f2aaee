"""JSON is changed as text: what was put in is what comes out again, and all other bytes stay."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dibs.core.errors import InvalidInput
from dibs.onboarding.json_text import hash_of, insert, parse, put, remove, undo
from dibs.onboarding.products import Entry

if TYPE_CHECKING:
    from dibs.core.task import Json

SERVER = Entry(("mcpServers", "dibs"), {"command": "dibs", "args": ["mcp"]})
HOOK = Entry(("hooks", "SessionStart"), {"hooks": [{"type": "command", "command": "dibs prime"}]}, mark="dibs prime")
ENTRIES = (SERVER, HOOK)

_KEYS = st.sampled_from(["mcpServers", "hooks", "SessionStart", "a", "é", 'quo"te', ""])
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=8,
)
_SERVERS = st.dictionaries(st.sampled_from(["github", "files"]), _VALUES, max_size=2)
_HOOKS = st.fixed_dictionaries({}, optional={"SessionStart": st.lists(_VALUES, max_size=2), "Stop": _VALUES})
_DOCUMENTS = st.fixed_dictionaries({}, optional={"a": _VALUES, "mcpServers": _SERVERS, "hooks": _HOOKS, "z": _VALUES})
_INDENTS = st.sampled_from([None, 0, 1, 2, 4, "\t"])
_ENDS = st.sampled_from(["", "\n", "\r\n", "  \n\n", "// the end\n", "/* the\nend */"])


@st.composite
def _texts(draw: st.DrawFn) -> tuple[str, object]:
    document = draw(_DOCUMENTS)
    text = json.dumps(document, indent=draw(_INDENTS), ensure_ascii=draw(st.booleans()))
    text = draw(st.sampled_from(["", "\ufeff", " \n"])) + text + draw(_ENDS)
    return (text.replace("\n", "\r\n") if draw(st.booleans()) else text), document


def _with_ours(document: dict[str, object]) -> dict[str, object]:
    wanted: dict[str, Any] = json.loads(json.dumps(document))
    wanted.setdefault("mcpServers", {})["dibs"] = SERVER.value
    wanted.setdefault("hooks", {}).setdefault("SessionStart", []).insert(0, HOOK.value)
    return wanted


@given(made=_texts())
def test_json_insert_changes_nothing_else(made: tuple[str, dict[str, object]]) -> None:
    text, document = made
    after, inserted = insert(text, "f.json", ENTRIES)
    assert parse(after, "f.json").value == _with_ours(document)
    assert insert(after, "f.json", ENTRIES)[0] == after, "a second time changes nothing"
    assert undo(after, inserted) == text


@given(made=_texts(), added=_VALUES, at=st.sampled_from([("x",), ("mcpServers", "x"), ("hooks", "x")]))
def test_later_json_entries_are_kept(made: tuple[str, dict[str, object]], added: Json, at: tuple[str, ...]) -> None:
    text, document = made
    after, inserted = insert(text, "f.json", ENTRIES)
    theirs = put(after, "f.json", at, added)
    assert hash_of(theirs) != inserted.sha256
    left = remove(theirs, "f.json", ENTRIES, inserted)
    wanted = json.loads(json.dumps(document))
    inner = wanted
    for key in at[:-1]:
        inner = inner.setdefault(key, {})
    inner[at[-1]] = added
    assert left is not None
    assert parse(left, "f.json").value == wanted


def test_comments_and_the_order_of_things_stay() -> None:
    members = '"permissions": {"allow": ["Bash(make test)"]}, // all', '"model": "opus" /* for now */'
    text = "{\n    // who may do what\n    " + "\n    ".join(members) + "\n}\n"
    after, inserted = insert(text, "settings.json", (HOOK,))
    assert after.startswith('{\n    "hooks": {\n        "SessionStart": [\n')
    assert after.endswith(text[1:])
    assert undo(after, inserted) == text
    assert remove(after + "\n", "settings.json", (HOOK,), inserted) == text + "\n"


def test_one_line_json_stays_on_one_line() -> None:
    assert put('{"a": 1}', "f", ("b",), 2) == '{"b": 2, "a": 1}'
    assert put('{ "a": 1 }', "f", ("b",), 2) == '{ "b": 2, "a": 1 }'


@pytest.mark.parametrize("gone", ["first", "middle", "last", "only"])
def test_json_member_is_removed_at_any_position(gone: str) -> None:
    ours = json.dumps(SERVER.value)
    others = {
        "first": f'"dibs": {ours}, "b": 1',
        "middle": f'"a": 0, "dibs": {ours}, "b": 1',
        "last": f'"a": 0, "dibs": {ours}',
    }
    text = '{"mcpServers": {' + others.get(gone, f'"dibs": {ours}') + "}}"
    left = remove(text, "f.json", (SERVER,), None)
    assert left is not None
    wanted = json.loads(text)
    del wanted["mcpServers"]["dibs"]
    assert json.loads(left) == wanted


def test_changed_json_entry_is_not_removed() -> None:
    theirs = '{"mcpServers": {"dibs": {"command": "/opt/dibs", "args": ["mcp"]}}}'
    assert insert(theirs, "f.json", (SERVER,))[0] == theirs
    with pytest.raises(InvalidInput, match="by hand"):
        remove(theirs, "f.json", (SERVER,), None)


def test_a_hook_of_theirs_that_does_the_same_is_enough() -> None:
    theirs = '{"hooks": {"SessionStart": [{"matcher": "startup", "hooks": [{"command": "dibs prime --agent me"}]}]}}'
    assert insert(theirs, "f.json", (HOOK,))[0] == theirs


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"a": 1', "line 1, column 8"),
        ('{\n  "a": tru\n}', "line 2, column 8"),
        ('{\r\n  "a": 1\r\n  "b": 2\r\n}', "line 3, column 3"),
        ('{"a": 1} {}', "line 1, column 10"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": "\\x"}', "line 1, column 7"),
        ('{"a": 1, /* never', "line 1, column 10"),
        ("[" * 100_000, "line 1"),
        ('{"mcpServers": []}', "line 1, column 16"),
        ("[]", "line 1, column 1"),
    ],
)
def test_invalid_json_is_refused_with_its_position(text: str, place: str) -> None:
    with pytest.raises(InvalidInput, match=f"{place}\\b"):
        insert(text, "f.json", (SERVER,))
