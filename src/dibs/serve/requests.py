"""Requests to the API: their fields as data, how a body is read, and the routes that answer them.

A field says both how its value is read and how the OpenAPI description shows it, so the two cannot disagree.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import ClientDisconnect

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.core.times import parse_duration, time_from
from dibs.serve.access import Caller, Right, lacks
from dibs.serve.problems import TooLarge, WrongType

if TYPE_CHECKING:
    from datetime import datetime, timedelta
    from enum import StrEnum

    from starlette.responses import Response
    from starlette.types import Receive

    from dibs.core.task import Actor, Json
    from dibs.desk import Desk
    from dibs.serve.app import Api
    from dibs.serve.idempotency import IdempotencyKey

_WHOLE_MAX = (1 << 63) - 1
_FLAGS = {"1": True, "true": True, "0": False, "false": False}


class Kind(NamedTuple):
    """The type of a field: `read` takes a JSON value, `parse` text of a URL.

    `read` raises ValueError, TypeError or InvalidInput.
    """

    schema: Mapping[str, Json]
    read: Callable[[Any], Any]
    parse: Callable[[str], Any] = str


class Field(NamedTuple):
    name: str
    kind: Kind
    about: str = ""
    required: bool = False


Fields = tuple[Field, ...]


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return checks.text("text", value)


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _WHOLE_MAX:
        raise TypeError
    return value


def _parse_whole(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) < 19):  # noqa: PLR2004 - below 2⁶³
        raise ValueError
    return int(value)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return checks.priority(value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _span(value: Any) -> timedelta:
    """A duration such as "20m", or a number of seconds."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise TypeError
    return parse_duration(value if isinstance(value, str) else f"{value:.6f}")


def _time(value: Any) -> datetime:
    return time_from(_text(value))


def _json(value: Any) -> Any:
    checks.json_value("value", value)
    return value


TEXT = Kind({"type": "string"}, _text)
WHOLE = Kind({"type": "integer", "minimum": 0, "maximum": _WHOLE_MAX}, _whole, _parse_whole)
NUMBER = Kind({"type": "number", "minimum": -checks.PRIORITY_MAX, "maximum": checks.PRIORITY_MAX}, _number)
FLAG = Kind({"type": "boolean"}, _flag, lambda value: _FLAGS[value])
SPAN = Kind({"type": ["string", "number"], "examples": ["20m"]}, _span)
TIME = Kind({"type": "string", "format": "date-time"}, _time)
JSON = Kind({}, _json)
EXTRA = Kind({"type": "object", "additionalProperties": True}, checks.extra)


def one_of(words: type[StrEnum] | Iterable[str]) -> Kind:
    """One of these words; of an enumeration, its member."""
    known = {str(word): word for word in words}

    def read(value: Any) -> Any:
        if not isinstance(value, str):
            raise TypeError
        try:
            return known[value]
        except KeyError:
            raise InvalidInput(f"one of {', '.join(known)} is wanted") from None

    return Kind({"type": "string", "enum": list(known)}, read)


