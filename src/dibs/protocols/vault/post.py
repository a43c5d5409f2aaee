"""What an agent has at hand wherever it works."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dibs.protocols.vault.bell import Bell
    from dibs.protocols.vault.hands import Hands
    from dibs.protocols.vault.journal import Journal
    from dibs.protocols.vault.sharing import Sharing


class Post(NamedTuple):
    """One agent's place in one vault, whose folder is `root`."""

    root: str
    hands: "Hands"
    journal: "Journal"
    bell: "Bell"
    sharing: "Sharing"

    @property
    def agent(self) -> str:
        return self.hands.agent
