"""The reference pages are complete and correct: each is compared with the code."""

from __future__ import annotations

import ast
import re
import sqlite3
from typing import TYPE_CHECKING

import pytest

import option_tables
from dibs import identity
from dibs.cli import catalogue as cli
from dibs.cli.command import add_shared
from dibs.console.commands import load
from dibs.core import errors, plan
from dibs.core.events import Event
from dibs.core.lifecycle import RULES, Verb
from dibs.core.task import Input, Lease, Link, Status, Task
from dibs.stores.sqlite.migrate import APPLICATION_ID, NEWEST
from dibs.stores.sqlite.store import SqliteStore
from docs.pages import ROOT, blocks, exchanges, pages, sessions

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.console.arguments import Parser

SHARED = {"--store", "--scope", "--json", "-h", "--help"}


def page(name: str) -> str:
    return (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """The text under each second-level heading."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def rows(text: str) -> list[list[str]]:
    """The cells of every table row but the rulers."""
    lines = [line for line in text.splitlines() if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def coded(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


def first_cells(text: str) -> set[str]:
    """The names in the first column of the tables."""
    return {name for cells in rows(text) for name in coded(cells[0])}


def options_in(text: str) -> set[str]:
    return {word for cell in first_cells(text) for word in cell.split() if word.startswith("-")}


def parser_of(name: str) -> Parser:
    return load(cli.PACKAGE, cli.COMMANDS, name).parser(f"dibs {name}", cli.COMMANDS[name][1], add_shared)


# cli.md


def test_every_command_has_a_section_and_no_other_has_one() -> None:
    assert set(sections(page("cli.md"))) == {*cli.COMMANDS, "Shared by all commands"}


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_commands_section_has_exactly_its_options(name: str) -> None:
    section = sections(page("cli.md"))[name]
    taken = {option for action in parser_of(name)._actions for option in action.option_strings} - SHARED
    assert options_in(section) == taken


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_commands_section_has_its_arguments_and_choices(name: str) -> None:
    section = sections(page("cli.md"))[name]
    for action in parser_of(name)._actions:
        if not action.option_strings:
            assert str(action.metavar) in first_cells(section)
        for choice in action.choices or ():
            assert re.search(rf"[`{{,]{choice}[`}},]", section), choice


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_a_commands_section_shows_it_at_work(name: str) -> None:
    shown = [block for block in blocks(sections(page("cli.md"))[name]) if block.kind == "console"]
    assert any(re.search(rf"\bdibs {name}\b", one.command) for block in shown for one in exchanges(block))


def test_the_shared_options_are_described_once() -> None:
    assert options_in(sections(page("cli.md"))["Shared by all commands"]) == SHARED


# errors.md


def error_classes() -> list[type[errors.DibsError]]:
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DibsError)]


def test_every_error_is_listed_with_its_status_and_class() -> None:
    listed = [cells[:3] for cells in rows(sections(page("errors.md"))["Codes"])[1:]]
    told = {(*coded(code), int(status), *coded(kind)) for code, status, kind in listed}
    assert told == {(kind.code, kind.exit_status, kind.__name__) for kind in error_classes()}
    assert len(listed) == len(told)


def test_every_exit_status_is_explained() -> None:
    statuses = {int(cells[0]) for cells in rows(sections(page("errors.md"))["Exit statuses"])[1:]}
    assert {kind.exit_status for kind in error_classes()} <= statuses


# lifecycle.md


def test_every_transition_is_listed_and_no_other_is() -> None:
    listed = rows(sections(page("lifecycle.md"))["Transitions"])[1:]
    told = [
        (source, *cells[1:4], frozenset(coded(cells[4])), frozenset(coded(cells[5])))
        for cells in listed
        for source in cells[0].split(", ")
    ]
    paused = "where it was paused"
    assert len(told) == len(RULES)
    assert {*told} == {(r.source, r.verb, r.target or paused, r.proof, r.sets, r.clears) for r in RULES}


def test_every_status_and_verb_is_explained() -> None:
    found = sections(page("lifecycle.md"))
    assert {cells[0] for cells in rows(found["Statuses"])} >= set(Status)
    verbs = {verb for cells in rows(found["Which command is which verb"])[1:] for verb in cells[0].split(", ")}
    assert verbs == set(Verb)


# configuration.md


AGENT_VARIABLES = frozenset(
    {"AI_AGENT", *(name for _, marks, sessions in identity._PRODUCTS for name in (*marks, *sessions))}
)


def variables_read() -> set[str]:
    """What the environment is asked for, anywhere in the package."""
    found = set(AGENT_VARIABLES)
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and re.search(r"(environ(ment)?\.get|getenv)$", ast.unparse(node.func)):
                found.add(ast.literal_eval(node.args[0]))
            elif isinstance(node, ast.Subscript) and ast.unparse(node.value).endswith("environ"):
                found.add(ast.literal_eval(node.slice))
    return found


def test_every_environment_variable_is_listed_and_no_other_is() -> None:
    assert first_cells(sections(page("configuration.md"))["Environment variables"]) == variables_read()


def test_every_variable_that_a_program_is_given_is_described() -> None:
    named: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"[\"'](DIBS_[A-Z_]+)[\"']", path.read_text(encoding="utf-8")))
    described = {name for each in (ROOT / "docs" / "reference").glob("*.md") for name in first_cells(page(each.name))}
    assert named - described == set()


def variables_set() -> set[str]:
    """By a test, or on a page that is typed into a shell."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            found |= {name for name in _names_set(node) if isinstance(name, str)}
    for path in (*pages(), *sessions()):
        typed = [block.text for block in blocks(path.read_text(encoding="utf-8")) if block.kind in {"console", "setup"}]
        found |= set(re.findall(r"\b([A-Z][A-Z0-9_]+)=", "\n".join(typed)))
    return found


def _names_set(node: ast.AST) -> list[object]:
    match node:
        case ast.Call(func=ast.Attribute(attr="setenv" | "set"), args=[ast.Constant(value=name), *_]):
            return [name]
        case ast.Dict(keys=keys):
            return [key.value for key in keys if isinstance(key, ast.Constant)]
        case ast.keyword(arg=name):
            return [name]
        case _:
            return []


def test_every_environment_variable_is_set_where_its_effect_is_tested() -> None:
    given = {"DIBS_INPUTS_FILE"}  # set for the commands of a worker: see tests/fleet/test_worker.py
    assert variables_read() - variables_set() == given


def test_every_option_of_a_url_is_listed() -> None:
    source = (ROOT / "src/dibs/stores/opening.py").read_text(encoding="utf-8")
    taken = set(re.findall(r'options\.pop\("(\w+)"', source))
    listed = {cell for cell in first_cells(sections(page("configuration.md"))["Store URLs"]) if cell.isidentifier()}
    assert listed == taken


# plan-format.md


def test_every_key_of_a_plan_is_listed() -> None:
    listed = rows(sections(page("plan-format.md"))["Keys"])[1:]
    told = {name: coded(cells[0])[0] for cells in listed for name in coded(f"{cells[0]} {cells[1]}")}
    assert told == plan.KEYS


# json.md


def test_every_commands_document_is_described() -> None:
    told = first_cells(sections(page("json.md"))["What each command prints"])
    assert told == set(cli.COMMANDS)


def test_every_field_is_described() -> None:
    found = sections(page("json.md"))
    task, _, lease = found["A task"].partition("### Its lease")
    secret = {"token", "spent_token"}
    assert first_cells(task) == set(Task._fields) - secret
    assert first_cells(lease) == set(Lease._fields) - secret
    assert first_cells(found["A link"]) == set(Link._fields)
    assert first_cells(found["An event"]) == {*Event._fields, "token_id"}
    assert set(Input._fields) <= {name for cells in rows(found["A claim"]) for name in coded(cells[1])}


# sqlite-schema.md


def test_every_table_column_and_index_is_described(tmp_path: Path) -> None:
    SqliteStore(str(tmp_path / "new.db"), create=True).close()
    database = sqlite3.connect(tmp_path / "new.db")
    found = sections(page("sqlite-schema.md"))
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    assert set(found) == set(tables)
    for table in tables:
        columns = {(name, kind) for _, name, kind, *_ in database.execute(f"PRAGMA table_info({table})")}
        listed = {
            (name, cells[1])
            for cells in rows(found[table])
            for name in coded(cells[0])
            if cells[1] in {"TEXT", "INTEGER", "REAL", "BLOB"}
        }
        assert listed == columns
        for _, index, _, origin, _ in database.execute(f"PRAGMA index_list({table})"):
            assert origin != "c" or index in coded(found[table])
    database.close()


def test_store_marks_are_documented() -> None:
    text = page("sqlite-schema.md")
    assert f"0x{APPLICATION_ID:x}" in text
    assert f"schema, {NEWEST}," in text


# neo4j-schema.md


def test_neo4j_constraints_and_indexes_are_documented() -> None:
    made = (ROOT / "src/dibs/stores/neo4j/schema.cypher").read_text(encoding="utf-8")
    named = re.findall(r"^CREATE .*?(?:CONSTRAINT|INDEX) (\w+) IF NOT EXISTS (.+)$", made, re.MULTILINE)
    there = {(name, *re.findall(r"\w:(\w+)", on)[:1], ", ".join(re.findall(r"\b\w\.(\w+)", on))) for name, on in named}
    told = {
        (coded(cells[0])[0], *coded(cells[1])[0].rstrip(")").split("("))
        for text in sections(page("neo4j-schema.md")).values()
        for cells in rows(text)[1:]
    }
    assert told == there


# option tables


@pytest.mark.parametrize("name", ["cli.md", *(f"{group}.md" for group in option_tables.GROUPS)])
def test_option_tables_are_those_of_the_help(name: str) -> None:
    assert option_tables.written(name) == page(name), "run 'python tools/option_tables.py'"
