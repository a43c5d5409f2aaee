"""Links and the graph they make, plans, and the scores of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.errors import InvalidInput, Unsupported
from dibs.core.graph import critical_path, layers
from dibs.core.plan import parse_yaml, skim_jsonl
from dibs.core.scores import scores
from dibs.core.task import TERMINAL, Status
from dibs.core.times import parse_duration, time_from
from dibs.core.wire import changes_json, lease_json, link_json, scores_json
from dibs.fleet.attempt import history
from dibs.serve.access import Right
from dibs.serve.api.schemas import LINKED, LINKS, answer, links_of, many
from dibs.serve.requests import FLAG, TEXT, Field, Route, list_of, one_of
from dibs.stores.port import Query

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.core.task import Json, Task
    from dibs.desk import Desk
    from dibs.serve.requests import Call


def link(call: Call) -> Json:
    return {"links": [link_json(one) for one in call.desk.link(links_of(call.body["links"]))]}


def unlink(call: Call) -> Json:
    return {"links": [link_json(one) for one in call.desk.unlink(links_of(call.body["links"]))]}


def graph(call: Call) -> Json:
    """The graph for a drawing. The critical path is that of the unfinished tasks."""
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
    """The fields of a task that a drawing needs."""
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


_LINKS_BODY = (Field("links", LINKS, required=True),)
_LINKS_ANSWER = answer(links=many(LINKED))


def show(call: Call) -> Json:
    from dibs.chat.conversation.plan import HISTORY, plan_of, plan_text
    from dibs.chat.wire import plan_json
    from dibs.draw.formats import mermaid

    desk, how = call.desk, call.query.get("format", "json")
    graph = desk.graph(finished=False)
    if how == "mermaid":
        return {"mermaid": mermaid(graph)}
    plan = plan_of(graph, desk.find(Query(desk.scope, (Status.DONE,), limit=HISTORY)))
    return {"text": plan_text(plan, desk.now())} if how == "text" else plan_json(plan)


def apply(call: Call) -> Json:
    text: str = call.body["text"]
    how = call.body.get("format") or ("jsonl" if text.lstrip()[:1] == "{" else "yaml")
    plan = skim_jsonl(text) if how == "jsonl" else parse_yaml(text)
    plan = plan._replace(specs=plan.specs | frozenset(call.body.get("specs", ())))
    dry_run = call.query.get("dry_run", False)
    return changes_json(call.desk.apply_plan(plan, dry_run=dry_run), dry_run=dry_run)


def tally(call: Call) -> Json:
    desk = call.desk
    if not desk.capabilities.history:
        raise Unsupported("This store keeps no record that scores could be counted from.")
    since = _since(desk, call.query["since"]) if "since" in call.query else None
    return scores_json(scores(history(desk), since))


def _since(desk: Desk, said: str) -> datetime:
    """A time, given as such or as a duration before now."""
    try:
        return desk.now() - parse_duration(said)
    except InvalidInput:
        return time_from(said)


_OBJECT: dict[str, Any] = {"type": "object"}

ROUTES = (
    Route(
        "POST",
        "/links",
        link,
        "Say what depends on what, all or none; what changed anything",
        Right.PLAN,
        (),
        _LINKS_BODY,
        _LINKS_ANSWER,
    ),
    Route(
        "DELETE", "/links", unlink, "Take dependencies back, all or none", Right.PLAN, (), _LINKS_BODY, _LINKS_ANSWER
    ),
    Route(
        "GET",
        "/graph",
        graph,
        "The tasks as a drawing needs them: layers, and the longest chain of what is left",
        query=(Field("finished", FLAG, "what is done or canceled too"),),
        answer=answer(tasks=many({"type": "object"}), links=many(LINKED)),
    ),
    Route(
        "GET",
        "/plan",
        show,
        "What is to be done: phases, who works on what, what waits for what, and an estimate",
        query=(Field("format", one_of(("json", "text", "mermaid")), "json unless said"),),
        answer=_OBJECT,
    ),
    Route(
        "POST",
        "/plan",
        apply,
        "Bring the tasks in line with a plan, as `dibs plan` does",
        Right.PLAN,
        query=(Field("dry_run", FLAG, "say what would change, and change nothing"),),
        body=(
            Field("text", TEXT, "the plan, JSON lines or YAML", required=True),
            Field("format", one_of(("jsonl", "yaml")), "how to read it; else by its first character"),
            Field("specs", list_of(TEXT), "it covers these, even if it names no task of them"),
        ),
        answer=answer(inserted=many({"type": "string"}), updated=many({"type": "string"})),
    ),
    Route(
        "GET",
        "/scores",
        tally,
        "What each agent has finished, failed and lost",
        query=(Field("since", TEXT, "only from then on: a time, or a span such as 7d"),),
        answer=answer(agents=many(_OBJECT)),
    ),
)
