"""What a workspace is made of. Pages keep their past, so that a query or a read can be made to see it."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from dibs.lab.emulator.ids import plain_property_id

# How long a page's past is kept: longer than any lag that is of use.
MEMORY = timedelta(minutes=30)

READ, UPDATE, INSERT = "read_content", "update_content", "insert_content"
READ_COMMENTS, INSERT_COMMENTS = "read_comments", "insert_comments"
ALL_CAPABILITIES = frozenset({READ, UPDATE, INSERT, READ_COMMENTS, INSERT_COMMENTS})
# What a new integration may do before someone ticks more.
FRESH_CAPABILITIES = frozenset({READ, UPDATE, INSERT})


class User(NamedTuple):
    """A person, or a bot: the latter has a token and capabilities."""

    id: str
    name: str
    token: str | None = None
    capabilities: frozenset[str] = frozenset()

    @property
    def is_bot(self) -> bool:
        return self.token is not None


class Property(NamedTuple):
    """A column. `config` is what stands under the type's name in the schema."""

    id: str
    name: str
    type: str
    config: Mapping[str, Any]


class Revision(NamedTuple):
    """What a page said from `at` on: values by property id, computed ones left out."""

    at: datetime
    edited_at: datetime
    edited_by: str
    values: Mapping[str, Any]
    in_trash: bool = False


class Comment(NamedTuple):
    id: str
    page_id: str
    discussion_id: str
    created_at: datetime
    edited_at: datetime
    created_by: str
    rich_text: list[dict[str, Any]]


class Page:
    """A row, with what it says now and what it said before."""

    def __init__(self, page_id: str, source_id: str, number: int, first: Revision) -> None:
        self.id = page_id
        self.source_id = source_id
        self.number = number
        self.created_at = first.at
        self.created_by = first.edited_by
        self.revisions = [first]

    @property
    def latest(self) -> Revision:
        return self.revisions[-1]

    def put(self, revision: Revision) -> None:
        self.revisions.append(revision)
        too_old = revision.at - MEMORY
        while len(self.revisions) > 1 and self.revisions[1].at < too_old:
            del self.revisions[0]

    def at(self, moment: datetime) -> Revision | None:
        """What it said then; None where it did not exist yet."""
        return next((revision for revision in reversed(self.revisions) if revision.at <= moment), None)


class DataSource:
    """A table: its columns and its rows."""

    def __init__(self, source_id: str, database_id: str, title: str, made_at: datetime, made_by: str) -> None:
        self.id = source_id
        self.database_id = database_id
        self.title = title
        self.parent: dict[str, Any] = {"type": "workspace", "workspace": True}
        self.created_at = self.edited_at = made_at
        self.created_by = self.edited_by = made_by
        self.in_trash = False
        self.properties: dict[str, Property] = {}
        self.pages: dict[str, Page] = {}
        self.last_number = 0

    def find(self, name: str) -> Property | None:
        """By its name or its id, as every request may."""
        named = next((prop for prop in self.properties.values() if prop.name == name), None)
        return named or self.properties.get(name) or self.properties.get(plain_property_id(name))
