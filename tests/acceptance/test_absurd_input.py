"""Absurd input: a clear message, the right status, and no partial write."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from support.cli import ESCAPE

if TYPE_CHECKING:
    from support.cli import Cli

_REFUSED_TITLES = {
    "empty": "",
    "blank": " \t ",
    "a megabyte": "x" * 1_000_000,
    "two lines": "one\ntwo",
    "a carriage return": "one\rtwo",
    "NUL": "one\0two",
    "a colour": "\x1b[31mred\x1b[0m",
    "a bell": "ding\a",
    "a C1 control": "one\x9b31mtwo",
    "a line separator": "one\u2028two",
    "half a character": "\ud800",
    "undecodable bytes": "caf\udce9",
}


@pytest.mark.parametrize("title", _REFUSED_TITLES.values(), ids=_REFUSED_TITLES)
def test_invalid_title_is_refused(title: str, cli: Cli) -> None:
    cli.add("job")
    assert "title" in cli.refuses(2, "INVALID_INPUT", "add", title).message
    cli.refuses(2, "INVALID_INPUT", "edit", "job", "--title", title)


_KEPT_TITLES = {
    "emoji": "Ship it 🚀🎉",
    "a family": "The 👨‍👩‍👧 plan",
    "a flag": "🇩🇪 translation",
    "right to left": "שלום עולם",
    "Persian with a joiner": "می‌خواهم",
    "combining marks": "e\u0301clair Z̸a̸l̸g̸o̸",
    "wide": "日本語のタイトル",
    "shell": "$(rm -rf ~) `id` 'quoted' \"double\" \\n %s {} <b>",
    "sql": "Robert'); DROP TABLE task;--",
    "a leading dash": "- a list item",
    "500 characters": "x" * 500,
}


@pytest.mark.parametrize("title", _KEPT_TITLES.values(), ids=_KEPT_TITLES)
def test_text_in_any_language_is_kept(title: str, cli: Cli) -> None:
    cli.ok("add", title, "--id", "job")
    assert cli.task("job")["title"] == title
    for words in (("list",), ("show", "job"), ("next",), ("claim",), ("plan", cli.file("p.jsonl", ""))):
        cli.ok(*words)
    assert title in cli.ok("show", "job"), "what is shown is what was typed"


def test_title_that_starts_like_an_option_follows_two_dashes(cli: Cli) -> None:
    new = cli.ok("add", "--id", "job", "--", "--verbose is broken").strip()
    assert cli.task(new)["title"] == "--verbose is broken"


_NASTY = "\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x9b2J \r over \x08\x08 \u202eevil\u202c\nnext\tline"


def test_control_characters_never_reach_the_terminal(cli: Cli) -> None:
    """Another agent may have written the descriptions and reasons."""
    cli.add("job", "-d", _NASTY, "-s", _NASTY, "--ref", _NASTY, "--extra", json.dumps({"x": _NASTY}))
    cli.add("other", "--blocked-by", "job")
    token = cli.claim("job")
    shown = [cli("show", "job"), cli("list"), cli("next")]
    shown.append(cli("done", "job", "--token", token, "--note", _NASTY, "--artifact", _NASTY, "--next"))
    cli.ok("block", "other", "--force", "--reason", _NASTY, "--action", _NASTY)
    shown += [cli("claim", "other"), cli("show", "other"), cli("list"), cli("log"), cli("stale", "--older", "0s")]
    shown += [cli("show", "job"), cli("graph"), cli("cancel", "other", "--reason", _NASTY), cli("list", "--all")]
    for ran in shown:
        for char in "\x1b\x07\x9b\r\x08\u202e":
            assert char not in ran.out, ran
            assert char not in ran.err, ran
    assert cli.task("job")["description"] == _NASTY, "but what is stored is what was said"


def test_plan_escapes_titles_as_a_list_does(cli: Cli) -> None:
    plan = cli.file("plan.jsonl", json.dumps({"id": "a", "t": "turned \u202earound"}))
    assert "\u202e" not in cli.ok("plan", plan, "--dry-run")


@pytest.mark.parametrize(
    "words",
    [
        ("show", "\x1b[31mred"),
        ("claim", "\x1b[31mred"),
        ("\x1b[31mred",),
        ("list", "--status", "\x1b[31mred"),
        ("list", "\x1b[31mred"),
        ("plan", "\x1b[31mred"),
        ("list", "--store", "\x1b[31mred://"),
        ("show", "two\nlines"),
    ],
    ids=lambda words: str(words[0]).replace(ESCAPE, "ESC"),
)
def test_error_repeats_input_without_control_characters(words: tuple[str, ...], cli: Cli) -> None:
    ran = cli(*words)
    assert ran.status in {2, 3, 7}
    assert ESCAPE not in ran.err
    assert ran.err.count("\n") == 1


_UNDECODABLE = "caf\udce9"  # how the byte e9 arrives from a terminal that speaks Latin-1


@pytest.mark.parametrize(
    "words",
    [
        ("show", _UNDECODABLE),
        ("log", _UNDECODABLE),
        ("claim", _UNDECODABLE),
        ("done", _UNDECODABLE),
        ("cancel", _UNDECODABLE),
        ("edit", _UNDECODABLE, "--title", "x"),
        ("link", "job", "--blocked-by", _UNDECODABLE),
        ("unlink", "job", "--blocked-by", _UNDECODABLE),
        ("add", "x", "--id", _UNDECODABLE),
        ("add", "x", "--parent", _UNDECODABLE),
        ("add", "x", "--agent", _UNDECODABLE),
        ("add", "x", "--run", _UNDECODABLE),
        ("cancel", "job", "--agent", _UNDECODABLE),
        ("cancel", "job", "--reason", _UNDECODABLE),
        ("done", "job", "--token", _UNDECODABLE),
        ("claim", "--agent", _UNDECODABLE),
        ("claim", "--can", _UNDECODABLE),
        ("ready", "--agent", _UNDECODABLE),
        ("ready", "--can", _UNDECODABLE),
        ("list", "--text", _UNDECODABLE),
        ("list", "--category", _UNDECODABLE),
        ("list", "--held-by", _UNDECODABLE),
        ("list", "--assigned-to", _UNDECODABLE),
        ("list", "--spec", _UNDECODABLE),
        ("list", "--parent", _UNDECODABLE),
        ("list", "--scope", _UNDECODABLE),
        ("plan", "plan.jsonl", "--spec", _UNDECODABLE),
        ("plan", "plan.jsonl", "--agent", _UNDECODABLE),
        ("import", _UNDECODABLE),
    ],
    ids=lambda words: " ".join(words).replace(_UNDECODABLE, "…"),
)
def test_bytes_that_are_not_text_are_refused_everywhere(words: tuple[str, ...], cli: Cli) -> None:
    cli.add("job")
    cli.file("plan.jsonl", '{"id":"planned","t":"Planned"}\n')
    before = cli.snapshot()
    for style in ((), ("--json",)):
        ran = cli(*words, *style)
        assert ran.status in {2, 3, 5} or (ran.status == 0 and not ran.out.strip()), ran
    assert cli.snapshot().without_refusals() == before.without_refusals()


@pytest.mark.parametrize("name", [" ", "x" * 129, "two\nlines", "\x1b[31mred", "a\0b"])
@pytest.mark.parametrize("option", ["--agent", "--run"])
def test_invalid_name_is_refused_by_every_verb(option: str, name: str, cli: Cli) -> None:
    cli.add("job")
    for words in (("add", "x"), ("claim",), ("edit", "job", "--title", "y"), ("cancel", "job")):
        cli.refuses(2, "INVALID_INPUT", *words, option, name)


@pytest.mark.parametrize("scope", [" ", "x" * 129, "two\nlines", "a\0b"])
def test_invalid_scope_is_refused(scope: str, cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "list", "--scope", scope)
    cli.refuses(2, "INVALID_INPUT", "add", "x", "--scope", scope)


@pytest.mark.parametrize("new", ["a b", "x" * 129, "tab\t", "a\0b", "new\nline", "-dash", "\x1b[31m"])
def test_invalid_id_is_refused(new: str, cli: Cli) -> None:
    assert "id" in cli.refuses(2, "INVALID_INPUT", "add", "x", f"--id={new}").message


@pytest.mark.parametrize("verb", ["show", "edit", "claim", "done", "cancel", "approve", "log", "link", "pause"])
def test_empty_id_is_refused_by_every_verb(verb: str, cli: Cli) -> None:
    cli.add("job")
    more = {"edit": ("--title", "x"), "link": ("--blocked-by", "job")}.get(verb, ())
    cli.refuses(2, "INVALID_INPUT", verb, "", *more)


@pytest.mark.parametrize(
    "verb", ["show", "edit", "claim", "done", "fail", "block", "review", "cancel", "release", "log"]
)
def test_unknown_id_is_named(verb: str, cli: Cli) -> None:
    cli.add("job")
    more = {"edit": ("--title", "x"), "block": ("--reason", "x")}.get(verb, ())
    told = cli.refuses(3, "NOT_FOUND", verb, "ghost", *more)
    assert "ghost" in told.message
    assert "dibs list" in told.message


@pytest.mark.parametrize("verb", ["show", "edit", "claim", "done", "cancel", "log", "pause", "link"])
def test_ambiguous_id_names_the_candidates(verb: str, cli: Cli) -> None:
    for name in ("job-1", "job-2"):
        cli.add(name)
    more = {"edit": ("--title", "x"), "link": ("--blocked-by", "job-1")}.get(verb, ())
    told = cli.refuses(3, "AMBIGUOUS_ID", verb, "job", *more)
    assert "job-1, job-2" in told.message


def test_id_of_a_megabyte_is_not_found(cli: Cli) -> None:
    told = cli.refuses(3, "NOT_FOUND", "show", "x" * 1_000_000)
    assert len(told.message) < 1000, "it is not repeated at length"


@pytest.mark.parametrize("priority", ["nan", "inf", "-inf", "1e400", "1e10", "soonish", "", "0x10"])
def test_invalid_priority_is_refused(priority: str, cli: Cli) -> None:
    cli.add("job")
    assert "priority" in cli.refuses(2, "INVALID_INPUT", "add", "x", f"--priority={priority}").message
    cli.refuses(2, "INVALID_INPUT", "edit", "job", f"--priority={priority}")


@pytest.mark.parametrize("retries", ["-1", "x", "1.5", "99999999999", "9" * 5000])
def test_invalid_retry_limit_is_refused(retries: str, cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "add", "x", f"--max-retries={retries}")


_BAD_JSON = {
    "empty": "",
    "broken": "{",
    "single quotes": "{'a': 1}",
    "not a number": '{"a": NaN}',
    "infinity": '{"a": Infinity}',
    "a bare word": "yes",
    "100 deep": '{"a":' * 100 + "1" + "}" * 100,
    "100000 deep": "[" * 100_000,
    "a NUL": '{"a": "\\u0000"}',
    "half a character": '{"a": "\\ud800"}',
    "a NUL in a key": '{"\\u0000": 1}',
    "an endless number": '{"a": ' + "9" * 5000 + "}",
}


@pytest.mark.parametrize("text", _BAD_JSON.values(), ids=_BAD_JSON)
def test_invalid_json_is_refused(text: str, cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    assert "extra" in cli.refuses(2, "INVALID_INPUT", "add", "x", "--extra", text).message
    assert "result" in cli.refuses(2, "INVALID_INPUT", "done", "job", "--token", token, "--result", text).message


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null"])
def test_extra_fields_must_be_an_object(text: str, cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "add", "x", "--extra", text)


def test_text_over_a_megabyte_is_refused(cli: Cli) -> None:
    assert len(cli.json("add", "x", "-d", "-", stdin="y" * 1_000_000)["description"]) == 1_000_000
    told = cli.refuses(2, "INVALID_INPUT", "add", "x", "-d", "-", stdin="y" * 1_000_001)
    assert "1000000" in told.message


def test_description_from_stdin_must_be_text(cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "add", "x", "-d", "-", stdin=b"caf\xe9")


_TIMES = [
    "soon",
    "",
    "2026-13-01",
    "25:00",
    "2026-01-01T25:00",
    "9999-12-31T23:59:59-10:00",
    "0001-01-01T00:00:00+10:00",
]


@pytest.mark.parametrize("time", _TIMES)
def test_invalid_time_is_refused(time: str, cli: Cli) -> None:
    cli.add("job")
    cli.refuses(2, "INVALID_INPUT", "add", "x", f"--not-before={time}")
    cli.refuses(2, "INVALID_INPUT", "edit", "job", f"--not-before={time}")
    cli.refuses(2, "INVALID_INPUT", "block", "job", "--reason", "x", f"--check-at={time}")


@pytest.mark.parametrize("span", ["-5m", "soon", "", "99999999d", "999999999d", "99999999999999w"])
def test_invalid_span_is_refused(span: str, cli: Cli) -> None:
    cli.add("job")
    token = cli.claim("job")
    cli.refuses(2, "INVALID_INPUT", "fail", "job", "--token", token, f"--retry-in={span}")
    cli.refuses(2, "INVALID_INPUT", "release", "job", "--token", token, f"--for={span}")


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5", "", "9999999999", "²", "٣", "9" * 5000])
@pytest.mark.parametrize("verb", ["list", "ready", "log"])
def test_invalid_limit_is_refused(verb: str, limit: str, cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", verb, f"--limit={limit}")


@pytest.mark.parametrize("after", ["x", "1.5", "99999999999999999999", "-99999999999999999999"])
def test_invalid_event_number_is_refused(after: str, cli: Cli) -> None:
    cli.refuses(2, "INVALID_INPUT", "log", f"--after={after}")


@pytest.mark.parametrize(
    ("store", "status", "code"),
    [
        ("mysql://host/db", 2, "INVALID_INPUT"),
        ("://x", 2, "INVALID_INPUT"),
        ("sqlite://x.db", 2, "INVALID_INPUT"),
        ("sqlite:///", 2, "INVALID_INPUT"),
        ("sqlite:///x.db?speed=high", 2, "INVALID_INPUT"),
        ("sqlite:///x.db?timeout=soon", 2, "INVALID_INPUT"),
        ("sqlite:///x.db?timeout=²", 2, "INVALID_INPUT"),
        ("nowhere.db", 7, "NO_STORE"),
        ("no/such/folder/x.db", 7, "NO_STORE"),
        (".", 7, "STORE_UNAVAILABLE"),
        ("x" * 5000, 7, "NO_STORE"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_invalid_store_url_is_refused(store: str, status: int, code: str, cli: Cli) -> None:
    cli.refuses(status, code, "list", "--store", store)


def test_endless_timeout_is_refused_or_very_long(cli: Cli) -> None:
    ran = cli("add", "x", "--store", f"sqlite:///{cli.store}?timeout={'9' * 400}")
    assert ran.status in {0, 2}


def test_unknown_kind_of_store_names_the_known_ones(cli: Cli) -> None:
    assert "sqlite" in cli.refuses(2, "INVALID_INPUT", "list", "--store", "mysql://host/db").message


@pytest.mark.parametrize(
    ("content", "code"),
    [(b"", "NO_STORE"), (b"not a database, but long enough to be one" * 100, "STORE_CORRUPT")],
    ids=["empty", "garbage"],
)
def test_file_that_is_no_store_is_unchanged(content: bytes, code: str, cli: Cli) -> None:
    cli.file("other.db", content)
    for words in (("list",), ("add", "x"), ("doctor", "--deep", "--fix")):
        cli.refuses(7, code, *words, "--store", "other.db")
    assert (cli.folder / "other.db").read_bytes() == content


def test_database_of_another_program_is_unchanged(cli: Cli) -> None:
    import sqlite3

    with sqlite3.connect(cli.folder / "other.db") as connection:
        connection.execute("CREATE TABLE task (mine TEXT)")
    connection.close()
    before = (cli.folder / "other.db").read_bytes()
    for words in (("list",), ("init",), ("add", "x")):
        cli.refuses(7, "STORE_CORRUPT", *words, "--store", "other.db")
    assert (cli.folder / "other.db").read_bytes() == before


def test_store_of_a_newer_dibs_is_unchanged(cli: Cli) -> None:
    cli.add("job")
    cli.sql("PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA user_version = 999")
    cli.damaged = True
    before = cli.store.read_bytes()
    for words in (("list",), ("init",), ("claim",), ("doctor",), ("export",)):
        ran = cli(*words, "--json")
        assert ran.status == 7
        assert ran.error.code == "SCHEMA_TOO_NEW"
        assert "Upgrade" in ran.error.message
    assert cli.store.read_bytes() == before
