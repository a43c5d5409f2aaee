"""Rollups: what the related pages' values come to."""

import statistics
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

Values: TypeAlias = list[Any]

_NOTHING: tuple[Any, ...] = (None, "", [])


class Rolled(NamedTuple):
    """`type` is number, date, array, or unsupported."""

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
    """Each option of a multi-select, each page of a relation, is a value of its own."""
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

FUNCTIONS = frozenset({*_NUMBERS, *_DATES, "show_original", "show_unique", "count_per_group", "percent_per_group"})
