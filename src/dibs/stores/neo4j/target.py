"""What a `neo4j://` or `bolt://` URL means: where to connect, as whom, and what may be said about it."""

import os
import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from dibs.core.errors import InvalidInput

SCHEMES = frozenset({"neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc"})
_DESK = re.compile(r"[A-Za-z0-9_.-]{1,60}")
_LONGEST_TIMEOUT = 86_400


class Target(NamedTuple):
    """`uri` goes to the driver; `place` is what a message may say."""

    uri: str
    user: str
    password: str
    database: str | None
    desk: str
    timeout: float
    place: str

    def __repr__(self) -> str:
        return f"Target({self.place})"


def target_of(url: str, *, desk: str | None = None) -> Target:
    """Read a URL. What it leaves out, NEO4J_URI, NEO4J_USER and NEO4J_PASSWORD may say: where, who, and the proof."""
    try:
        parts = _with_server(urlsplit(url))
        host, port = parts.hostname, parts.port or 7687
    except ValueError:
        raise InvalidInput("That is not a Neo4j URL; write it like neo4j://host:7687?database=neo4j.") from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    database, timeout = options.pop("database", None), options.pop("timeout", "30")
    name = desk or options.get("desk", "dibs")
    options.pop("desk", None)
    if not host or parts.scheme not in SCHEMES or parts.path not in {"", "/"} or options:
        raise InvalidInput(
            "A Neo4j URL is neo4j://host:port or bolt://host:port, with database, desk and timeout at most. "
            "Without a host, NEO4J_URI names the server."
        )
    if not _DESK.fullmatch(name):
        raise InvalidInput("A desk's name is letters, digits, '_', '.' and '-', at most 60 of them.")
    if not (
        timeout.isascii()
        and timeout.isdigit()
        and len(timeout) < len("100000")
        and 0 < int(timeout) <= _LONGEST_TIMEOUT
    ):
        raise InvalidInput("A Neo4j URL's timeout is a whole number of seconds, such as timeout=30.")
    user = unquote(parts.username or "") or os.environ.get("NEO4J_USER") or "neo4j"
    password = unquote(parts.password or "") or os.environ.get("NEO4J_PASSWORD", "")
    address = f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    told = [f"database={database}"] if database else []
    told += [f"desk={name}"] if name != "dibs" else []
    place = f"{address}?{'&'.join(told)}" if told else address
    return Target(address, user, password, database, name, float(timeout), place)


def _with_server(parts: SplitResult) -> SplitResult:
    """`neo4j://?desk=team` is a desk on the server of NEO4J_URI."""
    given = os.environ.get("NEO4J_URI")
    if parts.netloc or not given:
        return parts
    server = urlsplit(given)
    return server._replace(query="&".join(filter(None, (server.query, parts.query))))
