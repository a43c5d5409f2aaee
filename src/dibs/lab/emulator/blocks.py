"""What is inside a page: blocks of text, each with its children, and the pages below it as blocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dibs.lab.emulator.model import invalid, new_id, not_emulated, not_found, should, stamp
from dibs.lab.emulator.values import ARRAY_LIMIT, plain_text, rich_text, text_items

if TYPE_CHECKING:
    from datetime import datetime

    from dibs.lab.emulator.model import Page, User
    from dibs.lab.emulator.workspace import Workspace

# type → what it has beside its text, with the value that it has if nothing else is said
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
    """Those of one workspace. Called with its lock held."""

    def __init__(self) -> None:
        self._blocks: dict[str, Block] = {}
        self._of_pages: dict[str, list[str]] = {}

    def get(self, workspace: Workspace, block_id: str, bot: User) -> Block | Page:
        """A block, or the page of that id."""
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
        """In their order; pages below a page come last."""
        if isinstance(above, Block):
            return [block for block in map(self._blocks.__getitem__, above.children) if not block.in_trash]
        blocks = [self._blocks[one] for one in self._of_pages.get(above.id, ())]
        pages = (page for page in workspace.loose.pages.values() if page.parent_page == above.id)
        return [*(one for one in blocks if not one.in_trash), *(page for page in pages if not page.latest.in_trash)]

    def append(self, workspace: Workspace, above: Block | Page, said: object, by: User) -> list[Block]:
        """All of them or none."""
        made = checked_children(said)
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
    """The type of a block, what it says as it will be read back, and its children, checked alike."""
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
