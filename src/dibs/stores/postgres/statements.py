"""The statements of the store by name, and the forms in which they are sent."""

from __future__ import annotations

import os

from dibs.stores.postgres.migrate import NEWEST
from dibs.stores.postgres.rows import (
    ABLE,
    BEYOND,
    EVENT_COLUMNS,
    FITS,
    MATCHES,
    MOVING_COLUMNS,
    NEW_COLUMNS,
    ORDER,
    STATED_COLUMNS,
    TASK_COLUMNS,
    TOLD_COLUMNS,
)
from dibs.stores.sql import Queries


def _listed(columns: str, form: str) -> str:
    return ", ".join(form.format(column) for column in columns.split(", "))


_LISTS = {
    "{task}": _listed(TASK_COLUMNS, "task.{}"),
    "{told}": _listed(TASK_COLUMNS, "(told).{}"),
    "{event}": _listed(EVENT_COLUMNS, "event.{}"),
    "{moving}": MOVING_COLUMNS,
    "{moving?}": _listed(MOVING_COLUMNS, "%s"),
    "{stated}": STATED_COLUMNS,
    "{stated?}": _listed(STATED_COLUMNS, "%s"),
    "{telling}": TOLD_COLUMNS,
    "{telling?}": _listed(TOLD_COLUMNS, "%s"),
    "{new}": NEW_COLUMNS,
    "{fits}": FITS,
    "{matches}": MATCHES,
    "{able}": ABLE,
    "{order}": ORDER,
    "{beyond}": BEYOND,
}

QUERIES = Queries(os.path.join(os.path.dirname(__file__), "queries.sql"), _LISTS)

_EXECUTE: dict[str, str] = {}


def prepare(name: str) -> str:
    return f"PREPARE {name} AS {QUERIES[name]}"


def execute(name: str, number: int) -> str:
    """The call of a prepared statement with so many parameters. The text is the same every time, so it is kept."""
    text = _EXECUTE.get(name)
    if text is None:
        text = _EXECUTE[name] = f"EXECUTE {name} ({', '.join(['%s'] * number)})"
    return text


def greeting(text: str) -> str:
    """A session's first statement asks for the schema's version on the way, within the transaction it may begin."""
    begin, separator, rest = text.partition("; ") if text.startswith("BEGIN") else ("", "", text)
    return f"{begin}{separator}SELECT expect_version({NEWEST}); {rest}"
