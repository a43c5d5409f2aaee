"""Formulas and rollups, as far as task databases need them.

An expression has comparisons, and/or/not, if, arithmetic and a few functions. It is parsed once into a function that
reads the properties it names. Unsupported syntax is rejected when the column is made, not when a row is read.
"""

from __future__ import annotations

import operator
import re
import statistics
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from dibs.lab.emulator.model import invalid

if TYPE_CHECKING:
    from collections.abc import Callable

Lookup: TypeAlias = "Callable[[str], Any]"
Node: TypeAlias = "Callable[[Lookup], Any]"

_TOKEN = re.compile(r'\s*(?:(\d+(?:\.\d+)?)|"((?:[^"\\]|\\.)*)"|([A-Za-z_]\w*)|(==|!=|>=|<=|&&|\|\||[-+*/%()<>!?:,]))')
_COMPARE = {"==": operator.eq, "!=": operator.ne}
_ORDER = {">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le}
_PRODUCT = {"*": operator.mul, "/": operator.truediv, "%": operator.mod}


def _plus(left: Any, right: Any) -> Any:
    words = isinstance(left, str) or isinstance(right, str)
    return f"{_text(left)}{_text(right)}" if words else (left or 0) + (right or 0)


_SUM: dict[str, Callable[[Any, Any], Any]] = {"+": _plus, "-": operator.sub}


@lru_cache(maxsize=256)
def parsed(expression: str) -> Node:
    parser = _Parser(expression)
    node = parser.ternary()
    parser.end()
    return node


def names_in(expression: str) -> list[str]:
    """The properties that the expression reads."""
    return re.findall(r'prop\("((?:[^"\\]|\\.)*)"\)', expression)


class _Parser:
    def __init__(self, expression: str) -> None:
        self._tokens = self._split(expression)
        self._at = 0

    def _split(self, text: str) -> list[tuple[str, str]]:
        found, at = [], 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise invalid(f"Type error with formula: cannot read {text[at : at + 20].strip()!r}.")
            kind = ("number", "string", "name", "sign")[(match.lastindex or 1) - 1]
            found.append((kind, match[match.lastindex or 1]))
            at = match.end()
        return [*found, ("end", "")]

    def end(self) -> None:
        if self._tokens[self._at][0] != "end":
            self._refuse()

    def _refuse(self) -> NoReturn:
        raise invalid(f"Type error with formula: did not expect {self._tokens[self._at][1] or 'the end'!r}.")

    def _take(self, *texts: str) -> str | None:
        kind, text = self._tokens[self._at]
        if kind in {"sign", "name"} and text in texts:
            self._at += 1
            return text
        return None

    def _must(self, text: str) -> None:
        if self._take(text) is None:
            self._refuse()

    def ternary(self) -> Node:
        test = self._either()
        if self._take("?") is None:
            return test
        yes = self.ternary()
        self._must(":")
        no = self.ternary()
        return lambda look: yes(look) if test(look) else no(look)

    def _either(self) -> Node:
        return self._chain(self._both, ("or", "||"), lambda a, b: lambda look: bool(a(look)) or bool(b(look)))

    def _both(self) -> Node:
        return self._chain(self._negated, ("and", "&&"), lambda a, b: lambda look: bool(a(look)) and bool(b(look)))

    def _negated(self) -> Node:
        if self._peek_call("not") or self._take("not", "!") is None:
            return self._compared()
        inner = self._negated()
        return lambda look: not inner(look)

    def _peek_call(self, name: str) -> bool:
        return self._tokens[self._at][1] == name and self._tokens[self._at + 1][1] == "("

    def _compared(self) -> Node:
        left = self._binary(self._product, _SUM)
        sign = self._take(*_COMPARE, *_ORDER)
        if sign is None:
            return left
        right = self._binary(self._product, _SUM)
        return _comparison(sign, left, right)

    def _product(self) -> Node:
        return self._binary(self._unary, _PRODUCT)

    def _binary(self, part: Callable[[], Node], signs: dict[str, Callable[[Any, Any], Any]]) -> Node:
        node = part()
        while (sign := self._take(*signs)) is not None:
            node = _applied(signs[sign], node, part())
        return node

    def _chain(self, part: Callable[[], Node], signs: tuple[str, ...], join: Callable[[Node, Node], Node]) -> Node:
        node = part()
        while not self._peek_call(signs[0]) and self._take(*signs) is not None:
            node = join(node, part())
        return node

    def _unary(self) -> Node:
        if self._take("-") is None:
            return self._primary()
        inner = self._unary()
        return lambda look: -inner(look)

    def _primary(self) -> Node:
        kind, text = self._tokens[self._at]
        self._at += 1
        if kind == "number":
            return _constant(float(text) if "." in text else int(text))
        if kind == "string":
            return _constant(re.sub(r"\\(.)", r"\1", text))
        if text == "(":
            node = self.ternary()
            self._must(")")
            return node
        if text in {"true", "false"}:
            return _constant(text == "true")
        if kind != "name" or self._tokens[self._at][1] != "(":
            self._at -= 1
            self._refuse()
        return self._call(text)

    def _call(self, name: str) -> Node:
        self._must("(")
        if name == "prop":
            kind, named = self._tokens[self._at]
            if kind != "string":
                self._refuse()
            self._at += 1
            self._must(")")
            return lambda look: look(named)
        arguments = [] if self._take(")") else self._arguments()
        if name not in _FUNCTIONS:
            raise invalid(f"Type error with formula: undefined function {name!r}.")
        function = _FUNCTIONS[name]
        return lambda look: function(*(argument(look) for argument in arguments))

    def _arguments(self) -> list[Node]:
        found = [self.ternary()]
        while self._take(",") is not None:
            found.append(self.ternary())
        self._must(")")
        return found


def _constant(value: Any) -> Node:
    return lambda _look: value


def _applied(function: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
    return lambda look: function(left(look), right(look))


def _comparison(sign: str, left: Node, right: Node) -> Node:
    if sign in _COMPARE:
        return _applied(_COMPARE[sign], left, right)
    order = _ORDER[sign]

    def compare(look: Lookup) -> bool:
        a, b = left(look), right(look)
        return a is not None and b is not None and bool(order(a, b))

    return compare


def _text(value: Any) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _if(test: Any, yes: Any, no: Any = None) -> Any:
    return yes if test else no


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "if": _if,
    "and": lambda *parts: all(parts),
    "or": lambda *parts: any(parts),
    "not": operator.not_,
    "empty": lambda value: value in (None, "", [], 0, False),
    "length": lambda value: len(value or ""),
    "concat": lambda *parts: "".join(_text(part) for part in parts),
    "contains": lambda value, part: part in (value or ""),
    "equal": operator.eq,
    "unequal": operator.ne,
    "larger": operator.gt,
    "smaller": operator.lt,
    "format": _text,
    "toNumber": lambda value: float(value) if value not in (None, "") else None,
    "round": round,
    "abs": abs,
    "min": min,
    "max": max,
}


Values: TypeAlias = list[Any]

_NOTHING: tuple[Any, ...] = (None, "", [])


class Rolled(NamedTuple):
    """A rollup's result; `type` is number, date, array or unsupported."""

    type: str
    value: Any


def rolled(function: str, values: Values) -> Rolled:
    if function in {"show_original", "show_unique"}:
        shown = values if function == "show_original" else _unique(values)
        return Rolled("array", shown)
    if function in _DATES:
        return Rolled("date", _DATES[function](_days(values)))
    if function in _NUMBERS:
        return Rolled("number", _NUMBERS[function](values))
    return Rolled("unsupported", None)


def _present(values: Values) -> Values:
    return [value for value in values if value not in _NOTHING]


def _unique(values: Values) -> Values:
    found: Values = []
    for value in values:
        if value not in found:
            found.append(value)
    return found


def _flat(values: Values) -> Values:
    """Split multi-selects and relations into single values."""
    return [one for value in _present(values) for one in (value if isinstance(value, list) else [value])]


def _figures(values: Values) -> list[float]:
    return [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]


def _days(values: Values) -> list[dict[str, Any]]:
    return sorted((value for value in values if isinstance(value, dict)), key=lambda value: str(value["start"]))


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _over(function: Callable[[list[float]], float]) -> Callable[[Values], float | None]:
    return lambda values: function(_figures(values)) if _figures(values) else None


def _checked(values: Values) -> int:
    return sum(value is True for value in values)


_NUMBERS: dict[str, Callable[[Values], Any]] = {
    "count": len,
    "count_all": len,
    "count_values": lambda values: len(_flat(values)),
    "unique": lambda values: len(_unique(_flat(values))),
    "empty": lambda values: len(values) - len(_present(values)),
    "not_empty": lambda values: len(_present(values)),
    "percent_empty": lambda values: _share(len(values) - len(_present(values)), len(values)),
    "percent_not_empty": lambda values: _share(len(_present(values)), len(values)),
    "checked": _checked,
    "unchecked": lambda values: len(values) - _checked(values),
    "percent_checked": lambda values: _share(_checked(values), len(values)),
    "percent_unchecked": lambda values: _share(len(values) - _checked(values), len(values)),
    "sum": lambda values: sum(_figures(values)),
    "average": _over(statistics.fmean),
    "median": _over(statistics.median),
    "min": _over(min),
    "max": _over(max),
    "range": _over(lambda figures: max(figures) - min(figures)),
}

_DATES: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "earliest_date": lambda days: days[0] if days else None,
    "latest_date": lambda days: days[-1] if days else None,
    "date_range": lambda days: {**days[0], "end": days[-1]["start"]} if days else None,
}

ROLLUP_FUNCTIONS = frozenset(
    {*_NUMBERS, *_DATES, "show_original", "show_unique", "count_per_group", "percent_per_group"}
)
