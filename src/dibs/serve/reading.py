"""Reading what is sent: all of it before anything is done with it, within a size. In time, or the line is cut."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

from starlette.requests import ClientDisconnect

from dibs.core.errors import InvalidInput
from dibs.serve.refusals import TooLarge, WrongType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.types import Receive

MOST = 8 << 20  # bytes of a body


async def read_json(headers: Mapping[str, str], receive: Receive) -> Any:
    """No page of another site can send this type without asking us first, which is why nothing else will do."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongType("Send JSON, and say so: Content-Type: application/json.")
    return parse(await read(headers, receive))


async def read(headers: Mapping[str, str], receive: Receive) -> bytes:
    told = headers.get("content-length", "0")
    if told.isdigit() and int(told[:18]) > MOST:
        raise _too_large()
    got, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        got += message.get("body", b"")
        more = message.get("more_body", False)
        if len(got) > MOST:
            raise _too_large()
    return bytes(got)


def parse(raw: bytes) -> Any:
    if not raw.strip():
        return {}
    try:
        return _JSON.decode(raw.decode())
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


_JSON = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _too_large() -> TooLarge:
    return TooLarge(f"A request has at most {MOST >> 20} MB. Send it in parts.")