def list_of(kind: Kind, most: int = checks.LIST_MAX) -> Kind:
    """A list. In a URL, its items are separated by commas."""

    def read(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise TypeError
        if len(value) > most:
            raise InvalidInput(f"at most {most} are taken at a time")
        return tuple(_in_place(f"[{place}]", kind.read, item) for place, item in enumerate(value))

    schema: dict[str, Json] = {"type": "array", "items": kind.schema, "maxItems": most}
    return Kind(schema, read, lambda text: [kind.parse(part) for part in text.split(",") if part])


def map_of(kind: Kind) -> Kind:
    """An object with arbitrary names."""

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError
        return {_text(name): _in_place(f".{name[:40]}", kind.read, item) for name, item in value.items()}

    return Kind({"type": "object", "additionalProperties": kind.schema}, read)


def object_of(fields: Fields) -> Kind:
    return Kind(object_schema(fields), lambda value: read_fields(fields, value))


def or_null(kind: Kind) -> Kind:
    """The same, or null, which empties the field."""
    schema = dict(kind.schema)
    known = schema.get("type")
    schema = {"anyOf": [schema, {"type": "null"}]} if not isinstance(known, str) else schema | {"type": [known, "null"]}
    if isinstance(words := kind.schema.get("enum"), Sequence):
        schema["enum"] = [*words, None]
    return Kind(schema, lambda value: None if value is None else kind.read(value))


def object_schema(fields: Fields) -> dict[str, Json]:
    told = {
        field.name: {**field.kind.schema, **({"description": field.about} if field.about else {})} for field in fields
    }
    schema: dict[str, Json] = {"type": "object", "properties": told, "additionalProperties": False}
    required = [field.name for field in fields if field.required]
    return schema | {"required": required} if required else schema


def read_fields(fields: Fields, given: Any) -> dict[str, Any]:
    """The given values by name. Raise InvalidInput for an unknown, wrong or missing field."""
    if not isinstance(given, dict):
        raise InvalidInput("Send a JSON object, such as {…}.")
    known = {field.name: field.kind for field in fields}
    values = {}
    for name, value in given.items():
        if name not in known:
            raise InvalidInput(f"Unknown field '{name[:40]}'. Known: {', '.join(known) or 'none'}.")
        values[name] = _in_place(name, known[name].read, value)
    for field in fields:
        if field.required and field.name not in values:
            raise InvalidInput(f"'{field.name}' is missing{f': {field.about}' if field.about else ''}.")
    return values


def read_query(fields: Fields, given: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The same from a URL, where values are text, and only lists may repeat a name."""
    known = {field.name: field.kind for field in fields}
    found: dict[str, Any] = {}
    for name, text in given:
        if name not in known:
            raise InvalidInput(f"Unknown parameter '{name[:40]}'. Known: {', '.join(known)}.")
        value = _in_place(name, known[name].parse, text)
        if name in found and not isinstance(value, list):
            raise InvalidInput(f"'{name}' is given twice.")
        found[name] = found[name] + value if name in found else value
    return {name: _in_place(name, known[name].read, value) for name, value in found.items()}


def _in_place(where: str, read: Callable[[Any], Any], value: Any) -> Any:
    """Read a value, and name the field if that fails."""
    try:
        return read(value)
    except InvalidInput as error:
        raise InvalidInput(f"{where}: {error.message}") from None
    except (ValueError, TypeError, KeyError, OverflowError):
        raise InvalidInput(f"{where}: that cannot be {repr(value)[:60]}.") from None


# Requests and routes

SCOPE = Field("scope", TEXT, "which set of tasks; else the one that is served")


class Call(NamedTuple):
    """A request at a desk. `key` is its idempotency key, if it has one."""

    desk: Desk
    caller: Caller
    path: Mapping[str, str] = {}
    query: Mapping[str, Any] = {}
    body: Mapping[str, Any] = {}
    key: IdempotencyKey | None = None

    def require(self, right: Right, what: str) -> None:
        """Check a right that depends on the body of the request. Raise Forbidden if the caller does not have it."""
        if not self.caller.may(right):
            raise lacks(right, what)


class Route(NamedTuple):
    """One entry of the table of routes, from which the OpenAPI description is made too.

    `suffices` is another sufficient right. `act` answers at a desk; `serve` where more than one desk is needed, or
    none; `live` with a stream of events, for those who accept one. `body` None means that there is none. `answer` is
    the schema of the answer.
    """

    method: str
    path: str
    act: Callable[[Call], Json] | None
    about: str
    right: Right = Right.READ
    query: Fields = ()
    body: Fields | None = None
    answer: Mapping[str, Json] = {}
    status: int = 200
    serve: Callable[[Api, ApiRequest], Awaitable[Json]] | None = None
    live: Callable[[Api, ApiRequest], Awaitable[Response]] | None = None
    suffices: Right | None = None

    def open_to(self, caller: Caller) -> bool:
        return caller.may(self.right) or (self.suffices is not None and caller.may(self.suffices))

    @property
    def name(self) -> str:
        words = [part.strip("{}") for part in self.path.split("/") if part]
        return "_".join([self.method.lower(), *words])


class ApiRequest(NamedTuple):
    """A request that was read and checked, before a desk is borrowed for it."""

    route: Route
    caller: Caller
    scope: str
    by: Actor
    path: Mapping[str, str]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    headers: Mapping[str, str]
    key: IdempotencyKey | None = None

    def at(self, desk: Desk) -> Call:
        return Call(desk, self.caller, self.path, self.query, self.body, self.key)


# Bodies

MOST_BYTES = 8 << 20  # bytes of a body
_LARGE = 1 << 20  # bytes; a larger body is parsed on a thread


async def read_json(headers: Mapping[str, str], receive: Receive, most: int = MOST_BYTES) -> Any:
    """Read a JSON body. Other types are refused: a page of another site could send them without a CORS preflight."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WrongType("Send JSON with the header 'Content-Type: application/json'.")
    body = await read_body(headers, receive, most)
    return parse_json(body) if len(body) < _LARGE else await asyncio.to_thread(parse_json, body)


async def read_body(headers: Mapping[str, str], receive: Receive, most: int = MOST_BYTES) -> bytes:
    told = headers.get("content-length", "0")
    if told.isdigit() and int(told[:18]) > most:
        raise _too_large(most)
    got, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        got += message.get("body", b"")
        more = message.get("more_body", False)
        if len(got) > most:
            raise _too_large(most)
    return bytes(got)


def parse_json(raw: bytes) -> Any:
    if not raw.strip():
        return {}
    try:
        return _DECODER.decode(raw.decode())
    except UnicodeDecodeError:
        raise InvalidInput("The request is not valid UTF-8.") from None
    except RecursionError:
        raise InvalidInput("The request is nested too deeply.") from None
    except ValueError as error:
        raise InvalidInput(f"The request is not valid JSON: {str(error)[:200]}.") from None


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a JSON number")


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        _refuse(number[:20])
    return value


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _too_large(most: int) -> TooLarge:
    return TooLarge(f"A request has at most {most >> 20} MB. Send it in parts.")
