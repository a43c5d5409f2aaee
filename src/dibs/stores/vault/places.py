"""Where a task lies tells how it stands: the folders of a vault, the names of files and the statuses they mean.

No name ever leads out of the vault: a separator, a leading dot or a line break is refused, whether it comes from a
caller or lies in the folder already.
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

SUFFIX = ".md"
ROOT_SCOPE = "default"  # the scope of the files that lie in no sub-folder

_LONGEST = 255 - len(SUFFIX)  # bytes, as most file systems have it
# What Syncthing, Dropbox, Nextcloud and OneDrive call the other version of a file that two machines have changed.
CONFLICT_COPY = re.compile(r"\.sync-conflict-\d{8}-\d{6}|\(.*\bconflict(?:ed copy)?\b.*\)", re.IGNORECASE)
_SPACE = "%20"  # an id has no spaces, a person's file names often do
_SHORT_SPACE = "␣"  # the same where the id would be too long otherwise


def file_name(task_id: str) -> str:
    """The name of a task's file, or InvalidInput."""
    checks.identifier(task_id)
    _refuse("an id", task_id)
    return task_id.replace(_SPACE, " ").replace(_SHORT_SPACE, " ") + SUFFIX


def id_from(name: str) -> str:
    """The id of the task in a file of this name, or InvalidInput."""
    stem = name.removesuffix(SUFFIX)
    odd = next((space for space in (_SPACE, _SHORT_SPACE) if space in stem), None)
    if odd is not None:
        raise InvalidInput(f"a file name with {odd} would be taken for one with a space; rename it")
    task_id = stem.replace(" ", _SPACE)
    if len(task_id) > checks.NAME_MAX:
        task_id = stem.replace(" ", _SHORT_SPACE)
    checks.identifier(task_id)
    _refuse("an id", task_id)
    return task_id


def scope_folder(scope: str) -> str:
    """Where a scope's files lie within each folder of the vault, or InvalidInput."""
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
        raise InvalidInput(f"a sub-folder cannot be called '{ROOT_SCOPE}': that is what the files outside of any are")
    for part in folder.split("/"):
        _refuse("a scope", part)
    if checks.name_of("scope", folder) != folder:
        raise InvalidInput("a sub-folder's name has a space at an end")
    return folder


def agent_folder(agent: str) -> str:
    """The folder of what an agent holds: its name, with what a folder cannot be called spelled differently."""
    safe = agent.replace("%", "%25").replace("/", "%2F")
    if safe.startswith("."):
        safe = f"%2E{safe[1:]}"
    raw = safe.encode()
    if len(raw) <= _LONGEST:
        return safe
    return f"{raw[:200].decode(errors='ignore')}~{sha256(raw).hexdigest()[:16]}"


def agent_from(folder: str) -> str:
    """Whose folder it is, for files that do not say it themselves."""
    return folder.replace("%2E", ".").replace("%2F", "/").replace("%25", "%")


def _refuse(what: str, name: str) -> None:
    if not name or name.startswith(".") or "/" in name or "\0" in name:
        raise InvalidInput(
            f"{name[:40]!r} cannot be {what} in a vault: it becomes a file name, without '/' and leading dot"
        )
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

# What waits for an agent needs action, what waits for a person is pending approval.
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

# What a file in a folder is unless its front matter says one of the other things this folder may mean.
PLAIN: Mapping[str, Status] = {
    NEEDS_ACTION: Status.READY,
    IN_PROGRESS: Status.ACTIVE,
    PENDING_APPROVAL: Status.REVIEW,
    DONE: Status.DONE,
    REJECTED: Status.CANCELED,
}


class Place(NamedTuple):
    """A file's place in the vault. `agent` is the folder of a holder, in In_Progress only."""

    folder: str
    agent: str
    scope: str
    id: str

    @property
    def key(self) -> tuple[str, str]:
        return self.scope, self.id

    @property
    def path(self) -> str:
        """Relative to the vault."""
        parts = (self.folder, self.agent, scope_folder(self.scope), file_name(self.id))
        return "/".join(part for part in parts if part)

    @property
    def finished(self) -> bool:
        return self.folder in FINISHED


def place_for(scope: str, task_id: str, status: Status, agent: str | None) -> Place:
    """Where a task of this status belongs."""
    folder = FOLDER_OF[status]
    holder = agent_folder(agent or "") if folder == IN_PROGRESS else ""
    return Place(folder, holder, scope, task_id)


def place_from(path: str) -> Place:
    """Read a path relative to the vault, or InvalidInput saying what is wrong with it."""
    folder, _, rest = path.partition("/")
    if folder not in TASK_FOLDERS or not rest:
        raise InvalidInput(f"only files in {', '.join(TASK_FOLDERS)} are tasks")
    *middle, name = rest.split("/")
    if CONFLICT_COPY.search(name):
        raise InvalidInput("is a conflict copy, made by file synchronisation: compare it with the file, and delete it")
    agent = ""
    if folder == IN_PROGRESS:
        if not middle:
            raise InvalidInput("what is in progress lies in the folder of whoever holds it, such as In_Progress/ann")
        agent, *middle = middle
    if not name.endswith(SUFFIX):
        raise InvalidInput("a task is a Markdown file, with a name that ends in .md")
    return Place(folder, agent, scope_from("/".join(middle)), id_from(name))
