"""Compare a command's output with the page. Times and spans may differ; an example id represents one real id.

- `…` matches anything; alone on a line, any number of lines.
- A generated id (six characters with a letter and a digit) and every uuid matches one id of this run, the same
  wherever the page repeats it.
- A time matches any time, and a span such as 19m 59s any span.
- Runs of blanks count as one, because column widths vary.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ANYTHING = "…"

_UUID = r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
_MADE_UP = r"\b[0-9a-hjkmnp-tv-z]{6}\b"
_MADE_UP_ON_A_PAGE = rf"\b(?=[0-9]*[a-z])(?=[a-z]*[0-9]){_MADE_UP}"
_TIME = r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?(?!\d)"
_SPAN = r"\b\d+(?:ms|[dhms])(?: \d+[hms])?\b"

_PATTERNS = {"uuid": _UUID, "time": _TIME, "span": _SPAN, "name": _MADE_UP}
_ON_A_PAGE = re.compile(
    f"(?P<anything>{ANYTHING})|(?P<uuid>{_UUID})|(?P<time>{_TIME})|(?P<span>{_SPAN})|(?P<name>{_MADE_UP_ON_A_PAGE})"
)
_NAMES = frozenset({"uuid", "name"})


class Matcher:
    """The real names for the example names of a page in one run."""

    def __init__(self) -> None:
        self._real: dict[str, str] = {}

    def typed(self, command: str) -> str:
        """The command with this run's names in place of the page's."""
        return re.sub(f"{_UUID}|{_MADE_UP}", lambda found: self._real.get(found[0], found[0]), command)

    def matches(self, promised: Sequence[str], answer: Sequence[str]) -> bool:
        real = _match([_squeezed(line) for line in promised], [_squeezed(line) for line in answer], self._real)
        if real is not None:
            self._real = real
        return real is not None


def _squeezed(line: str) -> str:
    return re.sub(r"\s+", " ", line).strip()


def _match(promised: list[str], answer: list[str], real: dict[str, str]) -> dict[str, str] | None:
    """The names including those met on the way, or None where the lines differ."""
    if not promised:
        return None if answer else real
    if promised[0] == ANYTHING:
        tries = (_match(promised[1:], answer[skipped:], real) for skipped in range(len(answer) + 1))
        return next((found for found in tries if found is not None), None)
    if not answer:
        return None
    met = _match_line(promised[0], answer[0], real)
    return None if met is None else _match(promised[1:], answer[1:], met)


def _match_line(promised: str, answer: str, real: dict[str, str]) -> dict[str, str] | None:
    pattern, names, end = "", [], 0
    for found in _ON_A_PAGE.finditer(promised):
        kind = found.lastgroup or ""
        pattern += re.escape(promised[end : found.start()])
        pattern += ".*" if kind == "anything" else f"({_PATTERNS[kind]})" if kind in _NAMES else _PATTERNS[kind]
        names += [found[0]] if kind in _NAMES else []
        end = found.end()
    met = re.fullmatch(pattern + re.escape(promised[end:]), answer)
    return None if met is None else _agreed(dict(zip(names, met.groups(), strict=True)), real)


def _agreed(met: dict[str, str], real: dict[str, str]) -> dict[str, str] | None:
    """One name on the page, one name in the run, and the other way round."""
    merged = real | met
    contradicted = any(merged[name] != real[name] for name in real)
    return None if contradicted or len(set(merged.values())) < len(merged) else merged
