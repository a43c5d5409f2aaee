"""Reading what is sent: all of it before anything is done with it, within a size and a time."""

from __future__ import annotations

import asyncio
import json
import math
from typing import TYPE_CHECKING, Any

from dibs.core.errors import InvalidInput
from dibs.serve.refusals import TooLarge, TooSlow, WrongType

if TYPE_CHECKING:
    from starlette.requests import Request

MOST = 8 << 20  # bytes of a body
SECONDS = 30.0  # for a body to arrive


async def read_json(request: Request) -> Any:
    """No page of another site can send this type without asking us first, which is why nothing else will do."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongType("Send JSON, and say so: Content-Type: application/json.")
    return parse(await read(request))


async def read(request: Request) -> bytes:
    told = request.headers.get("content-length", "0")
    if told.isdigit() and int(told[:18]) > MOST:
        raise _too_large()
    got = bytearray()
    try:
        async with asyncio.timeout(SECONDS):
            async for chunk in request.stream():
                got += chunk
                if len(got) > MOST:
                    raise _too_large()
    except TimeoutError:
        raise TooSlow(f"The request did not arrive within {SECONDS:g} seconds. Send it again.") from None
    return bytes(got)


def parse(raw: bytes) -> Any:
    if not raw.strip():
        return {}
    try:
        return json.loads(raw.decode(), parse_constant=_refuse, parse_float=_finite)
    except UnicodeDecodeError:
        raise InvalidInput("The request is not valid UTF-8.") from None
    except RecursionError:
        raise InvalidInput("The request is nested too deeply.") from None
    except ValueError as error:
        raise InvalidInput(f"The request is not valid JSON: {str(error)[:200]}.") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number that JSON knows")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        _refuse(number[:20])
    return value


def _too_large() -> TooLarge:
    return TooLarge(f"A request has at most {MOST >> 20} MB. Send it in parts.")
