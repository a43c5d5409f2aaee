"""The Neo4j store with deliberate defects, each a plausible mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interleave.neo4j.stage import Mutant

if TYPE_CHECKING:
    from collections.abc import Callable

_LOCK = "SET s.held = true\n"


def without(text: str) -> Callable[[str], str]:
    def rewrite(query: str) -> str:
        assert text in query, text
        return query.replace(text, "")

    return rewrite


NO_LOCK = {"lock_scopes": without(_LOCK), "make_scopes": without(_LOCK)}

no_lock = Mutant(queries=NO_LOCK)
one_bypasses = Mutant(queries=NO_LOCK, lanes=(2,))
no_desk_lock = Mutant(queries={"lock_desk": without("SET d.held = true\n")})

limit_unlocked = Mutant(queries={"lock_member": without("SET a.held = true\n")})


def locked_late(before: str) -> Callable[[str], str]:
    """Lock the scope only after all reads that decide."""

    def rewrite(query: str) -> str:
        late = query.replace(_LOCK, "", 1).replace("\nWITH now, ", "\nWITH s, now, ")
        assert before in late, before
        return late.replace(before, f"{_LOCK}WITH *\n{before}", 1)

    return rewrite


plain_without_lock = Mutant(queries={"claim_plainly": without(_LOCK)})
reads_before_its_lock = Mutant(queries={"claim_plainly": locked_late("MATCH (d:Desk")})
ends_before_its_lock = Mutant(queries={"move_plainly": locked_late("SET t += $values")})
