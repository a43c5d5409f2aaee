"""The rules of claim-by-move, as data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dibs.core.lifecycle import Verb
from dibs.core.policy import OwnerProof, Policy
from dibs.stores.vault.places import DONE, NEEDS_ACTION, PENDING_APPROVAL, REJECTED

if TYPE_CHECKING:
    from collections.abc import Mapping

# A file in In_Progress/<name>/ is that name's, as the contract has it; whoever shows a token is held to it.
VAULT = Policy(name="vault", owner_proof=OwnerProof.NAME, short_ids=False)

NEXT_STATES: Mapping[str, Verb] = {
    PENDING_APPROVAL: Verb.REVIEW,
    DONE: Verb.DONE,
    REJECTED: Verb.CANCEL,
    NEEDS_ACTION: Verb.RELEASE,
}
