"""Wrong calls are refused with a code and a next step, change nothing, and show no internals."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import MCPError

from dibs.chat.analyst.embedders import _table, pieces
from dibs.core.errors import DibsError
from dibs.core.task import Actor, Draft, Link
from dibs.desk import open_desk
from dibs.serve.access import Right
from dibs.serve.mcp.models import error_answer
from dibs.serve.mcp.rendering import WHOLE
from dibs.serve.mcp.server import _answered, _read
from dibs.serve.mcp.sessions import Identity, LeaseRenewer, Session
from dibs.serve.mcp.tools import TOOLS, by_name

if TYPE_CHECKING:
    from support.mcp import Place

pytestmark = pytest.mark.anyio

WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("claim", {"task": "nothing"}, "NOT_FOUND"),
    ("claim", {"task": ""}, "INVALID_INPUT"),
    ("claim", {"task": "x" * 1000}, "NOT_FOUND"),
    ("claim", {"task": "waits"}, "WAITING"),
    ("claim", {"task": "o"}, "AMBIGUOUS_ID"),
    ("claim", {"task": 7}, "INVALID_INPUT"),
    ("claim", {"task": "one\u0000"}, "INVALID_INPUT"),
    ("claim", {"agent": "boss"}, "INVALID_INPUT"),
    ("finish", {}, "INVALID_INPUT"),
    ("finish", {"task": "one"}, "ILLEGAL_MOVE"),
    ("finish", {"task": "one", "token": "6e19c55d-d126-47a5-a169-6e3e01649805"}, "LOST_LOCK"),
    ("finish", {"task": "one", "token": ""}, "LOST_LOCK"),
    ("finish", {"task": "one", "token": {"$ne": None}}, "INVALID_INPUT"),
    ("finish", {"next": "yes"}, "INVALID_INPUT"),
    ("block", {"task": "one"}, "INVALID_INPUT"),
    ("block", {"task": "one", "reason": "x", "check_at": "tomorrow"}, "INVALID_INPUT"),
    ("block", {"task": "one", "reason": "x", "check_at": "2026-01-01T00:00:00"}, "INVALID_INPUT"),
    ("give_back", {"task": "one", "reason": "no"}, "ILLEGAL_MOVE"),
    ("add", {}, "INVALID_INPUT"),
    ("add", {"tasks": [{}]}, "INVALID_INPUT"),
    ("add", {"tasks": [{"title": " "}]}, "INVALID_INPUT"),
    ("add", {"tasks": [{"title": "a\nb"}]}, "INVALID_INPUT"),
    ("add", {"tasks": [{"title": "\ud800"}]}, "INVALID_INPUT"),
    ("add", {"tasks": [{"title": "x", "priority": 1e300}]}, "INVALID_INPUT"),
    ("add", {"tasks": [None]}, "INVALID_INPUT"),
    ("add", {"tasks": [{"title": "x", "id": "one"}]}, "ALREADY_EXISTS"),
    ("add", {"tasks": [{"title": "x", "needs": ["nothing"]}]}, "NOT_FOUND"),
    ("add", {"tasks": [{"title": "x", "id": "x", "needs": ["x"]}]}, "INVALID_INPUT"),
    ("add", {"tasks": [{"title": "x", "id": "x", "needs": ["waits"], "needed_by": ["one"]}]}, "CYCLE"),
    ("add", {"tasks": [{"title": "x"}] * 101}, "INVALID_INPUT"),
    ("add", {"links": [{"task": "one", "needs": "waits"}]}, "CYCLE"),
    ("plan", {"text": "tasks: ["}, "PLAN_INVALID"),
    ("plan", {"text": "&a [*a]"}, "PLAN_INVALID"),
    ("plan", {"text": '{"id": "x"}\n{"id": "x"}'}, "PLAN_INVALID"),
    ("plan", {"page": 0}, "INVALID_INPUT"),
    ("show", {"task": "'; DROP TABLE task; --"}, "INVALID_INPUT"),
    ("show", {"task": "../../etc/passwd"}, "NOT_FOUND"),
    ("show", {"task": "one", "offset": -1}, "INVALID_INPUT"),
    ("find", {"limit": 10**6}, "INVALID_INPUT"),
    ("find", {"status": ["finished"]}, "INVALID_INPUT"),
    ("find", {"text": "\u0000"}, "INVALID_INPUT"),
    ("say", {"text": "hello"}, "MISCONFIGURED"),
]


async def test_wrong_calls_are_refused_with_a_next_step(place: Place) -> None:
    place.add("one", "other", "waits", links=(Link("waits", "one"),))
    async with place.in_process() as hand:
        for tool, arguments, code in WRONG:
            said = await hand.ask(tool, **arguments)
            assert said.code == code, (tool, arguments, said.data)
            assert said["error"]["message"]
            assert said["error"]["next"]
            assert "Traceback" not in json.dumps(said.data)
            assert "pydantic" not in json.dumps(said.data)
    with place.desk() as desk:
        assert [event.verb for event in desk.events() if event.outcome == "ok"] == ["add", "add", "add", "link"]


async def test_unknown_names_get_protocol_errors(place: Place) -> None:
    async with place.in_process() as hand:
        with pytest.raises(MCPError, match="no tool 'drop_everything'"):
            await hand.client.call_tool("drop_everything")
        with pytest.raises(MCPError, match="NOT_FOUND"):
            await hand.client.read_resource("dibs://task/nothing")
        with pytest.raises(MCPError, match="Unknown resource"):
            await hand.client.read_resource("file:///etc/passwd")
        with pytest.raises(MCPError, match="no prompt"):
            await hand.client.get_prompt("evil")


async def test_tokens_appear_in_no_error_or_event(place: Place) -> None:
    place.add("one")
    async with place.in_process() as hand:
        token = (await hand.ask("claim"))["claimed"]["token"]
        place.take_over("one")
        said = await hand.ask("finish", task="one", token=token)
        assert said.code == "LOST_LOCK"
        assert token not in json.dumps(said.data)
        shown = await hand.ask("show", task="one")
        assert token not in json.dumps(shown.data)
    with place.desk() as desk:
        assert token not in repr(desk.events())


async def test_viewer_can_only_read(place: Place) -> None:
    place.add("one")
    async with place.in_process(Identity("ann", "run-1", rights=frozenset({Right.READ}))) as hand:
        for tool in TOOLS:
            needed: dict[str, Any] = {"task": "one"} if tool.name == "show" else {}
            allowed = tool.right is Right.READ
            assert ((await hand.ask(tool.name, **needed)).code == "FORBIDDEN") is not allowed, tool.name
        assert (await hand.ask("plan", text="tasks: []")).code == "FORBIDDEN"


async def test_answers_stay_below_the_size_limit(place: Place) -> None:
    """A long description is read in parts, and the parts make the whole."""
    description = "".join(chr(0x4E00 + number % 20_000) for number in range(30_000))
    result = {"lines": ["word " * 20] * 400}
    with place.desk() as desk:
        needed = [Draft("a" * 500, f"needed-{number}") for number in range(25)]
        whole = Draft("Ä" * 500, "whole", description, steps=("s" * 2000,) * 100, priority=3)
        desk.add([*needed, whole], [Link("whole", draft.id) for draft in needed])
        for claimed in desk.claim("bob", count=25):
            assert claimed.task.lease is not None
            desk.comment(claimed.task.id, "n" * 5000)
            desk.move("done", claimed.task.id, token=claimed.task.lease.token, result=result)  # type: ignore[arg-type]
        desk.add([Draft("🎉" * 500, "语" * 100 + str(number)) for number in range(60)])
    async with place.in_process() as hand:
        read, offset = "", 0
        while True:
            said = await hand.ask("show", task="whole", offset=offset)
            assert size(said.data) <= WHOLE
            read += said["task"]["description"]
            if "more_at" not in said["task"]:
                break
            offset = said["task"]["more_at"]
        assert read == description
        for tool, given in (
            ("claim", {"task": "whole"}),
            ("find", {"limit": 50}),
            ("what_next", {"limit": 50}),
            ("plan", {}),
        ):
            data = (await hand.ask(tool, **given)).data
            assert size(data) <= 1.1 * WHOLE, tool
            assert len(pieces(json.dumps(data, ensure_ascii=False), _table().numbers)) < 25_000, tool
        pages: list[str] = []
        where: dict[str, str] | None = {}
        while where is not None:
            said = await hand.ask("find", limit=25, **where)
            pages += [row["id"] for row in said["tasks"]]
            where = {"cursor": said["next"]} if "next" in said.data else None
        assert len(pages) == len(set(pages)) == 61


def size(data: object) -> int:
    return len(json.dumps(data, ensure_ascii=False).encode())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(["one", "two"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def _given(name: str) -> st.SearchStrategy[dict[str, Any]]:
    tool = by_name(name)
    assert tool is not None
    return st.dictionaries(st.sampled_from([*tool.takes.model_fields, "else"]), JSON, max_size=4)


@settings(max_examples=25)
@given(
    calls=st.lists(
        st.sampled_from([tool.name for tool in TOOLS]).flatmap(lambda name: st.tuples(st.just(name), _given(name))),
        max_size=6,
    )
)
def test_no_arguments_crash_a_tool(
    calls: list[tuple[str, dict[str, Any]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = str(tmp_path_factory.mktemp("any") / "desk.db")
    with open_desk(f"sqlite:///{file}?durability=normal", create=True, by=Actor("tester")) as desk:
        desk.add([Draft("One", "one"), Draft("Two", "two")])
        renewer = LeaseRenewer(lambda: open_desk(file))
        session = Session(Identity("ann", "run-1"), renewer)
        for name, given_arguments in calls:
            tool = by_name(name)
            assert tool is not None
            try:
                answer = tool.act(session.at(desk), session, _read(tool.takes, given_arguments))
            except DibsError as error:
                json.dumps(error_answer(error).model_dump())
            else:
                json.dumps(_answered(answer).structured_content, allow_nan=False)
        session.end(desk)
        renewer.stop()
