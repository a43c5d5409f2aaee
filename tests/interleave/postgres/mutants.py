"""The PostgreSQL store with deliberate defects, each a mistake made by real queues.

They apply only during a race: to functions in the tests' own schema, and to queries on their way to the server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interleave.postgres.stage import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable


def swap(*pairs: tuple[str, str]) -> Callable[[str], str]:
    """Replace each text with its successor; raise if one is missing."""

    def rewritten(text: str) -> str:
        for old, new in pairs:
            assert old in text, f"{old!r} is not there"
            text = text.replace(old, new)
        return text

    return rewritten


def without(*words: str) -> Callable[[str], str]:
    return swap(*((word, "") for word in words))


def instead(text: str) -> Callable[[str], str]:
    return lambda _text: text


LOCKED = "FOR NO KEY UPDATE"

# A single link is a function call. Several links, plans and children use separate queries.
SCOPE_LOCK = "PERFORM lock_scope(p_scope);"
NO_LOCK = {"lock_scope": instead("SELECT %s")}
NO_ROW_LOCKS = {"share_tasks": without("FOR SHARE"), "lock_ends": without(LOCKED)}


def in_lane(lane: int, then: str, otherwise: str = "") -> str:
    """Different rewrites for different sessions."""
    return f"IF current_setting('interleave.lane', true) = '{lane}' THEN {then} ELSE {otherwise} END IF;"


# Claiming

# Either condition alone keeps the claim exclusive: the lock of the head, or the status of its newest version.
double_claim = Mutant(
    queries={"claim_head": without(f"{LOCKED} SKIP LOCKED", "AND status IS NOT DISTINCT FROM 'ready'")}
)
no_second_look = Mutant({"claim_next": swap(("AND p_patient THEN", "AND false THEN"))})
impatient_by_name = Mutant(
    {"claim_named": swap((LOCKED, f"{LOCKED} SKIP LOCKED"))}, {"lock_tasks": swap((LOCKED, f"{LOCKED} SKIP LOCKED"))}
)
hasty_by_name = Mutant({"claim_named": without(LOCKED)})
hasty_wake = Mutant({"wake": without("FOR NO KEY UPDATE SKIP LOCKED")})

# Enrolled agents

limit_unlocked = Mutant(queries={"lock_member": without("FOR UPDATE")})
counted_with_the_lock = Mutant(
    queries={
        "lock_member": without("FOR UPDATE"),
        # One statement that locks and counts: its snapshot is older than the wait for the row.
        "held_by": instead(
            "SELECT (SELECT count(*) FROM task WHERE status = 'active' AND holder = 'agent' AND wake_at > %s"
            " AND task.agent = member.agent) FROM member WHERE agent = %s FOR UPDATE"
        ),
    }
)

# Holding

unfenced_finish = Mutant(queries={"finish": swap(("AND token = $3", "AND $3::text IS NOT NULL"))})
unfenced_renew = Mutant(queries={"renew": swap(("AND token = $3", "AND $3::text IS NOT NULL"))})
unfenced_batch = Mutant({"finish_all": without("task.token = given.token AND ")})
look_then_write = Mutant(queries={"lock_task": without(LOCKED)})

# Finishing

one_statement = Mutant(
    queries={
        "finish": swap(
            ("CASE WHEN has_dependents THEN unblock(key, updated_at) END", "(SELECT json_agg(id) FROM counted)"),
            (
                "), recorded AS (",
                """), counted AS (
    UPDATE task SET blockers = blockers - 1, claimable = (blockers = 1 AND status = 'ready')
    WHERE key IN (SELECT link.task FROM link JOIN closed ON link.on_task = closed.key WHERE kind = 'blocks')
    RETURNING id
), recorded AS (""",
            ),
        )
    }
)
all_done = Mutant(
    {
        "release_dependents": instead("""
DECLARE
    unblocked text[];
BEGIN
    WITH opened AS (
        UPDATE task SET blockers = 0, claimable = (status = 'ready')
        WHERE key IN (SELECT task FROM link WHERE on_task = finished AND kind = 'blocks')
          AND NOT EXISTS (
              SELECT FROM link JOIN task AS before ON before.key = link.on_task
              WHERE link.task = task.key AND link.kind = 'blocks' AND before.status NOT IN ('done', 'canceled'))
        RETURNING id
    )
    SELECT array_agg(id) INTO unblocked FROM opened;
    RETURN unblocked;
END """)
    }
)
unordered_release = Mutant(
    {"release_dependents": swap(("ORDER BY key", "ORDER BY CASE finished % 2 WHEN 0 THEN key ELSE -key END"))}
)

# Linking

no_share = Mutant({"add_link": without("FOR SHARE")}, {"share_tasks": without("FOR SHARE")})
no_locks = Mutant({"add_link": without(SCOPE_LOCK, "FOR SHARE", LOCKED)}, {**NO_LOCK, **NO_ROW_LOCKS})
ends_only = Mutant({"add_link": without(SCOPE_LOCK)}, NO_LOCK)
one_bypasses = Mutant({"add_link": swap((SCOPE_LOCK, in_lane(2, "NULL;", SCOPE_LOCK)))}, NO_LOCK, lanes=(2,))
stale_snapshot = Mutant(
    {"add_link": swap((SCOPE_LOCK, "RETURN false;"))},
    {"begin": swap(("BEGIN;", "BEGIN ISOLATION LEVEL REPEATABLE READ;"))},
)
serializable_alone = Mutant(
    {"add_link": swap((SCOPE_LOCK, in_lane(1, "RETURN false;", SCOPE_LOCK)))},
    {**NO_LOCK, "begin": swap(("BEGIN;", "BEGIN ISOLATION LEVEL SERIALIZABLE;"))},
    lanes=(1,),
)
lock_with_the_check = Mutant(
    {"add_link": swap((SCOPE_LOCK, ""), ("IF before.key", "IF pg_advisory_xact_lock(1) IS NULL OR before.key"))}
)

# Maintenance

prune_at_random = Mutant(queries={**NO_LOCK, "prunable_tasks": without("FOR UPDATE SKIP LOCKED")}, lanes=(1,))
