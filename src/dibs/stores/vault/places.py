"""Where a task lies tells how it stands: the folders of a vault, and the statuses they mean."""

from collections.abc import Mapping
from typing import NamedTuple

from dibs.core.errors import InvalidInput
from dibs.core.task import Status
from dibs.stores.vault import names

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
        parts = (self.folder, self.agent, names.scope_folder(self.scope), names.file_name(self.id))
        return "/".join(part for part in parts if part)

    @property
    def finished(self) -> bool:
        return self.folder in FINISHED


def place_for(scope: str, task_id: str, status: Status, agent: str | None) -> Place:
    """Where a task of this status belongs."""
    folder = FOLDER_OF[status]
    holder = names.agent_folder(agent or "") if folder == IN_PROGRESS else ""
    return Place(folder, holder, scope, task_id)


def place_from(path: str) -> Place:
    """Read a path relative to the vault, or InvalidInput saying what is wrong with it."""
    folder, *middle, name = path.split("/")
    agent = ""
    if folder == IN_PROGRESS:
        if not middle:
            raise InvalidInput("what is in progress lies in the folder of whoever holds it, such as In_Progress/ann")
        agent, *middle = middle
    if not name.endswith(names.SUFFIX):
        raise InvalidInput("a task is a Markdown file, with a name that ends in .md")
    return Place(folder, agent, names.scope_from("/".join(middle)), names.id_from(name))
