"""Links and the graph they make."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.graph import critical_path, layers
from dibs.core.task import TERMINAL
from dibs.core.wire import lease_json, link_json
from dibs.serve.access import Right
from dibs.serve.api.schemas import LINKED, LINKS, answer, links_of, many
from dibs.serve.requests import FLAG, Field, Route

if TYPE_CHECKING:
    from dibs.core.task import Json, Task
    from dibs.serve.requests import Call


def link(call: Call) -> Json:
    return {"links": [link_json(one) for one in call.desk.link(links_of(call.body["links"]))]}


def unlink(call: Call) -> Json:
    return {"links": [link_json(one) for one in call.desk.unlink(links_of(call.body["links"]))]}


def graph(call: Call) -> Json:
    """The critical path is that of the work that is left."""
    drawn = call.desk.graph(finished=call.query.get("finished", False))
    before = drawn.prerequisites()
    ended = {task.id for task in drawn.tasks if task.status in TERMINAL}
    left = {task: needs - ended for task, needs in before.items() if task not in ended}
    return {
        "tasks": [compact(task) for task in drawn.tasks],
        "links": [link_json(one) for one in drawn.links],
        "layers": layers(before),
        "critical_path": critical_path(left),
    }


def compact(task: Task) -> dict[str, Json]:
    """What a drawing needs of a task."""
    told: dict[str, Json] = {
        "id": task.id, "title": task.title, "status": task.status.value, "priority": task.priority,
        "blockers": task.blockers,
    }  # fmt: skip
    for name in ("parent", "category", "deliverable", "assigned_to"):
        if (value := getattr(task, name)) is not None:
            told[name] = value
    if task.lease is not None:
        told["lease"] = lease_json(task.lease)
    return told


_BODY = (Field("links", LINKS, required=True),)
_ANSWER = answer(links=many(LINKED))

ROUTES = (
    Route(
        "POST",
        "/links",
        link,
        "Say what depends on what, all or none; what changed anything",
        Right.PLAN,
        (),
        _BODY,
        _ANSWER,
    ),
    Route("DELETE", "/links", unlink, "Take dependencies back, all or none", Right.PLAN, (), _BODY, _ANSWER),
    Route(
        "GET",
        "/graph",
        graph,
        "The tasks as a drawing needs them: layers, and the longest chain of what is left",
        query=(Field("finished", FLAG, "what is done or canceled too"),),
        answer=answer(tasks=many({"type": "object"}), links=many(LINKED)),
    ),
)
