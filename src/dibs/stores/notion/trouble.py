"""What can go wrong between here and Notion, sorted out: what it was, whether it may pass, and what to do about it."""

import ssl
from collections.abc import Iterable
from enum import StrEnum
from typing import Any, NamedTuple

from dibs.core.errors import DibsError, Misconfigured, NotFound, StoreBusy, StoreUnavailable
from dibs.stores.notion.gateway import Conflict, Mistaken, Unanswered


class Trouble(StrEnum):
    UNREACHABLE = "unreachable"  # no connection: nothing was sent
    TLS = "tls"
    TIMEOUT = "timeout"
    BROKEN = "broken"  # the connection ended before the answer
    GARBAGE = "garbage"
    LATE = "late"  # it was not sent: its time had passed
    ANSWER = "answer"  # Notion says no


class Failure(NamedTuple):
    """A request that came to nothing, without anything of what was sent."""

    trouble: Trouble
    status: int = 0
    code: str = ""
    message: str = ""
    retry_after: float | None = None

    @classmethod
    def of(cls, error: Exception) -> "Failure":
        """Sort out an error of the client; what is none of its errors is raised again."""
        import httpx
        from notion_client.errors import HTTPResponseError, InvalidPathParameterError, RequestTimeoutError

        if isinstance(error, HTTPResponseError):
            return _refused(error)
        if isinstance(error, RequestTimeoutError):
            return cls(Trouble.TIMEOUT)
        if isinstance(error, InvalidPathParameterError | httpx.InvalidURL):
            return cls(Trouble.ANSWER, 404)
        if isinstance(error, httpx.ConnectError | httpx.UnsupportedProtocol):
            return cls(Trouble.TLS if _is_tls(error) else Trouble.UNREACHABLE, message=str(error)[:200])
        if isinstance(error, httpx.HTTPError):
            return cls(Trouble.BROKEN)
        if isinstance(error, ValueError):
            return cls(Trouble.GARBAGE)  # an answer that is no JSON
        raise error


def _refused(error: Any) -> Failure:
    code = getattr(error.code, "value", error.code)
    waits = error.headers.get("retry-after", "")
    retry_after = float(waits) if waits.isascii() and waits.isdigit() else None
    return Failure(Trouble.ANSWER, error.status, str(code), str(error)[:500], retry_after)


def _is_tls(error: BaseException) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return True
        cause = cause.__cause__ or cause.__context__
    return "SSL" in str(error) or "CERTIFICATE" in str(error).upper()


def may_pass(failure: Failure) -> bool:
    """The same request may succeed in a moment."""
    if failure.trouble is Trouble.ANSWER:
        return failure.status in {409, 429} or failure.status >= 500  # noqa: PLR2004 - HTTP's own numbers
    return failure.trouble in {Trouble.TIMEOUT, Trouble.BROKEN, Trouble.GARBAGE}


def told(failure: Failure, path: str, address: str, secrets: Iterable[str], *, sent: bool) -> DibsError:
    """The error to raise, without any secret. A write that was sent may have been done, whatever came back."""
    error = _translated(failure, path, address)
    if sent and isinstance(error, StoreUnavailable) and failure.trouble is not Trouble.UNREACHABLE:
        error = Unanswered(error.message)
    for secret in secrets:
        error.message = error.message.replace(secret, "…")
    error.args = (error.message,)
    return error


def _translated(failure: Failure, path: str, address: str) -> DibsError:
    """The error to raise: what happened, and what to do next."""
    match failure.trouble:
        case Trouble.UNREACHABLE:
            return StoreUnavailable(f"Notion cannot be reached at {address}: {failure.message or 'no connection'}.")
        case Trouble.TLS:
            return StoreUnavailable(
                f"The connection to {address} is not safe: its certificate was not accepted ({failure.message})."
            )
        case Trouble.LATE:
            return StoreBusy("It took too long until the change could be sent, so it was not. Try again in a moment.")
        case Trouble.TIMEOUT:
            return StoreUnavailable("Notion did not answer in time. Try again in a moment.")
        case Trouble.BROKEN:
            return StoreUnavailable("The connection to Notion ended before its answer. Try again in a moment.")
        case Trouble.GARBAGE:
            return StoreUnavailable(
                f"What answers at {address} does not speak as Notion does. Try again; is NOTION_API_BASE_URL right?"
            )
    return _said_no(failure, path)


def _said_no(failure: Failure, path: str) -> DibsError:
    said = f" Notion says: {failure.message}" if failure.message else ""
    match failure.status:
        case 401:
            return Misconfigured("Notion does not accept NOTION_TOKEN. Copy it anew from the integration's settings.")
        case 403:
            return Misconfigured(
                f"The integration may not do that.{said} Switch the capability on in the integration's settings."
            )
        case 404 if path.startswith("pages/"):
            return NotFound("There is no such page, or it is not shared with the integration.")
        case 400 if path.startswith("pages/") and "not a page" in failure.message:
            return NotFound("That is the id of something else than a page.")
        case 400 if path.startswith("databases/"):
            return Misconfigured(f"That is the id of something else than a database.{said}")
        case 404:
            return Misconfigured(
                "There is no such Notion database, or it is not shared with the integration. Check its id; then open "
                "it in Notion and add the integration under ••• → Connections."
            )
        case 400:
            return Mistaken(f"Notion did not take the request.{said}")
        case 409:
            return Conflict("Notion was busy with the same page. Try again in a moment.")
        case 429:
            wait = failure.retry_after or 1.0
            return StoreBusy(
                f"Notion asks to slow down; try again in {wait:g} seconds. A limiter that all agents share avoids it.",
                retry_after_ms=int(1000 * wait),
            )
    return StoreUnavailable(f"Notion has trouble of its own (status {failure.status}). Try again in a moment.")
