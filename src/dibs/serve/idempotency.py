"""Idempotent requests: a request that is sent again under the same key is done once.

Within one run of the server, answers are remembered for a while. Across a crash, ids and tokens derived from the key
let the store recognise what it has done (docs/decisions/0021-http.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, NamedTuple

from dibs.core.errors import StoreBusy
from dibs.core.task import Claimed, Input, Json, LinkKind, Status
from dibs.serve.problems import WrongKey
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dibs.core.lifecycle import ClaimRequest
    from dibs.core.task import Holder, Task
    from dibs.desk import Desk

_LONGEST = 200  # characters of a key
_SECONDS = 600.0
_MOST_BYTES = 32 << 20
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
SHORT_ID, LONG_ID = 6, 12  # the length of the desk's ids, and one too long to collide
_GIVEN_UP = "The first request with this key was abandoned. Send it again under the same key."


class IdempotencyKey(NamedTuple):
    """The key of a request, and the ids and tokens derived from it. `secret` makes them unguessable."""

    text: str
    request: bytes
    secret: bytes

    def __repr__(self) -> str:
        return "IdempotencyKey(…)"

    def _bytes(self, what: str) -> bytes:
        return hmac.digest(self.secret, b"\0".join((what.encode(), self.text.encode(), self.request)), "sha256")

    def identifier(self, number: int, length: int = LONG_ID) -> str:
        """The id of the task that this request adds under this number."""
        return "".join(_ALPHABET[byte & 31] for byte in self._bytes(f"id {number}")[:length])

    def token(self, number: int) -> str:
        """A token in the form of a uuid4. Without the secret and the key it cannot be guessed."""
        raw = bytearray(self._bytes(f"token {number}")[:16])
        raw[6], raw[8] = raw[6] & 0x0F | 0x40, raw[8] & 0x3F | 0x80
        text = raw.hex()
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    @property
    def mark(self) -> str:
        return self._bytes("mark").hex()[:32]


def idempotency_key(key: str, parts: Json, secret: bytes | None) -> IdempotencyKey:
    """The key of a request. `parts` identify it: the caller, the address and the body."""
    if not 0 < len(key) <= _LONGEST or not (key.isascii() and key.isprintable()):
        raise WrongKey(f"An idempotency key has 1 to {_LONGEST} visible ASCII characters, such as a UUID.")
    told = json.dumps(parts, sort_keys=True).encode()
    return IdempotencyKey(key, hashlib.sha256(told).digest(), secret or b"dibs")


class _StoredAnswer(NamedTuple):
    request: bytes
    answer: asyncio.Future[bytes]
    until: float


class IdempotentAnswers:
    """Recent answers, by caller and key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[tuple[str, str], _StoredAnswer] = OrderedDict()
        self._bytes = 0

    async def answer(self, who: str, key: IdempotencyKey, make: Callable[[], Awaitable[bytes]]) -> bytes:
        """The earlier answer under this key, or a new one. A request that fails may be tried again."""
        self._forget()
        place = (who, key.text)
        known = self._kept.get(place)
        if known is not None:
            if known.request != key.request:
                raise WrongKey("This idempotency key was used for another request. Use a new key for each request.")
            return await asyncio.shield(known.answer)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._kept[place] = _StoredAnswer(key.request, answer, self._clock() + _SECONDS)
        try:
            given = await make()
        except BaseException as error:
            del self._kept[place]
            answer.set_exception(error if isinstance(error, Exception) else StoreBusy(_GIVEN_UP))
            answer.exception()  # marks it as retrieved
            raise
        answer.set_result(given)
        self._bytes += len(given)
        return given

    def _forget(self) -> None:
        """Drop old answers, and the oldest if they take too much memory. Keep requests under way."""
        while self._kept:
            place, oldest = next(iter(self._kept.items()))
            if not oldest.answer.done() or (oldest.until > self._clock() and self._bytes <= _MOST_BYTES):
                return
            self._bytes -= len(oldest.answer.result())
            del self._kept[place]


# Claims


def derive_tokens(key: IdempotencyKey, request: ClaimRequest) -> ClaimRequest:
    """The same request with tokens derived from its key."""
    return request._replace(tokens=tuple(key.token(number) for number in range(len(request.tokens))))


def claim_once(
    desk: Desk,
    key: IdempotencyKey,
    agent: str,
    *,
    refs: Sequence[str],
    holder: Holder,
    force: bool,
    assigned: bool = False,
    count: int = 1,
    **terms: Any,
) -> list[Claimed]:
    """The tasks held under the tokens of this key; if none is, a claim under them."""
    request = derive_tokens(key, desk.next_request(agent, count=len(refs) or count, **terms))
    held = [
        task
        for task in desk.find(Query(desk.scope, (Status.ACTIVE,), agent=request.agent))
        if task.lease is not None and task.lease.token in request.tokens
    ]
    if held:
        return [Claimed(task, inputs_of(desk, task)) for task in held]
    return desk.claim(
        agent, refs=refs, count=count, holder=holder, force=force, assigned=assigned, tokens=request.tokens, **terms
    )


def inputs_of(desk: Desk, task: Task) -> tuple[Input, ...]:
    """The results of the finished prerequisites of a task."""
    if not desk.capabilities.links:
        return ()
    exact = desk.exact
    links = exact.links(task.id)
    before = sorted({link.on for link in links if link.task == task.id and link.kind is not LinkKind.PARALLEL_OK})
    found = (exact.get(each) for each in before)
    return tuple(Input(one.id, one.title, one.result, one.artifacts) for one in found if one.status is Status.DONE)
