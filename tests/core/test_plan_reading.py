"""Plans as JSON lines and as YAML: the same plan either way, and every mistake at its line."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dibs.core.errors import PlanInvalid
from dibs.core.plan import KEYS, Plan, PlannedTask, parse_jsonl, parse_yaml, skim_jsonl
from dibs.core.task import Draft, Edit, LinkKind, ServiceClass

if TYPE_CHECKING:
    from collections.abc import Callable

SAMPLE: dict[str, Any] = {
    "id": "a",
    "title": "Title",
    "description": "Text",
    "priority": 1,
    "category": "cat",
    "labels": ["b", "a", "b"],
    "spec_ref": "spec.md",
    "ref": "spec.md#1",
    "steps": ["one", "two"],
    "blocked_by": ["b"],
    "feeds_from": ["c"],
    "service_class": "expedite",
    "deliverable": "code",
    "parent": "p",
    "requires": ["sql", "gpu"],
    "assigned_to": "ada",
    "max_retries": 3,
    "extra": {"k": [1, None]},
}
READERS = pytest.mark.parametrize("parse", [parse_jsonl, parse_yaml])


def jsonl(*entries: object) -> str:
    return "\n".join(json.dumps(entry) for entry in entries)


def one(entry: object) -> PlannedTask:
    [planned] = parse_jsonl(jsonl(entry)).tasks
    return planned


def invalid(parse: Callable[[str], Plan], text: str) -> PlanInvalid:
    with pytest.raises(PlanInvalid) as error:
        parse(text)
    return error.value


# What a plan says


def test_every_key_sets_its_field() -> None:
    assert set(SAMPLE) == set(KEYS.values())
    planned = one(SAMPLE)
    assert planned.draft == Draft(
        "Title", "a", "Text", service_class=ServiceClass.EXPEDITE, priority=1, category="cat", labels=("a", "b"),
        deliverable="code",
        steps=("one", "two"), spec_ref="spec.md", ref="spec.md#1", parent="p", requires=("gpu", "sql"),
        assigned_to="ada", max_retries=3, extra={"k": [1, None]},
    )  # fmt: skip
    assert (planned.blocked_by, planned.feeds_from, planned.line) == (("b",), ("c",), 1)


@pytest.mark.parametrize("key", KEYS)
def test_short_and_long_keys_mean_the_same(key: str) -> None:
    renamed = {key if field == KEYS[key] else field: value for field, value in SAMPLE.items()}
    assert one(renamed) == one(SAMPLE)


def test_plan_resets_owned_fields_it_omits() -> None:
    assert one({"id": "a", "t": "x"}).edit == Edit(
        title="x", description="", priority=2, category=None, spec_ref=None, ref=None, steps=()
    )


def test_plan_keeps_optional_fields_it_omits() -> None:
    edit = one({"id": "a", "t": "x", "assigned_to": "ada", "class": "intangible"}).edit
    assert (edit.assigned_to, edit.service_class) == ("ada", ServiceClass.INTANGIBLE)
    assert edit == one({"id": "a", "t": "x"}).edit._replace(assigned_to="ada", service_class=ServiceClass.INTANGIBLE)


def test_null_means_left_out() -> None:
    assert one({"id": "a", "t": "x", "p": None, "deps": None, "extra": None}) == one({"id": "a", "t": "x"})


def test_dependencies_are_links_and_the_stronger_one_counts() -> None:
    links = one({"id": "a", "t": "x", "deps": ["b", "b"], "feeds_from": ["c", "b", "c"]}).links()
    assert [(link.task, link.on, link.kind, link.detected_by) for link in links] == [
        ("a", "b", LinkKind.BLOCKS, "plan"),
        ("a", "c", LinkKind.FEEDS_INTO, "plan"),
    ]


def test_the_specs_of_a_plan_are_those_its_tasks_name() -> None:
    plan = parse_jsonl(
        jsonl({"id": "a", "t": "x", "spec": "s"}, {"id": "b", "t": "x"}, {"id": "c", "t": "x", "spec": "r"})
    )
    assert plan.specs == {"s", "r"}


@READERS
@pytest.mark.parametrize("text", ["", "\n\n", "   \n"])
def test_an_empty_plan_plans_nothing(parse: Callable[[str], Plan], text: str) -> None:
    assert parse(text) == Plan(())


def test_empty_lines_and_windows_line_ends_are_fine() -> None:
    plan = parse_jsonl('\n{"id":"a","t":"x"}\r\n\r\n  {"id":"b","t":"y"}  \r\n')
    assert [(planned.draft.id, planned.line) for planned in plan.tasks] == [("a", 2), ("b", 4)]


# YAML


def test_a_yaml_plan_knows_its_lines() -> None:
    plan = parse_yaml("# a comment\n- id: a\n  t: x\n\n- id: b\n  t: |\n    y\n")
    assert [(planned.draft.id, planned.line) for planned in plan.tasks] == [("a", 2), ("b", 5)]


def test_a_yaml_plan_may_name_the_spec_once() -> None:
    own = ("{id: a, t: x}", "{id: b, t: x, spec: own}", "{id: c, t: x, spec: null}", "{id: d, t: x, spec_ref: own}")
    plan = parse_yaml("spec: s.md\ntasks:\n" + "".join(f"  - {entry}\n" for entry in own))
    assert [planned.draft.spec_ref for planned in plan.tasks] == ["s.md", "own", None, "own"]
    assert plan.tasks[0].line == 3


@pytest.mark.parametrize("text", ["tasks: []", "tasks:", "spec: s\ntasks: []", "[]", "null", "# nothing"])
def test_a_yaml_plan_may_be_empty(text: str) -> None:
    assert parse_yaml(text).tasks == ()


def test_unquoted_numbers_are_still_ids() -> None:
    [first, second] = parse_yaml("- {id: 42, t: x}\n- {id: b, t: x, deps: [42], feeds_from: [7], parent: 42}").tasks
    assert first.draft.id == "42"
    assert (second.blocked_by, second.feeds_from, second.draft.parent) == (("42",), ("7",), "42")


@pytest.mark.parametrize("written", ["0042", "1e5", "12e456", "1.50", "+7", "no", "2026-01-01"])
def test_unquoted_id_is_taken_literally(written: str) -> None:
    """Our own ids are short hashes: some of them look like numbers."""
    [planned] = parse_yaml(f"- {{id: {written}, t: x, deps: [{written}0], parent: {written}1}}").tasks
    assert planned.draft.id == written
    assert (planned.blocked_by, planned.draft.parent) == ((f"{written}0",), f"{written}1")


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("", None), ("~", None), ("null", None), ("true", True), ("false", False), ("no", "no"), ("on", "on"),
        ("1", 1), ("-1", -1), ("+1", "+1"), ("007", "007"), ("1_000", "1_000"), ("0x10", "0x10"), ("٣", "٣"),
        ("1.5", 1.5), (".5", ".5"), ("1e3", 1000.0), ("-1.5e-3", -0.0015), (".nan", ".nan"), (".inf", ".inf"),
        ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("'1'", "1"), ('"true"', "true"), ("''", ""), ("a b", "a b"),
        ("[1, [a]]", [1, ["a"]]), ("{a: {b: 1}}", {"a": {"b": 1}}),
    ],
)  # fmt: skip
def test_yaml_is_limited_to_json_types(written: str, value: object) -> None:
    [planned] = parse_yaml(f"- id: a\n  t: x\n  extra:\n    k: {written}\n").tasks
    read = planned.draft.extra["k"]
    assert (read, type(read)) == (value, type(value))


def test_a_text_over_several_lines_is_one_text() -> None:
    [planned] = parse_yaml("- id: a\n  t: x\n  d: |\n    one\n    2\n  steps:\n    - >-\n      so\n      long\n").tasks
    assert (planned.draft.description, planned.draft.steps) == ("one\n2\n", ("so long",))


TEXTS = st.text(st.characters(min_codepoint=32, exclude_categories=["Cs", "Cc", "Zl", "Zp", "Cn"]), max_size=12)
IDS = st.text("abcdef0123456789", min_size=1, max_size=6).map(lambda text: "x" + text)
ENTRIES: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"id": IDS, "title": TEXTS.map(lambda text: "t" + text)},
    optional={
        "description": TEXTS,
        "priority": st.one_of(st.integers(-5, 5), st.sampled_from([0.5, 1.25])),
        "category": TEXTS.map(lambda text: "c" + text),
        "steps": st.lists(TEXTS, max_size=3),
        "blocked_by": st.lists(IDS.map(lambda text: "y" + text), max_size=3),
        "requires": st.lists(TEXTS.map(lambda text: "r" + text), max_size=3),
        "max_retries": st.integers(0, 9),
        "service_class": st.sampled_from(list(ServiceClass)).map(str),
        "extra": st.dictionaries(TEXTS, st.one_of(st.none(), st.booleans(), st.integers(), TEXTS), max_size=3),
    },
)
PLANS = st.lists(ENTRIES, max_size=5, unique_by=lambda entry: entry["id"])


def in_blocks(entries: list[dict[str, Any]]) -> str:
    """YAML as people write it, except that all text is quoted."""
    return "".join(
        f"{'  ' if at else '- '}{key}: {json.dumps(value, ensure_ascii=False)}\n"
        for entry in entries
        for at, (key, value) in enumerate(entry.items())
    )


@given(PLANS)
def test_the_same_plan_reads_the_same_in_json_and_in_yaml(entries: list[dict[str, Any]]) -> None:
    as_json = parse_jsonl(jsonl(*entries))
    as_yaml = parse_yaml(in_blocks(entries))
    assert [planned.said for planned in as_json.tasks] == [planned.said for planned in as_yaml.tasks]
    assert as_json.specs == as_yaml.specs
    assert [planned.draft.id for planned in as_json.tasks] == [entry["id"] for entry in entries]


@given(PLANS)
def test_reading_json_as_yaml_makes_no_difference(entries: list[dict[str, Any]]) -> None:
    as_yaml, as_json = parse_yaml(json.dumps(entries, ensure_ascii=False)), parse_jsonl(jsonl(*entries))
    assert [planned.said for planned in as_yaml.tasks] == [planned.said for planned in as_json.tasks]
    assert as_yaml.specs == as_json.specs
    assert {planned.line for planned in as_yaml.tasks} <= {1}


@given(PLANS)
def test_a_skimmed_plan_says_the_same_once_it_is_read(entries: list[dict[str, Any]]) -> None:
    assert skim_jsonl(jsonl(*entries)) == parse_jsonl(jsonl(*entries))


def test_skimming_refuses_only_lines_without_a_valid_id() -> None:
    [sound, senseless] = skim_jsonl('{"id": "a", "t": "A", "spec": "s"}\n{"id": "b", "colour": "red"}').tasks
    assert sound.draft.title == "A"
    with pytest.raises(PlanInvalid) as caught:
        _ = senseless.draft
    assert caught.value.line == 2
    for wrong in ('{"id": "a"}\n{"id": "a"}', "{", "[]", '{"t": "no id"}', '{"id": 7.5, "t": "x"}'):
        with pytest.raises(PlanInvalid):
            skim_jsonl(wrong)


def test_the_digest_of_an_entry_is_that_of_its_text() -> None:
    lines = ('{"id": "a", "t": "A"}', ' {"id": "a", "t": "A"}\r', '{"id": "a", "t": "B"}')
    first, again, other = (skim_jsonl(line).tasks[0].digest for line in lines)
    assert first == again != other


# Mistakes

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"title": "x"}, "needs an 'id'"),
    ({"id": "", "title": "x"}, "needs an 'id'"),
    ({"id": "a"}, "needs a 'title'"),
    ({"id": "a", "title": ""}, "needs a 'title'"),
    ({"id": "a", "title": "  "}, "needs a title"),
    ({"id": "a", "title": "x", "colour": "red"}, "unknown key 'colour'"),
    ({"id": "a", "title": "x", "t": "y"}, "given twice"),
    ({"id": "a", "title": "x", "p": None, "priority": 1, "deps": [], "blocked_by": []}, "given twice"),
    ({"id": "a b", "title": "x"}, "cannot be an id"),
    ({"id": ["a"], "title": "x"}, "'id' must be text, not a list"),
    ({"id": "a", "title": 7}, "'title' must be text, not a number"),
    ({"id": "a", "title": ["x"]}, "'title' must be text, not a list"),
    ({"id": "a", "title": {"x": 1}}, "'title' must be text, not an object"),
    ({"id": "a", "title": "x" * 501}, "at most 500"),
    ({"id": "a", "title": "x\ny"}, "one line"),
    ({"id": "a", "title": "x", "p": "high"}, "'priority' must be a number, not text"),
    ({"id": "a", "title": "x", "p": True}, "'priority' must be a number, not true or false"),
    ({"id": "a", "title": "x", "p": 10**10}, "A priority must be a number"),
    ({"id": "a", "title": "x", "max_retries": 1.5}, "'max_retries' must be a whole number"),
    ({"id": "a", "title": "x", "max_retries": False}, "'max_retries' must be a whole number"),
    ({"id": "a", "title": "x", "max_retries": -1}, "The max retries"),
    ({"id": "a", "title": "x", "steps": "one"}, "'steps' must be a list, not text"),
    ({"id": "a", "title": "x", "steps": [1]}, "'steps' must be text, not a number"),
    ({"id": "a", "title": "x", "steps": [""] * 1001}, "1001 steps"),
    ({"id": "a", "title": "x", "requires": [7]}, "'requires' must be text, not a number"),
    ({"id": "a", "title": "x", "deps": "b"}, "'blocked_by' must be a list, not text"),
    ({"id": "a", "title": "x", "deps": [None]}, "'blocked_by' must be text"),
    ({"id": "a", "title": "x", "deps": ["b", "a"]}, "'a' cannot depend on itself"),
    ({"id": "a", "title": "x", "feeds_from": ["a"]}, "'a' cannot depend on itself"),
    ({"id": "a", "title": "x", "class": "soon"}, "'service_class' must be one of expedite"),
    ({"id": "a", "title": "x", "class": 3}, "'service_class' must be"),
    ({"id": "a", "title": "x", "extra": [1]}, "'extra' must be an object, not a list"),
    ({"id": "a", "title": "x", "extra": {"a": "\x00"}}, "The extra holds a NUL"),
    ({"id": "a", "title": "x", "category": ""}, "cannot be a category"),
    ({"id": "a", "title": "x", "description": "\x00"}, "The description holds a NUL"),
]


@READERS
@pytest.mark.parametrize(("entry", "why"), WRONG, ids=[why for _, why in WRONG])
def test_a_wrong_task_is_refused_at_its_line(parse: Callable[[str], Plan], entry: dict[str, Any], why: str) -> None:
    before = '{"id": "first", "t": "fine"}'
    text = f"{before}\n\n{json.dumps(entry)}" if parse is parse_jsonl else f"- {before}\n\n- {json.dumps(entry)}"
    error = invalid(parse, text)
    assert error.line == 3
    assert why in error.message


@pytest.mark.parametrize("value", [True, 1.5, {}])
def test_an_id_in_json_is_text_or_a_whole_number(value: object) -> None:
    assert "'id' must be text" in invalid(parse_jsonl, jsonl({"id": value, "t": "x"})).message
    assert one({"id": 7, "t": "x"}).draft.id == "7"


@READERS
@pytest.mark.parametrize("entry", ["1", '"text"', "[]", "null", "true"])
def test_non_task_is_refused_with_its_line(parse: Callable[[str], Plan], entry: str) -> None:
    error = invalid(parse, f"\n{entry}" if parse is parse_jsonl else f"\n- {entry}")
    assert error.line == 2
    assert "a task is an object" in error.message


@READERS
def test_an_id_planned_twice_names_both_lines(parse: Callable[[str], Plan]) -> None:
    entry = '{"id": "a", "t": "x"}'
    error = invalid(parse, f"{entry}\n\n{entry}" if parse is parse_jsonl else f"- {entry}\n\n- {entry}")
    assert error.line == 3
    assert "'a' is already planned at line 1" in error.message


def test_an_id_planned_twice_on_one_line_is_refused_too() -> None:
    assert "already planned" in invalid(parse_yaml, "[{id: a, t: x}, {id: a, t: y}]").message


@READERS
@pytest.mark.parametrize("dependency", ["", "a b", "\ud800", "\x00"])
def test_invalid_dependency_id_is_refused_with_its_line(parse: Callable[[str], Plan], dependency: str) -> None:
    entry = json.dumps({"id": "a", "t": "x", "deps": [dependency]})
    assert invalid(parse, entry if parse is parse_jsonl else f"- {entry}").line == 1


@pytest.mark.parametrize("line", ["{", "{'id': 'a'}", '{"id": "a"} x', "\ufeff{}", "[" * 100_000])
def test_broken_json_is_refused_at_its_line(line: str) -> None:
    error = invalid(parse_jsonl, f"\n{line}")
    assert error.line == 2
    assert "not valid JSON" in error.message


@pytest.mark.parametrize("text", ["\n- {id: a", "\n- id: 'a", "\n\t- a", "\n- id: a\n t: x"])
def test_broken_yaml_is_refused_at_a_line(text: str) -> None:
    error = invalid(parse_yaml, text)
    assert error.line is not None
    assert error.line >= 2
    assert "not valid YAML" in error.message


@pytest.mark.parametrize("text", ["text", "3", "tasks: text", "tasks: {a: b}"])
def test_a_yaml_plan_is_a_list(text: str) -> None:
    assert "a plan is a list of tasks" in invalid(parse_yaml, text).message


@pytest.mark.parametrize("text", ["{}", "spec: s", "tasks: []\nowner: me", "task: []"])
def test_a_yaml_mapping_has_tasks_and_a_spec_and_nothing_else(text: str) -> None:
    assert "a mapping with 'tasks' and 'spec'" in invalid(parse_yaml, text).message


def test_a_mapping_without_tasks_does_not_claim_to_have_found_something() -> None:
    assert not invalid(parse_yaml, "spec: s").message.endswith("found ")


def test_aliases_are_refused_at_their_line() -> None:
    error = invalid(parse_yaml, "- &a {id: a, t: x}\n- *a")
    assert "aliases" in error.message
    assert error.line == 2


def test_a_bomb_of_aliases_is_refused_before_it_goes_off() -> None:
    text = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))
    assert "aliases" in invalid(parse_yaml, text).message


def test_a_yaml_plan_is_one_document() -> None:
    error = invalid(parse_yaml, "- {id: a, t: x}\n---\n- {id: b, t: x}")
    assert "a single document" in error.message
    assert error.line == 2


@pytest.mark.parametrize(
    "value",
    ["!!binary aGk=", "!!set {a, b}", "!!bool maybe", "!!int ''", "!!python/object:os.system {}", "!own x", "1e999"],
)
def test_yaml_only_values_are_refused_with_their_line(value: str) -> None:
    assert invalid(parse_yaml, f"\n- id: a\n  t: x\n  extra: {{k: {value}}}").line in {2, 4}


@pytest.mark.parametrize("key", ["7", "null", "true", "? [a]", "? {a: b}", "? "])
def test_a_key_that_is_no_text_is_refused_at_its_line(key: str) -> None:
    for text in (f"\n- {{id: a, t: x, {key} : y}}", f"\n- {{id: a, t: x, extra: {{{key} : y}}}}"):
        error = invalid(parse_yaml, text)
        assert error.line == 2
        assert "a key must be text" in error.message


def test_surrogate_in_a_plan_is_refused_with_its_line() -> None:
    assert invalid(parse_yaml, "- {id: a, t: x}\n- {id: b, t: \ud800}").line == 2


@READERS
def test_values_may_nest_as_deep_as_json_may_and_no_deeper(parse: Callable[[str], Plan]) -> None:
    def nested(depth: int) -> str:
        entry = '{"id": "a", "t": "x", "extra": ' + '{"k": ' * depth + "1" + "}" * depth + "}"
        return entry if parse is parse_jsonl else f"- {entry}"

    assert parse(nested(50)).tasks
    assert invalid(parse, nested(51)).line == 1
    assert invalid(parse, nested(200)).line == 1


@pytest.mark.parametrize("text", ["tasks: []\ntasks: [{id: a, t: x}]", "tasks: text\ntasks: [{id: a, t: x}]"])
def test_tasks_given_twice_are_refused(text: str) -> None:
    assert invalid(parse_yaml, text).line == 2


@READERS
def test_a_key_given_twice_is_refused(parse: Callable[[str], Plan]) -> None:
    entry = '{"id": "a", "t": "x", "t": "y"}'
    error = invalid(parse, f"\n{entry}" if parse is parse_jsonl else f"\n- {entry}")
    assert error.line == 2
    assert "given twice" in error.message


@pytest.mark.parametrize("key", ["id", "p", "max_retries", "class"])
@pytest.mark.parametrize("digits", [200, 400, 5_000])
def test_a_number_of_hundreds_of_digits_is_refused_at_its_line(key: str, digits: int) -> None:
    fields = {"id": '"a"', "t": '"x"', key: "9" * digits}
    entry = ", ".join(f'"{name}": {value}' for name, value in fields.items())
    assert invalid(parse_yaml, f"- {{{entry}}}").line == 1
    assert invalid(parse_jsonl, f"{{{entry}}}").line == 1


def test_endless_yaml_nesting_is_refused() -> None:
    """In a separate process, because the parser recurses in C."""
    script = (
        "from dibs.core.plan import parse_yaml, PlanInvalid\n"
        "try: parse_yaml('- ' * 100_000)\n"
        "except PlanInvalid: print('refused')"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=600)
    assert (ran.returncode, ran.stdout.strip()) == (0, "refused")


# Garbage

PIECES = st.sampled_from(
    ["- ", "\n", " ", "id: a", "t: x", "{", "}", "[", "]", ": ", ", ", '"', "'", "!!int ", "!!bool ", "!!set ", "? ",
     "tasks:", "spec:", "&a ", "*a", "|", ">", "#", "%", "---", "0x1", "1e999", ".nan", "~", "2026-01-01", "<<: ",
     "\t", "\x00", "\ud800", "é", "extra: ", "deps: ", "p: ", "class: "]
)  # fmt: skip
GARBAGE = st.one_of(st.text(), st.lists(PIECES, max_size=14).map("".join))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=6,
)


@READERS
@given(text=GARBAGE)
@example(text="{" * 3)
def test_no_text_raises_anything_but_plan_invalid(parse: Callable[[str], Plan], text: str) -> None:
    with suppress(PlanInvalid):
        parse(text)


@given(st.dictionaries(st.one_of(st.sampled_from(sorted(KEYS)), st.text(max_size=3)), JSON, max_size=6), st.booleans())
def test_no_json_raises_anything_but_plan_invalid(entry: dict[str, Any], complete: bool) -> None:
    whole = {**entry, "id": "a", "title": "x"} if complete else entry
    with suppress(PlanInvalid):
        parse_jsonl(json.dumps(whole))
