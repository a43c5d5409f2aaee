"""The rules of each protocol, as data. Only the Desk reads them."""

from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple

from dibs.core.errors import DibsError
from dibs.core.task import Status


class OwnerProof(StrEnum):
    """How a holder proves that a task is its own."""

    TOKEN = "token"  # noqa: S105 - a kind of proof, not a secret
    NAME = "name"


class CanceledBlocker(StrEnum):
    """The effect of a canceled prerequisite on its dependent tasks."""

    RESOLVES = "resolves"
    ESCALATES = "escalates"
    CASCADES = "cascades"


class Policy(NamedTuple):
    """One protocol's rules. `words` maps our statuses onto its own; `aliases` adds what it also reads."""

    name: str
    lease: timedelta = timedelta(minutes=20)
    canceled_blocker: CanceledBlocker = CanceledBlocker.ESCALATES
    owner_proof: OwnerProof = OwnerProof.TOKEN
    late_holder_ok: bool = False
    requeue_on_change: bool = False
    id_marks: str = ""  # extra characters for new ids; letters, digits, '.', '_' and '-' are always allowed
    short_ids: bool = True  # accept a unique prefix of an id
    words: Mapping[Status, str] = dict(zip(Status, Status, strict=True))
    aliases: Mapping[str, Status] = {}
    exit_statuses: Mapping[str, int] = {}

    def say(self, status: Status) -> str:
        return self.words[status]

    def read(self, word: str) -> Status | None:
        """Understand the protocol's word for a status, in any case."""
        known = {said.casefold(): status for status, said in self.words.items()}
        known.update({alias.casefold(): status for alias, status in self.aliases.items()})
        return known.get(word.casefold())

    def exit_status(self, error: DibsError) -> int:
        return self.exit_statuses.get(error.code, error.exit_status)


NATIVE = Policy(name="dibs", aliases={"cancelled": Status.CANCELED, "in_progress": Status.ACTIVE, "open": Status.READY})
