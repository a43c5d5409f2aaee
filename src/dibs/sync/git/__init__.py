"""A vault in a git clone: what was claimed here is pushed, and counts once the remote has taken it."""

from dibs.sync.git.claims import Claim
from dibs.sync.git.clone import Clone, Offer, is_clone
from dibs.sync.git.outbox import Group
from dibs.sync.git.outcomes import Published, Pulled, Standing

__all__ = ["Claim", "Clone", "Group", "Offer", "Published", "Pulled", "Standing", "is_clone"]
