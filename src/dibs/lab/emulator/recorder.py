"""Record the traffic between clients and a real Notion without secrets, and replay it against the emulator.

The recorder is a proxy on loopback. It keeps the structure of every request and answer, and replaces ids, names, texts
and numbers consistently, so that filters and relations keep their meaning. Dates stay; tokens are never written.
"""

from __future__ import annotations

import http.client
import json
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias
from urllib.parse import quote, urlencode, urlsplit

from dibs.lab.emulator.emulator import Emulator
from dibs.lab.emulator.server import HOST, Answer, Request, Server, json_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

Exchange: TypeAlias = "dict[str, Any]"

_UUID = re.compile(r"^[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}$", re.IGNORECASE)
_TIMEOUT = 60.0
# Values under these keys are Notion's own words, not a user's. Times are kept because claims depend on them.
_KEPT = frozenset(
    {"object", "type", "code", "color", "direction", "timestamp", "function", "format", "start", "end", "time_zone"}
    | {"created_time", "last_edited_time", "state", "emoji", "language", "incomplete_reason"}
    | {"next_cursor", "start_cursor"}
)
_NAMES = frozenset({"property", "relation_property_name", "rollup_property_name", "synced_property_name"})
_PASSED = ("authorization", "notion-version", "content-type")


class Redaction:
    """Replaces equal texts by equal texts, within one recording."""

    def __init__(self) -> None:
        self._ids: dict[str, str] = {}
        self._texts: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._numbers: dict[float, int] = {}

    def of(self, value: Any, key: str = "", *, users: bool = False) -> Any:
        """Redact a value. `users` marks property values and filter operands, whose numbers are private too."""
        users = users or key in {"properties", "filter"}
        if isinstance(value, dict):
            return {self._key(name, key): self.of(one, name, users=users) for name, one in value.items()}
        if isinstance(value, list):
            return [self.of(one, key, users=users) for one in value]
        if isinstance(value, int | float) and not isinstance(value, bool) and users:
            return self._numbers.setdefault(value, len(self._numbers) + 1)
        return self._text(value, key) if isinstance(value, str) else value

    def path(self, path: str) -> str:
        return "/".join(self._id(part) if _UUID.match(part) else part for part in path.split("/"))

    def _key(self, name: str, above: str) -> str:
        return self._name(name) if above == "properties" else name

    def _text(self, value: str, key: str) -> str:
        if _UUID.match(value):
            return self._id(value)
        if key in _KEPT or not value:
            return value
        if key in _NAMES:
            return self._name(value)
        if value in self._names:
            return self._names[value]
        known = self._texts.setdefault(value, f"text {len(self._texts) + 1}")
        if key in {"url", "href", "avatar_url"}:
            return f"https://example.org/{quote(known)}"
        return known if "@" not in value else f"{known.replace(' ', '')}@example.org"

    def _name(self, name: str) -> str:
        return self._names.setdefault(name, f"property {len(self._names) + 1}")

    def _id(self, text: str) -> str:
        plain = text.replace("-", "").lower()
        known = self._ids.setdefault(plain, f"{len(self._ids) + 1:08x}-0000-4000-8000-000000000000")
        return known if "-" in text else known.replace("-", "")


