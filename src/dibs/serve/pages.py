"""A page of a listing. Its cursor is the place of the last task shown: what comes, goes or moves shifts nothing."""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.core.order import CLASS_RANK, order_key
from dibs.core.task import Task

if TYPE_CHECKING:
    from dibs.core.order import OrderKey
    from dibs.desk import Desk
    from dibs.stores.port import Query

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_RANKS = {rank: rank for rank in CLASS_RANK.values()}


class Page(NamedTuple):
    """Tasks, and the cursor of the next page if there is one."""

    tasks: list[Task]
    next: str | None


def page_of(desk: "Desk", query: "Query", limit: int, cursor: str | None) -> Page:
    after = None if cursor is None else _place(cursor)
    found = desk.find(query._replace(limit=limit + 1, after=after))
    return Page(found[:limit], _cursor(found[limit - 1]) if len(found) > limit else None)


def _cursor(task: Task) -> str:
    rank, behind, priority, queued_at, task_id, scope = order_key(task)
    place = [rank, int(behind), priority, (queued_at - _EPOCH) // _MICROSECOND, task_id, scope]
    return urlsafe_b64encode(json.dumps(place, ensure_ascii=False, separators=(",", ":")).encode()).decode().rstrip("=")


def _place(cursor: str) -> "OrderKey":
    try:
        rank, behind, priority, queued, task_id, scope = json.loads(
            urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        )
        queued_at = _EPOCH + timedelta(microseconds=int(queued))
        place = (_RANKS[rank], bool(behind), checks.priority(priority), queued_at)
        return (*place, checks.identifier(task_id), checks.name_of("scope", scope))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, InvalidInput):
        raise InvalidInput("cursor: give back the 'next' of the page before, as it was.") from None
