"""The Neo4j store, broken on purpose: each is a plausible mistake."""

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
