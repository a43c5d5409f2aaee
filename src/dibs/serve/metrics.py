"""Metrics in the text format that Prometheus reads, and the health of the server and its store."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING

from dibs import __version__
from dibs.core.errors import StoreUnavailable
from dibs.core.task import Status, is_internal
from dibs.core.times import time_text
from dibs.fleet.trends import trends
from dibs.stores.port import Query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dibs.core.events import Event
    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.fleet.trends import Trends
    from dibs.serve.app import Api
    from dibs.stores.reports import Counts

_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)  # seconds

Labels = tuple[tuple[str, str], ...]
_HOUR = timedelta(hours=1)
_MOST_NAMES = 50  # agents and labels, so that metrics stay small


class Histogram:
    def __init__(self) -> None:
        self._at = [0] * (len(_BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._at[bisect_left(_BUCKETS, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: Labels) -> Iterator[str]:
        total = 0
        for most, number in zip((*map(str, _BUCKETS), "+Inf"), self._at, strict=True):
            total += number
            yield _line(f"{name}_bucket", (*labels, ("le", most)), total)
        yield _line(f"{name}_sum", labels, round(self._sum, 6))
        yield _line(f"{name}_count", labels, total)


class Metrics:
    """Counters and histograms. Only the event loop touches them."""

    def __init__(self) -> None:
        self._requests: Counter[Labels] = Counter()
        self._refusals: Counter[Labels] = Counter()
        self._events: Counter[tuple[str, str]] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self.listeners = 0

    def answered(self, route: str, method: str, status: int, seconds: float | None) -> None:
        """Count an answer. `seconds` is None for a stream, which lasts as long as its listener."""
        self._requests[("route", route), ("method", method), ("status", str(status))] += 1
        if seconds is not None:
            self._seconds.setdefault(route, Histogram()).observe(seconds)

    def refused(self, code: str) -> None:
        self._refusals[("code", code),] += 1

    def happened(self, events: Iterable[Event]) -> None:
        """Count events, also those of other processes."""
        for event in events:
            if not is_internal(event.scope):
                self._events[event.verb, event.outcome.value] += 1

    def claims(self) -> dict[str, Json]:
        """How many claims succeeded since the server started, by all processes."""
        won = self._events["claim", "ok"]
        tried = sum(number for (verb, _), number in self._events.items() if verb == "claim")
        rate = round(won / tried, 4) if tried else 1.0
        return {"total_claims": won, "claim_conflicts_avoided": tried - won, "claim_success_rate": rate}

    def text(self, scope: str, counts: Counts, ages: list[float], trends: Trends | None = None) -> str:
        """All metrics as text. `ages` are the ages in seconds of the leases held now; `trends` are of the last hour."""
        at = (("scope", scope),)
        won, lost, refused = self._events["claim", "ok"], self._sum("lost"), self._sum("refused")
        depth: dict[Labels, float] = {
            (*at, ("status", str(status))): number for status, number in counts.by_status.items()
        }
        families = (
            _family("dibs_claims_total", "counter", "Successful claims of all agents.", {(): won}),
            _family(
                "dibs_conflicts_total",
                "counter",
                "Requests refused because a task was held, waiting or changed.",
                {(): refused},
            ),
            _family("dibs_lost_locks_total", "counter", "Late writes that were rejected.", {(): lost}),
            _family("dibs_tasks", "gauge", "Tasks by status.", depth),
            _family("dibs_queue_depth", "gauge", "Tasks that can be claimed now.", {at: counts.claimable}),
            _family("dibs_waiting_tasks", "gauge", "Tasks that wait for others.", {at: counts.waiting}),
            _family("dibs_expired_leases", "gauge", "Expired leases.", {at: counts.expired}),
            _family("dibs_held_leases", "gauge", "Leases that are held.", {at: len(ages)}),
            _family(
                "dibs_oldest_lease_age_seconds", "gauge", "The age of the oldest lease.", {at: max(ages, default=0)}
            ),
            _family("dibs_event_listeners", "gauge", "Streams of events that are open.", {(): self.listeners}),
            _family("dibs_http_requests_total", "counter", "Requests that were answered.", self._requests),
            _family("dibs_http_refusals_total", "counter", "Requests that were refused, by code.", self._refusals),
            _lease_ages(at, ages),
            *(() if trends is None else _trends(at, trends)),
            self._latencies(),
        )
        return "".join(f"{line}\n" for family in families for line in family)

    def _sum(self, outcome: str) -> int:
        return sum(number for (_, how), number in self._events.items() if how == outcome)

    def _latencies(self) -> Iterator[str]:
        yield from _head("dibs_http_request_seconds", "histogram", "Time to answer.")
        for route, histogram in sorted(self._seconds.items()):
            yield from histogram.lines("dibs_http_request_seconds", (("route", route),))


def _trends(at: Labels, found: Trends) -> Iterator[Iterator[str]]:
    """Gauges of the last hour, from events of all processes."""
    outcomes = {"finished": found.finished, "failed": found.failed, "expired": found.expired}
    yield _family(
        "dibs_last_hour_attempts", "gauge", "How attempts of the last hour ended.",
        {(*at, ("outcome", name)): number for name, number in outcomes.items()},
    )  # fmt: skip
    for name, about, times in (
        ("dibs_last_hour_wait_seconds", "Time from claimable to claimed.", found.wait),
        ("dibs_last_hour_run_seconds", "Time from claim to finish.", found.run),
    ):
        values = () if times is None else (("0.5", times.p50), ("0.9", times.p90), ("0.95", times.p95))
        yield _family(name, "gauge", about, {(*at, ("quantile", part)): value for part, value in values})
    for kind, shares in (("agent", found.agents), ("label", found.labels)):
        told = {
            (*at, (kind, one.name), ("outcome", outcome)): getattr(one, outcome)
            for one in shares[:_MOST_NAMES]
            for outcome in outcomes
        }
        yield _family(
            f"dibs_last_hour_{kind}_attempts",
            "gauge",
            f"How attempts of the last hour ended, for the busiest {kind}s.",
            told,
        )


def _lease_ages(at: Labels, ages: list[float]) -> Iterator[str]:
    """A gauge of lease ages."""
    yield from _head("dibs_lease_age_seconds", "gauge", "Held leases, by age at most.")
    for most in (60, 300, 1200, 3600, 86_400):
        yield _line("dibs_lease_age_seconds", (*at, ("le", str(most))), sum(age <= most for age in ages))
    yield _line("dibs_lease_age_seconds", (*at, ("le", "+Inf")), len(ages))


def _family(name: str, kind: str, about: str, values: Mapping[Labels, float]) -> Iterator[str]:
    yield from _head(name, kind, about)
    for labels, value in sorted(values.items()):
        yield _line(name, labels, value)


def _head(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _line(name: str, labels: Labels, value: float) -> str:
    told = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels)
    return f"{name}{{{told}}} {value:.10g}" if told else f"{name} {value:.10g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# Health

_NAME = {"agent_name": "dibs-serve"}  # the name that the vault contract asks for
_PATIENCE = 3.0  # seconds for the store to answer


async def ready(api: Api) -> Json:
    """The state of the server and its store. Raise StoreUnavailable if the store does not answer in time."""
    try:
        async with asyncio.timeout(_PATIENCE):
            state, recorded = await api.desks.borrow(
                lambda desk: (_state(desk.at(api.scope)), desk.capabilities.history)
            )
            if recorded:
                await api.hub.refresh()
                state["coordination"] = {**_NAME, "active_claims": state["active"], **api.metrics.claims()}
            return state
    except TimeoutError:
        raise StoreUnavailable("The store does not answer in time.", retry_after_ms=1000) from None


def _state(desk: Desk) -> dict[str, Json]:
    counts = desk.counts()
    return {
        "status": "ready",
        "version": __version__,
        "timestamp": time_text(desk.now()),
        "scope": desk.scope,
        "claimable": counts.claimable,
        "active": counts.by_status[Status.ACTIVE],
    }


def measure(desk: Desk) -> tuple[Counts, list[float], Trends | None]:
    """The counts of a scope, the ages in seconds of all leases held now, and the trends of the last hour."""
    counts, now = desk.counts(), desk.now()
    held = [task.lease for task in desk.find(Query(desk.scope, (Status.ACTIVE,))) if task.held(now)]
    ages = [max(0.0, (now - lease.claimed_at).total_seconds()) for lease in held if lease is not None]
    return counts, ages, trends(desk, _HOUR) if desk.capabilities.history else None
