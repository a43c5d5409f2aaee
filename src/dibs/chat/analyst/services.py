"""HTTP services that answer JSON with JSON, and the language model behind one of them.

A service may be slow or broken. So an answer has a deadline and a size limit, redirects are not followed, a temporary
failure is retried once, and every failure ends in one error that says what to check. The key goes into one header and
nowhere else: not into an error, and what the service writes about it is not shown either.

A language model's answer is untrusted data: no caller carries out what it says, and every caller checks it.
"""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dibs.core.errors import Misconfigured, ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPResponse


TIMEOUT = 20.0  # seconds for one answer
_PATIENCE = 10.0  # seconds that a service may ask to be left alone for, before it counts as not there
_PAUSE = 1.0  # the same where it does not say
_MOST_BYTES = 64 << 20
_CHUNK = 1 << 16
_BUSY = frozenset({429, 500, 502, 503, 504})
_CHECK = {
    400: "it does not take this request: check the model",
    401: "it refuses the key: check {key}",
    403: "it refuses the key: check {key}",
    404: "it has no such model, or nothing at this address",
    413: "the request is too large for it",
    429: "it is asked too often",
}


class Service:
    """`what` is how errors call it, `key_name` the variable that holds its key."""

    def __init__(
        self,
        what: str,
        url: str,
        key: str = "",
        *,
        key_name: str,
        timeout: float = TIMEOUT,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        self._what = what
        self._url = _checked(what, url)
        self._key_name = key_name
        if not (key.isascii() and key.isprintable()):
            raise Misconfigured(f"{key_name} cannot be sent: it has a line break or a letter that no key has.")
        self._key = key
        self._timeout = timeout
        self._rest = rest

    def __repr__(self) -> str:
        return f"Service({self._what})"

    def ask(self, body: dict[str, object]) -> Any:
        """The answer, or ServiceUnavailable. What may pass is tried once more."""
        try:
            return self._answer(body)
        except _Trouble as trouble:
            if trouble.wait is None or trouble.wait > _PATIENCE:
                raise self._unavailable(trouble) from None
            self._rest(trouble.wait)
        try:
            return self._answer(body)
        except _Trouble as trouble:
            raise self._unavailable(trouble) from None

    def _unavailable(self, trouble: _Trouble) -> ServiceUnavailable:
        wait = None if trouble.wait is None else round(trouble.wait * 1000)
        return ServiceUnavailable(f"{self._what} cannot be used: {trouble.why}.", retry_after_ms=wait)

    def _answer(self, body: dict[str, object]) -> Any:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request

        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {self._key}"} if self._key else {})
        request = Request(self._url, json.dumps(body).encode(), headers)  # noqa: S310 - http or https, checked
        deadline = time.monotonic() + self._timeout
        try:
            with _opener().open(request, timeout=self._timeout) as answer:
                return _parsed(_read(answer, deadline))
        except HTTPError as error:
            error.close()
            raise self._refused(error.code, error.headers.get("Retry-After")) from None
        except (TimeoutError, URLError, HTTPException, OSError) as error:
            slow = isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)
            why = f"it did not answer within {self._timeout:g} seconds" if slow else "it cannot be reached"
            raise _Trouble(why, None if slow else _PAUSE) from None

    def _refused(self, status: int, after: str | None) -> _Trouble:
        why = _CHECK.get(status, "it is out of order" if status in _BUSY else "it does not do what it is asked")
        wait = _seconds(after) if status in _BUSY else None
        told = f"{why.format(key=self._key_name)} (HTTP status {status})"
        return _Trouble(told if wait is None or after is None else f"{told}, try again in {wait:g} seconds", wait)


class _Trouble(Exception):
    """`wait` is how many seconds later it may be gone; None: trying again is no use."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.wait = wait


def _checked(what: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        good = False
    if not good:
        raise Misconfigured(f"The address of {what[:1].lower()}{what[1:]} begins with https:// or http://.")
    if parts.username or parts.password:
        raise Misconfigured(f"The address of {what[:1].lower()}{what[1:]} has no user or password in it.")
    return url


def _opener() -> Any:
    """As urllib opens things, proxies included; but a redirect is an answer like any other that is no help."""
    from urllib.request import HTTPRedirectHandler, build_opener

    class _Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            """The key is for this address alone."""

    return build_opener(_Stay)


def _read(answer: HTTPResponse, deadline: float) -> bytes:
    """All of it, in time: a service that drips is as bad as one that hangs."""
    got = bytearray()
    while chunk := answer.read1(_CHUNK):
        got += chunk
        if len(got) > _MOST_BYTES:
            raise _Trouble("its answer is endless")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(got)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise _Trouble("its answer is not JSON") from None


def _seconds(after: str | None) -> float:
    """Of a Retry-After; as a date it says too little to wait for."""
    try:
        return max(0.0, float(after)) if after is not None else _PAUSE
    except ValueError:
        return _PAUSE


_MODEL_LABEL = "The language model"
MODEL_KEY = "DIBS_LLM_KEY"
MODEL_TIMEOUT = 25.0  # seconds: also if all goes wrong twice, within the lease that messages are read under
_LONGEST_ANSWER = 200_000  # characters of an answer
_FENCE = re.compile(r"^\s*```[a-zA-Z]*\s*\n(.*)\n\s*```\s*$", re.DOTALL)


class InvalidAnswer(Exception):
    """An answer that is not what was asked for."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The language model's answer cannot be used: {why}.")


class Model:
    def __init__(self, name: str, service: Service) -> None:
        self._name = name
        self._service = service

    def ask(self, task: str, data: Mapping[str, object]) -> dict[str, Any]:
        """The JSON object in its answer, or InvalidAnswer or ServiceUnavailable. `data` is what people wrote."""
        told = [
            {"role": "system", "content": task},
            {"role": "user", "content": json.dumps(data, ensure_ascii=False)},
        ]
        asked = {"model": self._name, "messages": told, "temperature": 0, "response_format": {"type": "json_object"}}
        return _object(self._service.ask(asked))


def _object(answer: Any) -> dict[str, Any]:
    try:
        text = answer["choices"][0]["message"]["content"]
        if not isinstance(text, str) or len(text) > _LONGEST_ANSWER:
            raise ValueError  # noqa: TRY301 - told below, like the rest
        fenced = _FENCE.match(text)
        found = json.loads(fenced[1] if fenced else text)
    except (KeyError, IndexError, TypeError, ValueError, RecursionError):
        raise InvalidAnswer("it is not one JSON object") from None
    if not isinstance(found, dict):
        raise InvalidAnswer("it is not one JSON object")
    return found


def open_model(environment: Mapping[str, str]) -> Model | None:
    """The one that the environment names, if it names one."""
    url, name = environment.get("DIBS_LLM_URL", ""), environment.get("DIBS_LLM_MODEL", "")
    if not url:
        return None
    if not name:
        raise Misconfigured("DIBS_LLM_URL names a language model's address; DIBS_LLM_MODEL has to say which model.")
    address = f"{url.rstrip('/')}/chat/completions"
    return Model(
        name,
        Service(_MODEL_LABEL, address, environment.get("DIBS_LLM_KEY", ""), key_name=MODEL_KEY, timeout=MODEL_TIMEOUT),
    )
