"""The public API for asyncio: the same desk and claims, with every call in a thread so that the loop never blocks.

async with dibs.aio.open() as desk:
    async for claim in desk.work(agent="ann"):
        async with claim:
            claim.result = await build(claim.task, claim.inputs)
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from dibs import api, claims
from dibs.claims import Span, is_forgiving, listed, span_of
from dibs.core.fields import EVERY, Filter

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
    from types import TracebackType

    from dibs.core.task import Json, Task

P = ParamSpec("P")
R = TypeVar("R")
_LOOK = 0.1  # seconds between two looks for work


class open:  # noqa: A001, N801 - as in `dibs.aio.open`
    """Open a store as `dibs.open` does, in an `async with` block or with `await`."""

    def __init__(self, url: str | None = None, *, scope: str | None = None, agent: str | None = None) -> None:
        self._open = partial(api.open, url, scope=scope, agent=agent)
        self._desk: Desk | None = None

    async def _opened(self) -> Desk:
        pool = ThreadPoolExecutor(1, "dibs-aio")
        try:
            self._desk = Desk(await asyncio.wrap_future(pool.submit(self._open)), pool)
        except BaseException:
            pool.shutdown(wait=False)
            raise
        return self._desk

    def __await__(self) -> Any:
        return self._opened().__await__()

    async def __aenter__(self) -> Desk:
        return await self._opened()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._desk is not None
        await self._desk.close()


def _threaded(
    method: Callable[Concatenate[api.Desk, P], R],
) -> Callable[Concatenate[Desk, P], Coroutine[Any, Any, R]]:
    """The same method, awaited."""

    @wraps(method)
    async def call(self: Desk, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self._run(partial(method, self._desk, *args, **kwargs))

    return call


class Desk:
    """`dibs.Desk` with every verb as a coroutine. A cancelled call is either carried out whole or not at all."""

    def __init__(self, desk: api.Desk, pool: ThreadPoolExecutor) -> None:
        self._desk = desk
        self._pool = pool

    @property
    def scope(self) -> str:
        return self._desk.scope

    @property
    def agent(self) -> str:
        return self._desk.agent

    now = _threaded(api.Desk.now)
    add = _threaded(api.Desk.add)
    get = _threaded(api.Desk.get)
    list = _threaded(api.Desk.list)
    ready = _threaded(api.Desk.ready)
    edit = _threaded(api.Desk.edit)
    comment = _threaded(api.Desk.comment)
    plan = _threaded(api.Desk.plan)
    graph = _threaded(api.Desk.graph)
    links = _threaded(api.Desk.links)
    link = _threaded(api.Desk.link)
    unlink = _threaded(api.Desk.unlink)
    events = _threaded(api.Desk.events)
    counts = _threaded(api.Desk.counts)
    scopes = _threaded(api.Desk.scopes)
    settings = _threaded(api.Desk.settings)
    configure = _threaded(api.Desk.configure)
    keep_vectors = _threaded(api.Desk.keep_vectors)
    vectors = _threaded(api.Desk.vectors)
    similar = _threaded(api.Desk.similar)
    renew = _threaded(api.Desk.renew)
    done = _threaded(api.Desk.done)
    fail = _threaded(api.Desk.fail)
    block = _threaded(api.Desk.block)
    unblock = _threaded(api.Desk.unblock)
    review = _threaded(api.Desk.review)
    approve = _threaded(api.Desk.approve)
    rework = _threaded(api.Desk.rework)
    cancel = _threaded(api.Desk.cancel)
    release = _threaded(api.Desk.release)
    pause = _threaded(api.Desk.pause)
    resume = _threaded(api.Desk.resume)
    reopen = _threaded(api.Desk.reopen)

    async def claim(
        self,
        id: str | None = None,
        *,
        agent: str | None = None,
        lease: Span | None = None,
        can: Iterable[str] = (),
        only: Filter = EVERY,
        wait: Span | None = None,
    ) -> Claim | None:
        """As `dibs.Desk.claim`. A claim that a cancelled call would have got is released."""
        until = asyncio.get_running_loop().time() + (0.0 if wait is None else span_of(wait).total_seconds())
        ask = partial(self._desk.claim, id, agent=agent, lease=lease, can=listed("can", can), only=only)
        while True:
            found = await self._claimed(ask)
            left = until - asyncio.get_running_loop().time()
            if found is not None or left <= 0:
                return found
            await asyncio.sleep(min(_LOOK, left))

    async def work(
        self,
        agent: str | None = None,
        *,
        wait: bool = False,
        limit: int | None = None,
        can: Iterable[str] = (),
        only: Filter = EVERY,
        lease: Span | None = None,
        on_error: Literal["raise", "continue"] = "raise",
    ) -> AsyncIterator[Claim]:
        """As `dibs.Desk.work`. It ends when its task is cancelled; a claim that is not finished is released."""
        forgiving = is_forgiving(on_error)
        ask = partial(self._desk._next, agent or self.agent, self._desk._terms(lease, can, only))
        count = 0
        while limit is None or count < limit:
            claim = await self._claimed(ask)
            if claim is None:
                if not wait:
                    return
                await asyncio.sleep(_LOOK)
                continue
            count += 1
            claim._forgiving = forgiving
            self._desk._session.keeper.keep(claim._claim)
            try:
                yield claim
            finally:
                await asyncio.shield(self._run(claim._claim._leave))

    async def _claimed(self, ask: Callable[[], claims.Claim | None]) -> Claim | None:
        future = self._pool.submit(ask)
        try:
            found = await asyncio.shield(asyncio.wrap_future(future))
        except asyncio.CancelledError:
            self._pool.submit(_released, future)
            raise
        return None if found is None else Claim(self, found)

    async def _run(self, call: Callable[[], R]) -> R:
        """Carry out a call in the desk's thread, to its end even if the awaiting task is cancelled."""
        return await asyncio.shield(asyncio.wrap_future(self._pool.submit(call)))

    async def close(self) -> None:
        await self._run(self._desk.close)
        self._pool.shutdown(wait=False)


