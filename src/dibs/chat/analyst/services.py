"""Clients of HTTP services with JSON requests and answers, and of language models behind them.

A service may be slow or broken. So an answer has a deadline and a size limit, redirects are not followed, a temporary
failure is retried once, and every failure raises an error with a hint. The key is sent in one header only; errors
contain neither the key nor the text of the service.

A language model's answer is untrusted data: callers check it and never execute it.
"""

from __future__ import annotations

import json
import re
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from dibs.core.errors import Misconfigured, ServiceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPResponse
    from urllib.error import HTTPError


TIMEOUT = 20.0  # seconds for one answer
BEARER = MappingProxyType({"Authorization": "Bearer {key}"})
_PATIENCE = 10.0  # longest accepted Retry-After, in seconds; longer ones count as unavailable
_PAUSE = 1.0  # seconds before a retry without Retry-After
_MOST_BYTES = 64 << 20
_CHUNK = 1 << 16
_BUSY = frozenset({429, 500, 502, 503, 504})
_CHECK = {
    400: "it rejected the request; check the model",
    401: "it rejected the key; check {key}",
    403: "it rejected the key; check {key}",
    404: "it has no such model, or nothing at this address",
    413: "the request is too large for it",
    429: "it gets too many requests",
}


class Service:
    """`what` is the service's name in errors, `key_name` the variable that holds its key."""

    def __init__(
        self,
        what: str,
        url: str,
        key: str = "",
        *,
        key_name: str,
        headers: Mapping[str, str] = BEARER,
        timeout: float = TIMEOUT,
        rest: Callable[[float], None] = time.sleep,
    ) -> None:
        """`headers` contain `{key}` as a placeholder for the key."""
        self._what = what
        self.url = _checked(what, url)
        self._key_name = key_name
        if not (key.isascii() and key.isprintable()):
            raise Misconfigured(f"{key_name} cannot be sent: it has a line break or an invalid character.")
        self._headers = {name: value.format(key=key) for name, value in headers.items() if key or "{key}" not in value}
        self._timeout = timeout
        self._rest = rest
        self._refused: set[str] = set()

    def __repr__(self) -> str:
        return f"Service({self._what})"

    def ask(self, body: Mapping[str, object], spare: Mapping[str, object] = MappingProxyType({})) -> Any:
        """The service's answer, or ServiceUnavailable. Temporary failures are retried once.

        Services accept different fields. If one rejects the request, it is retried without the `spare` fields that the
        error names, or without all of them; a field whose spare value is not None gets that value instead.
        """
        while True:
            asked = {name: spare.get(name) if name in self._refused else value for name, value in body.items()}
            try:
                return self._patiently({name: value for name, value in asked.items() if value is not None})
            except _Trouble as trouble:
                left = set(spare) & set(body) - self._refused
                if trouble.said is None or not left:
                    raise self._unavailable(trouble) from None
                self._refused |= {name for name in left if name in trouble.said} or left

    def _patiently(self, body: Mapping[str, object]) -> Any:
        try:
            return self._answer(body)
        except _Trouble as trouble:
            if trouble.wait is None or trouble.wait > _PATIENCE:
                raise
            self._rest(trouble.wait)
        return self._answer(body)

    def _unavailable(self, trouble: _Trouble) -> ServiceUnavailable:
        wait = None if trouble.wait is None else round(trouble.wait * 1000)
        return ServiceUnavailable(f"{self._what} cannot be used: {trouble.why}.", retry_after_ms=wait)

    def _answer(self, body: Mapping[str, object]) -> Any:
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import Request

        headers = {"Content-Type": "application/json", **self._headers}
        request = Request(self.url, json.dumps(body).encode(), headers)  # noqa: S310 - http or https, checked
        deadline = time.monotonic() + self._timeout
        try:
            with _opener().open(request, timeout=self._timeout) as answer:
                return _parsed(_read(answer, deadline))
        except HTTPError as error:
            with error:
                said = _refusal(error) if error.code in _REFUSALS else None
            raise self._trouble(error.code, error.headers.get("Retry-After"), said) from None
        except (TimeoutError, URLError, HTTPException, OSError) as error:
            slow = isinstance(error, TimeoutError) or isinstance(getattr(error, "reason", None), TimeoutError)
            why = f"it did not answer within {self._timeout:g} seconds" if slow else "it cannot be reached"
            raise _Trouble(why, None if slow else _PAUSE) from None

    def _trouble(self, status: int, after: str | None, said: str | None) -> _Trouble:
        why = _CHECK.get(status, "it has an internal error" if status in _BUSY else "it failed")
        wait = _seconds(after) if status in _BUSY else None
        told = f"{why.format(key=self._key_name)} (HTTP status {status})"
        return _Trouble(told if wait is None or after is None else f"{told}, try again in {wait:g} seconds", wait, said)


