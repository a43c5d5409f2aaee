"""A vault in a git clone. A claim is valid once the remote has accepted it."""

from dibs.sync.git.claims import Claim
from dibs.sync.git.clone import Clone, is_clone
from dibs.sync.git.outbox import Group, Offer, Published, Pulled, Standing

__all__ = ["Claim", "Clone", "Group", "Offer", "Published", "Pulled", "Standing", "is_clone"]
