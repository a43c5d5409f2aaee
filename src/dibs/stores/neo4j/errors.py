"""Our errors instead of the driver's. What a server says may hold values of a task, so it is not passed on."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from neo4j.exceptions import (
    AuthError,
    ClientError,
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
    from collections.abc import Iterator

    from dibs.stores.neo4j.target import Target

ANY = (DriverError, Neo4jError)
OLDEST_SERVER = (5, 11)

# The connection is gone, or will not come: nothing is known of what was sent last.
_LOST = (ServiceUnavailable, SessionExpired)
# The server is there, its database is not: it starts or stops, or gave itself up because its disk was full.
_AWAY = frozenset(
    {
        "Neo.TransientError.Database.DatabaseUnavailable",
        "Neo.TransientError.General.DatabaseUnavailable",
        "Neo.DatabaseError.Transaction.TransactionCommitFailed",
        "Neo.DatabaseError.Transaction.TransactionLogError",
        "Neo.DatabaseError.Transaction.TransactionStartFailed",
    }
)
_TOOK_TOO_LONG = frozenset(
    {
        "Neo.ClientError.Transaction.TransactionTimedOut",
        "Neo.ClientError.Transaction.TransactionTimedOutClientConfiguration",
        "Neo.ClientError.Transaction.LockAcquisitionTimeout",
        "Neo.ClientError.Transaction.LockClientStopped",
    }
)
_READ_ONLY = frozenset(
    {
        "Neo.ClientError.General.ForbiddenOnReadOnlyDatabase",
        "Neo.ClientError.Cluster.NotALeader",
        "Neo.ClientError.General.WriteOnReadOnlyAccessDatabase",
        "Neo.ClientError.Statement.AccessMode",
        "Neo.ClientError.Security.Forbidden",
    }
)
_THERE = frozenset(
    {
        "Neo.ClientError.Schema.EquivalentSchemaRuleAlreadyExists",
        "Neo.ClientError.Schema.ConstraintAlreadyExists",
        "Neo.ClientError.Schema.IndexAlreadyExists",
    }
)
_OUT_OF_MEMORY = frozenset(
    {
        "Neo.TransientError.General.MemoryPoolOutOfMemoryError",
        "Neo.TransientError.General.OutOfMemoryError",
        "Neo.TransientError.General.TransactionMemoryLimit",
    }
)


def is_away(error: Exception) -> bool:
    """Whether the server, or the way to it, may be back in a moment."""
    return isinstance(error, _LOST) or _code(error) in _AWAY


def was_sent(error: Exception) -> bool:
    """Whether the server may have heard what was asked of it. Where no connection came about, it has not."""
    return not str(error).startswith(("Couldn't connect to", "Unable to retrieve routing information"))


def gives_way(error: Exception) -> bool:
    """Whether the same may be tried again."""
    return isinstance(error, TransientError) and error.code not in _OUT_OF_MEMORY


def is_there(error: Exception) -> bool:
    """Whether an index or a constraint was made by somebody else in the meantime."""
    return _code(error) in _THERE


def is_refusal(error: Exception) -> bool:
    """Whether the server has said that it did not do it, and will not."""
    return isinstance(error, (ClientError, TransientError)) and not is_away(error)


def no_store(place: str) -> NoStore:
    return NoStore(f"There is no store at {place}. 'dibs init --store URL' makes one.")


def too_new(place: str, version: int, newest: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"{place} was written by a newer dibs (schema {version}, this one knows {newest}). Upgrade dibs."
    )


def too_old(place: str, agent: str) -> Misconfigured:
    return Misconfigured(f"{place} is {agent}; dibs needs Neo4j {_oldest()} or newer. Upgrade the server.")


def in_doubt(place: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"What became of a commit cannot be found out: the connection to {place} broke, or its database did. "
        "Look before asking again."
    )


def translated(error: Exception, target: Target) -> StoreError:
    place, code = target.place, _code(error)
    if code == "Neo.ClientError.Security.CredentialsExpired":
        return Misconfigured(f"{place} wants '{target.user}' to choose a new password first, in its browser or shell.")
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
    if code in _OUT_OF_MEMORY:
        return StoreFull(
            f"{place} has no memory left for this. Do less at once, or give the server more; nothing was changed."
        )
    if is_away(error):
        return _unreachable(error, place)
    if isinstance(error, TransientError) or code in _TOOK_TOO_LONG:
        return StoreBusy(
            f"{place} is busy: others hold the locks that this needs, or it takes longer than the URL's timeout "
            f"({target.timeout:.0f} s). Try again in a moment.",
            retry_after_ms=1000,
        )
    if isinstance(error, ConfigurationError):
        return Misconfigured(
            f"What answers at {place} is no Neo4j, or one that is too old: dibs needs {_oldest()} or newer. "
            "Check the address."
        )
    return StoreError(f"{place} refused a statement ({code or type(error).__name__}). The server's log tells more.")


def _unreachable(error: Exception, place: str) -> StoreError:
    if isinstance(error, Neo4jError):
        return StoreUnavailable(
            f"{place} answers, but its database does not: it is starting or stopping, or gave up, as on a full disk; "
            "then it wants room, and a restart. The server's log tells more."
        )
    if any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
        return Misconfigured(
            f"{place} and dibs cannot agree on TLS: the server has none there, or its certificate is not trusted. "
            "neo4j:// and bolt:// go without; with +ssc any certificate will do."
        )
    return StoreUnavailable(
        f"Cannot reach {place}. Check that the server runs, that this is its Bolt port (7687, not 7474), "
        "and whether it wants TLS (neo4j+s://)."
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that led to it. The driver tells of the servers of a cluster in a group."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for each in error.exceptions:
            yield from _causes(each)
    if error.__cause__ is not None:
        yield from _causes(error.__cause__)


def _code(error: Exception) -> str:
    return (error.code if isinstance(error, Neo4jError) else None) or ""


def _oldest() -> str:
    return ".".join(map(str, OLDEST_SERVER))
