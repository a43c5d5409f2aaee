"""The port over the wire: its operations and its values as JSON, read from the port's own annotations.

Both ends use this module. An operation that the port gains needs nothing here: its parameters and its answer are read
from its annotations. Neither does a field that a value gains. The server says in `serve/remote.py` who may ask for it,
and `store.py` has a method that asks. A type of another module is found if `_MODULES` names that module.
"""

from __future__ import annotations

import collections.abc
import math
import types
import typing
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ForwardRef, NamedTuple

from dibs.core import checks, errors, task
from dibs.core.errors import DibsError, InvalidInput
from dibs.stores import port

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dibs.stores.port import Capabilities

PATH = "/api/v1/store/"  # of the operations, each under its name: 'claim', 'fleet.enrol'
# Headers: the key of a write, the store that the client opened, and the mark of a repeated request.
KEY, STORE, AGAIN = "Idempotency-Key", "Dibs-Store", "Dibs-Again"
PARTS = {"fleet": port.Fleet, "vectors": port.Vectors, "settings": port.Settings, "output": port.Output}
READS = frozenset(
    {
        "now", "get", "match", "find", "peek", "links", "graph", "events", "counts", "scopes", "describe", "examine",
        "dump", "fleet.agents", "fleet.members", "vectors.kept", "vectors.similar", "settings.read", "output.read",
    }
)  # fmt: skip
LONG = frozenset({"apply_plan", "prune", "dump", "restore", "replace", "check", "examine", "graph"})
HELLO, WAIT = "hello", "wait"  # requests about the server itself

_MODULES = (
    "typing", "collections.abc", "datetime", "dibs.core.task", "dibs.core.lifecycle", "dibs.core.fields",
    "dibs.core.policy", "dibs.core.events", "dibs.core.errors", "dibs.stores.reports", "dibs.core.fleet",
    "dibs.core.graph", "dibs.core.search", "dibs.core.settings", "dibs.core.output", "dibs.core.plan",
    "dibs.stores.port",
)  # fmt: skip
_WHOLE_MAX = 1 << 63


class ServedStore(NamedTuple):
    """A server's description of its store. `writer` is the agent of the token; None without one."""

    capabilities: Capabilities
    parts: tuple[str, ...]
    version: str
    agent: str | None = None
    rights: tuple[str, ...] = ()


class Codec(NamedTuple):
    """Writes and reads values of one type as JSON. None means that JSON has the type."""

    write: Callable[[Any], Any] | None
    read: Callable[[Any], Any]


class Operation(NamedTuple):
    """One verb of the port. `spread` is its last parameter, if that takes any number of values."""

    name: str
    parameters: Mapping[str, Codec]
    positional: tuple[str, ...]  # parameters whose names may differ between stores
    answer: Codec
    spread: str | None
    reports: bool  # reports progress
    yields: bool  # streams its answer

    def write_arguments(self, arguments: Mapping[str, object]) -> dict[str, Any]:
        return {name: _written(self.parameters[name], value) for name, value in arguments.items()}

    def read_arguments(self, given: object) -> dict[str, Any]:
        """The arguments as values of the port. Raise InvalidInput for unknown or wrong ones."""
        if not isinstance(given, dict) or not given.keys() <= self.parameters.keys():
            raise InvalidInput(f"'{self.name}' takes {', '.join(self.parameters) or 'nothing'}; this request differs.")
        try:
            return {name: self.parameters[name].read(value) for name, value in given.items()}
        except (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError):
            raise InvalidInput(f"'{self.name}' was asked with a value that it does not take.") from None


def _written(codec: Codec, value: Any) -> Any:
    return value if codec.write is None else codec.write(value)


def written(codec: Codec, value: Any) -> Any:
    """A value as JSON."""
    return _written(codec, value)


@cache
def operation(name: str) -> Operation | None:
    """The operation of this name, such as `claim` or `fleet.enrol`; None if the port has none."""
    part, _, verb = name.rpartition(".")
    for kind in (PARTS.get(part),) if part else (port.Store, port.Examinable, port.Replaceable):
        function = vars(kind).get(verb) if kind else None
        if isinstance(function, types.FunctionType) and not verb.startswith("_") and verb not in {"close", "wait"}:
            return _operation(name, function)
    return None


def names() -> list[str]:
    """The names of all operations."""
    own = [verb for kind in (port.Store, port.Examinable, port.Replaceable) for verb in vars(kind)]
    of_parts = [f"{part}.{verb}" for part, kind in PARTS.items() for verb in vars(kind)]
    return [name for name in dict.fromkeys([*own, *of_parts]) if operation(name) is not None]


