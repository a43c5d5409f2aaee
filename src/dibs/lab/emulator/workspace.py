"""The workspace: its content, who may see it, blocks, changes to pages, and people who edit in the app."""

from __future__ import annotations

import threading
from random import Random
from typing import TYPE_CHECKING, Any

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
    not_emulated,
    not_found,
    should,
    stamp,
    whole_id,
)
from dibs.lab.emulator.schema import Draft
from dibs.lab.emulator.values import (
    ARRAY_LIMIT,
    COMPUTED,
    Keeper,
    empty,
    plain_text,
    property_values,
    rich_text,
    text_items,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from dibs.lab.emulator.api import Faults
    from dibs.lab.emulator.model import Clock


# type → its other fields with defaults
_TEXTS: dict[str, dict[str, Any]] = {
    "paragraph": {"color": "default", "icon": None},
    "heading_1": {"color": "default", "is_toggleable": False},
    "heading_2": {"color": "default", "is_toggleable": False},
    "heading_3": {"color": "default", "is_toggleable": False},
    "bulleted_list_item": {"color": "default"},
    "numbered_list_item": {"color": "default"},
    "to_do": {"checked": False, "color": "default"},
    "toggle": {"color": "default"},
    "quote": {"color": "default"},
    "code": {"caption": [], "language": "plain text"},
}
_BARE = ("divider",)
_KNOWN = frozenset({"object", "type", "has_children"})


class Block:
    def __init__(self, block_id: str, parent: dict[str, Any], kind: str, said: dict[str, Any]) -> None:
        self.id, self.parent, self.kind, self.said = block_id, parent, kind, said
        self.children: list[str] = []
        self.in_trash = False
        self.created_at: datetime
        self.edited_at: datetime
        self.created_by = self.edited_by = ""


class Blocks:
    """The blocks of a workspace. The caller holds its lock."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}
        self._of_pages: dict[str, list[str]] = {}

    def get(self, workspace: Workspace, block_id: str, bot: User) -> Block | Page:
        """Return a block, or the page with that id."""
        block = self._blocks.get(block_id)
        if block is not None and workspace.sees_page(bot, workspace.pages[self._page_of(block)]):
            return block
        page = workspace.pages.get(block_id)
        if page is None or not workspace.sees_page(bot, page):
            raise not_found("block", block_id, bot)
        return page

    def _page_of(self, block: Block) -> str:
        while "block_id" in block.parent:
            block = self._blocks[block.parent["block_id"]]
        return str(block.parent["page_id"])

    def below(self, workspace: Workspace, above: Block | Page) -> list[Block | Page]:
        """Return children in order; pages come last."""
        if isinstance(above, Block):
            return [block for block in map(self._blocks.__getitem__, above.children) if not block.in_trash]
        blocks = [self._blocks[one] for one in self._of_pages.get(above.id, ())]
        pages = (page for page in workspace.loose.pages.values() if page.parent_page == above.id)
        return [*(one for one in blocks if not one.in_trash), *(page for page in pages if not page.latest.in_trash)]

    def append(self, workspace: Workspace, above: Block | Page, said: object, by: User) -> list[Block]:
        """Append all of the children or none."""
        made = checked_children(said)
        if above.in_trash if isinstance(above, Block) else above.latest.in_trash:
            raise invalid(ARCHIVED)
        return [self._add(workspace, above, kind, content, inner, by) for kind, content, inner in made]

    def _add(
        self, workspace: Workspace, above: Block | Page, kind: str, said: dict[str, Any], inner: list[Any], by: User
    ) -> Block:
        parent = (
            {"type": "block_id", "block_id": above.id}
            if isinstance(above, Block)
            else {"type": "page_id", "page_id": above.id}
        )
        block = Block(new_id(workspace.rng), parent, kind, said)
        block.created_at = block.edited_at = workspace.clock()
        block.created_by = block.edited_by = by.id
        self._blocks[block.id] = block
        (above.children if isinstance(above, Block) else self._of_pages.setdefault(above.id, [])).append(block.id)
        for child_kind, content, deeper in inner:
            self._add(workspace, block, child_kind, content, deeper, by)
        return block

    def change(self, workspace: Workspace, block: Block, said: dict[str, Any], by: User) -> None:
        trash = said.get("in_trash", said.get("archived"))
        kinds = [name for name in said if name not in {"in_trash", "archived", "type"}]
        if kinds and block.in_trash and trash is not False:
            raise invalid(ARCHIVED)
        if kinds and kinds != [block.kind]:
            raise invalid(f"Block type cannot be changed from {block.kind} to {kinds[0]}.")
        if kinds:
            _, content, _ = checked("body", {block.kind: said[block.kind]}, partial=True)
            block.said = {**block.said, **content}
        if trash is not None:
            block.in_trash = bool(trash)
        block.edited_at, block.edited_by = workspace.clock(), by.id

    def shown(self, workspace: Workspace, block: Block | Page) -> dict[str, Any]:
        if isinstance(block, Block):
            kind, said, parent, trashed = block.kind, block.said, block.parent, block.in_trash
            edited_at, edited_by = block.edited_at, block.edited_by
        else:
            source = workspace.sources[block.source_id]
            title = block.latest.values.get(next(one.id for one in source.properties.values() if one.type == "title"))
            kind, said, trashed = "child_page", {"title": plain_text(title or [])}, block.latest.in_trash
            parent = {"type": "database_id", "database_id": source.database_id}
            if block.parent_page is not None:
                parent = {"type": "page_id", "page_id": block.parent_page}
            edited_at, edited_by = block.latest.edited_at, block.latest.edited_by
        return {
            "object": "block",
            "id": block.id,
            "parent": parent,
            "created_time": stamp(block.created_at),
            "last_edited_time": stamp(edited_at),
            "created_by": {"object": "user", "id": block.created_by},
            "last_edited_by": {"object": "user", "id": edited_by},
            "has_children": bool(self.below(workspace, block)),
            "in_trash": trashed,
            "type": kind,
            kind: said,
        }


def checked_children(said: object) -> list[tuple[str, dict[str, Any], list[Any]]]:
    if not isinstance(said, list):
        raise should("body.children", "an array", said)
    if len(said) > ARRAY_LIMIT:
        raise should("body.children.length", f"≤ `{ARRAY_LIMIT}`", len(said))
    return [checked(f"body.children[{number}]", one) for number, one in enumerate(said)]


def checked(path: str, said: object, *, partial: bool = False) -> tuple[str, dict[str, Any], list[Any]]:
    """Validate a block: its type, its content as it will be read back, and its children."""
    if not isinstance(said, dict):
        raise should(path, "an object", said)
    kind = next((name for name in said if name not in _KNOWN), None)
    if kind is None:
        raise should(f"{path}.paragraph", "defined", ...)
    if kind not in _TEXTS and kind not in _BARE:
        raise not_emulated(f"A block of type '{kind}'")
    inside = said[kind]
    if not isinstance(inside, dict):
        raise should(f"{path}.{kind}", "an object", inside)
    if kind in _BARE:
        return kind, {}, []
    children = inside.get("children", [])
    return (
        kind,
        _content(f"{path}.{kind}", kind, inside, partial=partial),
        [checked(f"{path}.{kind}.children[{place}]", one) for place, one in enumerate(children)],
    )


def _content(path: str, kind: str, inside: dict[str, Any], *, partial: bool) -> dict[str, Any]:
    if "rich_text" not in inside and not partial:
        raise should(f"{path}.rich_text", "defined", ...)
    content = {} if partial else dict(_TEXTS[kind])
    for name, value in inside.items():
        if name == "rich_text":
            rich_text(f"{path}.rich_text", value)
            content["rich_text"] = text_items(value)
        elif name in _TEXTS[kind]:
            content[name] = value
        elif name != "children":
            raise should(f"{path}.{name}", "not present", value)
    return content


EVERYONE = "everyone"
ARCHIVED = "Can't edit block that is archived. You must unarchive the block before editing."


class Workspace:
    """The workspace. The caller of every method holds `lock`, so that each request is atomic."""

    def __init__(self, clock: Clock, faults: Faults, seed: int) -> None:
        self.clock = clock
        self._faults = faults
        self.rng = Random(seed)  # noqa: S311 - reproducible ids and orders, no secrets
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
        # Pages outside of tables have a hidden table, which has a title only.
        own = Random(f"loose {seed}")  # noqa: S311 - leaves all other ids unchanged
        self.loose = DataSource(new_id(own), new_id(own), "", clock(), "")
        self.loose.properties["title"] = Property("title", "title", "title", {})
        self.sources[self.loose.id] = self.loose

    # Users

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

    # Sharing

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
        """Return the only data source of a database."""
        source = self.sources.get(self._by_database.get(database_id, ""))
        page = self.pages.get(database_id)
        if page is not None and self.sees_page(bot, page):
            raise mistaken(database_id, "page", "database")
        if source is None or not self.sees_source(bot, source):
            raise not_found("database", database_id, bot)
        return source

    def source_of(self, key: str, object_id: str, bot: User | None = None) -> DataSource:
        return self.database(object_id, bot) if key == "database_id" else self.source(object_id, bot)

    # Tables

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

    # Rows

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
        """Change a page, or reject the whole edit."""
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
        """Note an edit that changes no property."""
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
        """Update the other ends of a two-way relation, without changing their edit times."""
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

    # Comments

    def add_comment(self, page: Page, by: User, rich_text: list[dict[str, Any]], discussion: str | None) -> Comment:
        now = self.clock()
        thread = discussion or new_id(self.rng)
        comment = Comment(new_id(self.rng), page.id, thread, now, now, by.id, rich_text)
        self.comments[comment.id] = comment
        return comment


class Human:
    """A person in the app, who sees everything and may change everything."""

    def __init__(self, workspace: Workspace, name: str) -> None:
        self._workspace = workspace
        with workspace.lock:
            self.user = workspace.add_person(name)

    def edit(self, page_id: str, properties: Mapping[str, object]) -> None:
        """Edit properties in the API's form: `{"Status": {"select": {"name": "DONE"}}}`."""
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
        """Withdraw a page or a database from all integrations, or from one."""
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
        """Change columns as PATCH does: None drops one, `{"name": …}` renames one, a type changes or adds one."""
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