class _Trouble(Exception):
    """`wait` is the number of seconds before a retry, None for permanent failures.

    `said` is the service's explanation of a rejected request. It is searched, and never shown.
    """

    def __init__(self, why: str, wait: float | None = None, said: str | None = None) -> None:
        super().__init__(why)
        self.why = why
        self.wait = wait
        self.said = said


_REFUSALS = frozenset({400, 422})
_MOST_REFUSAL = 10_000  # most bytes of an explanation


def _refusal(error: HTTPError) -> str:
    try:
        return error.read(_MOST_REFUSAL).decode(errors="replace")
    except OSError:
        return ""


def _checked(what: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise Misconfigured(f"The address of {what[:1].lower()}{what[1:]} begins with https:// or http://.")
    if parts.username or parts.password:
        raise Misconfigured(f"The address of {what[:1].lower()}{what[1:]} must not contain a user or password.")
    return url


def _opener() -> Any:
    """The default opener of urllib, proxies included, without redirects."""
    from urllib.request import HTTPRedirectHandler, build_opener

    class _Stay(HTTPRedirectHandler):
        def redirect_request(self, *_: object) -> None:
            """Reject redirects: the key must only reach the configured address."""

    return build_opener(_Stay)


def _read(answer: HTTPResponse, deadline: float) -> bytes:
    """Read the whole answer within the deadline, also from a service that sends it byte by byte."""
    got = bytearray()
    while chunk := answer.read1(_CHUNK):
        got += chunk
        if len(got) > _MOST_BYTES:
            raise _Trouble("its answer is too long")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(got)


def _parsed(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise _Trouble("its answer is not JSON") from None


def _seconds(after: str | None) -> float:
    """Seconds of a Retry-After header. Dates are ignored."""
    try:
        return max(0.0, float(after)) if after is not None else _PAUSE
    except ValueError:
        return _PAUSE


_MODEL_LABEL = "The language model"
MODEL_KEY = "DIBS_LLM_KEY"
MODEL_TIMEOUT = 25.0  # default seconds for one answer; DIBS_LLM_TIMEOUT changes it
_LONGEST_TIMEOUT = 300.0  # keeps two failed attempts within the lease of the messages
_LONGEST_ANSWER = 200_000  # most characters of an answer
_MOST_BRACES = 50  # most positions at which an object is searched
_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_MOST_TOKENS, _FEWER_TOKENS = 8192, 4096


class InvalidAnswer(Exception):
    """An answer that is not what was asked for."""

    def __init__(self, why: str) -> None:
        super().__init__(f"The language model's answer cannot be used: {why}.")
        self.why = why


class Dialect(NamedTuple):
    """Protocol of a kind of service: path, headers, and the fields that it may reject."""

    path: tuple[str, ...]  # the end of the address; users may give any number of these parts
    headers: Mapping[str, str]
    spare: Mapping[str, object]

    def address(self, url: str) -> str:
        given = url.rstrip("/")
        for count in range(len(self.path), 0, -1):
            if given.endswith("/" + "/".join(self.path[:count])):
                return "/".join((given, *self.path[count:]))
        return "/".join((given, *self.path))

    def body(self, model: str, task: str, said: str) -> dict[str, object]:
        user: dict[str, object] = {"role": "user", "content": said}
        both = [{"role": "system", "content": task}, user]
        if self is DIALECTS["anthropic"]:
            return {"model": model, "system": task, "messages": [user], "temperature": 0, "max_tokens": _MOST_TOKENS}
        if self is DIALECTS["ollama"]:
            asked: dict[str, object] = {"model": model, "messages": both, "stream": False}
            return asked | {"format": "json", "options": {"temperature": 0}}
        return {"model": model, "messages": both, "temperature": 0, "response_format": {"type": "json_object"}}

    def text(self, answer: Any) -> str:
        """The model's text. Raise KeyError, IndexError or TypeError for an unexpected answer."""
        if self is DIALECTS["anthropic"]:
            return "".join(part["text"] for part in answer["content"] if part["type"] == "text")
        message = answer["message"] if self is DIALECTS["ollama"] else answer["choices"][0]["message"]
        if not isinstance(message["content"], str):
            raise TypeError
        return message["content"]


DIALECTS = {
    "openai": Dialect(("chat", "completions"), BEARER, {"temperature": None, "response_format": None}),
    "anthropic": Dialect(
        ("v1", "messages"),
        {"x-api-key": "{key}", "anthropic-version": "2023-06-01"},
        {"temperature": None, "max_tokens": _FEWER_TOKENS},
    ),
    "ollama": Dialect(("api", "chat"), BEARER, {"format": None, "options": None}),
}


class Model:
    def __init__(self, name: str, service: Service, dialect: Dialect = DIALECTS["openai"]) -> None:
        self._name = name
        self._service = service
        self._dialect = dialect

    @property
    def address(self) -> str:
        return self._service.url

    def ask(self, task: str, data: Mapping[str, object]) -> dict[str, Any]:
        """The JSON object of the answer, or InvalidAnswer or ServiceUnavailable. `data` is untrusted text."""
        body = self._dialect.body(self._name, task, json.dumps(data, ensure_ascii=False))
        answer = self._service.ask(body, self._dialect.spare)
        try:
            text = self._dialect.text(answer)
        except (KeyError, IndexError, TypeError):
            raise InvalidAnswer("its format is not that of this API") from None
        return json_object(text)


def json_object(text: str) -> dict[str, Any]:
    """The only JSON object in the text. Models often add reasoning, code fences and comments."""
    if len(text) > _LONGEST_ANSWER:
        raise InvalidAnswer("it is not one JSON object")
    text = _THOUGHTS.sub("", text)
    decoder = json.JSONDecoder()
    at = text.find("{")
    for _ in range(_MOST_BRACES):
        if at < 0:
            break
        try:
            found, end = decoder.raw_decode(text, at)
        except RecursionError:
            break
        except ValueError:
            at = text.find("{", at + 1)
            continue
        if "{" in text[end:] and _another(text[end:]):
            break
        return dict(found)
    raise InvalidAnswer("it is not one JSON object")


def _another(text: str) -> bool:
    """Whether a second, non-empty object makes the answer ambiguous."""
    try:
        return bool(json.JSONDecoder().raw_decode(text, text.index("{"))[0])
    except (ValueError, RecursionError):
        return False


def open_model(environment: Mapping[str, str]) -> Model | None:
    """The model that the environment names, or None."""
    url, name = environment.get("DIBS_LLM_URL", ""), environment.get("DIBS_LLM_MODEL", "")
    if not url:
        return None
    if not name:
        raise Misconfigured("DIBS_LLM_URL names a language model's address; DIBS_LLM_MODEL has to say which model.")
    kind = environment.get("DIBS_LLM_API") or _kind_at(_checked(_MODEL_LABEL, url))
    if kind not in DIALECTS:
        raise Misconfigured(f"DIBS_LLM_API must be one of {', '.join(DIALECTS)}, not {kind[:40]!r}.")
    dialect = DIALECTS[kind]
    service = Service(
        _MODEL_LABEL,
        dialect.address(url),
        environment.get("DIBS_LLM_KEY", ""),
        key_name=MODEL_KEY,
        headers=dialect.headers,
        timeout=_timeout(environment.get("DIBS_LLM_TIMEOUT", "")),
    )
    return Model(name, service, dialect)


_OLLAMA_PORT = 11434


def _kind_at(url: str) -> str:
    """The kind of service that the address suggests."""
    parts = urlsplit(url)
    path = parts.path.rstrip("/")
    if (parts.hostname or "").endswith("anthropic.com") or path.endswith("/v1/messages"):
        return "anthropic"
    if path.endswith(("/api", "/api/chat")) or (parts.port == _OLLAMA_PORT and not path):
        return "ollama"
    return "openai"


def _timeout(said: str) -> float:
    if not said:
        return MODEL_TIMEOUT
    from dibs.core.errors import InvalidInput
    from dibs.core.times import parse_duration

    try:
        seconds = parse_duration(said).total_seconds()
    except InvalidInput as error:
        raise Misconfigured(f"DIBS_LLM_TIMEOUT: {error.message}") from None
    if not 1 <= seconds <= _LONGEST_TIMEOUT:
        raise Misconfigured(f"DIBS_LLM_TIMEOUT must be from 1s to {_LONGEST_TIMEOUT:g}s, not {said[:20]}.")
    return seconds
