"""People at work in the app: what they do shows up as theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.lab.emulator.ids import whole_id
from dibs.lab.emulator.values import text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.lab.emulator.model import Page
    from dibs.lab.emulator.workspace import Workspace


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
                self._workspace.hide(_whole(object_id))
                return
            bot = self._workspace.bot_with(bot_token)
            if bot is None:
                raise ValueError("no bot has this token")
            self._workspace.hide(_whole(object_id), bot.id)

    def share(self, object_id: str) -> None:
        with self._workspace.lock:
            self._workspace.show(_whole(object_id))

    def change_columns(self, database_id: str, properties: Mapping[str, object]) -> None:
        """As PATCH of a data source takes them: None drops a column, `{"name": …}` renames it, a type makes it."""
        with self._workspace.lock:
            source = self._workspace.database(_whole(database_id), None)
            self._workspace.change_columns(source, properties, self.user, itself=True)

    def _page(self, page_id: str) -> Page:
        return self._workspace.page(_whole(page_id), None)


def _whole(object_id: str) -> str:
    found = whole_id(object_id)
    if found is None:
        raise ValueError(f"not an id: {object_id[:60]}")
    return found