class Recorder:
    """A proxy to a real Notion that passes each redacted exchange to `keep`."""

    def __init__(self, upstream: str, keep: Callable[[Exchange], None], port: int = 0) -> None:
        self._upstream = urlsplit(upstream)
        self._keep = keep
        self._redaction = Redaction()
        self._lock = threading.Lock()
        self._server = Server(self._answer, threading.Event(), port)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._server.port}"

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()

    def _answer(self, request: Request) -> Answer | None:
        query = urlencode([(name, value) for name, values in request.query.items() for value in values])
        path = quote(request.path) + (f"?{query}" if query else "")
        headers = {name: request.headers[name] for name in _PASSED if name in request.headers}
        kind = http.client.HTTPSConnection if self._upstream.scheme == "https" else http.client.HTTPConnection
        connection = kind(self._upstream.netloc, timeout=_TIMEOUT)
        try:
            connection.request(request.method, self._upstream.path.rstrip("/") + path, request.body or None, headers)
            answered = connection.getresponse()
            status, body = answered.status, answered.read()
            date, retry = answered.headers.get("Date"), answered.headers.get("Retry-After")
        except OSError:
            return None
        finally:
            connection.close()
        said = _json(body)
        with self._lock:
            self._keep(self._exchange(request, status, said))
        extra = [("Date", date), ("Retry-After", retry)]
        return json_answer(status, said, tuple((name, value) for name, value in extra if value))

    def _exchange(self, request: Request, status: int, said: Any) -> Exchange:
        return {
            "method": request.method,
            "path": self._redaction.path(request.path),
            "query": self._redaction.of(request.query),
            "version": request.headers.get("notion-version"),
            "body": self._redaction.of(_json(request.body)),
            "status": status,
            "answer": self._redaction.of(said),
        }


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else None
    except ValueError:
        return None


class Difference(NamedTuple):
    """A difference between Notion's recorded answer and the emulator's."""

    exchange: int
    request: str
    what: str


def replay(exchanges: list[Exchange]) -> list[Difference]:
    """Replay the requests against an emulator with the recording's databases and pages; return the differences."""
    with Emulator() as notion:
        return list(_Replay(notion, exchanges).differences())


_WRITABLE = frozenset(
    [
        "title",
        "rich_text",
        "number",
        "select",
        "multi_select",
        "status",
        "date",
        "checkbox",
        "url",
        "email",
        "phone_number",
        "files",
        "people",
    ]
)
_UNMAPPED = re.compile(r"[0-9a-f]{8}-0000-4000-8000-0{12}|[0-9a-f]{8}00004000800000{11}0", re.IGNORECASE)


