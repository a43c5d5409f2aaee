"""Imports of files that look like exports: all or nothing, and the store stays sound."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from copy import deepcopy
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dibs.cli.main import main
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft, Link
from dibs.desk import open_desk

_VALUES = st.sampled_from(
    [None, 0, 1, 2, 7, -1, "", "a", "b", "gone", "active", "done", "ready", "blocked", "canceled", "other", [], ["a"],
     {}, {"x": 1}, True, 1.5, "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z"]
)  # fmt: skip
_WHERE = st.integers(0, 10_000)
_CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("set"), _WHERE, _WHERE, _VALUES),
        st.tuples(st.just("copy"), _WHERE, _WHERE, _WHERE),
        st.tuples(st.just("drop"), _WHERE, _WHERE, st.none()),
        st.tuples(st.just("line"), _WHERE, _WHERE, st.none()),
    ),
    min_size=1,
    max_size=3,
)


def _run(*words: str) -> int:
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return main([*words])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """A small store with tasks in many states, links, a setting and a history."""
    folder = tmp_path_factory.mktemp("exported")
    url = f"sqlite:///{folder}/dibs.db"
    with open_desk(url, create=True) as desk:
        drafts = [Draft(name, name, priority=number) for number, name in enumerate("abcdef")]
        desk.add(drafts, [Link("b", "a"), Link("c", "b")])
        for verb in (Verb.FAIL, Verb.DONE):
            (claimed,) = desk.claim("ann", refs=["a"])
            assert claimed.task.lease is not None
            desk.move(verb, "a", token=claimed.task.lease.token)
        desk.claim("bob", refs=["d"])
        desk.move(Verb.CANCEL, "f")
    assert _run("export", "--secrets", str(folder / "all.jsonl"), "--store", url) == 0
    return [json.loads(line) for line in (folder / "all.jsonl").read_text().splitlines()]


def _fields(line: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    """Every field of a line, and of the objects in it."""
    found = [(line, name) for name in line if name != "kind"]
    return found + [(inner, name) for inner in line.values() if isinstance(inner, dict) for name in inner]


def _changed(lines: list[dict[str, Any]], changes: list[tuple[str, int, int, Any]]) -> list[dict[str, Any]]:
    lines = json.loads(json.dumps(lines))
    for how, line, field, value in changes:
        chosen = lines[line % len(lines)]
        fields = _fields(chosen)
        owner, name = fields[field % len(fields)]
        if how == "set":
            owner[name] = value
        elif how == "drop":
            del owner[name]
        elif how == "line":
            lines.remove(chosen)
        else:
            others = _fields(lines[value % len(lines)])
            other, its = others[field % len(others)]
            owner[name] = deepcopy(other[its])
    return lines


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=_CHANGES)
def test_import_that_is_accepted_leaves_the_store_sound(
    exported: list[dict[str, Any]], changes: list[tuple[str, int, int, Any]]
) -> None:
    lines = _changed(exported, changes)
    with TemporaryDirectory() as folder:
        url, file = f"sqlite:///{folder}/dibs.db", Path(folder) / "odd.jsonl"
        file.write_text("\n".join(map(json.dumps, lines)))
        open_desk(url, create=True).close()
        accepted = _run("import", str(file), "--store", url) == 0
        assert _run("doctor", "--deep", "--store", url) == 0
        with open_desk(url) as desk:
            assert accepted or sum(desk.counts().by_status.values()) == 0, "a refused import leaves nothing"
