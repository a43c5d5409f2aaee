"""How the server and its store are: for who has to decide whether to send anybody here."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dibs import __version__
from dibs.core.errors import StoreUnavailable
from dibs.core.events import Outcome
from dibs.core.task import Status
from dibs.core.times import time_text
from dibs.stores.port import EventQuery, Query

if TYPE_CHECKING:
    from dibs.core.task import Json
    from dibs.serve.site import Site
    from dibs.stores.port import Store

_PATIENCE = 3.0  # seconds for the store to answer


async def ready(site: Site) -> Json:
    """The store answers in time, or StoreUnavailable."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await site.desks.borrow(lambda store: _state(store, site.scope))
    except TimeoutError:
        raise StoreUnavailable("The store does not answer in time.", retry_after_ms=1000) from None


def _state(store: Store, scope: str) -> dict[str, Json]:
    counts = store.counts(scope)
    state: dict[str, Json] = {
        "status": "ready",
        "version": __version__,
        "timestamp": time_text(store.now()),
        "scope": scope,
        "claimable": counts.claimable,
        "active": counts.by_status[Status.ACTIVE],
    }
    if store.capabilities.ids == "file names":
        state["coordination"] = _coordination(store, scope)
    return state


def _coordination(store: Store, scope: str) -> dict[str, Json]:
    """Of a vault, as its contract has it, for all agents together."""
    claims = [event for event in store.events(EventQuery(scope)) if event.verb == "claim"]
    won = sum(event.outcome is Outcome.OK for event in claims)
    return {
        "agent_name": "dibs-serve",
        "active_claims": len(store.find(Query(scope, (Status.ACTIVE,)))),
        "total_claims": won,
        "claim_conflicts_avoided": len(claims) - won,
        "claim_success_rate": round(won / len(claims), 4) if claims else 1.0,
    }


def lease_ages(store: Store, scope: str) -> list[float]:
    """Of all leases that are held now, in seconds."""
    now = store.now()
    held = [task.lease for task in store.find(Query(scope, (Status.ACTIVE,))) if task.held(now)]
    return [max(0.0, (now - lease.claimed_at).total_seconds()) for lease in held if lease is not None]
