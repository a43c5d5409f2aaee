"""The workspace: everything in it, who may see it, how pages change, and people who edit them in the app."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.blocks import Blocks
from dibs.lab.emulator.model import (
    ALL_CAPABILITIES,
    ApiError,
    Comment,
    DataSource,
    Page,
    Property,
    Revision,
    User,
    invalid,
    mistaken,
    new_id,
    new_secret,
    not_found,
    whole_id,
)
from dibs.lab.emulator.schema import Draft
from dibs.lab.emulator.values import COMPUTED, Keeper, empty, property_values, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.lab.emulator.faults import Faults
    from dibs.lab.emulator.model import Clock


EVERYONE = "everyone"
ARCHIVED = "Can't edit block that is archived. You must unarchive the block before editing."


class Workspace:
    """Every method is called with `lock` held, so that a request is carried out whole."""

    def __init__(self, clock: Clock, faults: Faults, seed: int) -> None:
        self.clock = clock
        self._faults = faults
        self.rng = Random(seed)  # noqa: S311  (ids and shuffles that a test can have again, no secrets)
        self.lock = threading.RLock()
        self.id = new_id(self.rng)
        self.name = "dibs"
        self.users: dict[str, User] = {}
        self.sources: dict[str, DataSource] = {}
        self.pages: dict[str, Page] = {}
        self.comments: dict[str, Comment] = {}
        self.blocks = Blocks()
        self._by_database: dict[str, str] = {}
        self._hidden: dict[str, set[str]] = {}
        # Pages that are no rows: of a table of their own, which has a title and is in no list.
        own = Random(f"loose {seed}")  # noqa: S311  (the ids of everything else stay as they are)
        self.loose = DataSource(new_id(own), new_id(own), "", clock(), "")
        self.loose.properties["title"] = Property("title", "title", "title", {})
        self.sources[self.loose.id] = self.loose

    # users

    def add_person(self, name: str) -> User:
        return self._add_user(User(new_id(self.rng), name))

    def add_bot(self, name: str, capabilities: frozenset[str]) -> User:
        unknown = capabilities - ALL_CAPABILITIES
        if unknown:
            raise ValueError(f"no such capability: {', '.join(sorted(unknown))}")
        return self._add_user(User(new_id(self.rng), name, new_secret(self.rng), capabilities))

    def _add_user(self, user: User) -> User:
        self.users[user.id] = user
        return user

    def bot_with(self, token: str) -> User | None:
        return next((user for user in self.users.values() if user.is_bot and user.token == token), None)

    # who sees what

    def hide(self, object_id: str, bot_id: str = EVERYONE) -> None:
        self._hidden.setdefault(object_id, set()).add(bot_id)

    def show(self, object_id: str) -> None:
        self._hidden.pop(object_id, None)

    def _hidden_from(self, bot: User | None, *object_ids: str) -> bool:
        told = {EVERYONE, bot.id} if bot else set()
        return any(self._hidden.get(one, set()) & told for one in object_ids)

    def sees_page(self, bot: User | None, page: Page) -> bool:
        source = self.sources[page.source_id]
        return not self._hidden_from(bot, page.id, source.id, source.database_id)

    def sees_source(self, bot: User | None, source: DataSource) -> bool:
        return not self._hidden_from(bot, source.id, source.database_id)

    def page(self, page_id: str, bot: User | None) -> Page:
        page = self.pages.get(page_id)
        if page is None and page_id in self._by_database:
            self.database(page_id, bot)
            raise mistaken(page_id, "database", "page")
        if page is None or not self.sees_page(bot, page):
            raise not_found("page", page_id, bot)
        return page

    def source(self, source_id: str, bot: User | None) -> DataSource:
        source = self.sources.get(source_id)
        if source is None or not self.sees_source(bot, source):
            raise not_found("data_source", source_id, bot)
        return source

    def database(self, database_id: str, bot: User | None) -> DataSource:
        """The one data source of a database."""
        source = self.sources.get(self._by_database.get(database_id, ""))
        page = self.pages.get(database_id)
        if page is not None and self.sees_page(bot, page):
            raise mistaken(database_id, "page", "database")
        if source is None or not self.sees_source(bot, source):
            raise not_found("database", database_id, bot)
        return source

    def source_of(self, key: str, object_id: str, bot: User | None = None) -> DataSource:
        return self.database(object_id, bot) if key == "database_id" else self.source(object_id, bot)

    # tables

    def add_source(
        self, title: str, properties: object, by: User, path: str = "body.properties", *, itself: bool = False
    ) -> DataSource:
        source = DataSource(new_id(self.rng), new_id(self.rng), title, self.clock(), by.id)
        self.sources[source.id] = source
        try:
            draft = Draft(self, source)
            draft.take(properties, path, itself=itself)
            draft.apply()
        except ApiError:
            del self.sources[source.id]
            raise
        self._by_database[source.database_id] = source.id
        return source

    def change_columns(self, source: DataSource, properties: object, by: User, *, itself: bool = False) -> None:
        draft = Draft(self, source)
        draft.take(properties, "body.properties", itself=itself)
        draft.apply()
        source.edited_at, source.edited_by = self.clock(), by.id

    # rows

    def add_page(self, source: DataSource, properties: object, by: User) -> Page:
        values, grown = self._kept(source, property_values(properties), by)
        source.properties |= grown
        defaults = {prop.id: empty(prop) for prop in source.properties.values() if prop.type == "status"}
        source.last_number += 1
        now = self.clock()
        first = Revision(now, now, by.id, defaults | values)
        page = Page(new_id(self.rng), source.id, source.last_number, first)
        source.pages[page.id] = self.pages[page.id] = page
        self._tell_other_sides(source, page, {}, values)
        return page

    def add_loose_page(self, parent: Page, properties: object, by: User) -> Page:
        if isinstance(properties, dict) and isinstance(properties.get("title"), list):
            properties = {**properties, "title": {"title": properties["title"]}}
        page = self.add_page(self.loose, properties, by)
        page.parent_page = parent.id
        return page

    def edit_page(self, page: Page, by: User, properties: object = None, *, in_trash: bool | None = None) -> None:
        """All of it or nothing: what is wrong is found before anything is put."""
        source = self.sources[page.source_id]
        values, grown = self._kept(source, property_values({} if properties is None else properties), by)
        before = page.latest
        if before.in_trash and in_trash is not False:
            raise invalid(ARCHIVED)
        source.properties |= grown
        now = self.clock()
        trashed = before.in_trash if in_trash is None else in_trash
        page.put(Revision(now, now, by.id, {**before.values, **values}, trashed))
        self._tell_other_sides(source, page, before.values, values)

    def touch(self, page: Page, by: User) -> None:
        """An edit of something that is no property."""
        now = self.clock()
        page.put(page.latest._replace(at=now, edited_at=now, edited_by=by.id))

    def _kept(
        self, source: DataSource, said: Mapping[str, tuple[str, Any]], by: User
    ) -> tuple[dict[str, Any], dict[str, Property]]:
        columns = {name: source.find(name) for name in said}
        wrong = [
            f"{name} is not a property that exists." if prop is None else f"{prop.name} is expected to be {prop.type}."
            for name, prop in columns.items()
            if prop is None or prop.type in COMPUTED or prop.type != said[name][0]
        ]
        if wrong:
            raise invalid(" ".join(wrong))
        keeper = Keeper(self.rng, drop_seconds=self._faults.drop_seconds)
        values = {prop.id: keeper.kept(prop, said[name][1]) for name, prop in columns.items() if prop}
        for prop in columns.values():
            if prop and prop.type == "relation":
                self._must_relate(prop, values[prop.id], by)
        return values, keeper.grown

    def _must_relate(self, prop: Property, page_ids: list[str], by: User) -> None:
        target = self.sources[prop.config["data_source_id"]]
        for page_id in page_ids:
            if page_id not in target.pages:
                raise not_found("page", page_id, by if by.is_bot else None)

    def _tell_other_sides(
        self, source: DataSource, page: Page, before: Mapping[str, Any], values: Mapping[str, Any]
    ) -> None:
        """A two-way relation is one fact: what one end says, the other says too. No edit time moves by it."""
        for prop in [source.properties[one] for one in values if source.properties[one].type == "relation"]:
            if prop.config["synced"] is None:
                continue
            then, now = set(before.get(prop.id, [])), set(values[prop.id])
            for other in sorted(then ^ now):
                self._relate_back(self.pages[other], prop.config["synced"], page.id, add=other in now)

    def _relate_back(self, page: Page, property_id: str, other: str, *, add: bool) -> None:
        known = page.latest
        related = [one for one in known.values.get(property_id, []) if one != other]
        values = {**known.values, property_id: [*related, other] if add else related}
        page.put(known._replace(at=self.clock(), values=values))

    # comments

    def add_comment(self, page: Page, by: User, rich_text: list[dict[str, Any]], discussion: str | None) -> Comment:
        now = self.clock()
        thread = discussion or new_id(self.rng)
        comment = Comment(new_id(self.rng), page.id, thread, now, now, by.id, rich_text)
        self.comments[comment.id] = comment
        return comment


class Human:
    """Sees everything, may do everything, and asks nobody."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        with workspace.lock:
            self.user = workspace.add_person(name)

    def edit(self, page_id: str, properties: Mapping[str, object]) -> None:
        """Properties as the API writes them: `{"Status": {"select": {"name": "DONE"}}}`."""
        with self._workspace.lock:
            self._workspace.edit_page(self._page(page_id), self.user, properties)

    def trash(self, page_id: str) -> None:
        with self._workspace.lock:
            self._workspace.edit_page(self._page(page_id), self.user, in_trash=True)

    def restore(self, page_id: str) -> None:
        with self._workspace.lock:
            self._workspace.edit_page(self._page(page_id), self.user, in_trash=False)

    def comment(self, page_id: str, text: str) -> str:
        with self._workspace.lock:
            return self._workspace.add_comment(self._page(page_id), self.user, text_of(text), None).id

    def unshare(self, object_id: str, bot_token: str | None = None) -> None:
        """Take a page or a database from all integrations, or from one."""
        with self._workspace.lock:
            if bot_token is None:
                self._workspace.hide(_whole_or_same(object_id))
                return
            bot = self._workspace.bot_with(bot_token)
            if bot is None:
                raise ValueError("no bot has this token")
            self._workspace.hide(_whole_or_same(object_id), bot.id)

    def share(self, object_id: str) -> None:
        with self._workspace.lock:
            self._workspace.show(_whole_or_same(object_id))

    def change_columns(self, database_id: str, properties: Mapping[str, object]) -> None:
        """As PATCH of a data source takes them: None drops a column, `{"name": …}` renames it, a type makes it."""
        with self._workspace.lock:
            source = self._workspace.database(_whole_or_same(database_id), None)
            self._workspace.change_columns(source, properties, self.user, itself=True)

    def _page(self, page_id: str) -> Page:
        return self._workspace.page(_whole_or_same(page_id), None)


def _whole_or_same(object_id: str) -> str:
    found = whole_id(object_id)
    if found is None:
        raise ValueError(f"not an id: {object_id[:60]}")
    return found
