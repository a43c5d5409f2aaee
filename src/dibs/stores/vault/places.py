"""The folders of a vault, the statuses they mean, and the names of files, ids and scopes.

No name leads out of the vault: a separator, a leading dot or a line break is refused, in arguments and in the folder.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

from dibs.core import checks
from dibs.core.errors import InvalidInput
from dibs.core.task import Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dibs.core.task import Json, Task

SUFFIX = ".md"
ROOT_SCOPE = "default"  # the scope of files outside any sub-folder

_LONGEST = 255 - len(SUFFIX)  # bytes, as most file systems have it
# Names that Syncthing, Dropbox, Nextcloud and OneDrive give to the second version of a file changed on two machines.
CONFLICT_COPY = re.compile(r"\.sync-conflict-\d{8}-\d{6}|\(.*\bconflict(?:ed copy)?\b.*\)", re.IGNORECASE)
_SPACE = "%20"  # an id has no spaces, a person's file names often do
_SHORTENED = 100  # characters to which a name is cut that is too long for an id

# The extra field with the name of a task's file, if that does not follow from its id.
FILE = "vault_file"


def file_name(task_id: str) -> str:
    """The file name of a new task, or InvalidInput."""
    checks.identifier(task_id)
    _refuse("an id", task_id)
    return task_id.replace(_SPACE, " ") + SUFFIX


def file_of(task: Task) -> str:
    """The name of a task's file."""
    said = task.extra.get(FILE)
    return said if isinstance(said, str) else file_name(task.id)


def follows(name: str, task_id: str) -> bool:
    """Whether a new task with this id would get this file name."""
    try:
        return name == file_name(task_id)
    except InvalidInput:
        return False


def numbered(name: str, number: int) -> str:
    """A numbered name for a file whose own is taken: `call 2.md` beside `call.md`."""
    tail = f" {number}{SUFFIX}"
    stem = name.removesuffix(SUFFIX).encode(errors="surrogateescape")[: _LONGEST + len(SUFFIX) - len(tail)]
    return f"{stem.decode(errors='ignore')}{tail}"


def id_from(name: str) -> str:
    """The id of a task whose file has no task_id: its name, or InvalidInput."""
    stem = name.removesuffix(SUFFIX)
    _refuse("a file name", stem)
    return _as_id(stem, told_apart=_SPACE in stem)


def id_said(said: Json) -> str | None:
    """The id in a file's `task_id`, or None."""
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        return None
    text = str(said).strip()
    return _as_id(text) if text else None


def _as_id(text: str, *, told_apart: bool = False) -> str:
    """The text itself if it can be an id; else a safe, shortened form with a digest."""
    plain = text.replace(" ", _SPACE)
    if not told_apart and len(plain) <= checks.NAME_MAX and plain.isprintable() and not plain.startswith("-"):
        return plain
    safe = "".join(char if char.isprintable() else "_" for char in plain)
    digest = sha256(text.encode(errors="surrogateescape")).hexdigest()[:10]
    return f"{safe.lstrip('-')[:_SHORTENED]}~{digest}"


def scope_folder(scope: str) -> str:
    """The sub-folder of a scope within each task folder, or InvalidInput."""
    if scope == ROOT_SCOPE:
        return ""
    for part in scope.split("/"):
        _refuse("a scope", part)
    return scope


def scope_from(folder: str) -> str:
    """The scope of the files in this sub-folder, or InvalidInput."""
    if not folder:
        return ROOT_SCOPE
    if folder == ROOT_SCOPE:
        raise InvalidInput(f"a sub-folder cannot be called '{ROOT_SCOPE}', the scope of files outside any sub-folder")
    for part in folder.split("/"):
        _refuse("a scope", part)
    if checks.name_of("scope", folder) != folder:
        raise InvalidInput("a sub-folder's name has a space at an end")
    return folder


def agent_folder(agent: str) -> str:
    """An agent's folder in In_Progress: its name, with characters escaped that a folder name cannot have."""
    safe = agent.replace("%", "%25").replace("/", "%2F")
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    raw = safe.encode()
    if len(raw) <= _LONGEST:
        return safe
    return f"{raw[:200].decode(errors='ignore')}~{sha256(raw).hexdigest()[:16]}"


