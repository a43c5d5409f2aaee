"""`dibs.aio`: the loop never blocks, and cancellation loses nothing."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest

import dibs
from dibs import Status
from dibs.stores.sqlite.database import Database, Transaction

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

PATIENCE = 120.0  # seconds


def run(story: Coroutine[None, None, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE))


async def claimed(desk: dibs.aio.Desk, name: str) -> dibs.aio.Claim:
    claim = await desk.claim(name)
    assert claim is not None
    return claim


def test_store_is_never_asked_in_the_thread_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[tuple[Database, int]] = []  # an earlier test may have left a claim that is renewed
    begin = Database.begin

    def noted(self: Database, how: str) -> Transaction:
        began.append((self, threading.get_ident()))
        return begin(self, how)

    monkeypatch.setattr(Database, "begin", noted)

    async def story() -> None:
        async with dibs.aio.open(":memory:", agent="ann") as desk:
            for name in "abc":
                await desk.add(name, id=name)
            own, _ = began[-1]
            async for claim in desk.work():
                async with claim:
                    await claim.renew()
            assert (await desk.counts()).by_status[Status.DONE] == 3
        threads = {thread for database, thread in began if database is own}
        assert threading.get_ident() not in threads
        assert len(threads) == 1

    run(story())


def test_block_finishes_fails_or_releases() -> None:
    async def story() -> None:
        async with dibs.aio.open(":memory:", agent="ann") as desk:
            for name in "abc":
                await desk.add(name, id=name, max_retries=0)
            claims = [claim async for claim in desk.work(limit=3)]
            for claim in claims:
                assert claim.ended, "the loop has gone on"
            claims = [await claimed(desk, name) for name in "abc"]
            async with claims[0]:
                pass
            with pytest.raises(ValueError, match="no"):
                async with claims[1]:
                    raise ValueError("no")
            with pytest.raises(asyncio.CancelledError):
                async with claims[2]:
                    raise asyncio.CancelledError
            found = [(await desk.get(name)).status for name in "abc"]
            assert found == [Status.DONE, Status.ESCALATED, Status.READY]

    run(story())


def test_cancelled_worker_releases_its_task() -> None:
    async def story() -> None:
        async with dibs.aio.open(":memory:", agent="ann") as desk:
            await desk.add("A", id="a")
            started = asyncio.Event()

            async def work() -> None:
                async for claim in desk.work(wait=True):
                    async with claim:
                        started.set()
                        await asyncio.sleep(PATIENCE)

            worker = asyncio.create_task(work())
            await started.wait()
            worker.cancel()
            with pytest.raises(asyncio.CancelledError):
                await worker
            task = await desk.get("a")
            assert (task.status, task.retries) == (Status.READY, 0)

    run(story())


def test_claim_of_a_cancelled_call_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is cancelled while its claim is under way in the thread."""
    entered, go = threading.Event(), threading.Event()
    claim = dibs.Desk.claim

    def slow(self: dibs.Desk, *args: object, **more: object) -> object:
        entered.set()
        assert go.wait(PATIENCE)
        return claim(self, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(dibs.Desk, "claim", slow)

    async def story() -> None:
        async with dibs.aio.open(":memory:", agent="ann") as desk:
            await desk.add("A", id="a")
            asking = asyncio.create_task(desk.claim())
            await asyncio.to_thread(entered.wait, PATIENCE)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            go.set()
            assert [event.verb for event in await desk.events("a")] == ["add", "claim", "release"]

    run(story())


def test_done_claims_the_next(tmp_path: Path) -> None:
    async def story() -> None:
        desk = await dibs.aio.open(f"sqlite:///{tmp_path}/tasks.db", agent="ann")
        await desk.add("A", id="a")
        await desk.add("B", id="b", blocked_by=["a"])
        first = await desk.claim("a")
        assert first is not None
        second = await first.done(7, next=True)
        assert second is not None
        assert (second.id, second.inputs) == ("b", {"a": 7})
        await desk.close()

    run(story())


def test_open_raises_for_invalid_arguments(tmp_path: Path) -> None:
    async def story() -> None:
        with pytest.raises(dibs.StoreUnavailable):
            await dibs.aio.open(f"sqlite:///{tmp_path}")

    run(story())
