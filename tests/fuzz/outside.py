"""What the world may send, and the one thing to be said of all that reads it: an answer or an error of ours, soon."""

from __future__ import annotations

import os
import time
import tracemalloc
from typing import TYPE_CHECKING, Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st

from dibs.core.errors import DibsError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")

EXAMPLES = int(os.environ.get("DIBS_EXAMPLES", "30"))
bounded = settings(max_examples=EXAMPLES)

_SECONDS = 6.0  # of the processor, not of the clock; ten times what a quiet machine needs, as others slow it down
_MEGABYTES = 256
_LONGEST_MESSAGE = 2_000

# Difficult input: line endings, marks of every format that dibs reads, huge numbers, partial characters.
_BITS = st.sampled_from(
    ["\n", "\r\n", "\r", "\x00", "\x1b[31m", "\u2028", "\ufeff", "\u202e", "\ud800", "é", "🧹", "---\n", "```\n", "---",
     ": ", "- ", "# ", '"', "'", "{", "}", "[", "]", ",", "|", "\\", "\\u", "\\x", "&a ", "*a", "!!python/object:os ",
     "? ", "<<: ", "null", "true", "NaN", "-Infinity", "1e999", "-0", "9" * 400, "0x", "1_000", "2026-02-30",
     "T25:61:61Z", "+99:99", "%s", "${HOME}", "../", "$(id)", "<!-- ", " -->", "[[", "]]", "  ", "\t", "blocks",
     "before", "first"]
)  # fmt: skip

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | _BITS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8) | _BITS, inner, max_size=4),
    max_leaves=12,
)


def answered(read: Callable[[Any], T], given: Any) -> T | None:
    """The result, or None for a DibsError. Any other exception fails the test."""
    begun = time.process_time()
    try:
        answer, told = read(given), "an answer"
    except DibsError as error:
        answer, told = None, error.message
    assert time.process_time() - begun < _SECONDS
    assert 0 < len(told) < _LONGEST_MESSAGE
    return answer


def survived(read: Callable[[Any], object], given: Any) -> None:
    """The same for expensive input, with a limit on memory."""
    tracemalloc.start()
    try:
        answered(read, given)
        assert tracemalloc.get_traced_memory()[1] < _MEGABYTES << 20
    finally:
        tracemalloc.stop()


def texts(*samples: str) -> SearchStrategy[str]:
    """Any text at all, bits that hurt, and samples with some of their parts cut, doubled, moved or replaced."""
    wild = st.text(max_size=60) | st.lists(_BITS, max_size=12).map("".join)
    return wild | _mutated(samples) if samples else wild


@st.composite
def _mutated(draw: st.DrawFn, samples: Sequence[str]) -> str:
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        start, end = sorted((draw(st.integers(0, len(text))), draw(st.integers(0, len(text)))))
        taken = text[start:end]
        other = draw(_BITS | st.sampled_from(["", taken * 2, taken[::-1], *samples]))
        text = text[:start] + other + text[end:]
    return text


@st.composite
def disturbed(draw: st.DrawFn, sample: Any) -> Any:
    """A structure of the right kind in which some values are others, are missing, or are there too much."""
    if draw(st.integers(0, 9)) == 0:
        return draw(JSON)
    if isinstance(sample, dict):
        kept = {key: draw(disturbed(value)) for key, value in sample.items() if draw(st.integers(0, 9))}
        return kept | (
            draw(st.dictionaries(st.text(max_size=8), JSON, max_size=2)) if not draw(st.integers(0, 9)) else {}
        )
    if isinstance(sample, list):
        return [draw(disturbed(value)) for value in sample] * draw(st.sampled_from([1, 1, 1, 0, 3]))
    return sample
