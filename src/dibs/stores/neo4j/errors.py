"""The driver's errors as ours. Messages of the server are not repeated, because they may hold values of a task."""

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
    StoreReplaced,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dibs.stores.neo4j.database import Target

ANY = (DriverError, Neo4jError)
OLDEST_SERVER = (5, 11)

# The connection is lost or cannot be made. The last statement may have arrived.
_LOST = (ServiceUnavailable, SessionExpired)
# The server answers, but its database is starting, stopping, or stopped because its disk is full.
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
    """Whether the server may be reachable again soon."""
    return isinstance(error, _LOST) or _code(error) in _AWAY


def was_sent(error: Exception) -> bool:
    """Whether the statement may have reached the server. Without a connection, it has not."""
    return not str(error).startswith(("Couldn't connect to", "Unable to retrieve routing information"))


def gives_way(error: Exception) -> bool:
    """Whether the transaction may be tried again."""
    return isinstance(error, TransientError) and error.code not in _OUT_OF_MEMORY


def is_there(error: Exception) -> bool:
    """Whether another process created the index or constraint first."""
    return _code(error) in _THERE


def is_refusal(error: Exception) -> bool:
    """Whether the server rolled the transaction back."""
    return isinstance(error, (ClientError, TransientError)) and not is_away(error)


def no_store(place: str) -> NoStore:
    return NoStore(f"There is no store at {place}. 'dibs init --store URL' creates one.")


def replaced(place: str, *, gone: bool) -> StoreReplaced:
    what = "was deleted" if gone else "was replaced by another store"
    return StoreReplaced(
        f"{place} {what} while it was open. Nothing was written. Restart to use the store that is there now."
    )


def too_new(place: str, version: int, newest: int) -> SchemaTooNew:
    return SchemaTooNew(
        f"{place} was written by a newer dibs (schema {version}, this one knows {newest}). Upgrade dibs."
    )


def too_old(place: str, agent: str) -> Misconfigured:
    return Misconfigured(f"{place} is {agent}; dibs needs Neo4j {_oldest()} or newer. Upgrade the server.")


def in_doubt(place: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"The connection to {place} broke during a commit, and whether it was committed is unknown. "
        "Check the tasks before you repeat the command."
    )


def translated(error: Exception, target: Target) -> StoreError:
    place, code = target.place, _code(error)
    if code == "Neo.ClientError.Security.CredentialsExpired":
        return Misconfigured(f"At {place}, '{target.user}' must first choose a new password. Use its browser or shell.")
    if isinstance(error, AuthError) or (code.startswith("Neo.ClientError.Security") and code not in _READ_ONLY):
        return Misconfigured(
            f"{place} rejected the login of '{target.user}'. Check NEO4J_USER and NEO4J_PASSWORD, or the URL."
        )
    if code in _READ_ONLY:
        return StoreReadOnly(
            f"{place} cannot be written: it is read-only, a follower, or '{target.user}' may not write."
        )
    if code == "Neo.ClientError.Database.DatabaseNotFound":
        return Misconfigured(f"{place} has no such database. Name an existing one with ?database=NAME.")
    if code in _OUT_OF_MEMORY:
        return StoreFull(
            f"{place} has too little memory for this; nothing was changed. Do less at once, or raise the server's heap."
        )
    if is_away(error):
        return _unreachable(error, place)
    if isinstance(error, TransientError) or code in _TOOK_TOO_LONG:
        return StoreBusy(
            f"{place} is busy: other writers hold the locks, or the transaction took longer than the URL's timeout "
            f"({target.timeout:.0f} s). Try again in a moment.",
            retry_after_ms=1000,
        )
    if isinstance(error, ConfigurationError):
        return Misconfigured(
            f"The server at {place} is not Neo4j, or too old: dibs needs Neo4j {_oldest()} or newer. Check the address."
        )
    return StoreError(f"{place} refused a statement ({code or type(error).__name__}). See the server's log.")


def _unreachable(error: Exception, place: str) -> StoreError:
    if isinstance(error, Neo4jError):
        return StoreUnavailable(
            f"{place} answers, but its database is starting, stopping, or failed, as on a full disk. "
            "In that case, free space and restart it. See the server's log."
        )
    if any(isinstance(cause, ssl.SSLError) for cause in _causes(error)):
        return Misconfigured(
            f"TLS to {place} failed: the server does not offer it there, or its certificate is not trusted. "
            "neo4j:// and bolt:// use no TLS; +ssc accepts any certificate."
        )
    return StoreUnavailable(
        f"Cannot reach {place}. Check that the server runs, that this is its Bolt port (7687, not 7474), "
        "and whether it needs TLS (neo4j+s://)."
    )


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all its causes. For a cluster, the driver raises a group of errors."""
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
