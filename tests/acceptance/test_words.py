"""One word per fact: the command line, HTTP, MCP and Python use the same names in a finish and a claim."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

import dibs
from dibs.core.task import Claimed, Input
from dibs.serve.api import schemas, tasks
from dibs.serve.mcp import models
from dibs.stores.port import Moved

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.cli import Cli

FORMER = {"readied", "released", "handoffs", "handed_over"}


def keys(value: Any) -> Iterator[str]:
    """Every key of a JSON document."""
    if isinstance(value, dict):
        yield from value
        for each in value.values():
            yield from keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from keys(each)


def test_every_surface_uses_unblocked_and_inputs(cli: Cli) -> None:
    cli.ok("add", "First", "--id", "first")
    cli.ok("add", "Second", "--id", "second", "--blocked-by", "first")
    done = cli.json("done", "first", "--token", cli.claim("first"), "--note", "x")
    claim = cli.json("claim", "second", "--agent", "ann")
    command_line = {*keys(done), *keys(claim)}
    http = {*keys(json.loads(json.dumps(tasks._MOVED))), *keys(json.loads(json.dumps(schemas.COMPONENTS)))}
    mcp = {
        field
        for model in vars(models).values()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for field in model.model_fields
    }
    with dibs.open(":memory:") as desk:
        desk.add("A task", id="a")
        python = {*Moved._fields, *Claimed._fields, *vars(desk.claim("a"))}
    for surface in (command_line, http, mcp, python):
        assert {"unblocked", "inputs"} <= surface, surface
        assert not FORMER & surface, surface


def test_inputs_in_json_are_lists_of_four(cli: Cli) -> None:
    cli.ok("add", "First", "--id", "first")
    cli.ok("add", "Second", "--id", "second", "--blocked-by", "first")
    cli.ok("done", "first", "--token", cli.claim("first"), "--note", "x", "--artifact", "a.txt")
    (given,) = cli.json("claim", "second", "--agent", "ann")["inputs"]
    assert given == {"id": "first", "title": "First", "result": "x", "artifacts": ["a.txt"]}
    assert set(given) == set(Input._fields)
