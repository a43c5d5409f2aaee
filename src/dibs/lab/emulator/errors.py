"""What the API says when it refuses: codes, statuses and messages, word for word where they are known."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.lab.emulator.model import User

VERSIONS = ("2021-05-11", "2021-05-13", "2021-08-16", "2022-02-22", "2022-06-28", "2025-09-03", "2026-03-11")

# code → status and the message that goes with it
KNOWN = {
    "invalid_json": (400, "Error parsing JSON body."),
    "invalid_request_url": (400, "Invalid request URL."),
    "unauthorized": (401, "API token is invalid."),
    "restricted_resource": (403, "Insufficient permissions for this endpoint."),
    "conflict_error": (409, "Conflict occurred while saving. Please try again."),
    "rate_limited": (429, "You have been rate limited. Please try again later."),
    "internal_server_error": (500, "Unexpected error occurred."),
    "bad_gateway": (502, "Bad Gateway"),
    "service_unavailable": (503, "Notion is unavailable, please try again later."),
    "gateway_timeout": (504, "Gateway Timeout"),
    "service_overload": (529, "Notion is overloaded, please try again later."),
}
_SHOWN = 50


class ApiError(Exception):
    """A refusal, on its way to the client."""

    def __init__(self, status: int, code: str, message: str, more: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.more = more
        self.retry_after: int | None = None

    @classmethod
    def known(cls, code: str, retry_after: int | None = None) -> Self:
        status, message = KNOWN[code]
        limit = {"rate_limit_reason": "public_api_request_rate_limit", "retry_after": str(retry_after)}
        error = cls(status, code, message, limit if code == "rate_limited" else None)
        error.retry_after = retry_after
        return error

    def body(self, request_id: str) -> dict[str, Any]:
        said: dict[str, Any] = {
            "object": "error",
            "status": self.status,
            "code": self.code,
            "message": self.message,
            "request_id": request_id,
        }
        return said if self.more is None else {**said, "additional_data": dict(self.more)}


def invalid(message: str) -> ApiError:
    return ApiError(400, "validation_error", message)


def should(path: str, expected: str, was: object = ...) -> ApiError:
    """`body.page_size should be ≤ `100`, instead was `500`.` An ellipsis stands for what is not there."""
    part = path.partition(".")[0]
    return invalid(f"{part} failed validation: {should_line(path, expected, was)}")


def should_line(path: str, expected: str, was: object = ...) -> str:
    return f"{path} should be {expected}, instead was `{_shown(was)}`."


def fix_one(lines: list[str]) -> ApiError:
    """None of the forms that a value may have fits."""
    return invalid("body failed validation. Fix one:\n" + "\n".join(lines))


def not_found(kind: str, object_id: str, by: User | None) -> ApiError:
    """What is not there and what is not shared with the one who asks sounds the same."""
    whose = f' "{by.name}"' if by else ""
    shared = f"Make sure the relevant pages and databases are shared with your integration{whose}."
    more = {"integration_id": by.id} if by else None
    return ApiError(404, "object_not_found", f"Could not find {kind} with ID: {object_id}. {shared}", more)


def mistaken(object_id: str, kind: str, wanted: str) -> ApiError:
    """The id of something else."""
    return invalid(f"Provided ID {object_id} is a {kind}, not a {wanted}. Use the retrieve {kind} API instead")


def missing_version() -> ApiError:
    message = "Notion-Version header should be defined, instead was `undefined`."
    return ApiError(400, "missing_version", f"Notion-Version header failed validation: {message}")


def unknown_version(version: str) -> ApiError:
    known = ", ".join(f'`"{name}"`' for name in VERSIONS[:-1]) + f', or `"{VERSIONS[-1]}"`'
    message = should_line("Notion-Version header", known, version)
    return invalid(f"Notion-Version header failed validation: {message}")


def _shown(value: object) -> str:
    if value is ...:
        return "undefined"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
