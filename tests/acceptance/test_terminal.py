"""Output in a terminal: colours, aligned columns, and lines that fit."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len

from support.cli import ESCAPE, PATIENCE, SCRIPT, Script, read_all

if TYPE_CHECKING:
    from pathlib import Path

_PLAN = """\
spec: checkout-v2
tasks:
  - {id: db-schema, t: "Add the orders and payments tables", p: 0, cat: backend, d: "See docs/orders.md"}
  - id: pay-api
    t: "Payment API: create, capture and refund, with idempotency keys on every write path"
    p: 1
    deps: [db-schema]
  - {id: cart-ui, t: "カートのUIを作る (cart page)", p: 2, deps: [pay-api], steps: [draft, build, polish]}
  - {id: emails, t: "📧 Order confirmation e-mails in nine languages", p: 3, cat: content}
  - {id: family, t: "Family 👨‍👩‍👧 accounts ❤️", p: 3}
  - {id: accents, t: "E\u0301clair", p: 3}
  - {id: load-test, t: "Load test at ten times Black Friday", p: 2, deps: [pay-api, cart-ui]}
  - {id: legal, t: "Legal review of the refund terms", p: 1, class: fixed_date}
"""
_REASON = "Waiting for the external counsel to answer our e-mail of last Tuesday about EU consumer law"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Script:
    """A realistic project with work in progress; the tests only read it."""
    script = Script(tmp_path_factory.mktemp("desk"))
    script("init")
    assert script("plan", "-", stdin=_PLAN.encode()).status == 0
    done = 'eval "$(dibs claim db-schema --agent codex-1 --export)"; dibs done --result \'{"tables": ["orders"]}\''
    assert script.sh(done).status == 0
    assert script("claim", "pay-api", "--agent", "claude-opus-backend-3", "--lease", "45m").status == 0
    assert script("claim", "pay-api", "--agent", "eve").status == 4
    assert script("block", "legal", "--reason", _REASON, "--check-at", "2026-01-02").status == 0
    assert script("claim", "emails", "--human").status == 0
    assert script("edit", "accents", "--first", "--title", "E\u0301clair au chocolat").status == 0
    return script


_LOOKS = [
    ("list",),
    ("list", "--all"),
    ("ready",),
    ("next",),
    ("show", "pay-api"),
    ("show", "legal"),
    ("log",),
    ("stale",),
]
looks = pytest.mark.parametrize("words", _LOOKS, ids=" ".join)


def _plain(text: str) -> str:
    return _COLOUR.sub("", text)


def test_terminal_gets_colours(desk: Script) -> None:
    assert ESCAPE in desk.terminal("list").out
    assert ESCAPE in desk.terminal("show", "pay-api").out


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}], ids=["NO_COLOR", "dumb"])
def test_colours_can_be_turned_off(environment: dict[str, str], desk: Script) -> None:
    for words in (("list",), ("show", "pay-api"), ("log",)):
        assert ESCAPE not in desk.terminal(*words, env=environment).out


def test_pipes_and_json_get_no_colours(desk: Script) -> None:
    assert ESCAPE not in desk("list").out
    assert ESCAPE not in desk.terminal("list", "--json").out


@looks
@pytest.mark.parametrize("columns", [80, 120])
def test_no_line_is_wider_than_the_terminal(words: tuple[str, ...], columns: int, desk: Script) -> None:
    ran = desk.terminal(*words, columns=columns)
    assert ran.status == 0
    lines = _plain(ran.out).splitlines()
    told_in_full = 2 if words[0] in {"show", "next"} else 0  # title and comment of the task that is shown in full
    assert [line for line in lines[told_in_full:] if cell_len(line) > columns] == []


def test_narrow_or_unknown_width_is_no_error(desk: Script) -> None:
    for columns in (0, 1, 20):
        ran = desk.terminal("list", columns=columns)
        assert ran.status == 0
        assert "legal" in _plain(ran.out)


def test_every_column_is_readable_at_80_columns(desk: Script) -> None:
    """Titles are cut as well as comments, so that the holder of a task stays readable."""
    rows = {line.split()[0]: line for line in _plain(desk.terminal("list", columns=80).out).splitlines()}
    assert "claude-opus-bac" in rows["pay-api"]
    assert "Payment API" in rows["pay-api"]
    assert "left" in rows["pay-api"] or "…" in rows["pay-api"]
    assert "held by ann" in rows["emails"]
    assert "for 2 others" in rows["load-test"]


def test_piped_output_is_not_truncated(desk: Script) -> None:
    said = desk("list").out
    assert _REASON in said
    assert "on every write path" in said
    assert "…" not in said


def test_columns_align_in_every_script(desk: Script) -> None:
    """In terminal columns: wide characters count two, accents none, a joined emoji two."""
    head, *rows = desk("list").out.splitlines()
    title = cell_len(head[: head.index("TITLE")])
    starts = {
        "cart-ui": "カート",
        "emails": "📧",
        "family": "Family",
        "accents": "E\u0301clair",
        "load-test": "Load",
        "legal": "Legal",
    }
    remarks = {"cart-ui": "for 1 other", "emails": "held by ann", "load-test": "for 2 others", "legal": "Waiting for"}
    by_id = {row.split()[0]: row for row in rows}
    assert {task: cell_len(by_id[task].partition(word)[0]) for task, word in starts.items()} == dict.fromkeys(
        starts, title
    )
    assert len({cell_len(by_id[task].partition(word)[0]) for task, word in remarks.items()}) == 1


def test_joined_emoji_do_not_shift_the_next_column(tmp_path: Path) -> None:
    script = Script(tmp_path)
    script("init")
    for number, title in enumerate(("plain", "👨‍👩‍👧 family", "❤️ heart", "می‌خواهم", "ที่นี่", "e\u0301")):
        script("add", title, "--id", f"t{number}", "--assign", "someone")
    ends = [cell_len(line.partition("for someone")[0]) for line in script("list").out.splitlines()[1:]]
    assert len(set(ends)) == 1, ends


def test_times_name_their_zone(desk: Script) -> None:
    """Otherwise a person in Tokyo may read 12:00 as local time."""
    for words in (("log",), ("show", "legal")):
        assert re.search(r"UTC|\d\dZ", desk(*words).out), words


def test_progress_bar_is_not_part_of_the_output(tmp_path: Path) -> None:
    script = Script(tmp_path)
    script("init")
    lines = "".join(f'{{"id":"t{number}","t":"Task {number}"}}\n' for number in range(2000))
    (tmp_path / "plan.jsonl").write_text(lines)
    master, slave = pty.openpty()
    with subprocess.Popen(
        [str(SCRIPT), "plan", "plan.jsonl", "--json"],
        stdout=subprocess.PIPE,
        stderr=slave,
        cwd=tmp_path,
        env=script.environment,
    ) as process:
        os.close(slave)
        with ThreadPoolExecutor(1) as pool:
            reading = pool.submit(read_all, master)  # a slow program prints more progress than a terminal buffers
            out, _ = process.communicate(timeout=PATIENCE)
            screen = reading.result(PATIENCE).decode()
        os.close(master)
    assert process.returncode == 0
    assert out.count(b"\n") == 1
    assert b'"inserted":["t0"' in out
    assert "Planning" in screen
