"""Our errors instead of the driver's. What a server says may hold values of a task, so it is not passed on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from neo4j.exceptions import (
    AuthError,
    ConfigurationError,
    DriverError,
    Neo4jError,
    ServiceUnavailable,
    SessionExpired,
    TransientError,
)

from dibs.core.errors import (
    Misconfigured,
    NoStore,
    SchemaTooNew,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from dibs.stores.neo4j.target import Target

# The connection is gone, or will not come: nothing is known of what was sent last.
LOST = (ServiceUnavailable, SessionExpired)
ANY = (DriverError, Neo4jError)

_TOOK_TOO_LONG = (
    "Neo.ClientError.Transaction.TransactionTimedOut",
    "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
    "Neo.ClientError.Transaction.LockAcquisitionTimeout",
    "Neo.ClientError.Transaction.LockClientStopped",
)
_READ_ONLY = (
    "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
    "Neo.ClientError.Cluster.NotALeader",
    "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase",
    "Neo.ClientError.Statement.AccessMode",
    "Neo.ClientError.Security.Forbidden",
)
_FULL = ("Neo.TransientError.General.MemoryPoolOutOfMemoryError", "Neo.TransientError.General.TransactionMemoryLimit")


def gives_way(error: Exception) -> bool:
    """Whether the same may be tried again."""
    return isinstance(error, TransientError) and error.code not in _FULL


def no_store(place: str) -> NoStore:
    return NoStore(f"There is no store at {place}. 'dibs init --store URL' makes one.")


def too_new(place: str, version: int, newest: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"{place} was written by a newer dibs (schema {version}, this one knows {newest}). Upgrade dibs."
    )


def too_old(place: str, agent: str) -> Misconfigured:
    return Misconfigured(f"{place} is {agent}; dibs needs Neo4j 5.13 or newer. Upgrade the server.")


def unavailable(place: str) -> StoreUnavailable:
    return StoreUnavailable(f"Cannot reach {place}. Check that the server runs, speaks Bolt there and may be reached.")


def translated(error: Exception, target: Target) -> StoreError:
    place = target.place
    code = (error.code if isinstance(error, Neo4jError) else None) or ""
    if isinstance(error, AuthError) or (code.startswith("Neo.ClientError.Security") and code not in _READ_ONLY):
        return Misconfigured(
            f"{place} does not let '{target.user}' in. Check NEO4J_USER and NEO4J_PASSWORD, or what the URL says."
        )
    if code in _READ_ONLY:
        return StoreReadOnly(
            f"{place} cannot be written: it is read-only, a follower, or '{target.user}' may not write."
        )
    if code == "Neo.ClientError.Database.DatabaseNotFound":
        return Misconfigured(f"{place} has no such database. Name one that is there with ?database=NAME.")
    if code in _FULL:
        return StoreFull(
            f"{place} has no memory left for this. Do less at once, or give the server more; nothing was changed."
        )
    if isinstance(error, TransientError) or code in _TOOK_TOO_LONG:
        return StoreBusy(f"{place} is busy with other writers. Try again in a moment.", retry_after_ms=1000)
    if isinstance(error, ConfigurationError):
        return Misconfigured(f"The driver cannot connect to {place} as asked. Check the URL.")
    if isinstance(error, LOST):
        return unavailable(place)
    return StoreError(f"{place} refused a statement ({code or type(error).__name__}). The server's log tells more.")
