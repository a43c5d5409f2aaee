"""Scopes beside those of people's tasks. What is said, told, mailed, led or synced is kept as tasks too: no work."""

INBOX = "inbox."  # what a sender has said
OUTBOX = "outbox."  # what a sender is to hear
MAIL = "mail."  # letters to an agent or a role
LEAD = "dispatch."  # who hands out work
SYNC = "sync."  # whose turn it is to sync, and what a sync remembers

_ASIDE = (INBOX, OUTBOX, MAIL, LEAD, SYNC)


def holds_work(scope: str) -> bool:
    return not scope.startswith(_ASIDE)