class _Replay:
    def __init__(self, notion: Emulator, exchanges: list[Exchange]) -> None:
        self._notion, self._exchanges = notion, exchanges
        self._ids: dict[str, str] = {}
        self._columns: dict[str, set[str]] = {}

    def differences(self) -> Iterator[Difference]:
        self._lay_out()
        for number, one in enumerate(self._exchanges, 1):
            status, said = self._ask(one)
            request = f"{one['method']} {one['path']}"
            if status != one["status"]:
                yield Difference(number, request, f"status {status} instead of {one['status']}")
                continue
            self._learn(one["answer"], said)
            for what in _unlike(one["answer"], said, ""):
                yield Difference(number, request, what)

    def _lay_out(self) -> None:
        """Create what existed before the recording: tables first, then rows that no request creates."""
        answers = [one["answer"] for one in self._exchanges if isinstance(one["answer"], dict)]
        made = {answer.get("id") for one, answer in _paired(self._exchanges) if one["method"] == "POST"}
        found = [each for answer in answers for each in (answer, *_listed(answer))]
        for each in found:
            if each.get("properties") and each.get("object") in {"data_source", "database"} and each["id"] not in made:
                self._table(each)
        for each in found:
            if each.get("object") == "page" and each["id"] not in {*self._ids, *made}:
                self._row(each)

    def _table(self, said: Mapping[str, Any]) -> None:
        if said["id"] in self._ids:
            return
        columns = {
            name: {kind: _options(prop[kind])}
            for name, prop in said["properties"].items()
            if (kind := prop["type"]) in _WRITABLE
        }
        table = self._notion.database(columns)
        parent = said.get("parent") or {}
        for recorded, own in (
            (said["id"], table.data_source_id if said["object"] == "data_source" else table.id),
            (parent.get("database_id"), table.id),
            *((source["id"], table.data_source_id) for source in said.get("data_sources", ())),
        ):
            if recorded:
                self._ids[recorded] = own
        self._columns[table.id] = set(columns)

    def _row(self, said: Mapping[str, Any]) -> None:
        home = (said.get("parent") or {}).get("database_id")
        table = self._ids.get(str(home))
        if table is None:
            return
        values = {
            name: {prop["type"]: _input(prop)}
            for name, prop in said["properties"].items()
            if name in self._columns.get(table, ()) and prop["type"] not in {"people", "files"}
        }
        self._ids[said["id"]] = self._notion.page(table, values)

    def _ask(self, one: Exchange) -> tuple[int, Any]:
        path, body = self._mapped(one["path"]), self._mapped(one["body"])
        headers = {"authorization": f"Bearer {self._notion.token}", "notion-version": one["version"] or ""}
        request = Request(
            one["method"], path, self._mapped(one["query"]), headers, b"" if body is None else json.dumps(body).encode()
        )
        answer = self._notion.answer(request)
        return (answer.status, _json(answer.body)) if answer is not None else (0, None)

    def _mapped(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: self._mapped(one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._mapped(one) for one in value]
        if not isinstance(value, str):
            return value
        return _UNMAPPED.sub(lambda found: self._own(found[0]), value)

    def _own(self, recorded: str) -> str:
        plain = recorded if "-" in recorded else f"{recorded[:8]}-0000-4000-8000-000000000000"
        return self._ids.get(plain, recorded)

    def _learn(self, recorded: Any, said: Any) -> None:
        """Map recorded ids to the emulator's, where both answers have one in the same place."""
        if isinstance(recorded, dict) and isinstance(said, dict):
            for name in recorded.keys() & said.keys():
                if name in {"id", "data_source_id", "database_id", "discussion_id"} and isinstance(said[name], str):
                    self._ids.setdefault(str(recorded[name]), said[name])
                else:
                    self._learn(recorded[name], said[name])
        elif isinstance(recorded, list) and isinstance(said, list) and len(recorded) == len(said):
            for one, other in zip(recorded, said, strict=True):
                self._learn(one, other)


def _paired(exchanges: list[Exchange]) -> Iterator[tuple[Exchange, Mapping[str, Any]]]:
    for one in exchanges:
        if isinstance(one["answer"], dict) and one["path"].rsplit("/", 1)[-1] in {"pages", "databases"}:
            yield one, one["answer"]


def _listed(answer: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = answer.get("results")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _options(config: Any) -> dict[str, Any]:
    options = config.get("options") if isinstance(config, dict) else None
    return {"options": [{"name": one["name"]} for one in options]} if isinstance(options, list) else {}


def _input(prop: Mapping[str, Any]) -> Any:
    value = prop[prop["type"]]
    if prop["type"] in {"title", "rich_text"}:
        return [{"text": {"content": one["plain_text"]}} for one in value]
    if prop["type"] in {"select", "status"}:
        return value and {"name": value["name"]}
    return [{"name": one["name"]} for one in value] if prop["type"] == "multi_select" else value


def _unlike(recorded: Any, said: Any, path: str) -> Iterator[str]:
    """Compare the fields and types of two answers; values may differ."""
    if isinstance(recorded, dict) and isinstance(said, dict):
        if recorded.get("object") == "error" and recorded.get("code") != said.get("code"):
            yield f"code {said.get('code')} instead of {recorded.get('code')}"
        if path.endswith("properties"):
            return
        for name in sorted(recorded.keys() ^ said.keys()):
            yield f"{path}.{name} is {'missing' if name in recorded else 'absent from the recording'}".lstrip(".")
        for name in sorted(recorded.keys() & said.keys()):
            yield from _unlike(recorded[name], said[name], f"{path}.{name}")
    elif isinstance(recorded, list) and isinstance(said, list):
        if path == ".results" and len(recorded) != len(said):
            yield f"{len(said)} results instead of {len(recorded)}"
        if recorded and said:
            yield from _unlike(recorded[0], said[0], f"{path}[]")
    elif None not in (recorded, said) and type(recorded) is not type(said) and not _numbers(recorded, said):
        yield f"{path} is {type(said).__name__} instead of {type(recorded).__name__}".lstrip(".")


def _numbers(one: Any, other: Any) -> bool:
    return all(isinstance(each, int | float) and not isinstance(each, bool) for each in (one, other))
