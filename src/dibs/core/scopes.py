"""Internal scopes: messages, notes, letters, the dispatcher's lead and syncs are tasks too, but not agents' work.

Their scopes start with a dot. No user can name such a scope, and every other name is the users' own.
"""

INTERNAL = "."
INBOX = ".inbox."  # messages of a sender
OUTBOX = ".outbox."  # notes for a sender
MAIL = ".mail."  # letters to an agent or a role
LEAD = ".dispatch."  # the lead of the dispatchers
SYNC = ".sync."  # turns and memory of a sync
TOKENS = ".tokens"  # the tokens of a server


def is_internal(scope: str) -> bool:
    return scope.startswith(INTERNAL)
