"""Stops: a call between every two statements of a database function, and before each statement that the store sends.

The functions are read from the database, so later versions of them get stops too. A paused session waits for an
advisory lock that the conductor holds, so the server's list of locks shows it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from psycopg2.extensions import cursor as Cursor  # noqa: N812 - it is a class

_TOKEN = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\w+|\s+|.", re.DOTALL)
_NO_BEGINNING = frozenset({"ELSE", "ELSIF", "END"})
_OPENS = frozenset({"IF", "FOR", "FOREACH", "WHILE", "LOOP", "BEGIN"})

# {stops} is a schema beside the store's. Sessions without a player never pause.
_TOOLS = """
CREATE SCHEMA {stops};
CREATE TABLE {stops}.clock (moment timestamptz NOT NULL);
CREATE FUNCTION {stops}.pause(place text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    lane CONSTANT text := current_setting('interleave.lane', true);
    visit integer;
BEGIN
    IF coalesce(lane, '') = '' THEN
        RETURN false;
    END IF;
    visit := current_setting('interleave.visits')::integer + 1;
    PERFORM set_config('interleave.visits', visit::text, false);
    RAISE NOTICE '%', place;
    IF visit = current_setting('interleave.stop')::integer THEN
        PERFORM pg_advisory_lock_shared(current_setting('interleave.gate')::integer, lane::integer);
        PERFORM pg_advisory_unlock_shared(current_setting('interleave.gate')::integer, lane::integer);
    END IF;
    RETURN true;
END $$;
"""

_FUNCTIONS = """
SELECT proname, prosrc, pg_get_functiondef(pg_proc.oid)
FROM pg_proc JOIN pg_language ON pg_language.oid = prolang
WHERE pronamespace = %s::regnamespace AND lanname = 'plpgsql' AND provolatile = 'v'
"""


class Functions:
    """The store's functions that write, with stops in them and, on request, with defects."""

    def __init__(self, cursor: Cursor, schema: str) -> None:
        self._cursor = cursor
        self._schema = schema
        cursor.execute(_FUNCTIONS, (schema,))
        self.bodies: dict[str, str] = {}
        self._definitions: dict[str, str] = {}
        for name, body, definition in cursor.fetchall():
            assert name not in self.bodies, f"{name} is overloaded"
            self.bodies[name], self._definitions[name] = body, definition
        self._put = dict(self.bodies)

    def put(self, rewritten: dict[str, Callable[[str], str]]) -> None:
        """Install all functions with stops, some of them rewritten; skip those that are already installed."""
        assert rewritten.keys() <= self.bodies.keys(), rewritten
        for name, body in self.bodies.items():
            wanted = with_stops(name, rewritten[name](body) if name in rewritten else body, self._schema)
            if self._put[name] != wanted:
                self._cursor.execute(self._definitions[name].replace(body, wanted))
                self._put[name] = wanted


def make_tools(cursor: Cursor, schema: str) -> None:
    cursor.execute(_TOOLS.replace("{stops}", stops_of(schema)))


def stops_of(schema: str) -> str:
    return f"{schema}_stops"


@cache
def with_stops(name: str, body: str, schema: str) -> str:
    """A plpgsql body with a stop before each statement and before the end."""
    out: list[str] = []
    count = depth = parens = cases = 0
    begun = False
    head: str | None = None  # the first word of the current statement; None between two statements
    position = 0
    for piece in _TOKEN.findall(body):
        word = piece.upper()
        position += len(piece)
        if piece.isspace() or piece.startswith("--"):
            pass
        elif not begun:
            begun = word == "BEGIN"
            depth += begun
        elif head is None:
            depth += (word in _OPENS) - (word == "END")
            if word not in _NO_BEGINNING or depth == 0:
                count += 1
                told = " ".join(body[position - len(piece) :].split()[:3]).replace("'", "")
                # as a condition: PERFORM would change FOUND for the next statement
                out.append(f"IF {stops_of(schema)}.pause('{name} {count}: {told}') THEN END IF; ")
            head = None if word in {"ELSE", "LOOP", "BEGIN"} else word
        else:
            parens += (piece == "(") - (piece == ")")
            cases += (word == "CASE") - (word == "END" and head != "END")
            within = parens or cases
            if not within and (piece == ";" or (head, word) in _HEADS):
                head = None
        out.append(piece)
    assert (depth, parens, cases) == (0, 0, 0), f"{name} was not understood"
    return "".join(out)


_HEADS = {("IF", "THEN"), ("ELSIF", "THEN"), ("FOR", "LOOP"), ("FOREACH", "LOOP"), ("WHILE", "LOOP")}


# Stops inside a statement that does a whole operation: after it found its row, locked it, and changed it. A claim of
# several tasks has none: another session may claim between two rows, which is safe but matches no serial order.
STOPS_INSIDE = {
    "claim_head": (
        ("WHERE claimable AND scope = $1", "WHERE claimable AND scope = $1 AND {pause: found}"),
        ("AND status IS NOT DISTINCT FROM 'ready'", "AND {pause: locked} AND status IS NOT DISTINCT FROM 'ready'"),
        ("CASE WHEN has_prerequisites", "CASE WHEN {pause: leased} AND has_prerequisites"),
    ),
    "renew": (
        ("WHERE scope = $1", "WHERE {pause: found} AND scope = $1"),
        ("task.expires_at", "task.expires_at, {pause: renewed}"),
    ),
    "finish": (
        ("WHERE scope = $1", "WHERE {pause: found} AND scope = $1"),
        ("CASE WHEN has_dependents", "CASE WHEN {pause: closed} AND has_dependents"),
    ),
}


def with_stops_inside(name: str, statement: str, schema: str) -> str:
    """A statement with its stops, except those whose place a mutant removed."""
    for place, stopping in STOPS_INSIDE[name]:
        statement = statement.replace(
            place, re.sub(r"{pause: (\w+)}", rf"{stops_of(schema)}.pause('{name}: \1') IS NOT NULL", stopping)
        )
    return statement


def without_stops(body: str) -> str:
    return re.sub(r"IF \w+_stops\.pause\('[^']*'\) THEN END IF; ", "", body)
