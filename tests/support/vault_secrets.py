"""A vault that shows the tokens of its leases.

Its files hold only digests of tokens. The suite knows every token it has used and puts them back, so that it can test a
vault like every other store. After a store is closed, a new one must read the same state from the files.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

from dibs.core.task import Claimed, Lease, Task
from dibs.stores.port import NO_TERMS, Batch, Moved
from dibs.stores.reports import Record
from dibs.stores.vault.reading import sealed
from dibs.stores.vault.store import VaultStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dibs.core.graph import Graph
    from dibs.core.lifecycle import ClaimRequest, Move
    from dibs.core.policy import CanceledBlocker
    from dibs.core.task import Actor, Edit
    from dibs.stores.port import Query, Terms
    from support.clock import Clock


Answer = TypeVar("Answer")


class OpenVault(VaultStore):
    def __init__(self, path: str, clock: Clock, known: dict[str, str]) -> None:
        super().__init__(path, create=True, durable=False, clock=clock)
        self._again: Callable[[], VaultStore] = lambda: VaultStore(path, durable=False, clock=clock)
        self._known = known

    def add(self, scope: str, drafts: Any, given: Any, by: Actor, terms: Terms = NO_TERMS) -> list[Task]:
        return self._told(super().add(scope, drafts, given, by, terms))

    def get(self, scope: str, task: str) -> Task:
        return self._told(super().get(scope, task))

    def find(self, query: Query) -> list[Task]:
        return self._told(super().find(query))

    def peek(self, request: ClaimRequest, limit: int, *, held: bool = False, unable: bool = False) -> list[Task]:
        return self._told(super().peek(request, limit, held=held, unable=unable))

    def claim(self, request: ClaimRequest) -> list[Claimed]:
        self._learn(request)
        return self._told(super().claim(request))

    def move(self, move: Move, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Moved:
        self._learn(then)
        return self._told(super().move(move, on_cancel, then))

    def move_all(self, asked: Any, on_cancel: CanceledBlocker, then: ClaimRequest | None = None) -> Batch:
        self._learn(then)
        return self._told(super().move_all(asked, on_cancel, then))

    def amend(self, scope: str, task: str, edit: Edit, by: Actor) -> Task:
        return self._told(super().amend(scope, task, edit, by))

    def graph(self, scope: str, *, finished: bool) -> Graph:
        found = super().graph(scope, finished=finished)
        return found._replace(tasks=self._told(found.tasks))

    def dump(self) -> Iterator[Record]:
        yield from self._told(list(super().dump()))

    def close(self) -> None:
        with self._again() as newcomer:
            ours, theirs, after = list(super().dump()), list(newcomer.dump()), list(super().dump())
        super().close()
        if ours == after:  # else others are still at work
            assert ours == theirs, "a newcomer reads something else from the files than the store knew"

    def _learn(self, request: ClaimRequest | None) -> None:
        if request is not None:
            self._known.update({sealed(token): token for token in request.tokens})

    def _told(self, answer: Answer) -> Answer:
        """The same answer with every token that was ever used in it put back."""
        return cast("Answer", self._unsealed(answer))

    def _unsealed(self, answer: Any) -> Any:
        match answer:
            case Task():
                return answer._replace(lease=self._unsealed(answer.lease), spent_token=self._token(answer.spent_token))
            case Lease():
                return answer._replace(token=self._token(answer.token) or "")
            case Claimed() | Moved() | Batch() | Record():
                return type(answer)(*(self._unsealed(part) for part in answer))
            case list() | tuple() if not hasattr(answer, "_fields"):
                return type(answer)(self._unsealed(part) for part in answer)
        return answer

    def _token(self, said: str | None) -> str | None:
        return None if said is None else self._known.get(said, said)
