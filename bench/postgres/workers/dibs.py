"""dibs, used through a Desk. MODE `apart` claims in one commit and finishes in another, `together` finishes and claims
the next task in one. A BATCH above 1 does that many tasks per call.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from bench.postgres.workers.starting_line import Tally, wait_for_start
from dibs.core.errors import DibsError
from dibs.core.lifecycle import Verb
from dibs.core.task import Draft
from dibs.desk import Desk
from dibs.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Claimed

_CHUNK = 5_000
_AGENT = "worker"


def _desk(url: str, *, create: bool = False) -> Desk:
    return Desk(open_store(f"{url}&schema=dibs", create=create))


def fill(url: str, jobs: int) -> None:
    with _desk(url, create=True) as desk:
        for start in range(0, jobs, _CHUNK):
            numbers = range(start, min(start + _CHUNK, jobs))
            desk.add([Draft(f"task {number}", id=f"t{number:06}") for number in numbers])


def _token(one: Claimed) -> str:
    assert one.task.lease
    return one.task.lease.token


def _number(one: Claimed) -> int:
    return int(one.task.id[1:])


def apart(desk: Desk, tally: Tally) -> None:
    while claimed := desk.claim(_AGENT):
        (one,) = claimed
        desk.move(Verb.DONE, one.task.id, token=_token(one))
        tally.add(_number(one))


def together(desk: Desk, tally: Tally) -> None:
    held = tuple(desk.claim(_AGENT))
    while held:
        (one,) = held
        held = desk.move(Verb.DONE, one.task.id, token=_token(one), then=desk.next_request(_AGENT)).next
        tally.add(_number(one))


def batches(desk: Desk, tally: Tally, size: int) -> None:
    while claimed := desk.claim(_AGENT, count=size):
        _finish(desk, claimed)
        for one in claimed:
            tally.add(_number(one))


def batches_together(desk: Desk, tally: Tally, size: int) -> None:
    held: Sequence[Claimed] = desk.claim(_AGENT, count=size)
    while held:
        done, held = held, _finish(desk, held, desk.next_request(_AGENT, count=size))
        for one in done:
            tally.add(_number(one))


def _finish(desk: Desk, claimed: Sequence[Claimed], then: ClaimRequest | None = None) -> Sequence[Claimed]:
    batch = desk.move_all(Verb.DONE, {one.task.id: _token(one) for one in claimed}, then=then)
    for outcome in batch.outcomes:
        if isinstance(outcome, DibsError):
            raise outcome
    return batch.next


def drain(url: str, mode: str, batch: int) -> None:
    tally = Tally()
    with _desk(url) as desk:
        desk.ready(limit=1)  # everything loaded and connected
        wait_for_start()
        if batch > 1:
            (batches if mode == "apart" else batches_together)(desk, tally, batch)
        else:
            (apart if mode == "apart" else together)(desk, tally)
    tally.report()


if __name__ == "__main__":
    if sys.argv[1] == "fill":
        fill(sys.argv[2], int(sys.argv[3]))
    else:
        drain(sys.argv[2], sys.argv[3], int(sys.argv[4]))
