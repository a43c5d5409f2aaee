"""Files as people name them, and the tasks they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.errors import InvalidInput, NotFound
from dibs.stores.vault import names
from dibs.stores.vault.places import place_for

if TYPE_CHECKING:
    from dibs.core.task import Task
    from dibs.desk import Desk


def task_id_of(name: str) -> str:
    """The id of the task in the file of this name; a path, a hidden file or `..` is refused."""
    if "/" in name or "\\" in name or name.startswith("."):
        raise InvalidInput(f"{name[:60]!r} is no file name of a task: no separators, no leading dot.")
    return names.id_from(name if name.endswith(names.SUFFIX) else f"{name}{names.SUFFIX}")


def scope_of(desk: Desk, task_id: str, domain: str | None) -> str:
    """The domain a file lies in: the one that is named, or the only one that has such a file."""
    if domain is not None:
        return names.scope_from(domain) if domain != names.ROOT_SCOPE else domain
    found = [scope for scope in desk.scopes() if desk.at(scope).has(task_id)]
    if len(found) > 1:
        raise InvalidInput(f"There is a {names.file_name(task_id)} in {', '.join(found)}; say which with --domain.")
    if not found:
        raise NotFound(f"There is no file {names.file_name(task_id)} in the vault; 'dibs vault status' tells what is.")
    return found[0]


def path_of(task: Task) -> str:
    """Where a task's file lies, relative to the vault."""
    return place_for(task.scope, task.id, task.status, task.lease.agent if task.lease else None).path


def name_of(task: Task) -> str:
    """A file as it is spoken of: its name, with the domain where it has one."""
    folder = names.scope_folder(task.scope)
    return f"{folder}/{names.file_name(task.id)}" if folder else names.file_name(task.id)