def _released(future: Any) -> None:
    """Give back what a cancelled call has claimed."""
    claim = future.result()
    if claim is not None:
        claim.release("the call was cancelled")


class Claim:
    """`dibs.Claim` for asyncio: `async with claim` renews it, finishes it, or fails it with the exception's message.

    Cancellation releases the task.
    """

    def __init__(self, desk: Desk, claim: claims.Claim) -> None:
        self._desk = desk
        self._claim = claim
        self._forgiving = False
        self.result: Json = None
        self.artifacts: Sequence[str] = ()

    def __repr__(self) -> str:
        return repr(self._claim)

    @property
    def id(self) -> str:
        return self._claim.id

    @property
    def task(self) -> Task:
        return self._claim.task

    @property
    def inputs(self) -> Mapping[str, Json]:
        return self._claim.inputs

    @property
    def token(self) -> str:
        return self._claim.token

    @property
    def attempt(self) -> int:
        return self._claim.attempt

    @property
    def unblocked(self) -> Sequence[str]:
        return self._claim.unblocked

    @property
    def ended(self) -> bool:
        return self._claim.ended

    async def renew(self, lease: Span | None = None) -> None:
        await self._desk._run(partial(self._claim.renew, lease))

    async def done(self, result: Json = None, *, artifacts: Iterable[str] = (), next: bool = False) -> Claim | None:
        given = self.result if result is None else result
        ask = partial(
            self._claim.done,
            given,
            artifacts=listed("artifacts", artifacts) or listed("artifacts", self.artifacts),
            next=next,
        )
        return await self._desk._claimed(ask)

    async def fail(self, reason: str, *, retry_in: Span | None = None) -> None:
        await self._desk._run(partial(self._claim.fail, reason, retry_in=retry_in))

    async def block(self, reason: str, *, unblock_action: str | None = None) -> None:
        await self._desk._run(partial(self._claim.block, reason, unblock_action=unblock_action))

    async def review(self, result: Json = None, *, reason: str | None = None) -> None:
        await self._desk._run(partial(self._claim.review, result, reason=reason))

    async def cancel(self, reason: str | None = None) -> None:
        await self._desk._run(partial(self._claim.cancel, reason))

    async def release(self, reason: str | None = None) -> None:
        await self._desk._run(partial(self._claim.release, reason))

    async def __aenter__(self) -> Self:
        self._claim.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        self._claim.result, self._claim.artifacts = self.result, self.artifacts
        return await self._desk._run(partial(self._claim._exit, error, forgiving=self._forgiving))
