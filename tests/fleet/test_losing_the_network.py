"""A worker on another host that loses the network: it stops its command and does not report."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from dibs.core.task import Status
from dibs.lab.torture.proxies import BoltProxy, PostgresProxy
from support.postgres_server import shared_url
from support.workers import LONG, lines_of, shell, until

from .far import BehindProxy, InNamespace, namespaces

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.workers import Place

    from .far import Far

_STORES = ["neo4j", "postgres"] if os.environ.get("DIBS_TORTURE") else ["postgres"]  # the first takes long
_GOES_ON = "trap '' TERM; while :; do echo $DIBS_ATTEMPT >> log; sleep 0.02; done"


@contextmanager
def _far_from(place: Place) -> Iterator[Far]:
    if place.url.startswith("bolt"):
        with BoltProxy(place.url) as proxy:
            yield BehindProxy(place, proxy, f"{proxy.url(timeout=20)}&{place.url.partition('?')[2]}")
    elif namespaces():
        yield InNamespace(place, shared_url(), place.schema)
    else:
        with PostgresProxy(shared_url()) as proxy:
            yield BehindProxy(place, proxy, proxy.url(timeout=20, schema=place.schema))


@pytest.mark.parametrize("anywhere", _STORES, indirect=True)
def test_host_without_network_ends_its_command_before_expiry(anywhere: Place) -> None:
    """It reports no result when the network is back."""
    place = anywhere
    place.add("a")
    with _far_from(place) as far:
        one = far.work(*LONG, "--grace", "0.5s", *shell(_GOES_ON))
        until(lambda: lines_of(place.folder / "log"), lambda: one.said)
        far.lose_network()
        place.stop_clock_before_expiry("a")
        place.commands_end()
        assert place.told("a") == ["claim"]
        place.clock.advance(seconds=1)
        place.cut_lease_short("a")
        two = place.work(*shell("echo $DIBS_ATTEMPT"), agent="bob")
        two.says("done a")
        far.find_network()
        one.says("lost a after")
        place.add("b")
        until(lambda: place.task("b").status is Status.DONE or one.said.count("took") > 1, lambda: one.said)
    told = [what for what in place.told("a") if what != "renew lost"]  # one that was on its way when the network failed
    assert told == ["claim", "claim", "done"]
    assert set(lines_of(place.folder / "log")) <= {"1", "2"}