def _operation(name: str, function: types.FunctionType) -> Operation:
    said: dict[str, Any] = {**function.__annotations__}
    answer = said.pop("return")
    reports = said.pop("progress", None) is not None
    spread = None
    if function.__code__.co_flags & 0x04:  # it takes *names
        place = function.__code__.co_argcount + function.__code__.co_kwonlyargcount
        spread = function.__code__.co_varnames[place]
        said[spread] = types.GenericAlias(tuple, (said[spread], ...))
    origin = typing.get_origin(_resolved(answer))
    yields = origin is collections.abc.Iterator
    positional = function.__code__.co_varnames[1 : function.__code__.co_argcount]
    return Operation(
        name, {each: codec(kind) for each, kind in said.items()}, positional, codec(answer), spread, reports, yields
    )


# Types


class _Names(dict[str, Any]):
    """The names in an annotation, wherever they are defined. A module is imported when one of its names is needed."""

    def __missing__(self, name: str) -> Any:
        for module in _MODULES:
            found = getattr(import_module(module), name, None)
            if found is not None:
                if isinstance(found, str) and found != task.Json:
                    found = _resolved(found)
                self[name] = found
                return found
        raise KeyError(name)


_NAMES = _Names()


def _resolved(kind: Any) -> Any:
    """The type that the text of an annotation names."""
    if isinstance(kind, ForwardRef):
        kind = kind.__forward_arg__
    if not isinstance(kind, str) or kind == task.Json:
        return kind
    return eval(compile(kind, "<annotation>", "eval"), {}, _NAMES)  # noqa: S307 - annotations of the port


def codec(kind: Any) -> Codec:
    """The codec of a type. Raise TypeError for a type without one."""
    return _codec(_resolved(kind))


@cache
def _codec(kind: Any) -> Codec:
    known = _PLAIN.get(kind)
    if known is not None:
        return known
    origin = typing.get_origin(kind)
    if origin is not None:
        return _generic(origin, typing.get_args(kind))
    if isinstance(kind, type):
        if issubclass(kind, Enum):
            return Codec(None, kind)  # each is a text
        if issubclass(kind, DibsError):
            return Codec(secret_error_json, error_from)
        if hasattr(kind, "_fields"):
            return _record(kind)
        if kind.__name__ == "PlannedTask":
            return _planned(kind)
    raise TypeError(f"a value of the type {kind} cannot be sent")


def _generic(origin: Any, inside: tuple[Any, ...]) -> Codec:
    if origin is typing.Literal:
        return Codec(None, lambda value: _one_of(inside, value))
    if origin in {typing.Union, types.UnionType}:
        return _union(inside)
    if issubclass(origin, collections.abc.Mapping):
        return _mapping(*map(codec, inside))
    if origin is tuple and inside[-1] is not Ellipsis:
        return _fixed(tuple(map(codec, inside)))
    each = codec(inside[0])
    made = {tuple: tuple, frozenset: frozenset}.get(origin, list)
    write = each.write
    if origin is frozenset:
        return Codec(
            lambda values: sorted(_written(each, value) for value in values), lambda values: made(_list(values))
        )
    if write is None:
        return Codec(list, lambda values: made(map(each.read, _list(values))))
    return Codec(lambda values: [write(value) for value in values], lambda values: made(map(each.read, _list(values))))


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _one_of(choices: tuple[Any, ...], value: Any) -> Any:
    if value not in choices:
        raise ValueError
    return value


def _fixed(places: tuple[Codec, ...]) -> Codec:
    return Codec(
        lambda values: [_written(place, value) for place, value in zip(places, values, strict=True)],
        lambda values: tuple(place.read(value) for place, value in zip(places, _list(values), strict=True)),
    )


def _mapping(key: Codec, value: Codec) -> Codec:
    def read(given: Any) -> dict[Any, Any]:
        if not isinstance(given, dict):
            raise TypeError
        return {key.read(name): value.read(each) for name, each in given.items()}

    return Codec(lambda given: {_written(key, name): _written(value, each) for name, each in given.items()}, read)


def _union(kinds: tuple[Any, ...]) -> Codec:
    """None is null. Unset is the default of its fields, and so is never written. Of several records, each is named."""
    wanted = [_resolved(kind) for kind in kinds if kind not in {type(None), task.Unset}]
    optional = type(None) in kinds
    if len(wanted) == 1:
        inner = codec(wanted[0])
    elif all(kind in _PLAIN for kind in wanted):
        inner = JSON
    else:
        inner = _named(wanted)
    if not optional:
        return inner
    write, read = inner.write, inner.read
    return Codec(
        None if write is None else (lambda value: None if value is None else write(value)),
        lambda value: None if value is None else read(value),
    )


def _named(kinds: list[Any]) -> Codec:
    by_name = {kind.__name__: kind for kind in kinds}

    def write(value: Any) -> Any:
        for name, kind in by_name.items():
            if isinstance(value, kind):
                return {"is": name, "value": _written(codec(kind), value)}
        raise TypeError(f"a {type(value).__name__} cannot be sent here")

    def read(given: Any) -> Any:
        return codec(by_name[given["is"]]).read(given["value"])

    return Codec(write, read)


