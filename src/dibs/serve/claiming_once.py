"""A claim whose answer got lost: asked for again under the same name, it is found rather than made a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.core.task import Claimed, Input, LinkKind, Status
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Holder, Task
    from dibs.desk import Desk
    from dibs.serve.idempotency import Name


def under(name: Name, request: ClaimRequest) -> ClaimRequest:
    """The same request with tokens that follow from its name."""
    return request._replace(tokens=tuple(name.token(number) for number in range(len(request.tokens))))


def held_or_claimed(
    desk: Desk,
    name: Name,
    agent: str,
    *,
    refs: Sequence[str],
    holder: Holder,
    force: bool,
    assigned: bool = False,
    count: int = 1,
    **terms: Any,
) -> list[Claimed]:
    """What is held under the tokens of this name; where nothing is, a claim under them."""
    request = under(name, desk.next_request(agent, count=len(refs) or count, **terms))
    held = [
        task
        for task in desk.find(Query(desk.scope, (Status.ACTIVE,), agent=request.agent))
        if task.lease is not None and task.lease.token in request.tokens
    ]
    if held:
        return [Claimed(task, _inputs(desk, task)) for task in held]
    return desk.claim(
        agent, refs=refs, count=count, holder=holder, force=force, assigned=assigned, tokens=request.tokens, **terms
    )


def _inputs(desk: Desk, task: Task) -> tuple[Input, ...]:
    """What the finished prerequisites of a task left for it."""
    if not desk.capabilities.links:
        return ()
    exact = desk.exact
    links = exact.links(task.id)
    before = sorted({link.on for link in links if link.task == task.id and link.kind is not LinkKind.PARALLEL_OK})
    found = (exact.get(each) for each in before)
    return tuple(Input(one.id, one.title, one.result, one.artifacts) for one in found if one.status is Status.DONE)
