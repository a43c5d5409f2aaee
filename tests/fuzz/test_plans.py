"""Plans, exports and ralph's Markdown-KV with arbitrary content."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from dibs.core import wire
from dibs.core.plan import parse_jsonl, parse_yaml
from dibs.protocols.ralph.markdown import Section, escaped, parse_kv, render, unescaped
from fuzz.outside import JSON, answered, bounded, disturbed, survived, texts

_TASK = {"id": "a", "title": "Read", "deps": ["b"], "priority": 1, "requires": ["gpu"], "extra": {"n": 1}, "t": None}
JSONL = texts(json.dumps(_TASK), '{"id":"a","title":"x"}\n{"id":"b","title":"y","deps":["a"]}\n')
YAML = texts(
    "spec: s\ntasks:\n  - {id: a, title: A}\n  - id: b\n    title: 'B'\n    deps: [a]\n",
    "- id: a\n  title: |\n    long\n    text\n  priority: 1.5\n",
)
_SECTION = Section(id="a", title="x|y", deps=("b",), steps=("one", "two"), result={"k": [1, None]})
KV = texts(render([_SECTION]), render([_SECTION, _SECTION._replace(id="b", result=None)]))


@bounded
@given(JSONL)
def test_a_plan_in_json_lines_is_read_or_refused(text: str) -> None:
    answered(parse_jsonl, text)


@bounded
@given(YAML)
def test_a_plan_in_yaml_is_read_or_refused(text: str) -> None:
    answered(parse_yaml, text)


@bounded
@given(disturbed([_TASK, _TASK]))
def test_plan_with_wrong_values_is_read_or_refused(entries: object) -> None:
    lines = "\n".join(json.dumps(entry) for entry in entries) if isinstance(entries, list) else json.dumps(entries)
    answered(parse_jsonl, lines)
    answered(parse_yaml, json.dumps({"tasks": entries}))


@bounded
@given(KV)
def test_markdown_kv_is_read_or_refused(text: str) -> None:
    answered(parse_kv, text)


@bounded
@given(texts())
def test_a_value_of_markdown_kv_comes_back_as_it_was(text: str) -> None:
    assert unescaped(escaped(text)) == text
    assert len(escaped(text).splitlines()) <= 1


_TOLD = {
    "scope": "default", "id": "a", "title": "A", "status": "active", "attempt": 1, "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z", "queued_at": "2026-01-01T00:00:00Z", "result": {"k": [1]}, "retries": 0,
    "lease": {"agent": "ann", "attempt": 1, "holder": "agent", "claimed_at": "2026-01-01T00:00:00Z",
              "expires_at": "2026-01-01T00:20:00Z"},
}  # fmt: skip


@bounded
@given(disturbed(_TOLD) | JSON)
def test_an_exported_task_is_read_or_refused(told: object) -> None:
    task = answered(lambda data: wire.task_from_json(data, lambda: "new"), told)
    if task is not None:
        again = wire.task_from_json(wire.task_json(task, secrets=True), lambda: "new")
        assert wire.task_json(again) == wire.task_json(task)


@bounded
@given(disturbed({"task": "a", "on": "b", "kind": "blocks", "weight": 1.0}) | JSON)
def test_an_exported_link_setting_or_event_is_read_or_refused(told: object) -> None:
    answered(wire.link_from_json, told)
    answered(wire.setting_from_json, told)
    answered(wire.event_from_json, told)


BOMBS = [
    "[" * 100_000,
    '{"a":' * 100_000,
    "- " * 50_000,
    "9" * 1_000_000,
    '{"id":"a","title":"' + "x" * 1_000_000 + '"}',
    "a: &a [x]\n" + "b: [*a, *a]\n" * 1_000,
    "\n" * 500_000,
    "? " * 20_000,
]


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb[:8].strip() or "empty lines")
def test_expensive_plan_is_refused_quickly(bomb: str) -> None:
    for read in (parse_jsonl, parse_yaml, parse_kv):
        survived(read, bomb)
