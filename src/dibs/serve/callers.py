"""Who asks, and what they may do."""

from enum import StrEnum
from typing import NamedTuple

from dibs.core import checks
from dibs.serve.refusals import Forbidden


class Right(StrEnum):
    """What a token may be good for. Each stands alone; admin includes all."""

    READ = "read"
    CLAIM = "claim"
    PLAN = "plan"
    ADMIN = "admin"


ALL = frozenset(Right)


class Caller(NamedTuple):
    """An agent, a sender (by hash), or whoever sits at this machine. `scopes` None means any."""

    agent: str | None = None
    sender: str | None = None
    rights: frozenset[Right] = ALL
    scopes: frozenset[str] | None = None

    @property
    def at_this_machine(self) -> bool:
        return self.agent is None and self.sender is None

    @property
    def name(self) -> str:
        """By which one caller is told from another; no agent has the name of a sender."""
        return f"{self.agent or ''}\0{self.sender or ''}"

    def may(self, right: Right) -> bool:
        return right in self.rights or Right.ADMIN in self.rights

    def scope(self, named: str | None, usual: str) -> str:
        """Where they are at work: where they say, if their token is for that."""
        scope = named or self.sender or usual
        if self.scopes is not None and scope not in self.scopes:
            raise Forbidden("This token is not for that scope.")
        return checks.scope(scope)


LOCAL = Caller()
