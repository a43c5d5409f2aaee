"""How the server and its store are: for who has to decide whether to send anybody here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dibs import __version__
from dibs.core.errors import StoreUnavailable
from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.stores.port import Query

if TYPE_CHECKING:
    from dibs.core.task import Json
    from dibs.desk import Desk
    from dibs.serve.site import Site
    from dibs.stores.port import Counts

_NAME = {"agent_name": "dibs-serve"}  # who tells how claims go, as the contract of vaults has it
_PATIENCE = 3.0  # seconds for the store to answer


async def ready(site: Site) -> Json:
    """The store answers in time, or StoreUnavailable."""
    try:
        async with asyncio.timeout(_PATIENCE):
            state, recorded = await site.desks.borrow(
                lambda desk: (_state(desk.at(site.scope)), desk.capabilities.history)
            )
            if recorded:
                await site.hub.refresh()
                state["coordination"] = {**_NAME, "active_claims": state["active"], **site.metrics.claims()}
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


def measured(desk: Desk) -> tuple[Counts, list[float]]:
    """The counts of a scope, and the ages in seconds of all leases that are held now."""
    counts, now = desk.counts(), desk.now()
    held = [task.lease for task in desk.find(Query(desk.scope, (Status.ACTIVE,))) if task.held(now)]
    return counts, [max(0.0, (now - lease.claimed_at).total_seconds()) for lease in held if lease is not None]
