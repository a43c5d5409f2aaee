"""Every test that the page of guarantees names is there, under that name."""

from __future__ import annotations

import ast
import os
import re

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(TESTS)
PAGE = os.path.join(ROOT, "docs", "explanation", "guarantees.md")
_NAMED = re.compile(r"`([\w/]+\.py)(?:::(test_\w+))?`")


def named() -> list[tuple[str, str]]:
    with open(PAGE, encoding="utf-8") as page:
        return _NAMED.findall(page.read())


def place_of(path: str) -> str:
    return os.path.join(ROOT if path.startswith("src/") else TESTS, path)


def functions(path: str) -> set[str]:
    with open(place_of(path), encoding="utf-8") as file:
        return {node.name for node in ast.walk(ast.parse(file.read())) if isinstance(node, ast.FunctionDef)}


def test_every_test_that_the_page_names_is_there() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in named()
        if not os.path.isfile(place_of(path)) or (name and name not in functions(path))
    ]
    assert missing == []


def test_the_page_names_a_test_for_every_promise() -> None:
    with open(PAGE, encoding="utf-8") as page:
        promises = [line for line in page if line.startswith("| **")]
    assert len(promises) == 8
    assert [line for line in promises if not _NAMED.search(line)] == []
