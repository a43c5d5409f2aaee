"""What goes wrong, when a test or a demonstration wants it: knobs that stay, and faults for the next request only."""

import threading
from collections.abc import Mapping
from random import Random
from typing import Any, NamedTuple, TypeAlias

# Seconds, or from and to.
Span: TypeAlias = float | tuple[float, float]

USUAL = "as usual"
DROP = "drop"
GARBAGE = "garbage"


class Fault(NamedTuple):
    """How one request goes: a wait, then the work or none, another wait, then an answer or none.

    `answer` is USUAL, the code of an error, DROP (the connection closes), or GARBAGE (what comes is not JSON).
    """

    wait: float = 0.0
    commit: bool = True
    wait_after: float = 0.0
    answer: str = USUAL


KINDS = {
    "conflict": Fault(commit=False, answer="conflict_error"),
    "unavailable": Fault(commit=False, answer="service_unavailable"),
    "unavailable_after_commit": Fault(answer="service_unavailable"),
    "overload": Fault(commit=False, answer="service_overload"),
    "internal_error": Fault(commit=False, answer="internal_server_error"),
    "bad_gateway": Fault(commit=False, answer="bad_gateway"),
    "gateway_timeout": Fault(commit=False, answer="gateway_timeout"),
    "gateway_timeout_after_commit": Fault(answer="gateway_timeout"),
    "rate_limited": Fault(commit=False, answer="rate_limited"),
    "hang_then_commit": Fault(wait=5.0),
    "commit_then_hang": Fault(wait_after=5.0),
    "hang": Fault(wait=5.0, commit=False, answer=DROP),
    "drop": Fault(commit=False, answer=DROP),
    "drop_after_commit": Fault(answer=DROP),
    "garbage": Fault(answer=GARBAGE),
}
# These make sense for writes only, so a rate of them leaves reads alone.
_OF_WRITES = frozenset({"conflict", *(kind for kind in KINDS if "commit" in kind)})
KNOBS = frozenset(
    {
        *("query_lag", "stale_reads", "latency_before", "latency_after", "rates"),
        *("requests_per_minute", "retry_after", "result_cap", "drop_seconds"),
    }
)


class Target(NamedTuple):
    """Which requests are meant: by method, by a piece of the path; None is any."""

    method: str | None
    path: str | None

    def fits(self, method: str, path: str) -> bool:
        return self.method in {None, method} and (self.path is None or self.path in path)


class Hold:
    """A request that waits, before or after its work is done, until it is let go."""

    def __init__(self, target: Target, *, after_commit: bool) -> None:
        self.target = target
        self.after_commit = after_commit
        self.arrived = threading.Event()
        self.released = threading.Event()

    def wait_for_arrival(self, timeout: float = 10.0) -> None:
        if not self.arrived.wait(timeout):
            raise TimeoutError("no such request came")

    def release(self) -> None:
        self.released.set()


class _Once:
    def __init__(self, target: Target, fault: Fault, times: int, skip: int) -> None:
        self.target = target
        self.fault = fault
        self.times = times
        self.skip = skip


class Faults:
    """Set the attributes at any time; `next` and `hold` are for single requests; `clear` makes all well again."""

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)  # noqa: S311  (chooses who is unlucky, the same ones for the same seed)
        self._lock = threading.Lock()
        self.clear()

    def clear(self) -> None:
        self.query_lag = 0.0  # queries and searches see the world as it was this many seconds ago
        self.stale_reads = 0.0  # so does GET of a page
        self.latency_before: Span = 0.0
        self.latency_after: Span = 0.0
        self.rates: dict[str, float] = {}  # kind → share of the requests it befalls
        self.requests_per_minute: int | None = None  # by each token; the API has 180
        self.retry_after = 1  # told with faults that ask to come back; the rate limit tells the real time
        self.result_cap = 10_000
        self.drop_seconds = True  # dates with a time are kept to the minute
        self._once: list[_Once] = []
        self._holds: list[Hold] = []

    def set(self, knobs: Mapping[str, Any]) -> None:
        """Several at once, by name."""
        for name, value in knobs.items():
            if name not in KNOBS:
                raise ValueError(f"no such knob: {name}; there are {', '.join(sorted(KNOBS))}")
            self._check(name, value)
        for name, value in knobs.items():
            setattr(self, name, tuple(value) if isinstance(value, list) else value)

    def _check(self, name: str, value: Any) -> None:
        if name == "rates":
            for kind in value:
                _known(kind)

    def next(
        self,
        kind: str,
        *,
        method: str | None = None,
        path: str | None = None,
        seconds: float | None = None,
        times: int = 1,
        skip: int = 0,
    ) -> None:
        """The next request of that method, with that in its path, goes this way: `times` of them, after `skip`."""
        fault = _known(kind)
        if seconds is not None:
            after = fault.wait_after > 0 or (fault.wait == 0 and kind.endswith("commit"))
            fault = fault._replace(wait_after=seconds) if after else fault._replace(wait=seconds)
        with self._lock:
            self._once.append(_Once(Target(method, path), fault, times, skip))

    def hold(self, method: str | None = None, path: str | None = None, *, after_commit: bool = False) -> Hold:
        held = Hold(Target(method, path), after_commit=after_commit)
        with self._lock:
            self._holds.append(held)
        return held

    def pick(self, method: str, path: str, *, writes: bool) -> tuple[Fault, Hold | None]:
        """What is to befall this request."""
        with self._lock:
            held = next((hold for hold in self._holds if hold.target.fits(method, path)), None)
            if held is not None:
                self._holds.remove(held)
            fault = self._single(method, path) or self._unlucky(writes=writes) or Fault()
            before, after = self._seconds(self.latency_before), self._seconds(self.latency_after)
        return fault._replace(wait=fault.wait + before, wait_after=fault.wait_after + after), held

    def _single(self, method: str, path: str) -> Fault | None:
        once = next((one for one in self._once if one.target.fits(method, path)), None)
        if once is None:
            return None
        if once.skip:
            once.skip -= 1
            return None
        once.times -= 1
        if once.times <= 0:
            self._once.remove(once)
        return once.fault

    def _unlucky(self, *, writes: bool) -> Fault | None:
        for kind, share in self.rates.items():
            if (writes or kind not in _OF_WRITES) and self._rng.random() < share:
                return KINDS[kind]
        return None

    def _seconds(self, span: Span) -> float:
        return self._rng.uniform(*span) if isinstance(span, tuple) else span


def _known(kind: str) -> Fault:
    if kind not in KINDS:
        raise ValueError(f"no such fault: {kind}; there are {', '.join(sorted(KINDS))}")
    return KINDS[kind]