def _record(kind: Any) -> Codec:
    """A named tuple as an object, without fields that have their default."""
    said = {name: _CODECS.get((kind.__name__, name)) or codec(each) for name, each in kind.__annotations__.items()}
    blank = kind._field_defaults
    columns = [(name, blank.get(name, _NO_DEFAULT), said[name].write) for name in kind._fields]
    readers = {name: each.read for name, each in said.items()}

    def write(record: Any) -> dict[str, Any]:
        told = {}
        for (name, default, writer), value in zip(columns, record, strict=True):
            if value is not default and value != default:
                told[name] = value if writer is None else writer(value)
        return told

    def read(given: Any) -> Any:
        if not isinstance(given, dict):
            raise TypeError
        return kind(**{name: readers[name](value) for name, value in given.items()})

    return Codec(write, read)


def _planned(kind: Any) -> Codec:
    """An entry of a plan. The client parses it before sending."""
    said = codec("EntryContent")

    def write(entry: Any) -> dict[str, Any]:
        return {"id": entry.id, "line": entry.line, "digest": entry.digest, "said": _written(said, entry.said)}

    def read(given: Any) -> Any:
        return kind.read_before(
            _text(given["id"]), _whole(given["line"]), _whole(given["digest"]), said.read(given["said"])
        )

    return Codec(write, read)


_NO_DEFAULT = object()


def _text(value: Any) -> str:
    if type(value) is not str:
        raise TypeError
    return value if value.isprintable() else checks.text("text", value)


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -_WHOLE_MAX <= value < _WHOLE_MAX:
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TypeError
    return value


def _json(value: Any) -> Any:
    if value.__class__ in {dict, list, str, float}:
        checks.json_value("value", value)
    return value


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(value)
    return moment if moment.tzinfo is None else moment.astimezone(UTC)


_MICROSECOND = timedelta(microseconds=1)
JSON = Codec(None, _json)
_NOTHING = Codec(None, lambda _value: None)

_PLAIN: dict[Any, Codec] = {
    str: Codec(None, _text),
    bool: Codec(None, _flag),
    int: Codec(None, _whole),
    float: Codec(None, _number),
    None: _NOTHING,
    type(None): _NOTHING,
    object: JSON,
    Any: JSON,
    task.Json: JSON,
    datetime: Codec(datetime.isoformat, _moment),
    timedelta: Codec(lambda span: span // _MICROSECOND, lambda given: _whole(given) * _MICROSECOND),
}


def _fields_of_a_task() -> Codec:
    """Some fields of a task by name, in the form of the task."""

    def of(name: str) -> Codec:
        return codec(task.Task.__annotations__[name])

    return Codec(
        lambda given: {name: _written(of(name), value) for name, value in given.items()},
        lambda given: {name: of(name).read(value) for name, value in given.items()},
    )


_CODECS: dict[tuple[str, str], Codec] = {("Edit", "was"): _fields_of_a_task()}

# Errors

_MORE = ("candidates", "path", "room", "line")  # further fields of some errors


def error_json(error: DibsError) -> dict[str, Any]:
    """An error as JSON, with all that its class carries but secrets."""
    told: dict[str, Any] = {"code": error.code, "detail": error.message}
    for name in ("holder", "retry_after_ms", *_MORE):
        value = getattr(error, name, None)
        if value is not None:
            told[name] = list(value) if isinstance(value, tuple) else value
    return told


def secret_error_json(error: DibsError) -> dict[str, Any]:
    """An error as JSON for the caller, with the token of a claim that may have succeeded."""
    told = error_json(error)
    if isinstance(error, errors.Unconfirmed) and error.token:
        told |= {"token": error.token, "task": _written(codec("Task | None"), error.task)}
    return told


def error_from(given: Any) -> DibsError:
    """The error in an answer. An unknown one of a newer server gets the nearest known class."""
    kind = _classes().get(given.get("code"), errors.Refused)
    error = kind.__new__(kind)
    DibsError.__init__(
        error, str(given.get("detail", "")), holder=given.get("holder"), retry_after_ms=given.get("retry_after_ms")
    )
    if kind.code != given.get("code"):
        error.code = str(given.get("code"))
    for name in _MORE:
        value = given.get(name)
        if value is not None or name in kind.__init__.__annotations__:
            setattr(error, name, tuple(value) if isinstance(value, list) else value)
    if isinstance(error, errors.OverQuota):
        error.room = given.get("room") or 0
    if isinstance(error, errors.Unconfirmed):
        error.token, error.task = given.get("token", ""), codec("Task | None").read(given.get("task"))
    return error


@cache
def _classes() -> dict[str, type[DibsError]]:
    return {kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, DibsError)}