def agent_from(folder: str) -> str:
    """The agent of a folder in In_Progress."""
    return folder.replace("%2E", ".").replace("%2F", "/").replace("%25", "%")


def _refuse(what: str, name: str) -> None:
    if not name.isprintable() and any("\ud800" <= char <= "\udfff" for char in name):
        raise InvalidInput(f"{name[:40]!r} cannot be {what} in a vault: it is not UTF-8")
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise InvalidInput(f"{name[:40]!r} cannot be {what} in a vault: a file name has no '/' and no leading dot")
    if not name.isprintable() and any(ord(char) < ord(" ") or char in "\x7f\x85\u2028\u2029" for char in name):
        raise InvalidInput(f"{name[:40]!r} cannot be {what} in a vault: it holds a line break or a control character")
    if len(name.encode("utf-8", "surrogateescape")) > _LONGEST:
        raise InvalidInput(f"{name[:40]!r}… cannot be {what} in a vault: a file name has at most {_LONGEST} bytes")


NEEDS_ACTION = "Needs_Action"
IN_PROGRESS = "In_Progress"
PENDING_APPROVAL = "Pending_Approval"
DONE = "Done"
REJECTED = "Rejected"

TASK_FOLDERS = (NEEDS_ACTION, IN_PROGRESS, PENDING_APPROVAL, DONE, REJECTED)
OTHER_FOLDERS = ("Plans", "Updates", "Errors", "Logs")
FINISHED = frozenset({DONE, REJECTED})

# Tasks for agents are in Needs_Action, tasks that need a person's decision in Pending_Approval.
FOLDER_OF: Mapping[Status, str] = {
    Status.BACKLOG: NEEDS_ACTION,
    Status.READY: NEEDS_ACTION,
    Status.BLOCKED: NEEDS_ACTION,
    Status.PAUSED: NEEDS_ACTION,
    Status.ACTIVE: IN_PROGRESS,
    Status.REVIEW: PENDING_APPROVAL,
    Status.ESCALATED: PENDING_APPROVAL,
    Status.DONE: DONE,
    Status.CANCELED: REJECTED,
}

# The status that a folder means unless the front matter names another one of that folder.
PLAIN: Mapping[str, Status] = {
    NEEDS_ACTION: Status.READY,
    IN_PROGRESS: Status.ACTIVE,
    PENDING_APPROVAL: Status.REVIEW,
    DONE: Status.DONE,
    REJECTED: Status.CANCELED,
}


class Place(NamedTuple):
    """A file's place in the vault. `agent` is the holder's folder, in In_Progress only; `file` is the file's name."""

    folder: str
    agent: str
    scope: str
    id: str
    file: str

    @property
    def key(self) -> tuple[str, str]:
        return self.scope, self.id

    @property
    def path(self) -> str:
        """Relative to the vault."""
        parts = (self.folder, self.agent, scope_folder(self.scope), self.file)
        return "/".join(part for part in parts if part)

    @property
    def finished(self) -> bool:
        return self.folder in FINISHED


def place_for(task: Task, file: str | None = None) -> Place:
    """The place of a task by its status, under its own file name or another."""
    folder = FOLDER_OF[task.status]
    holder = agent_folder(task.lease.agent if task.lease else "") if folder == IN_PROGRESS else ""
    return Place(folder, holder, task.scope, task.id, file or file_of(task))


def place_from(path: str, task_id: str | None = None) -> Place:
    """Parse a path relative to the vault; InvalidInput if no task can be there.

    `task_id` is the id in the file; without one the file's name gives the id.
    """
    folder, _, rest = path.partition("/")
    if folder not in TASK_FOLDERS or not rest:
        raise InvalidInput(f"only files in {', '.join(TASK_FOLDERS)} are tasks")
    *middle, name = rest.split("/")
    if CONFLICT_COPY.search(name):
        raise InvalidInput("is a conflict copy, made by file synchronisation: compare it with the file, and delete it")
    agent = ""
    if folder == IN_PROGRESS:
        if not middle:
            raise InvalidInput("a task in progress belongs in a folder of its holder, such as In_Progress/ann")
        agent, *middle = middle
    if not name.endswith(SUFFIX):
        raise InvalidInput("a task is a Markdown file, with a name that ends in .md")
    known_as = id_from(name)
    return Place(folder, agent, scope_from("/".join(middle)), task_id or known_as, name)
